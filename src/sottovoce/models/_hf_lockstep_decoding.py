"""Texts that a language model writes side by side, each from the prompts of its group.

A forward pass holds one row for each prompt of each of its texts. Which rows a pass holds is laid out once, when the
texts are opened, from public numbers alone; texts that stand still, and slots that are empty, are computed and thrown
away. So no row's shape, place or company depends on what a prompt holds or on which texts have ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models._hf_lockstep_attention import Family, LayerPair, Panel
from sottovoce.models._hf_lockstep_cache import sealed
from sottovoce.models.stepping import Step
from sottovoce.records import Opaque

if TYPE_CHECKING:
    from sottovoce.models.hf_stepper import TransformersStepper


@final
@dataclass(frozen=True, repr=False, eq=False)
class GroupRead(Opaque):
    """A group after the model has read it.

    Attributes:
        families: Its prompts by prefix: the public one and the experts', or all in one.
        rows: For each family, which prompts of the group it holds; the public prompt is number 0.
        last: Hidden states behind each prompt, shape (prompts, width).
        null: Numbers of the prompts whose rows are NaN.
    """

    families: Sequence[Family]
    rows: Sequence[range]
    last: Tensor
    null: Sequence[int]

    @property
    def prompts(self) -> int:
        """Prompts, the public one among them."""
        return len(self.last)


@final
@dataclass(repr=False)
class _Pass(Opaque):
    """One forward pass: its panels, the texts of each panel, and the row of hidden states that each of its rows is."""

    panels: list[Panel]
    texts: list[Sequence[int]]
    targets: Tensor


@final
class LockstepDecoding(Opaque):
    """Texts that are being written; see ``Decoding``.

    Args:
        stepper: Whose model writes.
        groups: The group of each text.
        tokens: Most tokens of a text.

    Raises:
        ModelError: The texts do not fit into the memory that may be used.
    """

    def __init__(self, stepper: TransformersStepper, groups: Sequence[GroupRead], tokens: int) -> None:
        self._stepper, self._model, self._groups, self._most = stepper, stepper.engine, groups, tokens
        self._fed = [-1] * len(groups)
        self._turn, self._closed, self._bytes = 0, False, 0
        self._starts = list(accumulate((group.prompts for group in groups), initial=0))
        self._chunks = self._chunked()
        self._null = [start + row for start, group in zip(self._starts, groups, strict=False) for row in group.null]
        self._logits: tuple[int, Tensor] | None = None
        self._passes: list[_Pass] = []
        self._bytes = stepper.memory.take(self._model.bytes_of(self._starts[-1] * tokens))
        try:
            shape, model = (self._starts[-1], self._model.width), self._model.model
            self._states = torch.zeros(shape, dtype=model.dtype, device=model.device)
            self._passes = self._lay_out()
        except BaseException:
            self.close()
            raise

    def step(self, tokens: Mapping[int, int | None]) -> Iterator[Step]:
        """One step of some of the texts; see ``Decoding.step``."""
        with self._stepper.lock:
            if self._closed:
                raise ModelError("These texts were closed.")
            for text, token in tokens.items():
                self._require(text, token)
            self._turn, self._logits = self._turn + 1, None
            with sealed(), self._model.no_gradient():
                for one in self._passes:
                    self._run(one, tokens)
                for text, token in tokens.items():
                    self._fed[text] += 1
                    if token is None:
                        self._states[self._starts[text] : self._starts[text + 1]] = self._groups[text].last
        return self._steps(tuple(tokens), self._turn)

    def close(self) -> None:
        """Forgets the texts."""
        with self._stepper.lock:
            self._stepper.memory.give(self._bytes)
            self._bytes, self._closed, self._turn = 0, True, self._turn + 1
            self._passes, self._logits, self._groups = [], None, ()
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

    def _run(self, one: _Pass, tokens: Mapping[int, int | None]) -> None:
        if all(tokens.get(text) is None for texts in one.texts for text in texts):
            return
        ids, positions = [], []
        for panel, texts in zip(one.panels, one.texts, strict=True):
            # A text that stands still writes into its next place, which its next token will overwrite.
            positions.append(panel.move([max(self._fed[text], 0) for text in texts]))
            given = [tokens.get(text) for text in texts]
            ids += [self._model.idle if token is None else token for token in given] * panel.count
        at = torch.cat(positions)
        if self._model.model.limit is not None:
            at = at.clamp(max=self._model.model.limit - 1)
        states = self._model.step(torch.tensor(ids, device=at.device), one.panels, at)
        self._states.index_copy_(0, one.targets, states)

    def _steps(self, texts: Sequence[int], turn: int) -> Iterator[Step]:
        for text in texts:
            start, end = self._starts[text], self._starts[text + 1]
            public = self._rows(start, turn)[0].clone()
            yield Step(text, public, self._blocks(start + 1, end, turn))

    def _blocks(self, start: int, end: int, turn: int) -> Iterator[Tensor]:
        while start < end:
            rows = self._rows(start, turn)[: end - start]
            yield rows
            start += len(rows)

    def _rows(self, row: int, turn: int) -> Tensor:
        """Logits from a row to the end of its chunk."""
        with self._stepper.lock, sealed(), torch.no_grad():
            if turn != self._turn:
                raise ModelError("These scores belong to a step that is over; read them before the next.")
            number = next(number for number, chunk in enumerate(self._chunks) if row in chunk)
            chunk = self._chunks[number]
            if self._logits is None or self._logits[0] != number:
                logits = self._model.head(self._states[chunk.start : chunk.stop])
                for null in self._null:
                    if null in chunk:
                        logits[null - chunk.start] = math.nan
                self._logits = number, logits
            return self._logits[1][row - chunk.start :]

    def _chunked(self) -> list[range]:
        """Rows that go through the head together: whole texts, or part of one."""
        most, chunks, start = self._stepper.head_rows, list[range](), 0
        for text, end in enumerate(self._starts[1:]):
            if end - start > most and start < self._starts[text]:
                chunks.append(range(start, self._starts[text]))
                start = self._starts[text]
            while end - start > most:
                chunks.append(range(start, start + most))
                start += most
        return [*chunks, *([range(start, self._starts[-1])] if start < self._starts[-1] else [])]

    def _lay_out(self) -> list[_Pass]:
        """Panels side by side until a pass is full; a pass a row where rows are run one at a time."""
        most, passes = self._stepper.rows, list[_Pass]()
        device = self._states.device
        for panel, texts, targets in self._panels(most):
            if not passes or most == 1 or sum(other.rows for other in passes[-1].panels) + panel.rows > most:
                passes.append(_Pass([], [], torch.empty(0, dtype=torch.long, device=device)))
            passes[-1].panels.append(panel)
            passes[-1].texts.append(texts)
            passes[-1].targets = torch.cat([passes[-1].targets, torch.tensor(targets, device=device)])
        return passes

    def _panels(self, most: int) -> Iterator[tuple[Panel, Sequence[int], list[int]]]:
        by_group: dict[int, list[int]] = {}
        for text, group in enumerate(self._groups):
            by_group.setdefault(id(group), []).append(text)
        for texts in by_group.values():
            group = self._groups[texts[0]]
            for family, numbers in zip(group.families, group.rows, strict=True):
                together = max(1, most // len(numbers))
                for first in range(0, len(texts), together):
                    some = texts[first : first + together]
                    kept: list[LayerPair] = self._model.empty((len(numbers), len(some)), self._most)
                    for row in range(0, len(numbers), most):
                        part = numbers[row : row + most]
                        targets = [self._starts[text] + number for number in part for text in some]
                        panel = Panel(family, slice(row, row + len(part)), kept, [0] * len(some))
                        yield panel, some, targets
