"""What a statement says of its own reach: the model, public inputs, persons who are no unit."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from sottovoce.methods.base import Price
from sottovoce.methods.poe import PoE
from sottovoce.methods.references import FullContext, ZeroShot
from sottovoce.models.base import Isolation
from sottovoce.privacy.events import BoundedRange, GaussianDpEvent
from sottovoce.privacy.scope import OF_A_FILE, OF_AN_ANSWER, scope_of
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.release import Guarantee

TERMS = Guarantee(
    method=PoE,
    event=BoundedRange(1.0),
    price=Price(1.0, 0.0),
    adjacency=Adjacency.REPLACE_ONE,
    unit="record",
    units_per_expert=1,
    change=SWAP,
    isolation=Isolation.BY_CONSTRUCTION,
    seeded=False,
)


@pytest.mark.parametrize("epsilon", [1, 0.5, 0.1, 2, 3, 0.25, 4, 0.1234567, 99.9])
@pytest.mark.parametrize("delta", [1e-6, 1.0000004e-6, 0.00012345678])
def test_the_figures_of_a_claim_are_not_below_those_that_are_charged(epsilon, delta):

    claim = replace(TERMS, event=GaussianDpEvent(3.0), price=Price(epsilon, delta)).claim
    factor = float(claim.partition("a factor of ")[2].partition(",")[0])
    slack = float(claim.partition("additional probability of ")[2].partition(" (")[0])
    told, _, tail = claim.partition("(epsilon ")[2].partition(", delta ")
    assert factor >= math.exp(epsilon)
    assert slack >= delta
    assert float(told) >= epsilon
    assert float(tail.partition(",")[0]) >= delta


def test_a_statement_is_a_claim_and_its_scope():
    assert TERMS.statement == f"{TERMS.claim} {TERMS.scope}"
    assert TERMS.claim.startswith("Replacing any one record changes the probability of this answer by at most")
    assert TERMS.scope == scope_of(Adjacency.REPLACE_ONE, "record", OF_AN_ANSWER)
    for part in ("not what the model already knew", "the question", "time and memory", "length limits"):
        assert part in TERMS.statement


def test_a_unit_is_named_as_it_is_written():
    assert replace(TERMS, unit="PatientID").claim.startswith("Replacing any one 'PatientID' (all of its records)")


def test_the_number_of_units_is_left_open_where_it_is_public_and_only_there():
    for adjacency in Adjacency:
        scope = scope_of(adjacency, "record", OF_A_FILE)
        assert ("Not protected: the number of units," in scope) == adjacency.size_is_public
        assert ("may tell the number of units" in scope) != adjacency.size_is_public


def test_persons_who_are_no_unit_are_spoken_of():
    assert "A person with several records, or named in the records of others," in TERMS.scope
    grouped = replace(TERMS, unit="customer").scope
    assert "named in the records of another 'customer' is protected only as part of those records" in grouped
    assert "several records" not in grouped, "all records of a group are one unit"


@pytest.mark.parametrize(
    "terms",
    [
        replace(TERMS, seeded=True),
        replace(TERMS, isolation=Isolation.NOT_VERIFIED),
        replace(TERMS, method=FullContext),
        replace(TERMS, method=ZeroShot),
    ],
)
def test_where_nothing_is_promised_or_read_no_scope_softens_the_words(terms):
    assert terms.scope == ""
    assert terms.statement == terms.claim
