"""Answerers with one mistake each. None is registered."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from contracts.wrong import mechanisms
from sottovoce.errors import ParameterError
from sottovoce.experts.keywords import keywords_of, universe_of
from sottovoce.mechanisms.above_threshold import AboveThreshold
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.mechanisms.stability_histogram import StabilityHistogram
from sottovoce.methods.answering.answerer import Answerer, Outcome
from sottovoce.methods.answering.ksa import KSA
from sottovoce.methods.answering.references import _Reference
from sottovoce.methods.base import Reads
from sottovoce.parameters import Number, Positive
from sottovoce.privacy.accounting.renyi import rho_of_budget
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores, VectorSum
from sottovoce.privacy.events import BoundedRange, ComposedDpEvent, NoOpDpEvent, PureDP, SelfComposedDpEvent, ZCDpEvent
from sottovoce.privacy.parameters import Epsilon
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.randomness import SeededRandomness


@dataclass(frozen=True)
class OneKeyword(Answerer):
    """One keyword by the exponential mechanism. Nothing is wrong with it."""

    name = "one-keyword"
    calibrated_parameters = ("eta",)
    eta: Epsilon | None = None

    def calibrated(self, price, setting):
        return self if self.eta is not None else replace(self, eta=price.epsilon)

    def event(self, setting):
        return BoundedRange(self.eta)

    def draw(self, setting, experts, public, randomness):
        chosen = Exponential(self.eta).select(self.counts(experts, public), randomness)
        return self.outcome(public.universe[chosen], experts)

    def counts(self, experts, public):
        return experts.keyword_counts(public.universe)

    def outcome(self, word, experts):
        return Outcome(self.name, {"word": word})

    def finish(self, outcome, public):
        return public.written(f"Use the word {outcome.values['word']}.")


@dataclass(frozen=True)
class OneKeywordBy(OneKeyword):
    """Right: the same by a mechanism of its own, which a test names."""

    name = "one-keyword-by"
    mechanism: ClassVar[type[Exponential]] = Exponential

    def draw(self, setting, experts, public, randomness):
        chosen = self.mechanism(self.eta).select(self.counts(experts, public), randomness)
        return self.outcome(public.universe[chosen], experts)


@dataclass(frozen=True)
class TwoOfEachList(OneKeyword):
    """Right: one of all keywords, one of all but the last, and so on for six lists, and all of it again at half."""

    name = "two-of-each-list"
    lists: ClassVar[int] = 6

    def calibrated(self, price, setting):
        return self if self.eta is not None else replace(self, eta=price.epsilon / (3 * self.lists))

    def event(self, setting):
        both = [SelfComposedDpEvent(PureDP(rate), self.lists) for rate in (2 * self.eta, self.eta)]
        return ComposedDpEvent(both)

    def draw(self, setting, experts, public, randomness):
        counts, found = self.counts(experts, public), []
        for rate in (2 * self.eta, self.eta):
            for left_out in range(self.lists):
                words = max(1, len(public.universe) - left_out)
                listed = Scores(counts.values[:words], sensitivity=counts.sensitivity, adjacency=counts.adjacency)
                found.append(public.universe[PermuteAndFlip(rate).select(listed, randomness)])
        return self.outcome(" ".join(found), experts)


@dataclass(frozen=True)
class AnyOfForty(_Reference):
    """Right: free, draws one of at least forty public answers."""

    name = "any-of-forty"
    reads = Reads.NOTHING
    needs = frozenset({"pool"})
    least_candidates = 40

    def draw(self, setting, experts, public, randomness):
        return Outcome(self.name, {"at": randomness.below(1 << 30)})

    def finish(self, outcome, public):
        return public.candidates[outcome.values["at"] % len(public.candidates)] if public.candidates else "nothing"


@dataclass(frozen=True)
class ComparesUnsaid(_Reference):
    """Compares public answers and says that it looks at none, so that a session has one of them written."""

    name = "compares-unsaid"
    reads = Reads.NOTHING
    needs = frozenset({"Embedder", "pool"})
    least_candidates = 0

    def draw(self, setting, experts, public, randomness):
        return Outcome(self.name, {})

    def finish(self, outcome, public):
        return max(public.candidates, key=len)


@dataclass(frozen=True)
class UniverseUnsaid(OneKeyword):
    """Takes its universe from public answers and says that it looks at none."""

    least_candidates = 0


@dataclass(frozen=True)
class TooLargeAnOption(OneKeyword):
    """Finds out while it draws that an option is too large."""

    top: Annotated[int, Number(1, 64, whole=True)] = 2

    def counts(self, experts, public):
        if self.top > len(public.universe):
            raise ParameterError("top", self.top, f"at most {len(public.universe)}")
        return super().counts(experts, public)


@dataclass(frozen=True)
class HalvedSensitivity(OneKeyword):
    """Tells half of the sensitivity of a text that is replaced."""

    def counts(self, experts, public):
        right = experts.keyword_counts(public.universe)
        return Scores(right.values, sensitivity=max(1, right.sensitivity // 2), adjacency=right.adjacency)


@dataclass(frozen=True)
class BlankIsGone(OneKeyword):
    """Under zero-out an expert only goes, it says, also where experts have several units."""

    name = "blank-is-gone"

    def counts(self, experts, public):
        counts = experts.keyword_counts(public.universe)
        goes = counts.adjacency is Adjacency.ZERO_OUT
        return Scores(counts.values, sensitivity=1 if goes else counts.sensitivity, adjacency=counts.adjacency)


@dataclass(frozen=True)
class TwoAtMost(OneKeyword):
    """A change replaces one text at most, it says, also where a unit moves from one expert to another."""

    name = "two-at-most"

    def counts(self, experts, public):
        counts = experts.keyword_counts(public.universe)
        return Scores(counts.values, sensitivity=min(2, counts.sensitivity), adjacency=counts.adjacency)


@dataclass(frozen=True)
class BlankIsGoneAtAChoice(BlankIsGone):
    """The same where words count twice, at a choice alone."""

    name = "blank-is-gone-at-a-choice"
    form: Literal["once", "twice"] = "once"

    def counts(self, experts, public):
        if self.form == "once":
            return experts.keyword_counts(public.universe)
        counts = super().counts(experts, public)
        return Scores(2 * counts.values, sensitivity=2 * counts.sensitivity, adjacency=counts.adjacency)


@dataclass(frozen=True)
class LongTextsCountMore(OneKeyword):
    """Counts a keyword once for every word of the text that has it."""

    def counts(self, experts, public):
        right = experts.keyword_counts(public.universe)
        texts = [text or "" for text in experts.texts_without_noise()]
        counts = [sum(len(text) for text in texts if word in keywords_of(text)) for word in public.universe]
        return Scores(counts, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class PrivateUniverse(OneKeyword):
    """Chooses among the words of private answers."""

    def draw(self, setting, experts, public, randomness):
        words = universe_of(text for text in experts.texts_without_noise() if text)
        words = words or public.universe
        chosen = Exponential(self.eta).select(experts.keyword_counts(words), randomness)
        return self.outcome(words[chosen], experts)


@dataclass(frozen=True)
class SameSizePrivateUniverse(OneKeyword):
    """Chooses among words of private answers, filled up so that their number tells nothing."""

    def draw(self, setting, experts, public, randomness):
        own = universe_of(text for text in experts.texts_without_noise() if text)
        words = tuple(dict.fromkeys([*own, *public.universe]))[: len(public.universe)]
        chosen = Exponential(self.eta).select(experts.keyword_counts(words), randomness)
        return self.outcome(words[chosen], experts)


@dataclass(frozen=True)
class PrivateRepresentative(OneKeyword):
    """Releases the private answer that has the keyword."""

    def outcome(self, word, experts):
        texts = [text for text in experts.texts_without_noise() if text and word in keywords_of(text)]
        return Outcome(self.name, {"word": texts[-1] if texts else word})


@dataclass(frozen=True)
class CheapEvent(OneKeyword):
    """Charges half of what it draws."""

    def event(self, setting):
        return BoundedRange(self.eta / 2)


@dataclass(frozen=True)
class CheapForASwap(OneKeyword):
    """Has less noise than it is charged for where texts are replaced."""

    def draw(self, setting, experts, public, randomness):
        eta = self.eta * min(2, setting.change.widths)
        chosen = Exponential(eta).select(self.counts(experts, public), randomness)
        return self.outcome(public.universe[chosen], experts)


@dataclass(frozen=True)
class AtLeastTwo(OneKeyword):
    """Draws at an epsilon of two at least, and charges what it was given."""

    def draw(self, setting, experts, public, randomness):
        chosen = Exponential(max(self.eta, 2.0)).select(self.counts(experts, public), randomness)
        return self.outcome(public.universe[chosen], experts)


@dataclass(frozen=True)
class CoarseCounts(OneKeyword):
    """Takes counts four at a time at small prices, and tells the bound of one."""

    def counts(self, experts, public):
        right = super().counts(experts, public)
        times = 1 if self.eta >= 4 else 4
        return Scores(right.values * times, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class QuietUnderRho(OneKeyword):
    """Has less noise than it is charged for where the ledger adds rho."""

    def draw(self, setting, experts, public, randomness):
        eta = self.eta * (1 if setting.adds_epsilons else 2)
        return self.outcome(public.universe[Exponential(eta).select(self.counts(experts, public), randomness)], experts)


@dataclass(frozen=True)
class QuietWithoutADelta(OneKeyword):
    """Has less noise than it is charged for where the price has no delta."""

    calibrated_parameters = ("eta", "times")
    times: float | None = None

    def calibrated(self, price, setting):
        made = super().calibrated(price, setting)
        return made if made.times is not None else replace(made, times=1.0 if price.delta else 2.0)

    def draw(self, setting, experts, public, randomness):
        chosen = Exponential(self.times * self.eta).select(self.counts(experts, public), randomness)
        return self.outcome(public.universe[chosen], experts)


@dataclass(frozen=True)
class WithoutADelta(OneKeyword):
    """Takes prices without a delta alone. Nothing is wrong with it."""

    name = "without-a-delta"

    def calibrated(self, price, setting):
        if price.delta:
            raise ParameterError("delta", price.delta, "0: no use is made of one")
        return super().calibrated(price, setting)


@dataclass(frozen=True)
class DearWithoutADelta(WithoutADelta):
    """Takes prices without a delta alone, and draws twice for one charge."""

    def draw(self, setting, experts, public, randomness):
        super().draw(setting, experts, public, randomness)
        return super().draw(setting, experts, public, randomness)


@dataclass(frozen=True)
class DearInCrowds(OneKeyword):
    """Wants a hundred experts, and counts each of them twice."""

    def calibrated(self, price, setting):
        if (setting.experts or 0) < 100:
            raise ParameterError("experts", setting.experts, "100 or more")
        return super().calibrated(price, setting)

    def counts(self, experts, public):
        right = super().counts(experts, public)
        return Scores(2 * right.values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class RefusesEverything(OneKeyword):
    """Takes no price."""

    def calibrated(self, price, setting):
        raise ParameterError("epsilon", price.epsilon, "another one")


@dataclass(frozen=True)
class SaysFree(OneKeyword):
    """Charges nothing."""

    def event(self, setting):
        return NoOpDpEvent()


@dataclass(frozen=True)
class TwiceThePrice(OneKeyword):
    """Forgets that a budget is shared between two draws."""

    def draw(self, setting, experts, public, randomness):
        both = [Exponential(self.eta).select(self.counts(experts, public), randomness) for _ in range(2)]
        return self.outcome(public.universe[both[0]], experts)


class _State(OneKeyword):
    @property
    def options(self):
        return {"eta": self.eta}


@dataclass(frozen=True)
class RepeatsItself(_State):
    """Gives the first word that it chose again."""

    earlier: list = field(default_factory=list, repr=False, compare=False)

    def draw(self, setting, experts, public, randomness):
        made = super().draw(setting, experts, public, randomness)
        self.earlier.append(made.values["word"])
        return Outcome(self.name, {"word": self.earlier[0]})


@dataclass(frozen=True)
class KeepsCounts(OneKeyword):
    """Keeps the counts of a question in its module, by what is public of it."""

    def counts(self, experts, public):
        right = experts.keyword_counts(public.universe)
        key = (public.universe, tuple(public.shots), right.sensitivity, right.adjacency)
        return KEPT.setdefault(key, right)


KEPT: dict = {}


@dataclass(frozen=True)
class AddsEarlierQuestions(_State):
    """Adds the counts of the question before."""

    earlier: list = field(default_factory=list, repr=False, compare=False)

    def counts(self, experts, public):
        right = experts.keyword_counts(public.universe)
        self.earlier.append(right.values)
        values = right.values + (self.earlier[-2] if len(self.earlier) > 1 else 0)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class ReadsTheFirst(OneKeyword):
    """Leaves out the last expert."""

    def counts(self, experts, public):
        right = experts.keyword_counts(public.universe)
        texts = experts.texts_without_noise()[:1]
        counts = [sum(word in keywords_of(text or "") for text in texts) for word in public.universe]
        return Scores(counts, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class NullsVote(OneKeyword):
    """Lets every null expert vote for the first keyword."""

    def counts(self, experts, public):
        right = experts.keyword_counts(public.universe)
        counts = right.values.copy()
        counts[0] += sum(text is None for text in experts.texts_without_noise())
        return Scores(counts, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class OwnNoise(OneKeyword):
    """Draws from a source of its own."""

    def draw(self, setting, experts, public, randomness):
        chosen = Exponential(self.eta).select(self.counts(experts, public), SeededRandomness(1))
        return self.outcome(public.universe[chosen], experts)


@dataclass(frozen=True)
class WithoutNoise(OneKeyword):
    """Takes the most common keyword."""

    def draw(self, setting, experts, public, randomness):
        return self.outcome(public.universe[int(np.argmax(self.counts(experts, public).values))], experts)


@dataclass(frozen=True)
class AsksWhileDrawing(OneKeyword):
    """Lets the writer answer before the outcome is saved."""

    def draw(self, setting, experts, public, randomness):
        made = super().draw(setting, experts, public, randomness)
        public.written("")
        return made


@dataclass(frozen=True)
class FailsOnSomeDraws(OneKeyword):
    """Refuses a keyword that it has drawn."""

    def outcome(self, word, experts):
        if word == "card":
            raise ValueError("a word that is not wanted")
        return super().outcome(word, experts)


@dataclass(frozen=True)
class TellsHowMany(OneKeyword):
    """Releases how many experts wrote."""

    def outcome(self, word, experts):
        wrote = sum(text is not None for text in experts.texts_without_noise())
        return Outcome(self.name, {"word": word, "wrote": wrote})


@dataclass(frozen=True)
class NoTextWhenSilent(OneKeyword):
    """Needs the writer for an answer."""

    def finish(self, outcome, public):
        return public.write([public.request(public.shots, "")])[0]


@dataclass(frozen=True)
class Mean(Answerer):
    """The sum of embeddings with noise. Nothing is wrong with it."""

    name = "mean"
    needs = frozenset({"Embedder"})
    needs_delta = True
    calibrated_parameters = ("rho",)
    rho: Positive | None = None

    def calibrated(self, price, setting):
        return self if self.rho is not None else replace(self, rho=rho_of_budget(price.epsilon, price.delta))

    def event(self, setting):
        return ZCDpEvent(self.rho)

    def draw(self, setting, experts, public, randomness):
        noisy = GaussianVector(self.rho).release(self.summed(experts), randomness).values
        return Outcome(self.name, {"answer": public.candidates[int(np.argmax(public.vectors @ noisy))]})

    def summed(self, experts):
        return experts.embedding_sum()

    def finish(self, outcome, public):
        return outcome.values["answer"]


@dataclass(frozen=True)
class ForgottenDelta(Mean):
    """Charges Gaussian noise, which needs a delta, as if it needed none."""

    calibrated_parameters = ("rho", "epsilon")
    epsilon: Positive | None = None

    def calibrated(self, price, setting):
        rho = rho_of_budget(0.9 * price.epsilon, price.delta)
        return replace(self, rho=self.rho or rho, epsilon=self.epsilon or price.epsilon)

    def event(self, setting):
        return PureDP(self.epsilon)


@dataclass(frozen=True)
class KeepsAnAnswer(Mean):
    """The instance that draws keeps what the first expert wrote, and says it where the answer is finished."""

    def draw(self, setting, experts, public, randomness):
        self.__dict__["kept"] = experts.texts_without_noise()[0]
        return super().draw(setting, experts, public, randomness)

    def finish(self, outcome, public):
        return f"{super().finish(outcome, public)} {self.__dict__.get('kept')}"


@dataclass(frozen=True)
class WordsAsOften(OneKeyword):
    """Counts a word as often as a text has it, and is told that a text has it once."""

    def counts(self, experts, public):
        texts = [(text or "").casefold().split() for text in experts.texts_without_noise()]
        counts = [sum(text.count(word) for text in texts) for word in public.universe]
        return Scores(counts, sensitivity=experts.change.widths, adjacency=experts.adjacency)


@dataclass(frozen=True)
class FortyWordsAtMost(Answerer):
    """How many words experts write, who are said to write forty at most."""

    name = "forty-words"
    calibrated_parameters = ("epsilon",)
    least_candidates = 0
    most: ClassVar[int] = 10**9
    epsilon: Epsilon | None = None

    def calibrated(self, price, setting):
        return self if self.epsilon is not None else replace(self, epsilon=price.epsilon)

    def event(self, setting):
        return Laplace(self.epsilon).event

    def draw(self, setting, experts, public, randomness):
        words = sum(min(len(text.split()), self.most) for text in experts.texts_without_noise() if text)
        counts = Counts([words], l1=40 * experts.change.widths, adjacency=experts.adjacency)
        return Outcome(self.name, {"words": Laplace(self.epsilon).release(counts, randomness)[0]})

    def finish(self, outcome, public):
        return public.written(f"Write about {max(1, outcome.values['words'] // 20)} words.")


@dataclass(frozen=True)
class FortyWordsCounted(FortyWordsAtMost):
    """Right: no more than forty words of a text are counted."""

    most = 40


@dataclass(frozen=True)
class WordsWithHalf(FortyWordsCounted):
    """Counts words by a noise of its own file, which is half of what it states."""

    name = "words-with-half"

    def draw(self, setting, experts, public, randomness):
        words = sum(min(len(text.split()), self.most) for text in experts.texts_without_noise() if text)
        counts = Counts([words], l1=40 * experts.change.widths, adjacency=experts.adjacency)
        return Outcome(self.name, {"words": mechanisms.HalfForEach(self.epsilon).release(counts, randomness)[0]})


@dataclass(frozen=True)
class WordsInPercent(FortyWordsCounted):
    """Counts words, and then long texts by a noise of its own file that is next to none."""

    name = "words-in-percent"

    def calibrated(self, price, setting):
        return self if self.epsilon is not None else replace(self, epsilon=price.epsilon / 2)

    def event(self, setting):
        return SelfComposedDpEvent(PureDP(self.epsilon), 2)

    def draw(self, setting, experts, public, randomness):
        texts = [text for text in experts.texts_without_noise() if text]
        drawn = [
            mechanisms.ByUnit(self.epsilon, unit).release(
                Counts([total], l1=bound * experts.change.widths, adjacency=experts.adjacency), randomness
            )[0]
            for unit, total, bound in (
                ("count", sum(min(len(text.split()), self.most) for text in texts), 40),
                ("percent", sum(len(text.split()) > 3 for text in texts), 1),
            )
        ]
        return Outcome(self.name, {"words": drawn[0], "long": drawn[1]})


@dataclass(frozen=True)
class HalfWhereAdded(Laplace):
    """Half of the noise where a unit comes or goes, told by what is no declared choice."""

    adjacency: Any = None

    def scale(self, counts):
        return super().scale(counts) / (2 if self.adjacency is Adjacency.ADD_REMOVE else 1)


@dataclass(frozen=True)
class WordsWithHalfWhereAdded(FortyWordsCounted):
    """Counts words by a noise of its own file, which is half of what it states under add-remove alone."""

    name = "words-with-half-where-added"

    def draw(self, setting, experts, public, randomness):
        words = sum(min(len(text.split()), self.most) for text in experts.texts_without_noise() if text)
        counts = Counts([words], l1=40 * experts.change.widths, adjacency=experts.adjacency)
        noise = HalfWhereAdded(self.epsilon, setting.adjacency)
        return Outcome(self.name, {"words": noise.release(counts, randomness)[0]})


@dataclass(frozen=True)
class HalfWhereAddedAlone(HalfWhereAdded):
    """The same, which refuses other relations there."""

    def scale(self, counts):
        if self.adjacency is Adjacency.ADD_REMOVE and counts.adjacency is not self.adjacency:
            raise ParameterError("adjacency", counts.adjacency.value, "add-remove: the noise is narrower there")
        return super().scale(counts)


@dataclass(frozen=True)
class WordsWithLightNoise(FortyWordsCounted):
    """Counts words by a noise of its own file, which it asks to be light."""

    name = "words-with-light-noise"

    def draw(self, setting, experts, public, randomness):
        words = sum(min(len(text.split()), self.most) for text in experts.texts_without_noise() if text)
        counts = Counts([words], l1=40 * experts.change.widths, adjacency=experts.adjacency)
        noise = mechanisms.LightWhereAsked(self.epsilon)
        return Outcome(self.name, {"words": noise.release(counts, randomness, light=True)[0]})


@dataclass(frozen=True)
class HalfForADrop(Laplace):
    """Half of the noise where one output may come or go."""

    change: ChangeType | None = None

    def scale(self, counts):
        return super().scale(counts) / (2 if self.change is not None and self.change.widths == 1 else 1)


class HalfWhereSmall(Laplace):
    """The same, told by a number, which it keeps for itself."""

    def __init__(self, epsilon, factor):
        super().__init__(epsilon)
        object.__setattr__(self, "_factor", factor)

    def scale(self, counts):
        return super().scale(counts) / (2 if self._factor < 1 else 1)


@dataclass(frozen=True)
class WordsWithHalfForADrop(FortyWordsCounted):
    """Counts words by a noise of its own file, which is half of what it states for a drop."""

    name = "words-with-half-for-a-drop"

    def noise(self, setting):
        return HalfForADrop(self.epsilon, setting.change)

    def draw(self, setting, experts, public, randomness):
        words = sum(min(len(text.split()), self.most) for text in experts.texts_without_noise() if text)
        counts = Counts([words], l1=40 * experts.change.widths, adjacency=experts.adjacency)
        return Outcome(self.name, {"words": self.noise(setting).release(counts, randomness)[0]})


class WordsWithHalfWhereSmall(WordsWithHalfForADrop):
    """The same by a noise that is told a number."""

    name = "words-with-half-where-small"

    def noise(self, setting):
        return HalfWhereSmall(self.epsilon, setting.change.widths / 2 / setting.change.rows)


class WordsWithHalfWhereAddedAlone(WordsWithHalfForADrop):
    """The same by a noise that refuses other relations where it is half."""

    name = "words-with-half-where-added-alone"

    def noise(self, setting):
        return HalfWhereAddedAlone(self.epsilon, setting.adjacency)


@dataclass(frozen=True)
class FourKeywordsAtMost(FortyWordsAtMost):
    """How many experts have each keyword, of which a text is said to have four at most."""

    name = "four-keywords"
    least_candidates = 1

    def draw(self, setting, experts, public, randomness):
        counts = Counts(
            experts.keyword_counts(public.universe).values,
            l1=4 * experts.change.widths,
            adjacency=experts.adjacency,
        )
        noisy = Laplace(self.epsilon).release(counts, randomness)
        return Outcome(self.name, {"words": [public.universe[at] for at in np.argsort(noisy)[-2:]]})

    def finish(self, outcome, public):
        return public.written(f"Use the words {outcome.values['words']}.")


@dataclass(frozen=True)
class KeepsItsBound(OneKeyword):
    """The sensitivity of the first question is kept, whatever the adjacency of the next one is."""

    kept: ClassVar[dict[str, int]] = {}

    def counts(self, experts, public):
        right = super().counts(experts, public)
        bound = self.kept.setdefault("bound", right.sensitivity)
        return Scores(right.values, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsItsWeight(OneKeyword):
    """Counts weigh what an option says; their sensitivity is kept by the adjacency and the change, without it."""

    weight: int = 2
    kept: ClassVar[dict[object, int]] = {}

    def counts(self, experts, public):
        right = super().counts(experts, public)
        bound = self.kept.setdefault((right.adjacency, experts.change), right.sensitivity * self.weight)
        return Scores(right.values * self.weight, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsTheFirstMade(OneKeyword):
    """The weight is kept of the first that is made, before any question."""

    weight: int = 2
    kept: ClassVar[dict[str, int]] = {}

    def __post_init__(self):
        self.kept.setdefault("weight", self.weight)

    def counts(self, experts, public):
        right = super().counts(experts, public)
        bound = right.sensitivity * self.kept["weight"]
        return Scores(right.values * self.weight, sensitivity=bound, adjacency=right.adjacency)


@dataclass(frozen=True)
class KeepsItsUniverse(OneKeyword):
    """A text moves each count by one; the bound of all counts is kept, however many keywords the next question has."""

    calibrated_parameters = ("epsilon",)
    eta: ClassVar[None] = None
    epsilon: Epsilon | None = None
    kept: ClassVar[dict[object, int]] = {}

    def calibrated(self, price, setting):
        return self if self.epsilon is not None else replace(self, epsilon=price.epsilon)

    def event(self, setting):
        return PureDP(self.epsilon)

    def draw(self, setting, experts, public, randomness):
        counted = experts.keyword_counts(public.universe).values * self.weights(public)
        l1 = self.kept.setdefault(self.key(setting), int(self.weights(public).sum()) * experts.change.widths)
        noisy = Laplace(self.epsilon).release(Counts(counted, l1=l1, adjacency=experts.adjacency), randomness)
        return self.outcome(public.universe[int(np.argmax(noisy))], experts)

    def weights(self, public):
        return np.ones(len(public.universe), dtype=np.int64)

    def key(self, setting):
        return setting.change, setting.adjacency


@dataclass(frozen=True)
class KeepsItsAnswers(KeepsItsUniverse):
    """The same, kept by everything but the number of keywords."""

    kept: ClassVar[dict[object, int]] = {}

    def key(self, setting):
        return replace(setting, keywords=0)


@dataclass(frozen=True)
class KeepsItsWeights(KeepsItsUniverse):
    """Keywords weigh what their letters are; all together are kept by all that is public of a setting."""

    kept: ClassVar[dict[object, int]] = {}

    def weights(self, public):
        return np.array([len(word) for word in public.universe])

    def key(self, setting):
        return setting


@dataclass(frozen=True)
class KeepsItsWidth(OneKeyword):
    """How far a change moves a count is settled with the first plan, whatever the adjacency of the next one is."""

    calibrated_parameters = ("eta", "width")
    width: int | None = None
    kept: ClassVar[dict[str, int]] = {}

    def calibrated(self, price, setting):
        width = self.width or self.kept.setdefault("width", setting.change.widths)
        return replace(super().calibrated(price, setting), width=width)

    def counts(self, experts, public):
        right = super().counts(experts, public)
        return Scores(right.values, sensitivity=self.width, adjacency=right.adjacency)


@dataclass(frozen=True)
class SetInItsOrder(KSA):
    """The set of a propose-test-release, in the order of the counts."""

    def select(self, counts, setting, randomness):
        found = super().select(counts, setting, randomness)
        if self.selection != "ptr":
            return found
        return found and tuple(sorted(found, key=lambda place: -int(counts.values[place])))


@dataclass(frozen=True)
class OrderBehindAYes(OneKeyword):
    """Where a rare test says yes a set is proposed, and told in the order of the counts."""

    needs_delta = True
    calibrated_parameters = ("eta", "sigma", "lost")
    sigma: Positive | None = None
    lost: Positive | None = None

    def calibrated(self, price, setting):
        rho = rho_of_budget(0.8 * price.epsilon, price.delta / 2)
        if rho < 1e-6:
            raise ParameterError("epsilon", price.epsilon, "larger")
        sigma, lost = max((0.5 / rho) ** 0.5, 0.06), min(price.delta / 4, 0.05)
        eta = self.eta or price.epsilon / 10
        return replace(self, eta=eta, sigma=self.sigma or sigma, lost=self.lost or lost)

    def event(self, setting):
        proposed = ProposeTestRelease(self.sigma, self.lost, 2).event
        return ComposedDpEvent([AboveThreshold(self.eta).event, BoundedRange(self.eta), proposed])

    def draw(self, setting, experts, public, randomness):
        counts = self.counts(experts, public)
        told = {"sensitivity": counts.sensitivity, "adjacency": counts.adjacency}
        run = AboveThreshold(self.eta).start(500, **told, randomness=randomness)
        if not run.above(Counts([int(counts.values[0])], l1=counts.sensitivity, adjacency=counts.adjacency)):
            return self.outcome(public.universe[Exponential(self.eta).select(counts, randomness)], experts)
        found = ProposeTestRelease(self.sigma, self.lost, 2).release(counts, randomness) or ()
        order = sorted(found, key=lambda place: -int(counts.values[place]))
        return self.outcome(" ".join(public.universe[place] for place in order), experts)


@dataclass(frozen=True)
class TwoSets(OrderBehindAYes):
    """Right: two words as a set, and where that passes two more as another one."""

    ordered: ClassVar[bool] = False

    def event(self, setting):
        proposed = ProposeTestRelease(self.sigma, self.lost, 2).event
        return ComposedDpEvent([BoundedRange(self.eta), proposed, proposed])

    def calibrated(self, price, setting):
        found = super().calibrated(price, setting)
        return replace(found, sigma=self.sigma or found.sigma * 2**0.5, lost=self.lost or found.lost / 2)

    def draw(self, setting, experts, public, randomness):
        counts = self.counts(experts, public)
        first = ProposeTestRelease(self.sigma, self.lost, 2).release(counts, randomness)
        if first is None:
            return self.outcome(public.universe[Exponential(self.eta).select(counts, randomness)], experts)
        both = ProposeTestRelease(self.sigma, self.lost, 4).release(counts, randomness) or first
        more = [place for place in both if place not in first]
        if self.ordered:
            more.sort(key=lambda place: -int(counts.values[place]))
        return self.outcome(" ".join(public.universe[place] for place in (*first, *more)), experts)


@dataclass(frozen=True)
class SecondSetInItsOrder(TwoSets):
    """The words that the second set has more, in the order of the counts."""

    ordered = True


@dataclass(frozen=True)
class CompanionsOfSets(OneKeyword):
    """Right: a word of each of five groups as a set of its own, and another word beside the first two that pass."""

    name = "companions"
    needs_delta = True
    calibrated_parameters = ("eta", "sigma", "lost")
    sigma: Positive | None = None
    lost: Positive | None = None
    groups: ClassVar[int] = 5
    most: ClassVar[int] = 2
    stops: ClassVar[bool] = True

    def calibrated(self, price, setting):
        rho = rho_of_budget(0.2 * price.epsilon, price.delta / 2) / self.groups
        if rho < 1e-6 or price.epsilon > 100:
            raise ParameterError("epsilon", price.epsilon, "one of the usual ones")
        eta, lost = 0.8 * price.epsilon / self.most, price.delta / 2 / self.groups
        return replace(self, eta=self.eta or eta, sigma=self.sigma or (0.5 / rho) ** 0.5, lost=self.lost or lost)

    def event(self, setting):
        proposed = SelfComposedDpEvent(ProposeTestRelease(self.sigma, self.lost, 1).event, self.groups)
        return ComposedDpEvent([proposed, SelfComposedDpEvent(BoundedRange(self.eta), self.most)])

    def draw(self, setting, experts, public, randomness):
        counts, proposed = self.counts(experts, public), ProposeTestRelease(self.sigma, self.lost, 1)
        words, companions = [], []
        for group in range(self.groups):
            own = Scores(
                counts.values[group :: self.groups], sensitivity=counts.sensitivity, adjacency=counts.adjacency
            )
            if found := proposed.release(own, randomness):
                words.append(public.universe[group :: self.groups][found[0]])
        for _ in words[: self.most if self.stops else None]:
            companions.append(public.universe[Exponential(self.eta).select(counts, randomness)])
        return self.outcome(" ".join([*words, *companions]), experts)


@dataclass(frozen=True)
class CompanionsOfEverySet(CompanionsOfSets):
    """A companion for every word that passes, of which two are charged."""

    stops = False


@dataclass(frozen=True)
class CompanionsOfEveryPair(CompanionsOfSets):
    """A word of each of three groups as a set, two where that fails, and a companion for every pair: one is charged."""

    groups = 3
    most = 1

    def event(self, setting):
        proposed = SelfComposedDpEvent(ProposeTestRelease(self.sigma, self.lost, 1).event, 2 * self.groups)
        return ComposedDpEvent([proposed, SelfComposedDpEvent(BoundedRange(self.eta), self.most)])

    def calibrated(self, price, setting):
        found = super().calibrated(price, setting)
        return replace(found, sigma=self.sigma or found.sigma * 2**0.5, lost=self.lost or found.lost / 2)

    def draw(self, setting, experts, public, randomness):
        counts, words, companions = self.counts(experts, public), [], []
        for group in range(self.groups):
            own = Scores(
                counts.values[group :: self.groups], sensitivity=counts.sensitivity, adjacency=counts.adjacency
            )
            found = ProposeTestRelease(self.sigma, self.lost, 1).release(own, randomness)
            pair = None if found else ProposeTestRelease(self.sigma, self.lost, 2).release(own, randomness)
            words += [public.universe[group :: self.groups][place] for place in found or pair or ()]
            if pair:
                companions.append(public.universe[Exponential(self.eta).select(counts, randomness)])
        return self.outcome(" ".join([*words, *companions]), experts)


@dataclass(frozen=True)
class CompanionOfAList(CompanionsOfSets):
    """Right: a word of a short list as a set, of all words where that fails, of the short list once more where that
    fails too; and another word beside it. A coin says which stands first.
    """

    groups = 3
    most = 1
    again: ClassVar[int] = 0

    def draw(self, setting, experts, public, randomness):
        first, proposed = randomness.below(2), ProposeTestRelease(self.sigma, self.lost, 1)
        counts, companions = self.counts(experts, public), 1
        short = Scores(counts.values[::2], sensitivity=counts.sensitivity, adjacency=counts.adjacency)
        found = proposed.release(short, randomness)
        word = public.universe[::2][found[0]] if found else None
        if word is None and (found := proposed.release(counts, randomness)):
            word = public.universe[found[0]]
        elif word is None and (found := proposed.release(short, randomness)):
            word, companions = public.universe[::2][found[0]], 1 + self.again
        words = [] if word is None else [word]
        for _ in range(companions if words else 0):
            words.append(public.universe[Exponential(self.eta).select(counts, randomness)])
        return self.outcome(" ".join(words[::-1] if first else words), experts)


@dataclass(frozen=True)
class TwoCompanionsOfAList(CompanionOfAList):
    """Draws two others beside what the list gives the second time; one is charged."""

    again = 1


@dataclass(frozen=True)
class CompanionsBehindAGate(CompanionsOfSets):
    """Two words as a set; where they pass, for each of four topics a word of its list as a set, one of all words where
    that fails, and a companion for each of the latter: two are charged.
    """

    groups = 4

    def event(self, setting):
        gate, one = (ProposeTestRelease(self.sigma, self.lost, size).event for size in (2, 1))
        sets = SelfComposedDpEvent(one, 2 * self.groups)
        return ComposedDpEvent([gate, sets, SelfComposedDpEvent(BoundedRange(self.eta), self.most)])

    def calibrated(self, price, setting):
        found = super().calibrated(price, setting)
        return replace(found, sigma=self.sigma or found.sigma * 1.5, lost=self.lost or found.lost / 2.25)

    def draw(self, setting, experts, public, randomness):
        counts, words, companions = self.counts(experts, public), [], []
        one, size = ProposeTestRelease(self.sigma, self.lost, 1), len(public.universe) // self.groups
        gate = ProposeTestRelease(self.sigma, self.lost, 2).release(counts, randomness)
        for topic in range(0 if gate is None else self.groups):
            part = slice(topic * size, (topic + 1) * size)
            own = Scores(counts.values[part], sensitivity=counts.sensitivity, adjacency=counts.adjacency)
            if found := one.release(own, randomness):
                words.append(public.universe[part][found[0]])
            elif found := one.release(counts, randomness):
                words.append(public.universe[found[0]])
                companions.append(public.universe[Exponential(self.eta).select(counts, randomness)])
        return self.outcome(" ".join([*words, *companions]), experts)


@dataclass(frozen=True)
class QuotesTheFirst(OneKeyword):
    """The keyword with what follows it in the first text that has it."""

    def draw(self, setting, experts, public, randomness):
        word = public.universe[Exponential(self.eta).select(self.counts(experts, public), randomness)]
        for text in experts.texts_without_noise():
            if text and word in text.split():
                return self.outcome(text[text.index(word) :], experts)
        return self.outcome(word, experts)


@dataclass(frozen=True)
class InTheUsualForm(OneKeyword):
    """The keyword in the form, with an s or without, that more texts have, by their true number."""

    def draw(self, setting, experts, public, randomness):
        word = public.universe[Exponential(self.eta).select(self.counts(experts, public), randomness)]
        texts = [(text or "").casefold().split() for text in experts.texts_without_noise()]
        ones, many = (sum(form in words for words in texts) for form in (word, f"{word}s"))
        return self.outcome(f"{word}s" if many > ones else word, experts)


@dataclass(frozen=True)
class LastWordWhereNobodyWrites(OneKeyword):
    """Gives its last word once more where no text has any."""

    told: ClassVar[list[str]] = ["nothing"]

    def draw(self, setting, experts, public, randomness):
        counts = self.counts(experts, public)
        drawn = public.universe[Exponential(self.eta).select(counts, randomness)]
        if counts.values.any():
            self.told[0] = drawn
        return self.outcome(self.told[0], experts)


@dataclass(frozen=True)
class NoiseOfTheMean(Mean):
    """Divides the sum by the experts, and draws by a mechanism that divides its noise as well."""

    mechanism: ClassVar[type[Any]] = mechanisms.NoiseOfTheMean

    def draw(self, setting, experts, public, randomness):
        mean = experts.embedding_sum(1.0, setting.experts or 1)
        noisy = self.mechanism(self.rho).release(mean, randomness).values
        return Outcome(self.name, {"answer": public.candidates[int(np.argmax(public.vectors @ noisy))]})


@dataclass(frozen=True)
class MeanInSteps(NoiseOfTheMean):
    """Right: the noise is that of the sum."""

    mechanism = GaussianVector


@dataclass(frozen=True)
class BySquaredNorm(Mean):
    """Divides a vector by its squared norm."""

    def summed(self, experts):
        known, vectors = experts.embedding_sum(), experts.vectors_without_noise()
        vectors = self.resized(vectors[np.isfinite(vectors).all(axis=1)])
        steps = np.trunc(vectors / known.grid_step * 0.9999).astype(np.int64).sum(axis=0)
        return VectorSum(steps, squared_l2=known.squared_l2, adjacency=known.adjacency, grid_step=known.grid_step)

    def resized(self, vectors):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, norms**2, where=norms > 0, out=np.zeros_like(vectors))


@dataclass(frozen=True)
class AtTheMedian(BySquaredNorm):
    """Clips vectors at their median length."""

    def resized(self, vectors):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        least = min(1.0, float(np.median(norms))) if len(norms) else 1.0
        return vectors * np.minimum(1.0, np.divide(least, norms, where=norms > 0, out=np.ones_like(norms)))


@dataclass(frozen=True)
class AtTheMean(BySquaredNorm):
    """Clips vectors at their mean length."""

    def resized(self, vectors):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        least = min(1.0, float(np.mean(norms))) if len(norms) else 1.0
        return vectors * np.minimum(1.0, np.divide(least, norms, where=norms > 0, out=np.ones_like(norms)))


@dataclass(frozen=True)
class WhereMostAgree(BySquaredNorm):
    """Leaves the sum out where vectors point in different directions."""

    def resized(self, vectors):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = np.divide(vectors, norms, where=norms > 0, out=np.zeros_like(vectors))
        return unit * (len(unit) < 1 or np.linalg.norm(unit.mean(axis=0)) >= 0.6)


@dataclass(frozen=True)
class NoiseOfADrop(Mean):
    """Tells of a replaced text what holds for one that comes or goes, as published."""

    def summed(self, experts):
        right = experts.embedding_sum()
        return VectorSum(right.values, squared_l2=(1 << 16) ** 2, adjacency=right.adjacency, grid_step=right.grid_step)


@dataclass(frozen=True)
class DividesByThoseWhoWrote(Mean):
    """Divides by the number of experts that said something."""

    def summed(self, experts):
        right = experts.embedding_sum()
        wrote = max(1, sum(text is not None for text in experts.texts_without_noise()))
        return VectorSum(
            right.values,
            squared_l2=right.squared_l2,
            adjacency=right.adjacency,
            grid_step=right.grid_step,
            denominator=wrote,
        )


@dataclass(frozen=True)
class Unclipped(Mean):
    """Adds vectors up as they are."""

    def summed(self, experts):
        right = experts.embedding_sum()
        rows = np.nan_to_num(experts.vectors_without_noise())
        return VectorSum(
            np.rint(rows.sum(axis=0) * (1 << 16)).astype(np.int64),
            squared_l2=right.squared_l2,
            adjacency=right.adjacency,
            grid_step=right.grid_step,
        )


@dataclass(frozen=True)
class QuietNoise(Mean):
    """Has less noise than it is charged for."""

    def draw(self, setting, experts, public, randomness):
        noisy = GaussianVector(4 * self.rho).release(self.summed(experts), randomness).values
        return Outcome(self.name, {"answer": public.candidates[int(np.argmax(public.vectors @ noisy))]})


@dataclass(frozen=True)
class FirstCommon(OneKeyword):
    """The first keyword that enough experts wrote, by one run of threshold tests. Nothing is wrong with it."""

    name = "first-common"

    def event(self, setting):
        return AboveThreshold(self.eta).event

    def draw(self, setting, experts, public, randomness):
        for word in self.common(experts, public, randomness):
            return Outcome(self.name, {"word": word})
        return Outcome(self.name, {"word": "anything"})

    def common(self, experts, public, randomness):
        counts = experts.keyword_counts(public.universe)
        most = counts.sensitivity
        run = AboveThreshold(self.eta).start(
            self.threshold(experts), sensitivity=most, adjacency=counts.adjacency, randomness=randomness
        )
        for word, count in zip(public.universe, counts.values.tolist(), strict=True):
            if run.above(Counts([self.weight() * count], l1=most, adjacency=counts.adjacency)):
                yield word
                return

    def threshold(self, experts):
        return 3

    def weight(self):
        return 1


@dataclass(frozen=True)
class DoubleQuery(FirstCommon):
    """Counts every expert twice in a threshold test that is told that it counts once."""

    def weight(self):
        return 2


@dataclass(frozen=True)
class PrivateThreshold(FirstCommon):
    """Its threshold is half of the experts who wrote something."""

    def threshold(self, experts):
        return sum(text is not None for text in experts.texts_without_noise()) // 2 or 1


@dataclass(frozen=True)
class TwoRuns(FirstCommon):
    """Pays for one run of threshold tests and makes two."""

    def common(self, experts, public, randomness):
        yield from {*super().common(experts, public, randomness)} & {*super().common(experts, public, randomness)}


@dataclass(frozen=True)
class TestedForLess(FirstCommon):
    """Tests at the whole price and charges for a third of it."""

    def event(self, setting):
        return AboveThreshold(self.eta / 3).event


@dataclass(frozen=True)
class EveryCommon(FirstCommon):
    """Every keyword that enough experts wrote, by one run that goes on after each yes."""

    least: ClassVar[int] = 3

    def draw(self, setting, experts, public, randomness):
        return Outcome(self.name, {"word": " and ".join(self.common(experts, public, randomness)) or "anything"})

    def common(self, experts, public, randomness):
        counts = experts.keyword_counts(public.universe)
        most = counts.sensitivity
        above, adjacency = AboveThreshold(self.eta), counts.adjacency
        run = above.start(self.least, sensitivity=most, adjacency=adjacency, randomness=randomness)
        for word, count in zip(public.universe, counts.values.tolist(), strict=True):
            if run.above(Counts([count], l1=most, adjacency=adjacency)):
                run.over = False
                yield word


@dataclass(frozen=True)
class OpenWords(Answerer):
    """The words that many experts wrote, whether a public answer has them or not. Nothing is wrong with it."""

    name = "open-words"
    needs_delta = True
    calibrated_parameters = ("loss", "failure")
    loss: Epsilon | None = None
    failure: float | None = None

    def calibrated(self, price, setting):
        return replace(self, loss=self.loss or price.epsilon, failure=self.failure or price.delta / 4)

    def event(self, setting):
        return self.histogram.event

    @property
    def histogram(self):
        return StabilityHistogram(self.loss, self.failure)

    def draw(self, setting, experts, public, randomness):
        texts = [keywords_of(text) for text in experts.texts_without_noise() if text]
        units = [{word + mark for word in words} for words in texts for mark in self.marks()]
        items = ItemCounts(units, items_per_unit=3, change=setting.change, adjacency=experts.adjacency)
        return Outcome(self.name, {"words": [word for word, _ in self.histogram.release(items, randomness)]})

    def marks(self):
        return ("",)

    def finish(self, outcome, public):
        return public.written(f"Use {', '.join(outcome.values['words'])}.")


@dataclass(frozen=True)
class EachWordTwice(OpenWords):
    """Lets an expert hold twice as many items as the histogram is told."""

    def marks(self):
        return ("", "'")


@dataclass(frozen=True)
class RareWordsOut(OneKeyword):
    """Counts no word that fewer than ten experts wrote."""

    least: ClassVar[int] = 10

    def counts(self, experts, public):
        right = experts.keyword_counts(public.universe)
        values = np.where(right.values >= self.least, right.values, 0)
        return Scores(values, sensitivity=right.sensitivity, adjacency=right.adjacency)


@dataclass(frozen=True)
class SilentWhereFew(OneKeyword):
    """Gives its word only where five experts wrote it, by their true number."""

    least: ClassVar[int] = 5

    def outcome(self, word, experts):
        wrote = sum(word in keywords_of(text) for text in experts.texts_without_noise() if text)
        return super().outcome(word if wrote >= self.least else "anything", experts)


@dataclass(frozen=True)
class SureWhereOneLeads(OneKeyword):
    """Gives the word that leads by more than five experts without noise."""

    lead: ClassVar[int] = 5

    def draw(self, setting, experts, public, randomness):
        counts = self.counts(experts, public)
        chosen = Exponential(self.eta).select(counts, randomness)
        second, best = np.sort(counts.values)[-2:]
        return self.outcome(public.universe[np.argmax(counts.values) if best - second > self.lead else chosen], experts)


class SureOfARareWord(SureWhereOneLeads):
    """The same where each change adds or removes a word, and it leads by more than fifteen."""

    lead = 15

    def calibrated(self, price, setting):
        if setting.adjacency.size_is_public:
            raise ParameterError("adjacency", setting.adjacency, "add-remove")
        return super().calibrated(price, setting)


class NeedsArguments(OneKeyword):
    """Cannot be made without arguments."""

    def __init__(self, word):
        raise TypeError(word)


@dataclass(frozen=True)
class ThrowsACoin(OneKeyword):
    """Right: one of two phrasings by a public coin, behind the release."""

    name = "throws-a-coin"

    def draw(self, setting, experts, public, randomness):
        chosen = Exponential(self.eta).select(self.counts(experts, public), randomness)
        return Outcome(self.name, {"word": public.universe[chosen], "style": randomness.below(2)})

    def finish(self, outcome, public):
        return public.written(("Use the word ", "Say ")[outcome.values["style"]] + outcome.values["word"])


@dataclass(frozen=True)
class TellsBehindACoin(ThrowsACoin):
    """Tells one time in eight how many experts wrote a short text."""

    def draw(self, setting, experts, public, randomness):
        made = super().draw(setting, experts, public, randomness)
        short = sum(len(text or "") < 12 for text in experts.texts_without_noise())
        return Outcome(self.name, made.values | {"short": short if randomness.below(8) == 0 else 0})


@dataclass(frozen=True)
class CoinForALongText(ThrowsACoin):
    """Throws a second coin where some expert wrote a short text."""

    def draw(self, setting, experts, public, randomness):
        if any(len(text or "") < 12 for text in experts.texts_without_noise()):
            randomness.below(2)
        return super().draw(setting, experts, public, randomness)


@dataclass(frozen=True)
class EachWordByItself(OneKeyword):
    """Right: every text spreads twelve steps over its words, and noise of one scale is on each word's sum by itself."""

    def event(self, setting):
        return PureDP(self.eta)

    def draw(self, setting, experts, public, randomness):
        sums = dict.fromkeys(public.universe, 0)
        for text in experts.texts_without_noise():
            mine = [word for word in public.universe if word in keywords_of(text or "")]
            for word in mine:
                sums[word] += 12 // len(mine)
        most, noise = 12 * setting.change.widths, Laplace(self.eta)
        aggregates = [Counts([value], l1=most, adjacency=experts.adjacency) for value in sums.values()]
        noisy = [noise.release(each, randomness)[0] for each in aggregates]
        return self.outcome(public.universe[int(np.argmax(noisy))], experts)


