"""Leads at which a law leaves something to chance are found by the law alone, wherever they are."""

from __future__ import annotations

import math

import pytest

from sottovoce.mechanisms.propose_test_release import ProposeTestRelease
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing.leads import LONGEST, is_certain, lead_among, leading_by, open_lead


def passes(threshold: float, width: float):
    """A test that a lead passes by chance, as often as a logistic law says."""

    def law(lead: int) -> dict[str, float]:
        fails = 1 / (1 + math.exp(min(700, max(-700, (lead - threshold) / width))))
        return {"fails": fails, "passes": 1 - fails}

    return law


@pytest.mark.parametrize("threshold", [40, 1_000, 12_345])
@pytest.mark.parametrize(("share", "wanted"), [(0, 0.1), (0.5, 0.5), (1, 0.9)])
def test_the_lead_of_a_test_is_found_wherever_its_threshold_is(threshold, share, wanted):
    law = passes(threshold, 10)
    assert law(open_lead(law, 1, share))["passes"] == pytest.approx(wanted, abs=0.03)


def test_among_equal_candidates_a_short_lead_is_found():
    law = passes(0, 4)
    assert law(open_lead(law, 3, 0.0))["passes"] == pytest.approx(0.5, abs=0.03)
    assert law(open_lead(law, 3, 0.8))["passes"] == pytest.approx(0.82, abs=0.05)


def test_where_no_lead_decides_there_is_none():
    assert open_lead(lambda lead: {"a": 0.5, "b": 0.5}, 2, 0.5) is None
    assert open_lead(passes(3 * LONGEST, 10), 1, 0.5) is None


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_set_is_released_by_chance_where_its_last_candidate_leads(k, adjacency):
    def scores(lead):
        return Scores(leading_by([0, 9, 3, 4, 1], k, lead), sensitivity=2, adjacency=adjacency)

    tested = ProposeTestRelease(2.0, 1e-6, k)
    lead = open_lead(lambda lead: tested.law(scores(lead)), 2, 0.875)
    assert lead_among(scores(lead).values.tolist(), k) == lead
    law = tested.law(scores(lead))
    assert 0.7 < law[tuple(sorted([1, 3, 2][:k]))] < 0.9
    assert not is_certain(law)
    assert is_certain(tested.law(scores(0)))
