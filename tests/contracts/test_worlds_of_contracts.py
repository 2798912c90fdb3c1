"""What is public varies in the worlds of the contracts, and the vectors that the page names are in them."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from contracts.wrong import fitters
from contracts.wrong.mechanisms import NoiseOfTheMean, UnstatedVariance
from sottovoce.errors import InputError
from sottovoce.experts.sampling import ALL, CATEGORICAL, CELLS, SAMPLINGS, ExpertSampling
from sottovoce.mechanisms.above_threshold import AboveThreshold
from sottovoce.mechanisms.base import registered
from sottovoce.mechanisms.gaussian import GaussianVector
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.stability_histogram import StabilityHistogram
from sottovoce.privacy.aggregates import VectorSum
from sottovoce.privacy.events import GaussianDpEvent, PureDP, ZCDpEvent
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing import ContractError, answer_worlds, check_fitter, check_mechanism, draw_tape, fit_worlds
from sottovoce.testing.draw_losses import event_of, loss_of
from sottovoce.testing.draw_tape import AGGREGATES, Draw
from sottovoce.testing.fit_draws import EXTREMES, deviation_of

PRIVATE = {"values", "counts"}
PAGE = Path(__file__).parents[2] / "docs" / "contract-worlds.md"
EACH_KIND = (PermuteAndFlip(0.7), GaussianVector(0.05), Laplace(0.7), StabilityHistogram(0.7, 1e-3))


class Labelled:
    """An aggregate with one public field more, which nothing varies."""

    __slots__ = ("bound", "epoch", "values")

    def __init__(self, bound, epoch=0):
        self.values, self.bound, self.epoch = [1], bound, epoch


def noted(monkeypatch, kinds) -> dict[type, list[dict[str, str]]]:
    """Public fields of every aggregate that is made, in words."""
    made: dict[type, list[dict[str, str]]] = {kind: [] for kind in kinds}
    for kind in kinds:

        def init(self, *given, _kind=kind, _real=kind.__init__, **named):
            _real(self, *given, **named)
            public = [name for name in _kind.__slots__ if name not in PRIVATE]
            made[_kind].append({name: repr(getattr(self, name)) for name in public})

        init.__signature__ = inspect.signature(kind.__init__)
        monkeypatch.setattr(kind, "__init__", init)
    return made


def fixed(kind: type, made: list[dict[str, str]]) -> set[str]:
    """Public fields that have one value, or never the one that they have where nothing is said."""
    defaults = {p.name: repr(p.default) for p in inspect.signature(kind.__init__).parameters.values()}
    alike = {name for name in made[0] if len({each[name] for each in made}) < 2}
    empty = repr(inspect.Parameter.empty)
    said = {name for name in made[0] if defaults.get(name, empty) not in {empty, *(each[name] for each in made)}}
    return alike | said


@pytest.mark.slow
def test_every_public_field_of_an_aggregate_varies_in_the_worlds_of_mechanisms(monkeypatch):
    made = noted(monkeypatch, AGGREGATES)
    for mechanism in EACH_KIND:
        check_mechanism(mechanism)
    assert {kind.__name__: fixed(kind, made[kind]) for kind in AGGREGATES} == {
        kind.__name__: set() for kind in AGGREGATES
    }


def test_a_public_field_that_is_added_and_not_varied_is_found(monkeypatch):
    made = noted(monkeypatch, [Labelled])
    _ = Labelled(1), Labelled(2)
    assert fixed(Labelled, made[Labelled]) == {"epoch"}
    _ = Labelled(1, 5), Labelled(1, 6)
    assert fixed(Labelled, made[Labelled]) == set()
    made[Labelled] = made[Labelled][2:]
    assert fixed(Labelled, made[Labelled]) == {"bound", "epoch"}, "one bound, and never the default"


@pytest.mark.slow
def test_thresholds_and_bounds_of_runs_vary_in_laws_and_draws(monkeypatch):
    asked: dict[str, set[tuple[int, int]]] = {"law": set(), "start": set()}
    law, start = AboveThreshold.law, AboveThreshold.start

    def noted_law(self, queries, threshold, sensitivity):
        asked["law"].add((threshold, sensitivity))
        return law(self, queries, threshold, sensitivity)

    def noted_start(self, threshold: int, *, sensitivity, adjacency, randomness: draw_tape.Randomness):
        asked["start"].add((threshold, sensitivity))
        return start(self, threshold, sensitivity=sensitivity, adjacency=adjacency, randomness=randomness)

    monkeypatch.setattr(AboveThreshold, "law", noted_law)
    monkeypatch.setattr(AboveThreshold, "start", noted_start)
    check_mechanism(AboveThreshold(0.7))
    for pairs in asked.values():
        assert all(len({pair[place] for pair in pairs}) >= 2 for place in (0, 1))


# Noise in another unit than steps


def drawn(mechanism, values, **given) -> Draw:
    return Draw(mechanism, VectorSum(values, squared_l2=4, adjacency=Adjacency.REPLACE_ONE, **given), (), None)


def test_a_sum_costs_what_the_variance_of_its_noise_shows():
    # Worked by hand: a move of 2 under a variance of 4 / (2 rho) = 40 costs rho 0.05. The variance divided by 100
    # squared is 0.004; two laws 2 apart have chi squared of 1,000 at least, so 2 rho is log(1001) at least.
    right, wrong = (
        [drawn(kind(0.05), at, denominator=100) for at in ([0], [2])] for kind in (GaussianVector, NoiseOfTheMean)
    )
    assert loss_of(*right) == ZCDpEvent(0.05) == event_of(right[0])
    assert loss_of(*wrong).rho == pytest.approx(np.log(1001) / 2, rel=1e-9)
    assert event_of(wrong[0]) == loss_of(*wrong)


@pytest.mark.parametrize(
    ("event", "same"), [(GaussianDpEvent(0.5), GaussianDpEvent(0.5)), (PureDP(2.0), PureDP(2.0))], ids=repr
)
def test_whatever_a_vector_is_charged_as_its_variance_is_looked_at(event, same):
    class Charged(UnstatedVariance):
        variance = 1000.0

        @property
        def event(self):
            return event

        def noise_variance(self, vector):
            return self.variance

    assert event_of(drawn(Charged(1.0), [0])) == same
    Charged.variance = 1e-6
    lost = event_of(drawn(Charged(1.0), [0]))
    found = lost.epsilon if isinstance(lost, PureDP) else lost.noise_multiplier**-2
    assert found == pytest.approx(np.log1p(4e6), rel=1e-9)


def test_a_vector_mechanism_without_a_variance_is_refused_in_words():
    unstated = drawn(UnstatedVariance(0.05), [0])
    for told in (EXTREMES[0], lambda _, draw: deviation_of(draw)):
        with pytest.raises(ContractError, match=r"squared grid steps, as noise_variance\(vector\)") as failed:
            told(0, unstated)
        assert failed.value.contract == "drive"
    assert event_of(unstated) == ZCDpEvent(0.05)


def test_a_variance_that_is_no_number_is_refused_in_words():
    class OfEach(UnstatedVariance):
        def noise_variance(self, vector):
            return [1.0] * len(vector.values)

    each = drawn(OfEach(0.05), [0, 0])
    for read in (event_of, deviation_of):
        with pytest.raises(ContractError, match="is no number; state the variance on one number"):
            read(each)


@pytest.mark.slow
def test_a_fitter_that_draws_by_it_is_refused_in_words(monkeypatch):
    assert check_mechanism(UnstatedVariance(0.05)).passed
    every = {**registered(), "unstated": (UnstatedVariance, {"rho": 0.05})}
    monkeypatch.setattr(draw_tape, "registered", lambda: every)
    with pytest.raises(ContractError, match=r"squared grid steps, as noise_variance\(vector\)") as failed:
        check_fitter(fitters.NoiseOfUnstatedVariance)
    assert failed.value.contract == "drive"


# Vectors that the page names


Vectors = dict[str, tuple[float, ...]]


def lengths(vectors: Vectors) -> list[float]:
    return [float(np.linalg.norm(vector)) for vector in vectors.values()]


def has_opposites(vectors: Vectors) -> bool:
    said = [np.array(vector) for vector in vectors.values() if np.isfinite(vector).all()]
    return any(np.array_equal(one, -other) and one.any() for one in said for other in said)


KINDS: dict[str, Callable[[Vectors], bool]] = {
    "unit vectors": lambda vectors: any(abs(length - 1) < 1e-9 for length in lengths(vectors)),
    "opposite ones": has_opposites,
    "ones far too long": lambda vectors: any(length > 1_000 for length in lengths(vectors)),
    "short ones": lambda vectors: any(0 < length < 0.2 for length in lengths(vectors)),
    "zero vectors": lambda vectors: 0.0 in lengths(vectors),
    "ones that say nothing": lambda vectors: any(map(math.isnan, lengths(vectors))),
}


def listed(kind: str) -> list[str]:
    """The kinds of vectors that the page names for fitters or for answerers."""
    section = PAGE.read_text("utf-8").split(f"\n## {kind}\n")[1].split("\n## ")[0]
    (said,) = re.findall(r"^- \*\*Vectors\*\* are (.*?)\.\s", section, re.DOTALL | re.M)
    return re.split(r", | and ", " ".join(said.split()))


def used(kind: str) -> Vectors:
    """Vectors of what changes in the worlds that are compared: of a unit's first record, or of a text."""
    if kind == "Answerers":
        data, _ = answer_worlds.neighbourhoods(answer_worlds.RELATIONS[0], 4)
        return {world[-1]: answer_worlds.VECTORS[world[-1]] for world in data if world[-1]}
    data, _ = next(fit_worlds.neighbourhoods(fit_worlds.RELATIONS[0]))
    return {world[-1][0][0]: fit_worlds.VECTORS[world[-1][0][0]] for world in data}