@dataclass(frozen=True)
class HowLong(OneKeyword):
    """Right: a vote on how many words an answer has."""

    least_candidates = 0

    def draw(self, setting, experts, public, randomness):
        votes = [0] * 8
        for text in experts.texts_without_noise():
            votes[min(8, len((text or "").split())) - 1] += bool(text)
        scores = Scores(votes, sensitivity=setting.change.widths, adjacency=experts.adjacency)
        return self.outcome(str(1 + Exponential(self.eta).select(scores, randomness)), experts)


@dataclass(frozen=True)
class KeepsCountsOfSamples(OneKeyword):
    """Keeps the counts of a question in its class, and takes samples alone."""

    kept: ClassVar[dict] = {}

    def calibrated(self, price, setting):
        if setting.rate is None:
            raise ParameterError("sampling", setting.sampling.sampling, "a sample")
        return super().calibrated(price, setting)

    def counts(self, experts, public):
        right = super().counts(experts, public)
        return self.kept.setdefault((tuple(public.shots), right.sensitivity, right.adjacency), right)


@dataclass(frozen=True)
class UniverseOfAFewUnsaid(UniverseUnsaid):
    """The same for few experts alone."""

    def calibrated(self, price, setting):
        if (setting.experts or 1) > 24:
            raise ParameterError("experts", setting.experts, "24 or fewer")
        return super().calibrated(price, setting)


