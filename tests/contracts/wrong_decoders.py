"""Decoding methods with one mistake each. None is registered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from sottovoce.experts.lockstep import summed
from sottovoce.experts.lockstep_rules import ClippedLogits
from sottovoce.methods.amin import Amin, AminChooser
from sottovoce.methods.decoding import Decoder, Part, Setting
from sottovoce.methods.decoding_selection import SelectingChooser, SelectingDecoder
from sottovoce.methods.tang import Tang
from sottovoce.models.stepping import Step
from sottovoce.privacy.checked import Positive
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.master_table_decoding import Prism
from sottovoce.privacy.scores import Scores


@dataclass(frozen=True)
class _Clipped(SelectingDecoder):
    """Clipped logits, their mean over a public number."""

    name, summary, source = "wrong", "a mistake", "none"
    clip: Positive = 2.0
    temperature: Positive | None = None
    top_k: ClassVar[int | None] = None
    dials: ClassVar[Mapping[str, bool]] = {"temperature": False}

    @property
    def rule(self) -> ClippedLogits:
        return ClippedLogits(self.clip)

    def parts(self, setting: Setting) -> Sequence[Part]:
        return [Part(Prism(self.clip, setting.experts, self.temperature or 0), setting.tokens)]


@dataclass(frozen=True)
class HalvedSensitivity(_Clipped):
    """States the sensitivity of a drop whatever the change."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        return Scores(right.values, sensitivity=self.rule.width, adjacency=right.adjacency)


class _HalfEta:
    """A row of the master table at half of its price."""

    def __init__(self, row):
        self._row = row

    def event(self, change):
        return BoundedRange(self._row.event(change).eta / 2)

    def __eq__(self, other):
        return isinstance(other, _HalfEta)


@dataclass(frozen=True)
class CheapToken(_Clipped):
    """Charges half of what a token costs."""

    def parts(self, setting):
        return [replace(part, row=_HalfEta(part.row)) for part in super().parts(setting)]

    def mechanism(self, plan):
        from sottovoce.mechanisms.exponential import Exponential

        return Exponential(2 * plan.eta)


@dataclass(frozen=True)
class FewerTokens(_Clipped):
    """Charges one token, however long the text."""

    def parts(self, setting):
        return [replace(part, steps=1) for part in super().parts(setting)]


@dataclass(frozen=True)
class ReadsTheFirst(_Clipped):
    """Adds the first expert's row to every other one."""

    def scores(self, plan, step, public):
        blocks = list(step.blocks)
        rows = torch.cat(blocks) if blocks else torch.zeros(0, len(step.public))
        if len(rows) > 1:
            rows[1:] = rows[1:] + torch.nan_to_num(rows[0], nan=0.0, neginf=-60.0)
        return super().scores(plan, Step(step.text, step.public, iter([rows] if len(rows) else [])), public)


@dataclass(frozen=True)
class RealisedDivisor(_Clipped):
    """Divides by the experts that answered, in place of the public number."""

    def scores(self, plan, step, public):
        blocks = list(step.blocks)
        heard = sum(int(torch.isfinite(block).any(1).sum()) for block in blocks)
        (sums,) = summed(iter(blocks), public, [self.rule])
        right = super().scores(plan, Step(step.text, step.public, iter(blocks)), public)
        values = plan.setting.experts * sums // max(heard, 1)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class NullSpeaks(_Clipped):
    """A null expert says what the public model says."""

    def scores(self, plan, step, public):
        filled = [torch.where(torch.isfinite(block).any(1, keepdim=True), block, step.public) for block in step.blocks]
        return super().scores(plan, Step(step.text, step.public, iter(filled)), public)


class _Remembering(SelectingChooser.__base__):
    """Adds the scores of the token before, of whatever text."""


@dataclass(frozen=True)
class Remembers(_Clipped):
    """Adds the scores of the token before, of whatever text."""

    past: ClassVar[list[np.ndarray]] = []

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        values = right.values + (self.past[-1] if self.past and len(self.past[-1]) == len(right.values) else 0)
        self.past.append(right.values)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class QuietNoise(Tang):
    """Gaussian noise for half of the norm that an exchanged distribution moves."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        less = right.squared_l2 and max(1, right.squared_l2 // 4)
        return Scores(right.values, sensitivity=right.sensitivity, adjacency=right.adjacency, squared_l2=less)


@dataclass(frozen=True)
class LoudToken(Amin):
    """Private tokens at a third of the temperature that is charged."""

    def start(self, plan, randomness, *, ends, unwritable=()):
        chooser = AminChooser(plan, randomness, ends, unwritable)
        chooser._select = replace(chooser._select, epsilon=3 * chooser._select.epsilon)
        return chooser


class NotADecoder(Decoder):
    """Cannot be made."""
