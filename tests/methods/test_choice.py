"""The private choice of demonstrations: exact laws and losses of small worlds, its price, and what follows from it."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from fitting.worlds_of_fits import parts, whole
from scripted import exact_law
from sottovoce.errors import InputError, ParameterError
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import LIMIT, Block, Likeness
from sottovoce.fitting.fit import fit
from sottovoce.fitting.fitted import Fitted
from sottovoce.mechanisms import exponential
from sottovoce.mechanisms.samplers.integer_weights import WeightTable, rate_per_step, weight_table
from sottovoce.methods import choice as module
from sottovoce.methods.base import Price
from sottovoce.methods.choice import Choice, ChoiceStep
from sottovoce.methods.fitting.fitter import FitSetting
from sottovoce.models.embedded.sentence_encoder import DEFAULT_PACKAGE
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import ApproximateDP, BoundedRange, SelfComposedDpEvent
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, Adjacency, Assignment, change_type, several
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task
from worlds import hockey_stick, losses

AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
A, B = 0, 1
CORNERS = Likeness(labels=2, candidates=np.eye(3), floor=0.0, ceiling=1.0)
"""A record's likeness to each of three candidates is its coordinate."""
TINY = WeightTable(shift=1, floor=3, blocks=(3, 2, 1), digits=(np.array([2, 1], dtype=np.uint64),))
O27 = [((A, (1.0, 0.25, 0.0)),), ((A, (0.5, 0.5, 0.0)),), ((B, (0.0, 0.0, 1.0)),)]
"""The units of the specification's O27, each a list of records (label, likenesses)."""
SINGLE = [((label, v),) for label in (A, B) for v in itertools.product((0.0, 0.5, 1.0), repeat=3)]
"""Every unit of one record on a grid."""
OF_SEVERAL = [
    tuple(records)
    for size in (2, 3)
    for records in itertools.combinations_with_replacement(
        [(label, v) for label in (A, B) for v in ((1.0, 0.0, 0.0), (0.0, 1.0, 1.0))], size
    )
]
"""Units of two and three records, over one label and over both."""


def setting(adjacency, *, units=3, labels=2, candidates=3, change=None, adds_epsilons=True):
    change = change or change_type(Assignment.OWN_SLOT, adjacency)
    return FitSetting(labels, 3, units, adjacency, change, candidates, adds_epsilons)


def block(units):
    records = [(owner, *record) for owner, unit in enumerate(units) for record in unit]
    owners, labels, vectors = zip(*records, strict=True) if records else ((), (), np.zeros((0, 3)))
    return Block(np.array(vectors), labels, owners)


def law_of(units, k, adjacency, *, rate=0.5, change=None):
    sums = CORNERS.add_up(block(units))
    return Choice(k=k, rate=rate, noise=0).law(sums, CORNERS, setting(adjacency, change=change))


def logs_of(law):
    return losses(list(law.values()), [1.0] * len(law))


def width(first, second):
    """Between the largest and the least loss of a pair, both laws as logs."""
    apart = first - second
    return float(apart.max() - apart.min())


# The specification's oracles


def test_o27_the_law_of_one_text_a_label():
    law = law_of(O27, 1, AR)
    assert len(law) == 9
    assert sum(law.values()) == 1
    assert float(law[(0,), (0,)]) == pytest.approx(0.12690384, abs=1e-8)
    assert float(law[(0,), (2,)]) == pytest.approx(0.20922906, abs=1e-8)
    assert float(law[(2,), (2,)]) == pytest.approx(0.09883281, abs=1e-8)


def test_o28_its_losses_under_a_drop_and_two_swaps():
    one, _, three = O27
    whole = logs_of(law_of(O27, 1, AR))
    dropped = whole - logs_of(law_of([one, three], 1, AR))
    assert abs(dropped).max() == pytest.approx(0.18973035, abs=1e-8)
    assert dropped.max() - dropped.min() == pytest.approx(0.25, abs=1e-12)
    same = [one, ((A, (0.0, 0.0, 1.0)),), three]
    other = [one, ((B, (0.0, 1.0, 0.0)),), three]
    for swapped in (same, other):
        assert width(whole, logs_of(law_of(swapped, 1, RO))) == pytest.approx(0.75, abs=1e-12)