@pytest.mark.parametrize("kind", ["Fitters", "Answerers"])
def test_the_worlds_have_the_kinds_of_vectors_that_the_page_names_and_no_others(kind):
    assert listed(kind) == [*KINDS]
    assert [words for words, known in KINDS.items() if not known(used(kind))] == []


def test_a_kind_of_vector_that_is_in_no_world_is_found():
    left = {name: vector for name, vector in fit_worlds.VECTORS.items() if name not in ("zero", "short")}
    assert [words for words, known in KINDS.items() if not known(left)] == ["short ones", "zero vectors"]


def test_the_middle_length_of_vectors_changes_on_a_ladder():
    # What clips at the median of all lengths reads others there. (Rules of fitters are held against single units.)
    middles = []
    for rungs in answer_worlds.climbed(answer_worlds.RELATIONS[0]):
        lengths = [[np.linalg.norm(answer_worlds.vector_of(text)) for text in world] for world in rungs]
        middles.append([float(np.nanmedian(lengths[place])) for place in (0, 12, 23)])
    assert [m for m in middles if m[0] != m[2]] == [pytest.approx((1.0, 0.55, 0.1))]
    directions = [
        {answer_worlds.vector_of(text)[0] for text in rungs[12]}
        for rungs in answer_worlds.climbed(answer_worlds.RELATIONS[0])
    ]
    assert {1.0, -1.0} in directions


def test_answerers_are_compared_under_every_change_that_experts_can_have():
    possible = set()
    for adjacency, sampling, shots, experts in itertools.product(Adjacency, (*SAMPLINGS, CELLS), (1, 4), (None, 6)):
        rate = 0.25 if sampling == CATEGORICAL else None
        with suppress(InputError):
            made = ExpertSampling(shots=shots, experts=experts, sampling=sampling, rate=rate)
            possible.add((adjacency, sampling if made.is_fresh else ALL, made.change(adjacency)))
    compared = set()
    for relation in answer_worlds.RELATIONS:
        setting, made = relation.setting(4, 4, 4), relation.sampling
        compared.add((relation.adjacency, made.sampling if made.is_fresh else ALL, setting.change))
    assert compared == possible
    assert len(possible) == 9


def test_two_experts_change_together_where_one_change_reaches_two():
    (both,) = [relation for relation in answer_worlds.RELATIONS if relation.sampling.sampling == CELLS]
    data, pairs = answer_worlds.neighbourhoods(both, 4)
    assert all(one[:2] == other[:2] and one[2:] != other[2:] for one, other in ((data[i], data[j]) for i, j in pairs))
    assert {len({*world[2:]}) for world in data} == {1}
