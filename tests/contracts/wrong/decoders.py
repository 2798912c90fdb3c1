"""Decoding methods with one mistake each. None is registered."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from contracts.wrong.mechanisms import NarrowRounded
from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import ClippedLogits, Probabilities
from sottovoce.experts.token_scores import scores_of, summed
from sottovoce.mechanisms.above_threshold import AboveThreshold
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.noisy_max import LaplaceNoisyMax
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.mechanisms.stability_histogram import StabilityHistogram
from sottovoce.methods.amin import Amin, AminSampler, AminTest
from sottovoce.methods.decoding.decoder import Decoder, Part, Setting, TokenSampler
from sottovoce.methods.decoding.selecting import SelectingDecoder
from sottovoce.methods.prism import PRISM
from sottovoce.methods.tang import BITS, Tang, TangSelection
from sottovoce.models.stepper import Step
from sottovoce.parameters import Positive
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores, VectorSum
from sottovoce.privacy.events import BoundedRange, GaussianDpEvent, PureDP, SelfComposedDpEvent
from sottovoce.privacy.step_costs import Sensitivity, StepCost
from sottovoce.privacy.unit import DROP, Adjacency


@dataclass(frozen=True)
class Clipped(SelectingDecoder):
    """Clipped logits, their mean over a public number."""

    name, summary, source = "wrong", "a mistake", "none"
    clip: Positive = 2.0
    temperature: Positive | None = None
    top_k: ClassVar[int | None] = None
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"temperature": False}

    @property
    def rule(self) -> ClippedLogits:
        return ClippedLogits(self.clip)

    def parts(self, setting: Setting) -> Sequence[Part]:
        return PRISM(self.clip, self.temperature).parts(setting)


END_TOKEN = 2


@dataclass(frozen=True)
class HalvedSensitivity(Clipped):
    """States the sensitivity of a drop whatever the change."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        return Scores(right.values, sensitivity=self.rule.width, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsItsBound(Clipped):
    """The sensitivity of the first token is kept by the rule, whatever the adjacency of the next text is."""

    kept: ClassVar[dict[object, int]] = {}

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        bound = self.kept.setdefault(self.rule, right.sensitivity)
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsItsClip(Clipped):
    """The sensitivity of a token is kept by the plan's setting, whatever the clip is."""

    kept: ClassVar[dict[object, int]] = {}

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        bound = self.kept.setdefault((plan.setting, right.adjacency), right.sensitivity)
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsTheFirstMade(Clipped):
    """So is it as an instance is made, before any question."""

    kept: ClassVar[dict[str, float]] = {}

    def __post_init__(self):
        self.kept.setdefault("clip", self.clip)

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        bound = right.sensitivity // self.rule.width * ClippedLogits(self.kept["clip"]).width
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsItsWords(Clipped):
    """The scores of all tokens but the end's are kept of the first token; the end's are right."""

    kept: ClassVar[dict[object, object]] = {}

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        end = np.array([public.token(place) == END_TOKEN for place in range(len(public))])
        words = self.kept.setdefault((len(public), right.sensitivity), right.values)
        return Scores(np.where(end, right.values, words), sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsItsEnd(Clipped):
    """The score of the end is kept of the first token; those of all others are right."""

    kept: ClassVar[dict[object, object]] = {}

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        end = np.array([public.token(place) == END_TOKEN for place in range(len(public))])
        ends = self.kept.setdefault((len(public), right.sensitivity), right.values)
        return Scores(np.where(end, ends, right.values), sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class ApprovesTwo(Clipped):
    """Right: each expert approves its two likeliest tokens, which are one pair where 0 and 1 lead of three."""

    clip: Positive = 0.5

    def scores(self, plan, step, public):
        approved = np.zeros(len(public), dtype=np.int64)
        for row in (row for block in step.blocks for row in block):
            said = (row if public.ids is None else row[public.ids]).float().nan_to_num(nan=-torch.inf).numpy()
            if np.isfinite(said.max()):
                approved[np.argsort(-said, kind="stable")[:2]] += 1
        return Scores(approved, sensitivity=plan.setting.change.widths, adjacency=plan.setting.adjacency)


@dataclass(frozen=True)
class LessNoiseWhereThePublicRowIsSure(Clipped):
    """States a quarter of its sensitivity where the model alone is sure of a token."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        logits = sorted(public.logits.tolist())
        sure = len(logits) > 1 and logits[-1] - logits[-2] > 5
        return Scores(
            right.values,
            sensitivity=right.sensitivity // 4 if sure else right.sensitivity,
            adjacency=right.adjacency,
        )


@dataclass(frozen=True)
class TogetherWhereThePublicRowIsSure(Clipped):
    """Where the bare model is sure, the sum counts as often as experts were heard."""

    def scores(self, plan, step, public):
        heard, right = _heard(self, plan, step, public)
        values = right.values * (heard if _is_sure(public) else 1)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class BoundOfTheHeardWhereThePublicRowIsSure(Clipped):
    """Where the bare model is sure, the stated bound is shared by the experts that were heard."""

    def scores(self, plan, step, public):
        heard, right = _heard(self, plan, step, public)
        bound = right.sensitivity // (heard if _is_sure(public) else 1)
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class CountsNullsWhereThePublicRowIsSure(Clipped):
    """Where the bare model is sure, a prompt counts for the first candidate, whatever the model says to it."""

    def scores(self, plan, step, public):
        rows = _rows_of(step)
        right = Clipped.scores(self, plan, _with_rows(step, rows), public)
        values = right.values.copy()
        values[0] += 100 * self.rule.width * len(rows) * _is_sure(public)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class TenfoldSamplesWhereThePublicRowIsSure(Clipped):
    """Where the bare model is sure, every expert is in the sample ten times."""

    def subsample(self, plan, step, randomness):
        logits = sorted(step.public[:-1].tolist())
        rows = _rows_of(step)
        return _with_rows(step, torch.cat([rows] * (10 if logits[-1] - logits[-2] > 2 else 1)))


@dataclass(frozen=True)
class LoudGaussian(Tang):
    """Gaussian noise, and ten times the sum where the bare model is sure."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        values = right.values * (10 if _is_sure(public) else 1)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency, squared_l2=right.squared_l2)


def _rows_of(step):
    return torch.cat([torch.empty(0, len(step.public)), *(block.clone() for block in step.blocks)])


def _with_rows(step, rows):
    return Step(step.text, step.public, iter([rows] if len(rows) else []))


def _heard(decoder, plan, step, public):
    """Experts that say something, one at least, and the right scores."""
    rows = _rows_of(step)
    heard = int((~torch.isnan(rows).all(dim=1)).sum())
    return max(1, heard), Clipped.scores(
        decoder, plan, Step(step.text, step.public, iter([rows] if len(rows) else [])), public
    )


def _is_sure(public):
    logits = sorted(public.logits.tolist())
    return len(logits) > 1 and logits[-1] - logits[-2] > 2


@dataclass(frozen=True)
class TwiceAsMuchWhereThePublicRowIsFlat(Clipped):
    """Adds everything twice where the model alone prefers no token."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        flat = len(set(public.logits.tolist())) == 1
        return Scores(right.values * (1 + flat), sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class _HalfEta:
    """What a step costs, at half of its price."""

    step: Any

    def event(self, change):
        return BoundedRange(self.step.event(change).eta / 2)


@dataclass(frozen=True)
class CheapToken(Clipped):
    """Charges half of what a token costs."""

    def parts(self, setting):
        return [replace(part, row=_HalfEta(part.row)) for part in super().parts(setting)]

    def mechanism(self, plan):
        return Exponential(2 * plan.eta)


@dataclass(frozen=True)
class SquaredDivisor(Clipped):
    """Draws at more than it charges, unless the divisor is two."""

    def mechanism(self, plan):
        return Exponential(plan.eta * plan.setting.experts / 2)


@dataclass(frozen=True)
class FewerTokens(Clipped):
    """Charges one token, however long the text."""

    def parts(self, setting):
        return [replace(part, steps=1) for part in super().parts(setting)]


@dataclass(frozen=True)
class TwoTokens(Clipped):
    """Charges two tokens at most."""

    def parts(self, setting):
        return super().parts(replace(setting, tokens=min(setting.tokens, 2)))


@dataclass(frozen=True)
class ForgetsTexts(Clipped):
    """Charges one text, however many a batch writes."""

    def alternatives(self, setting):
        return super().alternatives(replace(setting, texts=1))


@dataclass(frozen=True)
class AllOfTheDivisor(Clipped):
    """Sums over more than two experts are taken for sums over two."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        less = 2 * right.sensitivity // max(2, plan.setting.experts)
        return Scores(right.values, sensitivity=less, adjacency=right.adjacency)


class _DearWhere(Clipped):
    """A part of the sensitivity under some plans, by its law too, at the price of all of it."""

    share: ClassVar[float] = 0.5

    def dear(self, plan) -> bool:
        raise NotImplementedError

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        less = int(right.sensitivity * self.share) if self.dear(plan) else right.sensitivity
        return Scores(right.values, sensitivity=less, adjacency=right.adjacency)


class TwoTextsDear(_DearWhere):
    """Where a batch writes two texts or more, and by so little that one of them does not show it."""

    share: ClassVar[float] = 0.8

    def dear(self, plan):
        return plan.setting.texts > 1


class PersonsDear(_DearWhere):
    """Where a unit is a person."""

    def dear(self, plan):
        return plan.setting.unit != "record"


class HighPriceDear(_DearWhere):
    """At prices above 5."""

    def dear(self, plan):
        return plan.report.epsilon > 5


class AddedDivisorDear(_DearWhere):
    """Under add-remove, with a divisor above two."""

    def dear(self, plan):
        return plan.setting.adjacency is Adjacency.ADD_REMOVE and plan.setting.experts > 2


@dataclass(frozen=True)
class ReadsTheFirst(Clipped):
    """Adds the first expert's row to every other one."""

    def scores(self, plan, step, public):
        blocks = [block.clone() for block in step.blocks]
        rows = torch.cat(blocks) if blocks else torch.zeros(0, len(step.public))
        if len(rows) > 1:
            rows[1:] = rows[1:] + torch.nan_to_num(rows[0], nan=0.0, neginf=-60.0)
        return super().scores(plan, Step(step.text, step.public, iter([rows] if len(rows) else [])), public)


@dataclass(frozen=True)
class RealisedDivisor(Clipped):
    """Divides by the experts that answered, in place of the public number."""

    def scores(self, plan, step, public):
        blocks = [block.clone() for block in step.blocks]
        heard = sum(int(torch.isfinite(block).any(1).sum()) for block in blocks)
        (sums,) = summed(iter(blocks), public, [self.rule])
        right = super().scores(plan, Step(step.text, step.public, iter(blocks)), public)
        values = plan.setting.experts * sums // max(heard, 1)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class NullSpeaks(Clipped):
    """A null expert says what the public model says."""

    def scores(self, plan, step, public):
        filled = [torch.where(torch.isfinite(block).any(1, keepdim=True), block, step.public) for block in step.blocks]
        return super().scores(plan, Step(step.text, step.public, iter(filled)), public)


@dataclass(frozen=True)
class Remembers(Clipped):
    """Adds the scores of the token before, of whatever text."""

    past: ClassVar[list[np.ndarray]] = []

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        values = right.values + (self.past[-1] if self.past and len(self.past[-1]) == len(right.values) else 0)
        self.past.append(right.values)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsSumsOfAPrompt(Clipped):
    """Keeps the sums of a prompt in its module, by what is public of it: texts of a batch begin alike."""

    def scores(self, plan, step, public):
        return KEPT.setdefault(
            (plan.setting, self, public.logits.numpy().tobytes()), super().scores(plan, step, public)
        )


KEPT: dict = {}


@dataclass(frozen=True)
class KeepsSumsInItself(Clipped):
    """Keeps them in the instance, which is equal to one without them."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "_kept", {})

    def scores(self, plan, step, public):
        return self._kept.setdefault(public.logits.numpy().tobytes(), super().scores(plan, step, public))


@dataclass(frozen=True)
class LoudLaterTexts(Clipped):
    """States a quarter of its sensitivity for the second text of a round on, the second label's."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        less = max(1, right.sensitivity // (4 if step.text else 1))
        return Scores(right.values, sensitivity=less, adjacency=right.adjacency)


@dataclass(frozen=True)
class HearsThree(Clipped):
    """Hears the first three experts alone: one that leaves lets the fourth in."""

    def scores(self, plan, step, public):
        return super().scores(plan, _with_rows(step, _rows_of(step)[:3]), public)


@dataclass(frozen=True)
class LessTheBest(Clipped):
    """Right: takes the best sum off all tokens, which no selection sees."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        values = right.values - right.values.max()
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class CappedSums(Clipped):
    """Right: the sum of each token is capped at three widths, which moves it by no more."""

    def scores(self, plan, step, public):
        right, most = super().scores(plan, step, public), 3 * self.rule.width
        return Scores(np.clip(right.values, -most, most), sensitivity=right.sensitivity, adjacency=right.adjacency)


class _OwnSampler(TokenSampler):
    """One selection a token, with its law."""

    def _public_rule(self):
        return None, None

    def _draw(self, step, public):
        return self._chosen_of(step, public)

    def _chosen_of(self, step, public):
        selection = self._plan.decoder.mechanisms(self._plan)[0]
        return public.token(selection.select(self._scores(step, public), self._randomness))

    def _law(self, step, public):
        selection = self._plan.decoder.mechanisms(self._plan)[0]
        return np.array([float(p) for p in selection.law(self._scores(step, public))])

    def _scores(self, step, public):
        return Clipped(self._plan.decoder.clip).scores(self._plan, step, public)

    def law_of_first(self, step):
        return self.law(step)


@dataclass(frozen=True)
class Own(Decoder):
    """Right: a sampler of its own, one selection a token."""

    name, summary, source = "wrong", "a mistake", "none"
    clip: Positive = 2.0
    temperature: Positive | None = None
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"temperature": False}
    sampler: ClassVar[type[TokenSampler]] = _OwnSampler

    def parts(self, setting):
        return PRISM(self.clip, self.temperature).parts(setting)

    def mechanisms(self, plan):
        return [Exponential(plan.eta)]

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        return self.sampler(plan, randomness, eos_tokens, forbidden_tokens)


@dataclass(frozen=True)
class MoreForSeveralTexts(Own):
    """Charges a token more for each of several texts; a run is charged text by text."""

    def parts(self, setting):
        return [replace(part, steps=part.steps + (setting.texts > 1)) for part in super().parts(setting)]


@dataclass(frozen=True)
class OneTokenOfItsOwn(Own):
    """Charges one token, however long the text."""

    def parts(self, setting):
        return [replace(part, steps=1) for part in super().parts(setting)]


@dataclass(frozen=True)
class TwoTokensOfItsOwn(Own):
    """Charges two tokens at most."""

    def parts(self, setting):
        return super().parts(replace(setting, tokens=min(setting.tokens, 2)))


class _RunningSums(_OwnSampler):
    past: Mapping[int, int] = {}

    def _draw(self, step, public):
        scores = self._scores(step, public)
        self.past = dict(zip(self._tokens(public), scores.values.tolist(), strict=True))
        selection = self._plan.decoder.mechanisms(self._plan)[0]
        return public.token(selection.select(scores, self._randomness))

    def _scores(self, step, public):
        right = super()._scores(step, public)
        values = [n + self.past.get(t, 0) for t, n in zip(self._tokens(public), right.values.tolist(), strict=True)]
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)

    def _tokens(self, public):
        return [public.token(place) for place in range(len(public))]


@dataclass(frozen=True)
class KeepsSumsInAText(Own):
    """Adds what experts said of the tokens before, told the sensitivity of one token."""

    sampler: ClassVar[type[TokenSampler]] = _RunningSums


class _SureBehindAgreement(_OwnSampler):
    agreed = False

    def _draw(self, step, public):
        scores = self._scores(step, public)
        best = np.sort(scores.values)[-2:].tolist()
        selection = self._plan.decoder.mechanisms(self._plan)[0]
        self.agreed = len(best) == 2 and 4 * (best[1] - best[0]) > scores.sensitivity
        return public.token(selection.select(scores, self._randomness))

    def _scores(self, step, public):
        right = super()._scores(step, public)
        sensitivity = max(1, right.sensitivity // (4 if self.agreed else 1))
        return Scores(right.values, sensitivity=sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class LessNoiseBehindAgreement(Own):
    """A token behind one that experts agreed on has a quarter of the noise."""

    sampler: ClassVar[type[TokenSampler]] = _SureBehindAgreement


class _QuietWhereNothingChanged(_OwnSampler):
    past: Sequence[int] = ()

    def _draw(self, step, public):
        scores = self._scores(step, public)
        values = scores.values.tolist()
        known, self.past = values == self.past and len(values) > 1, values
        if known:
            return public.token(int(scores.values.argmax()))
        selection = self._plan.decoder.mechanisms(self._plan)[0]
        return public.token(selection.select(scores, self._randomness))


@dataclass(frozen=True)
class QuietWhereNothingChanged(Own):
    """No noise on a token of which experts say what they said of the one before."""

    sampler: ClassVar[type[TokenSampler]] = _QuietWhereNothingChanged


class _SureWhereOneLeads(_OwnSampler):
    lead: ClassVar[int] = 6 << 11

    def _chosen_of(self, step, public):
        scores = self._scores(step, public)
        chosen = self._plan.decoder.mechanisms(self._plan)[0].select(scores, self._randomness)
        lead = np.diff(np.sort(scores.values))[-1:].sum()
        return public.token(int(scores.values.argmax()) if lead > self.lead else chosen)


@dataclass(frozen=True)
class SureWhereOneLeads(Own):
    """Writes the token that leads by more than six nats without noise."""

    sampler = _SureWhereOneLeads


class _FailsAtTheFifth(_OwnSampler):
    def _chosen_of(self, step, public):
        if self.length == 5:
            raise IndexError("five")
        return super()._chosen_of(step, public)


@dataclass(frozen=True)
class FailsAtTheFifth(Own):
    """Raises at the fifth token alone."""

    sampler = _FailsAtTheFifth


class _SpendsNothing(_OwnSampler):
    def _executed(self):
        return [0]


@dataclass(frozen=True)
class GivesAllBack(Own):
    """Says that no step was executed."""

    sampler: ClassVar[type[TokenSampler]] = _SpendsNothing


class _EndNotCounted(_OwnSampler):
    kept = 0

    def _draw(self, step, public):
        token = super()._draw(step, public)
        self.kept += token not in self._eos_tokens
        return token

    def _executed(self):
        return [self.kept]


@dataclass(frozen=True)
class EndNotSpent(Own):
    """Says that a text spent its tokens, and not the draw that ended it."""

    sampler: ClassVar[type[TokenSampler]] = _EndNotCounted


class _EndDrawnAgain(_OwnSampler):
    def _draw(self, step, public):
        rows, token = _rows_of(step), None
        for _ in range(3):
            token = super()._draw(_with_rows(step, rows.clone()), public)
            if token not in self._eos_tokens:
                break
        return token

    def law_of_first(self, step):
        return None


@dataclass(frozen=True)
class RedrawsEnds(Own):
    """Draws an end again, three times in all, and charges one draw. States no law."""

    sampler: ClassVar[type[TokenSampler]] = _EndDrawnAgain


@dataclass(frozen=True)
class UncrossedTestsFree(Amin):
    """Says that a test that was not crossed was not executed."""

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        chooser = AminSampler(plan, randomness, eos_tokens, forbidden_tokens)
        chooser._executed = lambda: [chooser.private_tokens, chooser.private_tokens]
        return chooser


@dataclass(frozen=True)
class _NoisyRow(StepCost):
    """Gaussian noise on the sum of the experts' distributions."""

    noise_multiplier: Positive
    name, source, law, family = "noisy-row", "none", "Gaussian noise", "gaussian"

    def sensitivity(self, change):
        return Sensitivity(1.0, "norm")

    def event(self, change):
        return GaussianDpEvent(self.noise_multiplier)


class _NoisyRowSampler(TokenSampler):
    """Releases a row, and chooses from what was released by a registered mechanism."""

    def _public_rule(self):
        return None, None

    def _draw(self, step, public):
        return self._chosen(self._released(step, public), public)

    def _released(self, step, public):
        setting, rule = self._plan.setting, Probabilities(16)
        (sums,) = summed(step.blocks, public, [rule])
        squared = (2 if setting.change.widths > 1 else 1) * (rule.high * setting.change.rows) ** 2
        mechanism = self._plan.decoder.mechanisms(self._plan)[0]
        row = mechanism.release(VectorSum(sums, squared_l2=squared, adjacency=setting.adjacency), self._randomness)
        return np.array(row.steps)

    def _chosen(self, row, public):
        scores = Scores(row - row.min(), sensitivity=1 << 16, adjacency=self._plan.setting.adjacency)
        return public.token(Exponential(8.0).select(scores, self._randomness))


@dataclass(frozen=True)
class NoisyRowThenToken(Own):
    """Right: one Gaussian release a token, and the token from what was released."""

    noise: Positive | None = None
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"noise": False}
    sampler: ClassVar[type[TokenSampler]] = _NoisyRowSampler

    def parts(self, setting):
        return [Part(_NoisyRow(self.noise or 1), setting.tokens)]

    def mechanisms(self, plan):
        return [RoundedGaussian(self.noise)]


@dataclass(frozen=True)
class TooNarrowRowThenToken(NoisyRowThenToken):
    """Draws by a mechanism with a thousandth of the deviation that it charges."""

    def mechanisms(self, plan):
        return [NarrowRounded(self.noise)]


class _TwoRowsSampler(_NoisyRowSampler):
    def _draw(self, step, public):
        rows = _rows_of(step)
        seen = [self._released(_with_rows(step, rows.clone()), public) for _ in range(2)]
        return self._chosen(seen[0] + seen[1], public)


@dataclass(frozen=True)
class TwoNoisyRowsThenToken(NoisyRowThenToken):
    """Releases two rows a token, and charges one."""

    sampler: ClassVar[type[TokenSampler]] = _TwoRowsSampler


class _SpreadSampler(_NoisyRowSampler):
    def _draw(self, step, public):
        rows = _rows_of(step)
        row = self._released(_with_rows(step, rows.clone()), public)
        heard = rows[rows.isfinite().all(dim=1)].double().softmax(dim=1)
        apart = (heard.amax(dim=0) - heard.amin(dim=0)).numpy() if len(heard) else np.zeros(rows.shape[1])
        at = [int(public.token(number)) for number in range(len(row))]
        return self._chosen(row - np.round(apart[at] * 4096).astype(np.int64), public)


@dataclass(frozen=True)
class PrefersAgreement(NoisyRowThenToken):
    """Chooses from what it released less how far the experts are apart, which is charged by nothing."""

    sampler: ClassVar[type[TokenSampler]] = _SpreadSampler


class _TestedRowSampler(_NoisyRowSampler):
    """By a coin of its own or where a test is crossed a row is released; without it the token is public."""

    def _draw(self, step, public):
        adjacency, rows = self._plan.setting.adjacency, _rows_of(step)
        above, coin = self._plan.decoder.mechanisms(self._plan)[1], self._randomness.below(2)
        run = above.start(1 << 16, sensitivity=1 << 17, adjacency=adjacency, randomness=self._randomness)
        (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
        if run.above(Counts([int(sums[0])], l1=1 << 17, adjacency=adjacency)) or coin:
            return self._chosen(self._released(_with_rows(step, rows), public), public)
        return self._chosen(np.arange(len(public)), public)

    def _executed(self):
        return [self.length, self.length]


@dataclass(frozen=True)
class NoisyRowBehindATest(NoisyRowThenToken):
    """Right: a threshold test a token, and beside its answer a row and the token from what was released."""

    sampler: ClassVar[type[TokenSampler]] = _TestedRowSampler

    def parts(self, setting):
        return [*super().parts(setting), Part(AminTest(setting.experts, 20.0), setting.tokens)]

    def mechanisms(self, plan):
        return [
            *super().mechanisms(plan),
            AboveThreshold(self.parts(plan.setting)[1].row.event(plan.setting.change).epsilon),
        ]


class _RowsBehindADifferenceSampler(_TestedRowSampler):
    """A test a token, and where this one says yes and the one before it said no, two rows in place of one."""

    before = True

    def _draw(self, step, public):
        adjacency, rows = self._plan.setting.adjacency, _rows_of(step)
        above = self._plan.decoder.mechanisms(self._plan)[1]
        run = above.start(1 << 27, sensitivity=1 << 17, adjacency=adjacency, randomness=self._randomness)
        (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
        says = run.above(Counts([int(sums.max())], l1=1 << 17, adjacency=adjacency))
        count, self.before = 1 + (says and not self.before), says
        seen = [self._released(_with_rows(step, rows.clone()), public) for _ in range(count)]
        return self._chosen(sum(seen), public)


@dataclass(frozen=True)
class RowsBehindADifference(NoisyRowBehindATest):
    """Releases a row more than it charges where two tests differ."""

    sampler: ClassVar[type[TokenSampler]] = _RowsBehindADifferenceSampler


class _UntilYesSampler(_TestedRowSampler):
    """Asks a run the same thing until it says yes, which is free, then a row."""

    def _draw(self, step, public):
        adjacency, rows = self._plan.setting.adjacency, _rows_of(step)
        above = self._plan.decoder.mechanisms(self._plan)[1]
        run = above.start(1 << 16, sensitivity=1 << 17, adjacency=adjacency, randomness=self._randomness)
        (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
        while not run.above(Counts([int(sums[0])], l1=1 << 17, adjacency=adjacency)):
            pass
        return self._chosen(self._released(_with_rows(step, rows), public), public)


@dataclass(frozen=True)
class AsksUntilYes(NoisyRowBehindATest):
    """Right: a run a token, asked until it says yes, and a row."""

    sampler: ClassVar[type[TokenSampler]] = _UntilYesSampler


class _CoinATextSampler(_TestedRowSampler):
    """A coin for each text says whether a test is asked, and its yes how many rows."""

    tested = None

    def _draw(self, step, public):
        adjacency, rows, count = self._plan.setting.adjacency, _rows_of(step), 1
        if self.tested is None:
            self.tested = self._randomness.below(2) == self._plan.decoder.side
        if self.tested:
            above = self._plan.decoder.mechanisms(self._plan)[1]
            run = above.start(1 << 27, sensitivity=1 << 17, adjacency=adjacency, randomness=self._randomness)
            (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
            if run.above(Counts([int(sums.max())], l1=1 << 17, adjacency=adjacency)):
                count = 9
        seen = [self._released(_with_rows(step, rows.clone()), public) for _ in range(count)]
        return self._chosen(sum(seen), public)


@dataclass(frozen=True)
class NineRowsBehindACoin(NoisyRowBehindATest):
    """Releases nine rows and charges one, where a coin has a test asked and that says yes."""

    sampler: ClassVar[type[TokenSampler]] = _CoinATextSampler
    side: ClassVar[int] = 0


@dataclass(frozen=True)
class NineRowsBehindTheOtherSide(NineRowsBehindACoin):
    """The same behind the coin's other side."""

    side = 1


class _CoinBehindAYesSampler(_TestedRowSampler):
    """A coin for each text, thrown where a test says yes, says how many rows."""

    coin = None

    def _draw(self, step, public):
        adjacency, rows, count = self._plan.setting.adjacency, _rows_of(step), 1
        above = self._plan.decoder.mechanisms(self._plan)[1]
        run = above.start(1 << 27, sensitivity=1 << 17, adjacency=adjacency, randomness=self._randomness)
        (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
        if run.above(Counts([int(sums.max())], l1=1 << 17, adjacency=adjacency)):
            if self.coin is None:
                self.coin = self._randomness.below(2)
            count = 9 if self.coin == self._plan.decoder.side else 1
        seen = [self._released(_with_rows(step, rows.clone()), public) for _ in range(count)]
        return self._chosen(sum(seen), public)


@dataclass(frozen=True)
class NineRowsBehindAYesAndACoin(NineRowsBehindACoin):
    """Releases nine rows and charges one, where a test says yes and a coin behind that."""

    sampler: ClassVar[type[TokenSampler]] = _CoinBehindAYesSampler


@dataclass(frozen=True)
class NineRowsBehindAYesAndItsOtherSide(NineRowsBehindAYesAndACoin):
    """The same behind the coin's other side."""

    side = 1


class _SureSampler(_TestedRowSampler):
    def _draw(self, step, public):
        adjacency, rows = self._plan.setting.adjacency, _rows_of(step)
        above = self._plan.decoder.mechanisms(self._plan)[1]
        run = above.start(1 << 25, sensitivity=1 << 17, adjacency=adjacency, randomness=self._randomness)
        (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
        if run.above(Counts([int(sums.max())], l1=1 << 17, adjacency=adjacency)):
            return public.token(int(sums.argmax()))
        return self._chosen(self._released(_with_rows(step, rows), public), public)


@dataclass(frozen=True)
class LeadingTokenOfHundreds(NoisyRowBehindATest):
    """Writes the leading token without noise where a test says that hundreds agree."""

    sampler: ClassVar[type[TokenSampler]] = _SureSampler


@dataclass(frozen=True)
class _Set(StepCost):
    noise: Positive
    lost: float = 1e-9
    name, source, law, family = "set", "none", "propose-test-release", "gaussian"

    def sensitivity(self, change):
        return Sensitivity(change.widths, "votes")

    def event(self, change):
        return ProposeTestRelease(self.noise, self.lost, 2).event


class _SetSampler(_NoisyRowSampler):
    """Two tokens that a test lets pass; a row where it does not."""

    def _draw(self, step, public):
        change, adjacency, rows = self._plan.setting.change, self._plan.setting.adjacency, _rows_of(step)
        proposed = self._plan.decoder.mechanisms(self._plan)[1]
        (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
        votes = Scores(np.asarray(sums, np.int64) >> 17, sensitivity=change.widths, adjacency=adjacency)
        found = proposed.release(votes, self._randomness) if len(votes.values) > proposed.k else None
        if found is None:
            return self._chosen(self._released(_with_rows(step, rows), public), public)
        return self._of(found, sums, step, rows, public)

    def _of(self, found, sums, step, rows, public):
        return public.token(found[0])

    def _executed(self):
        return [self.length, self.length]


@dataclass(frozen=True)
class TokenOfASet(NoisyRowThenToken):
    """Right: the first of two tokens that pass, or a row and the token from it. Both are charged."""

    sampler: ClassVar[type[TokenSampler]] = _SetSampler

    def parts(self, setting):
        return [*super().parts(setting), Part(_Set(2.0 * (self.noise or 1)), setting.tokens)]

    def mechanisms(self, plan):
        return [*super().mechanisms(plan), ProposeTestRelease(2.0 * self.noise, 1e-9, 2)]


class _BetterOfSetSampler(_SetSampler):
    def _of(self, found, sums, step, rows, public):
        return public.token(max(found, key=lambda place: int(sums[place])))


@dataclass(frozen=True)
class BetterTokenOfASet(TokenOfASet):
    """Of the two that pass the one that leads."""

    sampler: ClassVar[type[TokenSampler]] = _BetterOfSetSampler


class _MoreRowsSampler(_SetSampler):
    def _of(self, found, sums, step, rows, public):
        seen = [self._released(_with_rows(step, rows.clone()), public) for _ in range(9)]
        return public.token(max(found, key=lambda place: sum(row[place] for row in seen)))


@dataclass(frozen=True)
class NineRowsBehindASet(TokenOfASet):
    """Behind a set that passes it releases nine rows, and charges one."""

    sampler: ClassVar[type[TokenSampler]] = _MoreRowsSampler


class _RowsWhereSureSampler(_SetSampler):
    """A set of one; where it does not pass a test, and behind its yes so many rows."""

    rows_where_sure = 2

    def _draw(self, step, public):
        change, adjacency, rows = self._plan.setting.change, self._plan.setting.adjacency, _rows_of(step)
        _, proposed, above = self._plan.decoder.mechanisms(self._plan)
        (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
        votes = Scores(np.asarray(sums, np.int64) >> 17, sensitivity=change.widths, adjacency=adjacency)
        found = proposed.release(votes, self._randomness) if len(votes.values) > proposed.k else None
        if found is not None:
            return public.token(found[0])
        run = above.start(1 << 27, sensitivity=1 << 17, adjacency=adjacency, randomness=self._randomness)
        sure = run.above(Counts([int(sums.max())], l1=1 << 17, adjacency=adjacency))
        count = self.rows_where_sure if sure else 1
        seen = [self._released(_with_rows(step, rows.clone()), public) for _ in range(count)]
        return self._chosen(sum(seen), public)

    def _executed(self):
        return [self.length] * 3


class _RowWhereSureSampler(_RowsWhereSureSampler):
    rows_where_sure = 1


@dataclass(frozen=True)
class RowBehindASetAndATest(TokenOfASet):
    """Right: a set, where it does not pass a test, and one row whatever that says. All three are charged."""

    sampler: ClassVar[type[TokenSampler]] = _RowWhereSureSampler

    def parts(self, setting):
        return [*super().parts(setting), Part(AminTest(setting.experts, 20.0), setting.tokens)]

    def mechanisms(self, plan):
        test = self.parts(plan.setting)[2].row.event(plan.setting.change)
        row, _ = super().mechanisms(plan)
        return [row, ProposeTestRelease(2.0 * self.noise, 1e-9, 1), AboveThreshold(test.epsilon)]


@dataclass(frozen=True)
class TwoRowsBehindASetAndATest(RowBehindASetAndATest):
    """Behind a set that fails and a test that says yes it releases two rows, and charges one."""

    sampler: ClassVar[type[TokenSampler]] = _RowsWhereSureSampler


class _RunATokenSampler(_TestedRowSampler):
    """A new run for every token until one says yes."""

    crossed = False

    def _draw(self, step, public):
        adjacency, above = self._plan.setting.adjacency, self._plan.decoder.mechanisms(self._plan)[1]
        rows = _rows_of(step)
        (sums,) = summed(_with_rows(step, rows.clone()).blocks, public, [Probabilities(16)])
        if not self.crossed:
            run = above.start(1 << 16, sensitivity=1 << 17, adjacency=adjacency, randomness=self._randomness)
            self.crossed = run.above(Counts([int(sums[0]) + (1 << 40)], l1=1 << 17, adjacency=adjacency))
        return self._chosen(self._released(_with_rows(step, rows), public), public)

    def _executed(self):
        return [self.length, 1]


@dataclass(frozen=True)
class ARunForEachToken(NoisyRowBehindATest):
    """Starts a run of threshold tests for every token, and charges one."""

    sampler: ClassVar[type[TokenSampler]] = _RunATokenSampler

    def parts(self, setting):
        first, test = super().parts(setting)
        return [first, replace(test, steps=1)]


@dataclass(frozen=True)
class CoinsAtTwiceTheRate(Tang):
    """Draws experts at twice the rate that is charged."""

    def subsample(self, plan, step, randomness):
        return replace(self, sampling_rate=2 * self.sampling_rate)._drawn(plan, step, randomness)

    def _drawn(self, plan, step, randomness):
        return super().subsample(plan, step, randomness)


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

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        chooser = AminSampler(plan, randomness, eos_tokens, forbidden_tokens)
        chooser._select = replace(chooser._select, epsilon=3 * chooser._select.epsilon)
        return chooser


@dataclass(frozen=True)
class LoudWhereThePublicRowIsFlat(Amin):
    """Private tokens at a fifth of the temperature that is charged, where the model alone prefers none."""

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        chooser = AminSampler(plan, randomness, eos_tokens, forbidden_tokens)
        select, law = chooser._select, chooser.law_of_first

        def of_first(step):
            flat = len(set(step.public[:-1].tolist())) == 1
            chooser._select = replace(select, epsilon=5 * select.epsilon) if flat else select
            return law(step)

        chooser.law_of_first = of_first
        return chooser


class _Loud(TokenSampler):
    """Draws by exact weights at twice the rate that is charged, and states no law."""

    def _public_rule(self):
        return None, None

    def _draw(self, step, public):
        inner = self._plan.decoder.inner
        return public.token(
            Exponential(2 * self._plan.eta).select(inner.scores(self._plan, step, public), self._randomness)
        )


@dataclass(frozen=True)
class WithoutLaw(Decoder):
    """Is no selection by what it says, and spends twice its price."""

    name, summary, source = "wrong", "a mistake", "none"
    temperature: Positive | None = None
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"temperature": False}

    @property
    def inner(self):
        return Clipped(2.0, self.temperature)

    def parts(self, setting):
        return self.inner.parts(setting)

    def mechanisms(self, plan):
        return [Exponential(plan.eta)]

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        return _Loud(plan, randomness, eos_tokens, forbidden_tokens)


@dataclass(frozen=True)
class OtherThanItsLaw(Clipped):
    """Draws from scores that it does not state: every other token is drawn at twice the rate."""

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        chooser = super().start(plan, randomness, eos_tokens=eos_tokens, forbidden_tokens=forbidden_tokens)
        chooser._mechanism = Exponential(3 * plan.eta)
        return chooser


class _Silent(TokenSampler):
    """Draws as another chooser does, without noise from some token on or where a batch is large."""

    def __init__(self, inner, quiet):
        super().__init__(inner._plan, inner._randomness, inner._eos_tokens, inner._forbidden_tokens)
        self._inner, self._quiet = inner, quiet

    def _public_rule(self):
        return self._inner._public_rule()

    def _draw(self, step, public):
        blocks = [block.clone() for block in step.blocks]
        if self._quiet(self.length, sum(len(block) for block in blocks)):
            self._inner._mechanism = Exponential(900.0)
        return self._inner._draw(Step(step.text, step.public, iter(blocks)), public)

    def _law(self, step, public):
        return self._inner._law(step, public)


@dataclass(frozen=True)
class QuietFromTheThird(Clipped):
    """No noise from the third token on; its law does not say so."""

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        inner = super().start(plan, randomness, eos_tokens=eos_tokens, forbidden_tokens=forbidden_tokens)
        return _Silent(inner, lambda length, experts: length >= 3)


@dataclass(frozen=True)
class QuietInCrowds(Clipped):
    """No noise where a batch holds three experts or more; its law does not say so."""

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        inner = super().start(plan, randomness, eos_tokens=eos_tokens, forbidden_tokens=forbidden_tokens)
        return _Silent(inner, lambda length, experts: experts >= 3)


@dataclass(frozen=True)
class _QuietWhere(Clipped):
    """No noise in batches of some size under some plans; its law does not say so."""

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        inner = super().start(plan, randomness, eos_tokens=eos_tokens, forbidden_tokens=forbidden_tokens)
        return _Silent(inner, lambda length, experts: self.quiet(plan.setting, experts))


@dataclass(frozen=True)
class QuietAdded(_QuietWhere):
    """No noise under add-remove."""

    def quiet(self, setting, experts):
        return setting.adjacency is Adjacency.ADD_REMOVE


@dataclass(frozen=True)
class QuietCrowdAdded(_QuietWhere):
    """No noise under add-remove, from two experts on."""

    def quiet(self, setting, experts):
        return setting.adjacency is Adjacency.ADD_REMOVE and experts > 1


@dataclass(frozen=True)
class QuietFromFour(_QuietWhere):
    """No noise from four experts on, but under zero-out."""

    def quiet(self, setting, experts):
        return setting.adjacency is not Adjacency.ZERO_OUT and experts >= 4


@dataclass(frozen=True)
class QuietTexts(_QuietWhere):
    """No noise where the public divisor is not two."""

    def quiet(self, setting, experts):
        return setting.experts != 2


@dataclass(frozen=True)
class FrequentTokens(Clipped):
    """Every expert votes for its likeliest token, and tokens with fewer than four votes have none."""

    least: ClassVar[int] = 4

    def scores(self, plan, step, public):
        rows = _rows_of(step)
        right = super().scores(plan, _with_rows(step, rows.clone()), public)
        said = rows[torch.isfinite(rows.amax(dim=1))][:, : len(public)].argmax(dim=1).tolist() if len(rows) else []
        votes = np.bincount(np.array(said, dtype=int), minlength=len(public))
        votes = np.where(votes >= self.least, votes, 0) * self.rule.width
        return Scores(votes, sensitivity=right.sensitivity, adjacency=right.adjacency)


class _FrequentSampler(_OwnSampler):
    def _scores(self, step, public):
        return FrequentTokens(self._plan.decoder.clip).scores(self._plan, step, public)


@dataclass(frozen=True)
class FrequentTokensOfItsOwn(Own):
    """The same votes, with a sampler of its own that states its law."""

    sampler: ClassVar[type[TokenSampler]] = _FrequentSampler


@dataclass(frozen=True)
class _Items(StepCost):
    epsilon: Positive
    name, source, law, family = "items", "none", "stability histogram", "laplace"

    def sensitivity(self, change):
        return Sensitivity(1.0, "norm")

    def event(self, change):
        return StabilityHistogram(self.epsilon, 1e-9).event


class _CommonTokenSampler(TokenSampler):
    def _public_rule(self):
        return None, None

    def _draw(self, step, public):
        rows, setting = _rows_of(step)[:, : len(public)], self._plan.setting
        heard = rows[~torch.isnan(rows).any(dim=1)]
        units = [[str(token)] for token in heard.argmax(dim=1).tolist()]
        items = ItemCounts(units, items_per_unit=1, change=setting.change, adjacency=setting.adjacency)
        said = self._plan.decoder.histogram.release(items, self._randomness)
        return public.token(int(max(said, key=lambda kept: kept[1])[0] if said else public.logits.argmax()))


@dataclass(frozen=True)
class CommonTokens(Decoder):
    """Right: the token that most experts put first, by a stability histogram: of few experts always the public one."""

    name, summary, source = "common-tokens", "a stability histogram", "none"
    epsilon: Positive | None = None
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"epsilon": True}

    @property
    def histogram(self):
        return StabilityHistogram(self.epsilon, 1e-9)

    def parts(self, setting):
        return [Part(_Items(self.epsilon or 1.0), setting.tokens)]

    def mechanisms(self, plan):
        return [self.histogram]

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        return _CommonTokenSampler(plan, randomness, eos_tokens, forbidden_tokens)


@dataclass(frozen=True)
class _LaplaceToken(StepCost):
    """Laplace noise on every sum of a token."""

    epsilon: Positive
    name, source, law, family = "laplace-token", "none", "Laplace noise, the largest", "laplace"

    def sensitivity(self, change):
        return Sensitivity(1.0, "range")

    def event(self, change):
        return PureDP(self.epsilon)


@dataclass(frozen=True)
class LaplaceMax(Clipped):
    """Right: Laplace noise on every sum, and the largest."""

    epsilon: Positive | None = None
    temperature: Positive | None = 1.0
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"epsilon": True}

    def parts(self, setting):
        return [Part(_LaplaceToken(self.epsilon or 1), setting.tokens)]

    def mechanism(self, plan):
        return LaplaceNoisyMax(self.epsilon)


class LaplaceHalved(LaplaceMax, HalvedSensitivity):
    """States the sensitivity of a drop whatever the change."""


class LaplaceReadsTheFirst(LaplaceMax, ReadsTheFirst):
    """Adds the first expert's row to every other one."""


class LaplaceRealisedDivisor(LaplaceMax, RealisedDivisor):
    """Divides by the experts that answered."""


class LaplaceNullSpeaks(LaplaceMax, NullSpeaks):
    """A null expert says what the public model says."""


class LaplaceHearsThree(LaplaceMax, HearsThree):
    """Hears the first three experts alone."""


class _ForgetsTheSwap(_NoisyRowSampler):
    share: ClassVar[float] = 0.5

    def _released(self, step, public):
        setting, rule = self._plan.setting, Probabilities(16)
        (sums,) = summed(step.blocks, public, [rule])
        squared = int((2 if setting.change.widths > 1 else 1) * (rule.high * setting.change.rows) ** 2 * self.share)
        mechanism = self._plan.decoder.mechanisms(self._plan)[0]
        row = mechanism.release(VectorSum(sums, squared_l2=squared, adjacency=setting.adjacency), self._randomness)
        return np.array(row.steps)


@dataclass(frozen=True)
class NoisyRowForADrop(NoisyRowThenToken):
    """Tells its mechanism half of the squared norm."""

    sampler: ClassVar[type[TokenSampler]] = _ForgetsTheSwap


class _Mean(_ForgetsTheSwap):
    @property
    def share(self):
        return 1 / max(1, self._plan.setting.experts) ** 2


@dataclass(frozen=True)
class NoisyRowOfAMean(NoisyRowThenToken):
    """Divides the bound by the experts, and not the sum."""

    sampler: ClassVar[type[TokenSampler]] = _Mean


class _FirstRow(_NoisyRowSampler):
    def _released(self, step, public):
        return super()._released(_with_rows(step, _rows_of(step)[:1]), public)


@dataclass(frozen=True)
class NoisyRowOfTheFirst(NoisyRowThenToken):
    """Hears the first expert alone."""

    sampler: ClassVar[type[TokenSampler]] = _FirstRow


class _NullRow(_NoisyRowSampler):
    def _released(self, step, public):
        rows = _rows_of(step)
        return super()._released(_with_rows(step, torch.where(rows.isfinite().any(1, True), rows, step.public)), public)


@dataclass(frozen=True)
class NoisyRowOfNulls(NoisyRowThenToken):
    """A null expert says what the public model says."""

    sampler: ClassVar[type[TokenSampler]] = _NullRow


class _QuietRow(_NoisyRowSampler):
    def _draw(self, step, public):
        rows = _rows_of(step)
        token = super()._draw(_with_rows(step, rows.clone()), public)
        heard = [int(row[: len(public)].argmax()) for row in rows if row.isfinite().all()]
        return public.token(heard[0]) if len(set(heard)) == 1 else token


@dataclass(frozen=True)
class NoisyRowUnlessAllAgree(NoisyRowThenToken):
    """Writes the experts' token where they agree, whatever was released."""

    sampler: ClassVar[type[TokenSampler]] = _QuietRow


class _VotesSampler(_NoisyRowSampler):
    """Laplace noise on votes."""

    def _draw(self, step, public):
        setting, decoder = self._plan.setting, self._plan.decoder
        heard = [int(row[: len(public)].argmax()) for row in _rows_of(step) if not row.isnan().any()]
        votes = decoder.weight * np.bincount(heard, minlength=len(public))
        bound = setting.change.rows if setting.change.widths == 1 else decoder.ballots * setting.change.rows
        told = Counts(votes.astype(np.int64), l1=bound, adjacency=setting.adjacency)
        (mechanism,) = decoder.mechanisms(self._plan)
        return public.token(int(np.argmax(mechanism.release(told, self._randomness))))


@dataclass(frozen=True)
class NoisyVotes(Own):
    """Right: Laplace noise on votes, and the largest; states no law."""

    epsilon: Positive | None = None
    temperature: Positive | None = 1.0
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"epsilon": True}
    sampler: ClassVar[type[TokenSampler]] = _VotesSampler
    weight: ClassVar[int] = 1
    ballots: ClassVar[int] = 2

    def parts(self, setting):
        return [Part(_LaplaceToken(self.epsilon or 1), setting.tokens)]

    def mechanisms(self, plan):
        return [Laplace(self.epsilon)]


class VotesForADrop(NoisyVotes):
    """Tells its mechanism that a vote that moves changes one count."""

    ballots: ClassVar[int] = 1


class VotesCountTwice(NoisyVotes):
    """Counts every vote twice, and tells its mechanism that it counts once."""

    weight: ClassVar[int] = 2


@dataclass(frozen=True)
class DoubleTests(Amin):
    """Threshold tests of twice the distance, at the sensitivity of one."""

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        chooser = AminSampler(plan, randomness, eos_tokens, forbidden_tokens)
        query = chooser._query
        chooser._query = lambda shares, public: _twice(query(shares, public))
        return chooser


def _twice(query):
    return Counts(2 * query.values, l1=query.l1, adjacency=query.adjacency)


class Unregistered(LaplaceNoisyMax):
    """Draws as it likes, and states no law."""

    __slots__ = ()

    def law(self, scores):
        raise NotImplementedError

    def select(self, scores, randomness):
        return LaplaceNoisyMax(self.epsilon).select(scores, randomness)


@dataclass(frozen=True)
class WithoutLawOfItsMechanism(LaplaceMax):
    """Draws by a mechanism that is not registered and states no law."""

    def mechanism(self, plan):
        return Unregistered(self.epsilon)


class _OwnNoise(_NoisyRowSampler):
    def _draw(self, step, public):
        rows = _rows_of(step)
        heard = [int(row[: len(public)].argmax()) for row in rows if row.isfinite().all()]
        return public.token(heard[0] if heard and self._randomness.below(3) else self._randomness.below(len(public)))


@dataclass(frozen=True)
class NoiseOfItsOwn(NoisyRowThenToken):
    """Answers at random by coins of its own."""

    sampler: ClassVar[type[TokenSampler]] = _OwnNoise


class _FirstBlockSampler(_OwnSampler):
    def _scores(self, step, public):
        return super()._scores(_first_block(step), public)


def _first_block(step):
    first = next(step.blocks, None)
    return Step(step.text, step.public, iter([] if first is None else [first]))


@dataclass(frozen=True)
class FirstBlock(Own):
    """Hears the first block of experts alone; which experts are in it follows from who else is there."""

    sampler: ClassVar[type[TokenSampler]] = _FirstBlockSampler


class _FirstBlockRow(_NoisyRowSampler):
    def _released(self, step, public):
        return super()._released(_first_block(step), public)


@dataclass(frozen=True)
class NoisyRowOfTheFirstBlock(NoisyRowThenToken):
    """Hears the first block of experts alone."""

    sampler: ClassVar[type[TokenSampler]] = _FirstBlockRow


class _KeptBlocks(_NoisyRowSampler):
    def _released(self, step, public):
        blocks = [*step.blocks]
        return super()._released(Step(step.text, step.public, iter(blocks)), public)


@dataclass(frozen=True)
class NoisyRowOfKeptBlocks(NoisyRowThenToken):
    """Keeps all blocks before it reads them: the last one stands in the place of all others by then."""

    sampler: ClassVar[type[TokenSampler]] = _KeptBlocks


class _FinerSampler(_NoisyRowSampler):
    def _released(self, step, public):
        setting, decoder = self._plan.setting, self._plan.decoder
        (sums,) = summed(step.blocks, public, [Probabilities(18 if decoder.noise > 4 else 16)])
        squared = (2 if setting.change.widths > 1 else 1) * (Probabilities(16).high * setting.change.rows) ** 2
        (mechanism,) = decoder.mechanisms(self._plan)
        row = mechanism.release(VectorSum(sums, squared_l2=squared, adjacency=setting.adjacency), self._randomness)
        return np.array(row.steps)


@dataclass(frozen=True)
class FinerGridAtLowPrices(NoisyRowThenToken):
    """A finer grid where there is much noise, at the bound of the coarse one."""

    sampler: ClassVar[type[TokenSampler]] = _FinerSampler


class _SureOfTheEnd(_NoisyRowSampler):
    def _draw(self, step, public):
        rows = _rows_of(step)
        token = super()._draw(_with_rows(step, rows.clone()), public)
        self.over = self.over or _are_sure(rows, next(iter(self._eos_tokens)))
        return token


def _are_sure(rows, end):
    heard = rows[rows.isfinite().all(dim=1)][:, :-1].double().softmax(dim=1)
    return bool(len(heard)) and float(heard[:, end].mean()) > 0.9


@dataclass(frozen=True)
class NoisyRowEndsWhereSure(NoisyRowThenToken):
    """Ends a text where its experts are sure of the end, by their true mean."""

    sampler: ClassVar[type[TokenSampler]] = _SureOfTheEnd


class _OwnSureOfTheEnd(_OwnSampler):
    def _draw(self, step, public):
        rows = _rows_of(step)
        token = super()._draw(_with_rows(step, rows.clone()), public)
        self.over = self.over or _are_sure(rows, next(iter(self._eos_tokens)))
        return token


@dataclass(frozen=True)
class EndsWhereSure(Own):
    """The same with a law for every token."""

    sampler: ClassVar[type[TokenSampler]] = _OwnSureOfTheEnd


class _Repeats(_OwnSampler):
    last = None

    def _draw(self, step, public):
        token = super()._draw(step, public)
        self.over, self.last = self.over or token == self.last, token
        return token


@dataclass(frozen=True)
class EndsAtARepetition(Own):
    """Right: a text ends where the same token was drawn twice, too."""

    sampler: ClassVar[type[TokenSampler]] = _Repeats


class _Lines(_OwnSampler):
    def _draw(self, step, public):
        token = super()._draw(step, public)
        self.over = self.over or token == 1
        return token


@dataclass(frozen=True)
class EndsAtALine(Own):
    """Right: a text ends at its first line break, too."""

    sampler: ClassVar[type[TokenSampler]] = _Lines


class _Coins(_OwnSampler):
    def _draw(self, step, public):
        token = super()._draw(step, public)
        self.over = self.over or not self._randomness.below(3)
        return token


@dataclass(frozen=True)
class EndsByACoin(Own):
    """Right: a coin says whether a text goes on."""

    sampler: ClassVar[type[TokenSampler]] = _Coins


@dataclass(frozen=True)
class DoublesByAdjacency(Clipped):
    """Doubles its sensitivity under replace-one, and not where a change exchanges what an expert says."""

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        widths = 2 if plan.setting.adjacency is Adjacency.REPLACE_ONE else 1
        return Scores(right.values, sensitivity=self.rule.width * widths, adjacency=right.adjacency)


@dataclass(frozen=True)
class NormOfOneToken(Tang):
    """Gaussian noise on clipped logits, for a norm that is their range: of three tokens it is no less."""

    @property
    def rule(self):
        return ClippedLogits(2.0)

    def scores(self, plan, step, public):
        (sums,) = summed(step.blocks, public, [self.rule])
        reach = self.rule.width * plan.setting.change.widths
        return Scores(sums, sensitivity=reach, adjacency=plan.setting.adjacency, squared_l2=reach**2)


class _RowOfOneToken(_NoisyRowSampler):
    def _released(self, step, public):
        setting, rule = self._plan.setting, ClippedLogits(2.0)
        (sums,) = summed(step.blocks, public, [rule])
        squared = 3 * (rule.width * setting.change.rows * setting.change.widths) ** 2
        (mechanism,) = self._plan.decoder.mechanisms(self._plan)
        row = mechanism.release(VectorSum(sums, squared_l2=squared, adjacency=setting.adjacency), self._randomness)
        return np.array(row.steps)


@dataclass(frozen=True)
class NoisyRowOfThreeTokens(NoisyRowThenToken):
    """Noise on clipped logits, for a norm of three of them."""

    sampler: ClassVar[type[TokenSampler]] = _RowOfOneToken


class NotADecoder(Decoder):
    """Cannot be made."""


class _EndTestSampler(_OwnSampler):
    """One selection a token with its law, and a threshold test: a text ends where two experts put the end first."""

    heard, behind = 1, range(9)

    def _draw(self, step, public):
        rows, setting = _rows_of(step), self._plan.setting
        token = super()._draw(_with_rows(step, rows.clone()), public)
        if token not in self.behind:
            return token
        heard = rows[rows.isfinite().all(dim=1)][:, :-1]
        sure = int((heard.argmax(dim=1) == min(self._eos_tokens)).sum()) if len(heard) else 0
        above = self._plan.decoder.mechanisms(self._plan)[1]
        most = setting.change.rows
        run = above.start(1, sensitivity=most, adjacency=setting.adjacency, randomness=self._randomness)
        self.over = run.above(Counts([self.heard * sure], l1=most, adjacency=setting.adjacency)) or self.over
        return token

    def _executed(self):
        return [self.length, self.length]


class _LoudEndTestSampler(_EndTestSampler):
    heard, behind = 2, (1,)


@dataclass(frozen=True)
class EndsByATest(Own):
    """Right: a text ends where a threshold test says so, which is charged for every token."""

    sampler: ClassVar[type[TokenSampler]] = _EndTestSampler

    def parts(self, setting):
        return [*super().parts(setting), Part(AminTest(setting.experts, 2.5), setting.tokens)]

    def mechanisms(self, plan):
        selection, test = (part.row.event(plan.setting.change) for part in self.parts(plan.setting))
        return [Exponential(selection.eta), AboveThreshold(test.epsilon)]


@dataclass(frozen=True)
class EndsByALoudTest(EndsByATest):
    """Asks its test behind one token alone, of twice the number of experts that it says."""

    sampler: ClassVar[type[TokenSampler]] = _LoudEndTestSampler


class _OwnEndTestSampler(_EndTestSampler):
    """Draws the token by a coin of its own."""

    def _chosen_of(self, step, public):
        law = self._law(step, public)
        coin = self._randomness.below(1 << 53) / (1 << 53)
        return public.token(min(int(np.searchsorted(np.cumsum(law), coin, "right")), len(law) - 1))


@dataclass(frozen=True)
class EndsByATestAndItsOwnCoins(EndsByATest):
    """Right: the same with tokens that are drawn by coins of its own."""

    sampler: ClassVar[type[TokenSampler]] = _OwnEndTestSampler


class _RawEndSampler(_EndTestSampler):
    """Throws a public coin a token, and ends where one expert is sure of the end."""

    def _chosen_of(self, step, public):
        self._randomness.below(2)
        rows = _rows_of(step)
        heard = rows[rows.isfinite().all(dim=1)][:, :-1]
        self.over = self.over or bool((heard.argmax(dim=1) == min(self._eos_tokens)).any())
        return super()._chosen_of(_with_rows(step, rows), public)


@dataclass(frozen=True)
class EndsWhereOneIsSureBesideATest(EndsByATest):
    """Ends a text where one expert is sure of the end, beside a test that is charged."""

    sampler: ClassVar[type[TokenSampler]] = _RawEndSampler


@dataclass(frozen=True)
class TemperatureByTheLastText(Clipped):
    """The next text has more noise where experts were sure of the last token."""

    kept: ClassVar[list] = []

    def calibrated(self, price, setting, bounds):
        made = super().calibrated(price, setting, bounds)
        more = 1 + sum(self.kept) / 100
        return made if self.temperature is not None else replace(made, temperature=made.temperature * more)

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        self.kept[:] = [int(np.ptp(right.values)) / right.sensitivity]
        return right


class _AmongTwo(_OwnSampler):
    def _draw(self, step, public):
        places, scores = self._part(step, public)
        return public.token(places[self._plan.decoder.mechanisms(self._plan)[0].select(scores, self._randomness)])

    def _law(self, step, public):
        law, (places, scores) = np.zeros(len(public)), self._part(step, public)
        law[places] = [float(p) for p in self._plan.decoder.mechanisms(self._plan)[0].law(scores)]
        return law

    def _part(self, step, public):
        places = sorted(np.argsort(-np.asarray(public.logits.tolist()), kind="stable")[:2].tolist())
        right = self._scores(step, public)
        return places, Scores(right.values[places], sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class AmongTwo(Own):
    """Right: selects among the two candidates that the model likes best without records, by a rule of its own."""

    sampler: ClassVar[type[TokenSampler]] = _AmongTwo


@dataclass(frozen=True)
class HoldsALock(Clipped):
    """Right: a field that it is not made from, and that cannot be written down, is no option."""

    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)


@dataclass(frozen=True)
class WrongTogether(Clipped):
    """Scores are doubled by one choice, and by another one the bound is not."""

    points: Literal["one", "two"] = "one"
    bound: Literal["told", "known"] = "told"

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        weight = 2 if self.points == "two" else 1
        told = right.sensitivity * (weight if self.bound == "told" else 1)
        return Scores(right.values * weight, sensitivity=told, adjacency=right.adjacency)


@dataclass(frozen=True)
class CentredUnderZeroOut(Clipped):
    """With a switch a blank counts as the middle of the interval in the bound, and as its end in the scores."""

    centred: bool = False

    def scores(self, plan, step, public):
        right = super().scores(plan, step, public)
        half = self.centred and plan.setting.adjacency is Adjacency.ZERO_OUT
        told = (right.sensitivity + 1) // 2 if half else right.sensitivity
        return Scores(right.values, sensitivity=told, adjacency=right.adjacency)


class _SampleOfAToken(TokenSampler):
    """Selects a token by half of the experts."""

    keeps = False

    def __init__(self, plan, randomness, eos_tokens, forbidden_tokens):
        super().__init__(plan, randomness, eos_tokens, forbidden_tokens)
        self._heard: list[bool] = []

    def _draw(self, step, public):
        rows = torch.cat([step.public.new_empty(0, len(step.public)), *(block.clone() for block in step.blocks)])
        if not self.keeps:
            self._heard = []
        while len(self._heard) < len(rows):
            self._heard.append(self._randomness.below(2) == 1)
        scores = self._scores(rows, self._heard[: len(rows)], public)
        return public.token(Exponential(self._plan.eta).select(scores, self._randomness))

    def _law(self, step, public):
        rows = torch.cat([step.public.new_empty(0, len(step.public)), *(block.clone() for block in step.blocks)])
        alike: dict[str, list[int]] = {}
        for at, row in enumerate(rows.tolist()):
            alike.setdefault(repr(row), []).append(at)
        total = 0
        for counts in itertools.product(*(range(len(each) + 1) for each in alike.values())):
            heard, chance = [False] * len(rows), 1.0
            for count, each in zip(counts, alike.values(), strict=True):
                chance *= math.comb(len(each), count) / 2 ** len(each)
                for at in each[:count]:
                    heard[at] = True
            scores = self._scores(rows, heard, public)
            weights = np.exp(self._plan.eta * (scores.values - scores.values.max()) / scores.sensitivity)
            total = total + chance * weights / weights.sum()
        return total

    def _scores(self, rows, heard, public):
        rule, setting = Probabilities(BITS), self._plan.setting
        rows = rows.clone()
        rows[[not each for each in heard]] = float("nan")
        (sums,) = summed(iter([rows] if len(rows) else []), public, [rule])
        return scores_of(sums, rule, setting.change, setting.adjacency)

    def _public_rule(self):
        return None, None

    def law_of_first(self, step):
        return self.law(step)


class _SampleOfAText(_SampleOfAToken):
    keeps = True


@dataclass(frozen=True)
class SampledTokens(Decoder):
    """Right: the exponential mechanism by a fresh half of the experts for each token, its price amplified by token."""

    name, summary, source = "wrong", "a mistake", "none"
    rate: Positive | None = None
    calibrated_parameters: ClassVar[Mapping[str, bool]] = {"rate": True}
    refundable: ClassVar[bool] = False
    bounds: ClassVar[Sequence[str]] = ("pure", "amplified", "PLD")
    sampler: ClassVar[type[TokenSampler]] = _SampleOfAToken

    def parts(self, setting):
        return [Part(TangSelection(setting.experts, self.rate or 0), setting.tokens)]

    def mechanisms(self, plan):
        return [Exponential(plan.eta)]

    def alternatives(self, setting):
        if setting.adjacency is not Adjacency.ADD_REMOVE or setting.change is not DROP:
            raise ParameterError("adjacency", setting.adjacency.value, "add-remove")
        sample = Tang("em", rate=self.rate, fresh="token", sampling_rate=0.5)._sample(setting)
        sample.release(TangSelection(setting.experts, self.rate).event(setting.change), 1)
        return [SelfComposedDpEvent(sample.amplified(), setting.tokens * setting.texts)]

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        return self.sampler(plan, randomness, eos_tokens, forbidden_tokens)


class OneSampleAText(SampledTokens):
    """The same half of the experts for all tokens of a text."""

    sampler = _SampleOfAText


@dataclass(frozen=True)
class OneTokenAtAChoice(Own):
    """Charges one token at a choice, however long the text."""

    form: Literal["full", "short"] = "full"

    def parts(self, setting):
        return [replace(part, steps=1) if self.form == "short" else part for part in super().parts(setting)]


@dataclass(frozen=True)
class HalfDistanceAtAChoice(Amin):
    """Tests by the bound of a drop at a choice, whatever the change."""

    distance: Literal["sum", "half"] = "sum"

    def start(self, plan, randomness, *, eos_tokens, forbidden_tokens=()):
        kind = _HalfDistance if self.distance == "half" else AminSampler
        return kind(plan, randomness, eos_tokens, forbidden_tokens)


class _HalfDistance(AminSampler):
    @property
    def _sensitivity(self):
        return self._shares.high
