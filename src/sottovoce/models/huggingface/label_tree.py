"""Labels as paths of tokens, arranged in a tree, so that only the choices between labels are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import TaskError
from sottovoce.models.base import FloatArray

Path = tuple[int, ...]


@final
@dataclass(frozen=True)
class Probe:
    """One text to run: tokens after the question, and the tree's nodes that are read off on the way.

    Attributes:
        path: Tokens of a partly spelled label, without the question.
        nodes: Pairs of a depth (tokens of the path read before) and an index into the tree's nodes.
    """

    path: Path
    nodes: tuple[tuple[int, int], ...]


@final
class LabelTree:
    """The tree of the labels' tokens.

    The probability of a label is the product over the nodes on its path of a softmax. With ``restricted`` it runs over
    the children of that node alone, so nodes with one child cost nothing and the labels' probabilities sum to 1.
    Without it every token of a label counts with its probability among all words, and their sum is below 1.

    Args:
        labels: Names, for errors.
        paths: Tokens of each label.
        eos_tokens: Tokens that can close a label, the preferred one first. One is added only to a label whose tokens
            are the beginning of another's.
        restricted: Whether choices are among labels only.

    Attributes:
        tokens: All tokens whose logits are needed, in ascending order.
        probes: What has to be run after each question.
        width: Most nodes read off in one probe.

    Raises:
        TaskError: A label has no tokens, or two labels have the same.

    Example:
        >>> tree = LabelTree(["a", "bc", "bd"], [(1,), (2, 3), (2, 4)], eos_tokens=[], restricted=True)
        >>> [probe.path for probe in tree.probes], tree.tokens
        ([(2,)], [1, 2, 3, 4])
    """

    def __init__(
        self, labels: Sequence[str], paths: Sequence[Path], eos_tokens: Sequence[int], *, restricted: bool
    ) -> None:
        self.restricted = restricted
        closed = _close(labels, paths, eos_tokens)
        children: dict[Path, list[int]] = {}
        for path in closed:
            for depth, token in enumerate(path):
                below = children.setdefault(path[:depth], [])
                if token not in below:
                    below.append(token)
        scored = [stem for stem, below in children.items() if len(below) > 1 or not restricted]
        self.tokens = sorted({token for stem in scored for token in children[stem]})
        column = {token: place for place, token in enumerate(self.tokens)}
        self._children: list[NDArray[np.intp]] = [
            np.asarray([column[token] for token in children[stem]], dtype=np.intp) for stem in scored
        ]
        index = {stem: number for number, stem in enumerate(scored)}
        self._steps = [
            [
                (index[path[:depth]], children[path[:depth]].index(token))
                for depth, token in enumerate(path)
                if path[:depth] in index
            ]
            for path in closed
        ]
        self.probes = _probes(scored, index)
        self.width = max(len(probe.nodes) for probe in self.probes)

    def read(self, probe: int, logits: FloatArray, out: FloatArray) -> None:
        """Adds what one probe says about every label.

        Args:
            probe: Index of the probe.
            logits: Logits of ``tokens`` (of log-probabilities among all words if not restricted) at the probe's
                nodes, shape (..., nodes, tokens), float64.
            out: Log-probabilities of the labels so far, shape (..., labels), changed in place.
        """
        for place, (_, node) in enumerate(self.probes[probe].nodes):
            choice = logits[..., place, self._children[node]]
            if self.restricted:
                with np.errstate(all="ignore"):
                    top = choice.max(axis=-1, keepdims=True)
                    choice = choice - top - np.log(np.exp(choice - top).sum(axis=-1, keepdims=True))
            for label, steps in enumerate(self._steps):
                for where, child in steps:
                    if where == node:
                        out[..., label] += choice[..., child]


def _close(labels: Sequence[str], paths: Sequence[Path], eos_tokens: Sequence[int]) -> list[Path]:
    seen: dict[Path, str] = {}
    for label, path in zip(labels, paths, strict=True):
        if not path:
            raise TaskError(f"The label {label!r} has no tokens in this model. Choose another name for it.")
        if path in seen:
            raise TaskError(f"The labels {seen[path]!r} and {label!r} are the same tokens to this model. Rename one.")
        seen[path] = label
    closed = []
    for label, path in zip(labels, paths, strict=True):
        longer = {other[len(path)] for other in paths if len(other) > len(path) and other[: len(path)] == path}
        if not longer:
            closed.append(path)
            continue
        end = next((token for token in eos_tokens if token not in longer), None)
        if end is None:
            raise TaskError(
                f"The label {label!r} is the beginning of another one, and this model has no token that could end it. "
                "Rename one of them."
            )
        closed.append((*path, end))
    return closed


def _probes(scored: Sequence[Path], index: dict[Path, int]) -> list[Probe]:
    leaves = [stem for stem in scored if not any(other != stem and other[: len(stem)] == stem for other in scored)]
    probes, taken = [], set()
    for leaf in leaves:
        stems = [leaf[:depth] for depth in range(len(leaf) + 1) if leaf[:depth] in index and leaf[:depth] not in taken]
        taken.update(stems)
        probes.append(Probe(leaf, tuple((len(stem), index[stem]) for stem in stems)))
    return probes