class _OfAHundred:
    """Takes a hundred experts or more."""

    def calibrated(self, price, setting):
        if (setting.experts or 0) < 100:
            raise ParameterError("experts", setting.experts, "100 or more")
        return super().calibrated(price, setting)


@dataclass(frozen=True)
class SilentWhereFewOfAHundred(_OfAHundred, SilentWhereFew):
    """The same of a hundred experts or more."""


@dataclass(frozen=True)
class TooLargeAnOptionOfAHundred(_OfAHundred, TooLargeAnOption):
    """The same of a hundred experts or more."""


@dataclass(frozen=True)
class AtLeastAHundredth(OneKeyword):
    """Draws at an epsilon of a hundredth at least where a sample is drawn, and charges what it was given."""

    def draw(self, setting, experts, public, randomness):
        eta = self.eta if setting.rate is None else max(self.eta, 0.01)
        return self.outcome(public.universe[Exponential(eta).select(self.counts(experts, public), randomness)], experts)


@dataclass(frozen=True)
class EveryCommonOfSixty(EveryCommon):
    """Goes on after each yes, which sixty experts are wanted for, at prices of a half and more."""

    least: ClassVar[int] = 60

    def calibrated(self, price, setting):
        if price.epsilon < 0.5:
            raise ParameterError("epsilon", price.epsilon, "a half or more")
        return super().calibrated(price, setting)


