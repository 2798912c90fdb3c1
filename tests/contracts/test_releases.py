"""Which method draws, from what, and what it may be given besides: by annotations and parameters."""

from __future__ import annotations

import pytest

from contracts.wrong import mechanisms, typed
from sottovoce.mechanisms.base import registered
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.laplace import Laplace
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.privacy.aggregates import Counts, Scores
from sottovoce.privacy.points import PrivatePoints
from sottovoce.randomness import Randomness
from sottovoce.testing import ContractError, check_mechanism
from sottovoce.testing.releases import given_prior, prior_of, release_of, require_comparable


class Static(PermuteAndFlip):
    @staticmethod
    def law(scores, prior, /):
        return prior

    def select(self, scores, randomness, prior=None):
        return prior


class NoPriorInItsLaw(Exponential):
    def law(self, scores):
        return super().law(scores)


class TwoPriorsInItsLaw(Exponential):
    def law(self, scores, first_prior=None, second_prior=None):
        return super().law(scores, first_prior)


class LightClustering(DPM):
    def cluster(self, points: PrivatePoints, randomness: Randomness, public=None, light: bool = False):
        return super().cluster(points, randomness, public)


class CalledLightly(Laplace):
    def __call__(self, counts: Counts, randomness: Randomness) -> tuple[int, ...]:
        return Laplace(2 * self.epsilon).release(counts, randomness)


class AnyLaw(Exponential):
    def law(self, *given, **named):
        return super().law(*given, **named)


@pytest.mark.parametrize(
    ("mechanism", "law", "draw"),
    [
        (Exponential, "log_prior", "log_prior"),
        (mechanisms.PriorWithoutAnnotations, "log_prior", "prior"),
        (mechanisms.PriorBesideAnother, "log_prior", "prior"),
        (Static, "prior", "prior"),
    ],
)
def test_a_prior_is_what_both_may_take_besides_by_its_name(mechanism, law, draw):
    found = prior_of(mechanism, "select")
    assert (found.law.name, found.draw.name) == (law, draw)


@pytest.mark.parametrize("mechanism", [PermuteAndFlip, mechanisms.FewCandidates])
def test_there_is_no_prior_where_nothing_is_drawn_beside_one(mechanism):
    assert prior_of(mechanism, "select") is None


@pytest.mark.parametrize(
    ("mechanism", "besides"),
    [
        (mechanisms.WhateverComes, r"\*given"),
        (mechanisms.PriorByAnotherName, "weights"),
        (mechanisms.PriorOfItsLawToo, "weights"),
        (mechanisms.MaskBesideAPrior, "log_prior, allowed"),
        (mechanisms.LawWithDigits, "log_prior"),
        (mechanisms.PriorWithoutLaw, "prior"),
        (NoPriorInItsLaw, "log_prior"),
        (TwoPriorsInItsLaw, "log_prior"),
        (AnyLaw, "log_prior"),
    ],
)
def test_what_a_draw_may_be_given_besides_is_refused_with_what_to_do(mechanism, besides):
    with pytest.raises(ContractError, match=f"its select may be given {besides} besides, .* a field of ") as failed:
        require_comparable(mechanism)
    assert failed.value.contract == "drive"


@pytest.mark.parametrize(
    ("mechanism", "besides"),
    [
        (mechanisms.LightWhereAsked, "its release may be given light besides"),
        (mechanisms.LightVectorWhereAsked, "its release may be given light besides"),
        (mechanisms.LightItemsWhereAsked, "its release may be given light besides"),
        (mechanisms.LightTestsWhereAsked, "its start may be given light besides"),
        (mechanisms.DrawsInTwoWays, "release and release_lightly both draw"),
        (mechanisms.DrawsInTwoWaysByName, "release and release_lightly both draw"),
        (mechanisms.DrawsInTwoWaysByDefault, "release and release_lightly both draw"),
        (mechanisms.DrawsInTwoWaysOfItsClass, "release and release_lightly both draw"),
        (CalledLightly, "release and __call__ both draw"),
        (LightClustering, "its cluster may be given light besides"),
    ],
)
def test_a_mechanism_draws_by_one_method_beside_nothing_else(mechanism, besides):
    with pytest.raises(ContractError, match=besides) as failed:
        require_comparable(mechanism)
    assert failed.value.contract == "drive"


@pytest.mark.parametrize("mechanism", [kind for kind, _ in registered().values()])
def test_the_mechanisms_of_the_package_do(mechanism):
    require_comparable(mechanism)


def test_a_prior_is_given_by_place_or_by_name():
    places = prior_of(Static, "select")
    assert given_prior(Static(0.7).law, ("scores",), places.law, "weights") == "weights"
    assert given_prior(Static(0.7).select, ("scores", "source"), places.draw, "weights") == "weights"
    assert given_prior(Static(0.7).select, ("scores", "source"), None, "weights") is None


def test_types_that_are_imported_for_a_type_checker_alone_are_known():
    assert release_of(typed.Typed) == ("release", Counts)
    assert release_of(typed.ByAnotherName) == ("release", Counts)
    assert release_of(typed.Weighted) == ("select", Scores)
    assert release_of(mechanisms.Bare) == ("select", Scores)


def test_a_type_that_nobody_knows_is_refused_by_a_true_sentence():
    class Foreign(typed.Typed):
        release = None

        def draw(self, counts: Unknown, randomness: object):  # noqa: F821
            return counts

    assert release_of(Foreign) == ("", None)
    with pytest.raises(ContractError, match="annotated, by names that are known when it runs, to take") as failed:
        check_mechanism(Foreign(0.7))
    assert failed.value.contract == "drive"
