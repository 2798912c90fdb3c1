"""Texts that a language model writes side by side, each from the prompts of its group.

A forward pass holds one row for each prompt of each of its texts. Which rows a pass holds is laid out once, when the
texts are opened; texts that stand still, and slots that are empty, are computed and thrown away.

Isolation   Public prompts have passes and products of their own, laid out from public numbers alone: nothing private is
            computed beside them. Experts' rows go through passes, panels and products of the head that all have one
            shape each, filled up with rows that hold nothing of any prompt. An expert's place among them follows from
            how many stand before it, which may be private: the self-test compares all places of these shapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import torch
from torch import Tensor

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.lockstep.attention import Family, LayerPair, Panel
from sottovoce.models.lockstep.memory import sealed
from sottovoce.models.lockstep.workspace import Workspace
from sottovoce.models.stepper import Step
from sottovoce.records.sealed import Opaque


@final
@dataclass(frozen=True, repr=False, eq=False)
class GroupRead(Opaque):
    """A group after the model has read it.

    Attributes:
        public: The public prompt.
        experts: The experts' prompts, and empty places behind them up to whole panels.
        last: Hidden states behind each prompt, the public one first, shape (1 + experts, width).
        null: Numbers of the experts whose rows are NaN.
    """

    public: Family
    experts: Family
    last: Tensor
    null: Sequence[int]

    @property
    def count(self) -> int:
        """Experts."""
        return len(self.last) - 1


@final
@dataclass(repr=False)
class _Pass(Opaque):
    """One forward pass: the rows it is filled up to, its panels, the texts of each, and whose state each row is."""

    rows: int
    panels: list[Panel]
    texts: list[Sequence[int]]
    targets: list[int]

    @property
    def taken(self) -> int:
        """Rows that stand for a prompt."""
        return sum(panel.rows for panel in self.panels)


@final
class LockstepDecoding(Opaque):
    """Texts that are being written; see ``Decoding``.

    Args:
        workspace: Whose model writes.
        groups: The group of each text.
        tokens: Most tokens of a text.

    Raises:
        ModelError: The texts do not fit into the memory that may be used.
    """

    def __init__(self, workspace: Workspace, groups: Sequence[GroupRead], tokens: int) -> None:
        self._workspace, self._model, self._groups, self._most = workspace, workspace.engine, groups, tokens
        self._fed = [-1] * len(groups)
        self._turn, self._closed, self._bytes = 0, False, 0
        # States of the texts' public prompts stand first, then those of their experts.
        self._starts = list(accumulate((group.count for group in groups), initial=len(groups)))
        self._null = [
            start + expert for start, group in zip(self._starts, groups, strict=False) for expert in group.null
        ]
        self._logits: dict[bool, tuple[int, Tensor]] = {}
        self._passes: list[_Pass] = []
        self._rows, self._head_rows, self._panel_rows = workspace.rows, workspace.head_rows, workspace.panel_rows
        places = sum(1 + len(group.experts.lengths) for group in groups)
        self._bytes = workspace.memory.take(self._model.bytes_of(places * tokens))
        try:
            shape, model = (self._starts[-1], self._model.width), self._model.model
            self._states = torch.zeros(shape, dtype=model.dtype, device=model.device)
            self._passes = [*self._in_passes(self._public_panels(), None), *self._in_passes(self._panels(), self._rows)]
        except BaseException:
            self.close()
            raise

    def step(self, tokens: Mapping[int, int | None]) -> Iterator[Step]:
        """One step of some of the texts; see ``Decoding.step``."""
        with self._workspace.lock:
            if self._closed:
                raise ModelError("These texts were closed.")
            for text, token in tokens.items():
                self._require(text, token)
            self._turn, self._logits = self._turn + 1, {}
            with sealed(), self._model.no_gradient():
                for batch in self._passes:
                    self._run(batch, tokens)
                for text, token in tokens.items():
                    self._fed[text] += 1
                    if token is None:
                        last = self._groups[text].last
                        self._states[text], self._states[self._starts[text] : self._starts[text + 1]] = (
                            last[0],
                            last[1:],
                        )
        return self._steps(tuple(tokens), self._turn)

    def close(self) -> None:
        """Forgets the texts."""
        with self._workspace.lock:
            self._workspace.memory.give(self._bytes)
            self._bytes, self._closed, self._turn = 0, True, self._turn + 1
            self._passes, self._logits, self._groups = [], {}, ()
            self._states = torch.empty(0)

    def _require(self, text: int, token: int | None) -> None:
        if not 0 <= text < len(self._fed):
            raise ParameterError("text", text, f"between 0 and {len(self._fed) - 1}")
        fed = self._fed[text]
        if (token is None) != (fed < 0):
            raise ParameterError("token", token, "None at the first step of a text, and a token at every later one")
        if fed + 1 >= self._most:
            raise ParameterError("tokens", fed + 2, f"at most {self._most}, for which the text was opened")
        if token is not None and not 0 <= token < self._model.model.words:
            raise ParameterError("token", token, f"between 0 and {self._model.model.words - 1}")

    def _run(self, batch: _Pass, tokens: Mapping[int, int | None]) -> None:
        if all(tokens.get(text) is None for texts in batch.texts for text in texts):
            return
        ids, positions = [], []
        for panel, texts in zip(batch.panels, batch.texts, strict=True):
            # A text that stands still writes into its next place, which its next token will overwrite.
            positions.append(panel.move([max(self._fed[text], 0) for text in texts]))
            next_tokens = [tokens.get(text) for text in texts]
            ids += [self._model.idle if token is None else token for token in next_tokens] * panel.count
        at = torch.cat(positions)
        if self._model.model.limit is not None:
            at = at.clamp(max=self._model.model.limit - 1)
        states = self._model.step(torch.tensor(ids, device=at.device), batch.panels, at, batch.rows)
        self._states[batch.targets] = states

    def _steps(self, texts: Sequence[int], turn: int) -> Iterator[Step]:
        for text in texts:
            public = self._some_logits(text, turn)[0].clone()
            yield Step(text, public, self._blocks(self._starts[text], self._starts[text + 1], turn))

    def _blocks(self, start: int, end: int, turn: int) -> Iterator[Tensor]:
        while start < end:
            rows = self._some_logits(start, turn)[: end - start]
            yield rows
            start += len(rows)

    def _some_logits(self, row: int, turn: int) -> Tensor:
        """Logits from a row on, as many as are there: those of all public prompts, or a product's worth of experts."""
        with self._workspace.lock, sealed(), torch.no_grad():
            if turn != self._turn:
                raise ModelError("These scores belong to a step that is over; read them before the next.")
            publics = len(self._fed)
            public = row < publics
            first, end = (0, publics) if public else (publics, self._starts[-1])
            start = row - (row - first) % self._head_rows
            if public not in self._logits or self._logits[public][0] != start:
                states = self._states[start : min(start + self._head_rows, end)]
                logits = self._model.logits(states, len(states) if public else self._head_rows)
                for null in self._null:
                    if start <= null < start + len(states):
                        logits[null - start] = math.nan
                self._logits[public] = start, logits
            return self._logits[public][1][row - start :]

    def _in_passes(self, panels: Iterable[_Placed], rows: int | None) -> list[_Pass]:
        """Panels side by side until a pass is full. Passes are filled up to ``rows``; to what they hold without."""
        passes = list[_Pass]()
        for panel, texts, targets in panels:
            if not passes or passes[-1].taken + panel.rows > self._rows:
                passes.append(_Pass(rows or 0, [], [], []))
            passes[-1].panels.append(panel)
            passes[-1].texts.append(texts)
            passes[-1].targets += targets
        for batch in passes:
            batch.rows = max(batch.rows, batch.taken)
        return passes

    def _public_panels(self) -> Iterator[_Placed]:
        for group, texts in self._texts_by_group():
            kept: list[LayerPair] = self._model.empty((1, len(texts)), self._most)
            yield Panel(group.public, slice(0, 1), 1, kept, [0] * len(texts)), texts, list(texts)

    def _panels(self) -> Iterator[_Placed]:
        for group, texts in self._texts_by_group():
            kept: list[LayerPair] = self._model.empty((len(group.experts.lengths), len(texts)), self._most)
            slots = slots_of(self._panel_rows, len(texts))
            for first in range(0, group.count, slots):
                experts = range(first, min(first + slots, group.count))
                targets = [self._starts[text] + expert for expert in experts for text in texts]
                places = slice(first, first + slots)
                yield Panel(group.experts, places, len(experts), kept, [0] * len(texts)), texts, targets

    def _texts_by_group(self) -> Iterator[tuple[GroupRead, Sequence[int]]]:
        """Texts of one group together, as many as a panel can hold."""
        by_group: dict[int, list[int]] = {}
        for text, group in enumerate(self._groups):
            by_group.setdefault(id(group), []).append(text)
        for texts in by_group.values():
            for first in range(0, len(texts), self._panel_rows):
                yield self._groups[texts[0]], texts[first : first + self._panel_rows]


_Placed = tuple[Panel, Sequence[int], list[int]]
"""A panel, its texts, and the state of each of its rows."""


def slots_of(panel_rows: int, texts: int) -> int:
    """Places for prompts in a panel of so many texts: a power of two, as the rows of a panel are.

    Example:
        >>> [slots_of(16, texts) for texts in (1, 2, 3, 16)]
        [16, 8, 4, 1]
    """
    return 1 << (panel_rows // texts).bit_length() - 1