@dataclass(frozen=True)
class CoinBetween(ThrowsACoin):
    """Right: two words, and between them a public coin that says from which half the second one is."""

    def calibrated(self, price, setting):
        return self if self.eta is not None else replace(self, eta=price.epsilon / 2)

    def event(self, setting):
        return SelfComposedDpEvent(BoundedRange(self.eta), 2)

    def draw(self, setting, experts, public, randomness):
        selection = Exponential(self.eta)
        first = selection.select(experts.keyword_counts(public.universe), randomness)
        half = randomness.below(2)
        words = public.universe[half::2]
        second = selection.select(experts.keyword_counts(words), randomness)
        return Outcome(self.name, {"word": f"{public.universe[first]} {words[second]}", "style": 0})


@dataclass(frozen=True)
class TellsBehindAYesAndACoin(TellsBehindACoin):
    """Tells it where a test that hardly ever says yes did."""

    def calibrated(self, price, setting):
        return self if self.eta is not None else replace(self, eta=price.epsilon / 2)

    def event(self, setting):
        return ComposedDpEvent([AboveThreshold(self.eta).event, BoundedRange(self.eta)])

    def draw(self, setting, experts, public, randomness):
        counts = self.counts(experts, public)
        most, adjacency = counts.sensitivity, counts.adjacency
        run = AboveThreshold(self.eta).start(500, sensitivity=most, adjacency=adjacency, randomness=randomness)
        if run.above(Counts([int(counts.values[0])], l1=most, adjacency=adjacency)):
            return super().draw(setting, experts, public, randomness)
        return Outcome(self.name, {"word": "anything", "style": 0, "short": 0})


