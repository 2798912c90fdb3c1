"""Which method draws, from what, and where a public prior goes in: by annotations and parameters."""

from __future__ import annotations

import pytest

from contracts.wrong import mechanisms, typed
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.privacy.aggregates import Counts, Scores
from sottovoce.testing import ContractError, check_mechanism
from sottovoce.testing.releases import given_prior, prior_of, release_of


class Static(PermuteAndFlip):
    @staticmethod
    def law(scores, weights, /):
        return weights

    def select(self, scores, randomness, weights=None):
        return weights


class NoPriorInItsLaw(Exponential):
    def law(self, scores):
        return super().law(scores)


class AnyLaw(Exponential):
    def law(self, *given, **named):
        return super().law(*given, **named)


@pytest.mark.parametrize(
    ("mechanism", "law", "draw"),
    [
        (Exponential, "log_prior", "log_prior"),
        (mechanisms.TwoMore, "log_prior", "prior"),
        (mechanisms.PriorBesideAnother, "log_prior", "log_prior"),
        (Static, "weights", "weights"),
    ],
)
def test_a_prior_is_what_both_may_take_besides(mechanism, law, draw):
    found = prior_of(mechanism, "select")
    assert (found.law.name, found.draw.name) == (law, draw)


@pytest.mark.parametrize("mechanism", [PermuteAndFlip, mechanisms.FewCandidates, NoPriorInItsLaw])
def test_there_is_no_prior_where_one_of_both_takes_nothing_besides(mechanism):
    assert prior_of(mechanism, "select") is None


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        (mechanisms.WhateverComes, r"whether its select takes a public prior, among \*given"),
        (mechanisms.PriorByAnotherName, "whether its select takes a public prior, among weights"),
        (mechanisms.PriorOfItsLawToo, "whether its select takes a public prior, among weights"),
        (mechanisms.LawWithDigits, "whether its law takes a public prior, among digits"),
        (AnyLaw, r"whether its law takes a public prior, among \*given, \*\*named"),
    ],
)
def test_what_cannot_be_told_is_refused_with_what_to_name(mechanism, reason):
    with pytest.raises(ContractError, match=f"{reason}; name the prior log_prior") as failed:
        prior_of(mechanism, "select")
    assert failed.value.contract == "drive"


def test_a_prior_is_given_by_place_or_by_name():
    places = prior_of(Static, "select")
    assert given_prior(Static(0.7).law, ("scores",), places.law, "weights") == "weights"
    assert given_prior(Static(0.7).select, ("scores", "source"), places.draw, "weights") == "weights"
    assert given_prior(Static(0.7).select, ("scores", "source"), None, "weights") is None


def test_types_that_are_imported_for_a_type_checker_alone_are_known():
    assert release_of(typed.Typed) == ("release", Counts)
    assert release_of(typed.ByAnotherName) == ("release", Counts)
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
