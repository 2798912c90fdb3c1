"""Scores joined to canaries by id, and a choice of threshold that cannot see what certifies it.

A threshold, an attack or a wording that is chosen on the runs that certify it gives a positive "95 % bound" on nothing
in a third of all audits (specification 10.8). Here the order is the only one that there is: ``Split`` halves the trials
by chance, ``choose`` shows one half to a rule, and the ``Choice`` that comes back counts the other half, once.

Guarantee   A rule sees scores and truths of the selecting half alone. Counts come from the other half, through the
            rule's own result, fixed before; nothing can be chosen after they were seen.
Assumes     Trials are independent of each other. ``draws`` is independent of the scores.
Sources     specification 10.8.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, final

import numpy as np

from sottovoce.audits.bounds import ALPHA, Rates, epsilon_of_rates
from sottovoce.audits.roc import BoolArray, Draws, FloatArray
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import ParameterError
from sottovoce.parameters import Number
from sottovoce.records.sealed import Opaque

_SHARE: Final = Number(0, 1, above_least=True, below_most=True)
_MOST_TRIED: Final = 200
"""Thresholds that are tried; of more scores some are left out."""
_LEVELS: Final = 13
"""Levels at which thresholds are compared; below, limits are lost to rounding."""
T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False)
class Trials:
    """Trials with the truth of each: what ``joined`` makes.

    Attributes:
        ids: Of the canaries, in order.
        scores: Higher for "present", shape (trials,).
        present: Whether the secret was present, shape (trials,).
    """

    ids: tuple[str, ...] = field(repr=False)
    scores: FloatArray = field(repr=False)
    present: BoolArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    def rates(self, threshold: float) -> Rates:
        """What a fixed threshold counts: "present" is guessed at or above it.

        Raises:
            ParameterError: The secret was never absent, or never present.
        """
        said = self.scores >= threshold
        return Rates(
            int((said & ~self.present).sum()),
            int((~self.present).sum()),
            int((~said & self.present).sum()),
            int(self.present.sum()),
        )

    def one_run(self, guesses: int) -> tuple[int, int, int]:
        """Canaries, guesses and right guesses of one run: the scores furthest from the middle are guessed on.

        A score's side of the median says which way. Equal distances are taken as they stand, in the order of
        ``joined``, which no id can bend.

        Raises:
            ParameterError: More guesses than canaries.
        """
        count: int = Number(1, len(self), whole=True).read("guesses", guesses)
        apart = self.scores - np.median(self.scores)
        surest = np.abs(apart).argsort(kind="stable")[::-1][:count]
        return len(self), count, int(((apart > 0) == self.present)[surest].sum())

    def only(self, chosen: BoolArray) -> Trials:
        """Some of them."""
        ids = tuple(name for name, kept in zip(self.ids, chosen.tolist(), strict=True) if kept)
        return Trials(ids, self.scores[chosen], self.present[chosen])


def joined(scores: Mapping[str, float], present: Mapping[str, bool]) -> Trials:
    """Joins scores to truths by the id of the canary; the order in which either came does not matter.

    The order is that of a hash of the ids: names such as "in-1" would otherwise put present canaries together.

    Args:
        scores: By id, higher for "present".
        present: By id: whether the secret was present.

    Raises:
        ParameterError: An id is in one alone, a score is NaN, or there is none.

    Example:
        >>> trials = joined({"b": 0.1, "a": 0.9}, {"a": True, "b": False})
        >>> trials.ids, trials.scores.tolist(), trials.present.tolist()
        (('b', 'a'), [0.1, 0.9], [False, True])
    """
    lonely = sorted(set(scores) ^ set(present))
    if lonely or not scores:
        limit = "the same ids in scores and truths, 1 or more; join what belongs together by the canary's id"
        raise ParameterError("ids", f"{lonely[0]!r} in one of them alone" if lonely else "none", limit)
    ids = tuple(sorted(scores, key=lambda name: hashlib.sha256(name.encode()).digest()))
    values = np.array([scores[name] for name in ids], dtype=np.float64)
    if unread := int(np.isnan(values).sum()):
        raise ParameterError("scores", f"NaN {unread} times", "a number for every canary")
    truths = [present[name] for name in ids]
    if not all(isinstance(truth, bool | np.bool_) for truth in truths):
        raise ParameterError("present", "a value that is not true or false", "true or false for every canary")
    return Trials(ids, values, np.array(truths, dtype=bool))


@final
class Split(Opaque):
    """Trials in two halves, of which one is for choosing and the other for certifying.

    Args:
        trials: All of them.
        draws: A seeded generator, which says which half each is in.
        share: Of the trials that choose.

    Raises:
        ParameterError: A half would be empty.

    Example:
        >>> trials = joined({f"c{i}": i % 2 for i in range(100)}, {f"c{i}": i % 2 == 1 for i in range(100)})
        >>> choice = Split(trials, np.random.default_rng(1)).choose(best_threshold)
        >>> choice.chosen, choice.rates().false_positives
        (0.5, 0)
    """

    __slots__ = ("_certifying", "_chosen", "_selecting", "_size")

    def __init__(self, trials: Trials, draws: Draws, share: float = 0.5) -> None:
        size = round(_SHARE.read("share", share) * len(trials))
        if not 0 < size < len(trials):
            raise ParameterError("share", share, f"such that both parts of {len(trials)} trials hold 1 or more")
        selecting = draws.random(len(trials)).argsort(kind="stable").argsort(kind="stable") < size
        self._selecting, self._certifying = trials.only(selecting), trials.only(~selecting)
        self._size, self._chosen = size, False

    def choose(self, rule: Callable[[Trials], T]) -> Choice[T]:
        """Shows the selecting half to a rule, once, and fixes what it says.

        Args:
            rule: From trials to whatever is chosen, such as a threshold.

        Raises:
            ParameterError: A choice was made before: a second one could follow from the first one's counts.
        """
        if self._chosen:
            raise ParameterError("choose", "a second choice", "one: split the trials of another audit for another one")
        self._chosen = True
        return Choice(rule(self._selecting), self._certifying)

    def _public_face(self) -> str:
        return f"{self._size} trials to choose, {len(self._certifying)} to certify"


@final
class Choice(Opaque, Generic[T]):
    """What was chosen, and the trials that certify it. It counts them once.

    Attributes:
        chosen: What the rule said.
    """

    __slots__ = ("_certifying", "_counted", "chosen")

    def __init__(self, chosen: T, certifying: Trials) -> None:
        self.chosen, self._certifying, self._counted = chosen, certifying, False

    def certify(self, count: Callable[[Trials, T], object]) -> object:
        """Hands the certifying trials and the choice to what counts them, once.

        Raises:
            ParameterError: They were counted before.
        """
        if self._counted:
            raise ParameterError("certify", "a second count", "one for each choice: what was counted stays counted")
        self._counted = True
        return count(self._certifying, self.chosen)

    def rates(self) -> Rates:
        """The counts of a chosen threshold.

        Raises:
            ParameterError: What was chosen is no threshold, or the trials were counted before.
        """
        threshold = Number(-np.inf).read("threshold", self.chosen)
        counted = self.certify(lambda trials, _: trials.rates(threshold))
        if not isinstance(counted, Rates):
            raise AssertionError("a threshold counts rates")
        return counted

    def _public_face(self) -> str:
        return f"{len(self._certifying)} trials to certify"


def best_threshold(trials: Trials, delta: float = 0.0, alpha: float = ALPHA) -> float:
    """The threshold with the largest bound on the trials that choose; of equal ones the least.

    Thresholds lie between two scores that occur, so that certifying trials with the same scores fall on the same side.
    """
    return max(_thresholds(trials), key=lambda threshold: epsilon_of_rates(trials.rates(threshold), delta, alpha))


def threshold_against(trials: Trials, curve: TradeOff, alpha: float = ALPHA) -> float:
    """The threshold that refutes a curve most surely on the trials that choose.

    It is the one whose limits are furthest below the curve at the least of the levels alpha, alpha / 10, alpha / 100,
    ... at which any threshold refutes it. It suits a test of the claim's own curve (``bounds.refutes``).

    Raises:
        ParameterError: The secret was never absent, or never present, among the trials that choose.
    """
    from scipy.stats import beta

    tried = np.array(_thresholds(trials))
    absent, present = np.sort(trials.scores[~trials.present]), np.sort(trials.scores[trials.present])
    if not absent.size or not present.size:
        raise ParameterError(
            "present", f"{present.size} of {len(trials)}", "both, present and absent, among the trials"
        )
    positives = absent.size - np.searchsorted(absent, tried, side="left")
    missed = np.searchsorted(present, tried, side="left")

    def margins(level: float) -> FloatArray:
        limits = [
            np.where(count < runs, beta.ppf(1 - level / 2, count + 1.0, np.maximum(runs - count, 1)), 1.0)
            for count, runs in ((positives, absent.size), (missed, present.size))
        ]
        return np.asarray(curve.fnr(limits[0]) - limits[1])

    ahead = margins(alpha)
    for power in range(1, _LEVELS):
        sharper = margins(alpha / 10**power)
        if sharper.max() <= 0:
            break
        ahead = sharper
    return float(tried[int(np.argmax(ahead))])


def _thresholds(trials: Trials) -> list[float]:
    """Between two scores that occur, each; some of them where there are many."""
    distinct = np.unique(trials.scores)
    tried = [float(distinct[0]), *((distinct[1:] + distinct[:-1]) / 2).tolist()]
    if len(tried) > _MOST_TRIED:
        tried = [tried[int(place)] for place in np.linspace(0, len(tried) - 1, _MOST_TRIED)]
    return tried