# Every pair of neighbours on a grid


@pytest.mark.parametrize("adjacency", [AR, ZO], ids=str)
@pytest.mark.parametrize("unit_kind", [SINGLE, OF_SEVERAL], ids=["records", "units of several"])
def test_dropping_any_unit_stays_within_the_event_and_comes_up_to_it(adjacency, unit_kind):
    (turn,) = {Choice(k=1, rate=0.5, noise=0).event(setting(adjacency)).event}
    assert turn == BoundedRange(0.5)
    for others in ([], [O27[0]], [O27[2]]):
        without = logs_of(law_of(others, 1, adjacency))
        worst = max(width(logs_of(law_of([*others, unit], 1, adjacency)), without) for unit in unit_kind)
        assert 0.5 - 1e-4 < worst <= 0.5 + 1e-12


@pytest.mark.parametrize("others", [[], [O27[0]]], ids=["alone", "with another"])
@pytest.mark.parametrize("unit_kind", [SINGLE, OF_SEVERAL], ids=["records", "units of several"])
def test_swapping_any_two_units_stays_within_the_event_and_comes_up_to_it(others, unit_kind):
    assert Choice(k=1, rate=0.5, noise=0).event(setting(RO)).event == BoundedRange(1.0)
    laws = [logs_of(law_of([*others, unit], 1, RO)) for unit in unit_kind]
    worst = max(width(p, q) for p, q in itertools.combinations(laws, 2))
    assert 1.0 - 1e-4 < worst <= 1.0 + 1e-12


@pytest.mark.parametrize(("adjacency", "change"), [(AR, several(DROP, 2)), (RO, several(SWAP, 2)), (RO, TWO_SWAP)])
def test_a_change_of_two_units_stays_within_the_event_of_that_change(adjacency, change):
    eta = Choice(k=1, rate=0.5, noise=0).event(setting(adjacency, change=change)).event.eta
    assert eta == 0.5 * change.widths
    first, second = [((A, (1.0, 0.0, 0.0)),)] * 2, [((A, (0.0, 1.0, 1.0)),)] * 2
    left = [] if adjacency is AR else second
    apart = width(*(logs_of(law_of(units, 1, adjacency, change=change)) for units in (first, left)))
    assert eta - 1e-9 < apart <= eta + 1e-12


@pytest.mark.cases(1)
@pytest.mark.parametrize(("adjacency", "left"), [(AR, [[]]), (RO, [[unit] for unit in OF_SEVERAL + SINGLE[::9]])])
def test_two_texts_a_label_are_within_two_turns_and_not_within_one(adjacency, left):
    eta = 0.5 if adjacency is AR else 1.0
    event = Choice(k=2, rate=0.5, noise=0).event(setting(adjacency))
    assert event == SelfComposedDpEvent(BoundedRange(eta), 2)
    points = [(d, RdpAccountant(adjacency).compose(event).report(d).epsilon) for d in (0.0, 1e-3, 0.03, 0.2)]
    worst, before = 0.0, [[unit] for unit in [*OF_SEVERAL, *SINGLE[::9]]]
    laws = [[list(law_of([O27[0], *units], 2, adjacency).values()) for units in side] for side in (before, left)]
    for p, q in itertools.product(*laws):
        worst = max(worst, float(abs(losses(p, q)).max()))
        for delta, epsilon in points:
            assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta + 1e-12
    assert eta * 1.01 < worst <= 2 * eta + 1e-12


def test_each_turn_of_two_texts_is_bounded_range_given_the_turn_before():
    turns = {}
    for name, units in (("with", O27), ("without", O27[1:])):
        law, first = law_of(units, 2, AR), Counter()
        for chosen, p in law.items():
            first[chosen[A][0], chosen[B][0]] += p
        turns[name] = (first, {c: p / first[c[A][0], c[B][0]] for c, p in law.items()})
    (first, second), (first_, second_) = turns["with"], turns["without"]
    assert width(logs_of(first), np.array([math.log(first_[c]) for c in first])) <= 0.5 + 1e-12
    for begun in first:
        rest = [c for c in second if (c[A][0], c[B][0]) == begun]
        apart = losses([second[c] for c in rest], [second_[c] for c in rest])
        assert apart.max() - apart.min() <= 0.5 + 1e-12