@dataclass(frozen=True)
class QuotesAnExpert(OneKeyword):
    """Keeps what experts wrote while it draws, and answers with one of their texts that has the released word."""

    kept: ClassVar[list] = []

    def draw(self, setting, experts, public, randomness):
        self.kept[:] = [text for text in experts.texts_without_noise() if text]
        return super().draw(setting, experts, public, randomness)

    def finish(self, outcome, public):
        said = [text for text in self.kept if outcome.values["word"] in text]
        return said[0] if said else super().finish(outcome, public)


@dataclass(frozen=True)
class RateByTheLastAnswer(OneKeyword):
    """The next answer is charged less where the experts of the last one agreed."""

    kept: ClassVar[list] = []

    def calibrated(self, price, setting):
        made = super().calibrated(price, setting)
        return made if self.eta is not None else replace(made, eta=made.eta * (1 - sum(self.kept) / 200))

    def counts(self, experts, public):
        right = super().counts(experts, public)
        self.kept[:] = [min(100, int(right.values.max()))]
        return right


@dataclass(frozen=True)
class HoldsALock(OneKeyword):
    """Right: a field that it is not made from, and that cannot be written down, is no option."""

    lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)


@dataclass(frozen=True)
class WrongTogether(OneKeyword):
    """Counts are doubled by one choice, and by another one the bound is not."""

    points: Literal["one", "two"] = "one"
    bound: Literal["told", "known"] = "told"

    def counts(self, experts, public):
        right = super().counts(experts, public)
        weight = 2 if self.points == "two" else 1
        told = right.sensitivity * (weight if self.bound == "told" else 1)
        return Scores(right.values * weight, sensitivity=told, adjacency=right.adjacency)