@pytest.mark.slow
def test_rounded_weights_of_every_label_are_paid_for(monkeypatch):
    # One unit with a record for each of 256 labels moves each label's choice by a little, and each has its rounding.
    labels, eta = 256, 1.0
    wide = setting(AR, labels=labels, candidates=2)

    def total() -> Decimal:
        """The exact range of the joint choice, at the gap where rounding adds the most."""
        given = Choice(k=1, rate=eta, noise=0)._weight(wide)
        table = weight_table(rate_per_step(exact(given), LIMIT))
        gaps = np.arange(0, 4000)
        near, far = (table.weights(gaps + shift) for shift in (0, LIMIT // labels))
        return labels * max(Decimal(a).ln() - Decimal(b).ln() for a, b in zip(near, far, strict=True))

    with localcontext(prec=50):
        assert total() <= Decimal(eta)
        monkeypatch.setattr(module, "ROUNDING", Fraction(0))
        assert total() > Decimal(eta), "without the share that is taken off"


# Draws


@pytest.mark.cases(1)
@pytest.mark.parametrize(("k", "sums"), [(1, [3, 2, 0, 0, 0, 0]), (2, [3, 2, 0, 1])])
def test_with_small_weights_every_branch_of_the_sampler_adds_up_to_the_law(k, sums, monkeypatch):
    monkeypatch.setattr(exponential, "weight_table", lambda rate: TINY)
    method, sums = Choice(k=k, rate=0.5, noise=0), np.array(sums)
    found = exact_law(lambda source: method.select(sums, CORNERS, setting(AR), source))
    assert found == method.law(sums, CORNERS, setting(AR))
    assert len(found) == (9 if k == 1 else 4)


@pytest.mark.slow
def test_draws_follow_the_law_and_not_that_of_half_the_noise():
    # Pearson's statistic has 8 degrees of freedom: above 60 once in 1e9 of such tests.
    sums, n, random = CORNERS.add_up(block(O27)), 2000, SeededRandomness(5)
    method = Choice(k=1, rate=0.5, noise=0)
    seen = Counter(method.select(sums, CORNERS, setting(AR), random) for _ in range(n))

    def statistic(law):
        return sum((seen[chosen] - n * float(p)) ** 2 / (n * float(p)) for chosen, p in law.items())

    assert statistic(law_of(O27, 1, AR)) < 60
    assert statistic(law_of(O27, 1, AR, rate=1.0)) > 60


@pytest.mark.parametrize("adjacency", [AR, RO], ids=str)
def test_a_label_without_a_record_draws_uniformly(adjacency):
    for units in ([], [O27[0]], [O27[2]]):
        law = law_of(units, 2, adjacency)
        empty = B if units == [O27[0]] else A
        of_empty = Counter()
        for chosen, p in law.items():
            of_empty[chosen[empty]] += p
        assert set(of_empty.values()) == {Fraction(1, 6)}
        assert len(law) == 36


# What a unit adds


def test_a_units_ranges_add_to_at_most_one_over_labels():
    random = np.random.default_rng(3)
    rule = Likeness(labels=3, candidates=random.normal(size=(7, 4)), floor=-0.3, ceiling=0.6)
    for _ in range(200):
        n = int(random.integers(1, 6))
        labels, vectors = random.integers(0, 3, n).tolist(), random.normal(size=(n, 4)) * 10.0 ** random.integers(-2, 3)
        sums = rule.add_up(Block(vectors, labels, [0] * n)).reshape(3, 7)
        assert sums.min() >= 0
        assert np.ptp(sums, axis=1).sum() <= LIMIT


def test_a_record_that_says_nothing_adds_nothing_and_one_beyond_all_bounds_adds_at_most_one():
    nothing = [[np.nan, 0, 0], [np.inf, 1, 0], [0, 0, 0]]
    rule = Likeness(labels=1, candidates=np.array([[10.0, -10.0, 0.0]]), floor=0.0, ceiling=0.5)
    assert [int(rule.steps_of(np.array(v))[0]) for v in nothing] == [0, 0, 0]
    beyond = [[1e308, -1e308, 1e308], [-1e308, 1e308, 0.0], [9.0, 0.0, 0.0]]
    assert [int(rule.steps_of(np.array(v))[0]) for v in beyond] == [LIMIT, 0, LIMIT]
    endless = Likeness(labels=1, candidates=np.array([[np.inf, 0.0, 0.0]]), floor=0.0, ceiling=0.5)
    assert int(endless.steps_of(np.array([0.0, 1.0, 0.0]))[0]) == 0  # infinity times nothing
    # Infinity less infinity, or less what was not rounded in between: processors differ.
    assert int(rule.steps_of(np.array([1e308, 1e308, 0.0]))[0]) in (0, LIMIT)
    units = [((A, (np.nan, 0.0, 0.0)),), *O27]
    assert CORNERS.add_up(block(units)).tolist() == CORNERS.add_up(block(O27)).tolist()


def test_mapped_likeness_is_that_of_mapped_vectors_whatever_stands_beside_a_record():
    random = np.random.default_rng(4)
    pool, vectors = random.normal(size=(40, 6)), random.normal(size=(9, 6))
    mapped, _ = PublicMap.concentrating(pool, 0.01)
    rule = Likeness(2, mapped(pool), 0.0, 0.5, mapped)
    plain = Likeness(2, mapped(pool), 0.0, 0.5)
    labels, units = [0, 1, 1, 0, 0, 1, 0, 1, 1], [0, 0, 1, 2, 3, 3, 3, 4, 5]
    whole = rule.add_up(Block(vectors, labels, units))
    assert whole.tolist() == plain.add_up(Block(mapped(vectors), labels, units)).tolist()
    apart = sum(
        rule.add_up(Block(vectors[own], np.array(labels)[own], np.zeros(own.sum(), dtype=int)))
        for own in (np.array(units) == unit for unit in range(6))
    )
    assert whole.tolist() == apart.tolist()
    vectors[0] = np.nan
    assert np.isfinite(rule.add_up(Block(vectors, labels, units)).astype(float)).all()


# The price


@pytest.mark.parametrize("adjacency", [AR, RO, ZO], ids=str)
@pytest.mark.parametrize("k", [1, 2, 8])
def test_a_pure_price_is_shared_between_turns(adjacency, k):
    plan = Choice(k=k).plan(Price(4.0), setting(adjacency, candidates=9))
    widths = 2 if adjacency is RO else 1
    assert plan.fitter.rate == 4.0 / (k * widths)
    assert plan.charge == plan.event == SelfComposedDpEvent(BoundedRange(4.0 / k), k)
    assert plan.report.epsilon == 4.0


@pytest.mark.parametrize("adds_epsilons", [True, False], ids=["epsilons", "rho"])
@pytest.mark.parametrize("k", [1, 2, 6])
def test_a_rate_meets_the_price_in_either_ledger_and_a_larger_one_does_not(adds_epsilons, k):
    world = setting(RO, candidates=20, adds_epsilons=adds_epsilons)
    plan = Choice(k=k).plan(Price(4.0, 1e-6), world)
    assert world.cost(plan.event, 1e-6).epsilon == plan.report.epsilon <= 4.0
    with pytest.raises(ParameterError, match="epsilon"):
        Choice(k=k, rate=plan.fitter.rate * 1.001).plan(Price(4.0, 1e-6), world)
    if adds_epsilons:
        assert plan.charge == ApproximateDP(4.0, 1e-6)
        assert plan.fitter.rate >= 2.0 / k, "no worse than the pure price"
    else:
        assert plan.charge == plan.event
        assert plan.report.bound == "zCDP"


def test_open_parameters_follow_from_public_numbers_alone():
    def settled(adjacency, units):
        return Choice().plan(Price(4.0), setting(adjacency, units=units, labels=4, candidates=50)).fitter

    assert settled(RO, 60).noise > settled(RO, 240).noise > 0
    assert settled(AR, None) == settled(ZO, 80), "twenty units a label are supposed where their number is private"
    low, high = (Choice(rate=rate, noise=0.5).worth(setting(AR, units=None, candidates=999)) for rate in (0.5, 2.0))
    assert low < 1 < high, "evidence at little epsilon counts less, as with eight units a label"
    assert low == Choice(rate=0.5, noise=0.5).worth(setting(RO, units=16, candidates=999))
    given = Choice(k=3, rate=0.1, noise=0.5)
    assert given.plan(Price(4.0), setting(RO)).fitter == given


def test_the_step_tells_its_turns_and_its_sensitivity():
    step = ChoiceStep(rate=0.5, k=3)
    assert (step.steps, step.sensitivity(DROP).value, step.sensitivity(SWAP).value) == (3, 1, 2)


@pytest.mark.parametrize(
    ("method", "world", "says"),
    [
        (Choice(k=4), setting(RO), "at most 3, the number of different public texts"),
        (Choice(), setting(RO, candidates=0), "--public"),
        (Choice(), setting(RO, labels=10_000, candidates=5_001), "at most 5,000 for 10,000 labels"),
    ],
    ids=["fewer than k", "none", "too many"],
)
def test_a_pool_that_does_not_suit_is_refused(method, world, says):
    with pytest.raises(ParameterError, match=says):
        method.plan(Price(4.0), world)


def test_what_no_draw_can_be_made_with_is_refused():
    with pytest.raises(ParameterError, match="floor"):
        Choice(floor=0.5, ceiling=0.5)
    for k in (1, 2):  # one turn would have the whole epsilon, less what rounding takes
        with pytest.raises(ParameterError, match="range of one draw"):
            Choice(k=k).plan(Price(1e-6), setting(RO))


def test_evidence_counts_by_how_alike_a_labels_texts_are_and_by_what_records_weigh():
    pool = np.eye(4)
    mapped, even = PublicMap(np.zeros(4), np.eye(4)), np.full(4, 0.25)
    alike, unlike = pool[[[0, 0], [1, 1]]], pool[[[0, 1], [2, 3]]]
    whole = module.classifier(alike, even, mapped, worth=9.0)
    # Spread within a label is the even 1/4 whatever the direction: 0.25 * 1 / 0.25 for the label that a text is of.
    assert whole.log_probabilities(pool[:1], np.zeros((1, 2)))[0].tolist() == pytest.approx(
        [1 - math.log(math.e + 1), -math.log(math.e + 1)]
    )
    assert module.classifier(alike, even, mapped, worth=0.5).weights == pytest.approx(whole.weights / 2)
    assert not module.classifier(unlike, even, mapped, worth=9.0).weights.any()
    assert module.classifier(alike[:, :1], even, mapped, worth=9.0).weights == pytest.approx(whole.weights / 10)


# From records to answers

WORDS = {"billing": "a fee was charged twice", "fraud": "somebody used my card"}
POOL = ["a fee was charged again", "somebody used it", "the weather is nice", "a fee was charged again", "my card"]
TASK = Task(labels=list(WORDS))


def records(labels=tuple(WORDS), n=200):
    rows = [Row(i, {"text": f"{WORDS[label]} {i}", "label": label}) for i in range(n) for label in labels]
    return PrivateRecords(rows, source="notes")


def fitted_by(model, *, private=None, **options):
    options = {"method": "choice", "ledger": ":memory:", "pool": POOL, **options}
    return fit(private or records(), TASK, epsilon=8.0, delta=1e-6, model=model, **options)


@pytest.mark.parametrize("adjacency", [RO, AR, ZO], ids=str)
def test_texts_are_chosen_under_their_labels_and_answer_for_good(adjacency):
    # 200 records a label: the best text is 100 nats or more ahead of one that is not like them at all.
    fitted = fitted_by(FakeScorer(), adjacency=adjacency, method=Choice(k=1))
    assert [(e.fields["text"], e.label) for e in fitted.support.examples] == [(POOL[0], 0), (POOL[1], 1)]
    assert fitted.predict(["a fee was charged", "somebody used my card"]) == ["billing", "fraud"]
    assert fitted.certificate.candidates == 4, "what stands twice counts once"
    again = Fitted.from_bytes(fitted.to_bytes(), "x.sotto")
    again.use(FakeScorer())
    assert np.array_equal(again.log_probabilities(POOL), fitted.log_probabilities(POOL))
    assert all(check.holds is not False for check in again.certificate.checks(again.content_sha256))


def test_a_model_with_another_embedding_sees_the_demonstrations():
    fitted = fitted_by(FakeScorer(), method=Choice(k=1))
    seen = []

    def score(task, context, query):
        seen.append([example.label for example in context])
        return [0.0, 1.0]

    fitted.use(FakeScorer(score, name="another"))
    assert fitted.predict(["a fee"]) == ["fraud"]
    assert seen == [[0, 1]]
    fitted.use(FakeScorer(score))
    seen.clear()
    fitted.predict(["a fee"])
    assert seen == [[]], "the classifier takes the model's answer without an example"


@pytest.mark.parametrize("private", [records(["fraud"]), records(n=1)], ids=["one label", "two records"])
def test_a_label_without_a_record_and_two_records_are_fitted_like_any_others(private):
    fitted = fitted_by(FakeScorer(), private=private, method=Choice(k=2))
    assert [example.label for example in fitted.support.examples] == [0, 0, 1, 1]


def test_a_text_that_is_no_proper_unicode_is_written_like_any_other():
    fitted = fitted_by(FakeScorer(), pool=["a fee \ud800", "a card \ud801"], method=Choice(k=2))
    again = Fitted.from_bytes(fitted.to_bytes(), "x.sotto")
    assert {example.fields["text"] for example in again.support.examples} == {"a fee \ud800", "a card \ud801"}


@pytest.mark.parametrize("damage", ["rows", "shape", "part", "finite"])
def test_a_file_whose_rows_and_numbers_do_not_suit_is_refused(damage):
    arrays, about = parts(fitted_by(FakeScorer()).to_bytes())
    if damage == "rows":
        about["rows"] = about["rows"][1:]
    elif damage == "shape":
        arrays["weights"] = arrays["weights"][:, :-1].copy()
    elif damage == "part":
        del arrays["matrix"]
    else:
        arrays["weights"] = arrays["weights"] * np.nan
    with pytest.raises(InputError, match="cannot be used"):
        Fitted.from_bytes(whole(arrays, about), "x.sotto")


def test_a_ledger_of_rho_is_charged_the_turns():
    fitted = fitted_by(FakeScorer(), budget=Budget(8.0, 1e-6))
    charge = fitted.certificate.charge
    assert charge == fitted.certificate.event
    assert charge["event"] == "SelfComposedDpEvent"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec(DEFAULT_PACKAGE) is None, reason="the encoder is not installed")
def test_the_real_encoder_chooses_texts_of_a_kind():
    cooking = ["Fry the onions in butter.", "Let the dough rise.", "Boil the pasta.", "Roast the potatoes."]
    football = ["The striker scored twice.", "A late penalty was saved.", "The coach lost the final.", "A red card."]
    rows = [
        Row(10 * i + j, {"text": f"{text} {i}", "label": label})
        for label, texts in (("zibu", cooking), ("molo", football))
        for i in range(5)
        for j, text in enumerate(texts)
    ]
    pool = ["Whisk the eggs with sugar.", "The goalkeeper made a save.", "The parliament met today."]
    fitted = fit(
        PrivateRecords(rows, source="notes"), Task(labels=["zibu", "molo"]), epsilon=50.0, method=Choice(k=1),
        model="embedded", pool=pool, ledger=":memory:",
    )  # fmt: skip
    assert [example.fields["text"] for example in fitted.support.examples] == pool[:2]
    assert fitted.predict(["Bake the bread.", "The team won the derby."]) == ["zibu", "molo"]
