"""Methods and plans against the specification's numbers, under both adjacencies."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.explain import SIDES, Setting, explain, explain_events, make_subject, registered_subjects
from sottovoce.methods.base import registered_methods
from sottovoce.methods.references import _MostLikely
from sottovoce.privacy import claims
from sottovoce.privacy.accounting.accountant import epsilon_of_rho, rho_of_bounded_range
from sottovoce.privacy.event_json import event_to_json, read_events
from sottovoce.privacy.events import (
    BoundedRange,
    ComposedDpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    WithFailure,
    ZCDpEvent,
)
from sottovoce.privacy.step_costs import RatedStep
from sottovoce.privacy.unit import Adjacency
from worlds import hockey_stick

AR, RO = SIDES


def bounds(plan):
    return [plan.side(adjacency).report.bounds for adjacency in SIDES]


def epsilons(plan):
    return [plan.side(adjacency).report.epsilon for adjacency in SIDES]


def verdict(plan, adjacency):
    return plan.side(adjacency).verdict


# Specification 5.10: s, tau, eta, stated, advanced, RDP and zCDP under add-remove and replace-one. The zCDP column
# charges eta^2/8; rho_BR is less, by up to 2 percent at the largest eta. The last row is the grid's first.
PRISM = [
    (255, 1.02, 0.038447, 1.8449, 1.9956, (0.7569, 0.7609), (1.6107, 1.6206)),
    (380, 1.02, 0.025800, 1.2380, 1.3054, (0.4916, 0.4941), (1.0417, 1.0476)),
    (15, 1.02, 0.653595, 31.363, 91.653, (19.5430, 19.8748), (49.2394, 51.1069)),
    (255, 0.131, 0.299364, 14.3647, 24.8119, (7.4955, 7.5686), (17.4752, 17.7555)),
    (15, 0.131, 5.08906, 244.200, None, (336.497, None), (816.273, None)),
]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("batch", "temperature", "eta", "stated", "advanced", "ar", "ro"), PRISM)
def test_prism_by_the_specifications_table(batch, temperature, eta, stated, advanced, ar, ro):
    plan = explain("prism", {"batch": batch, "temperature": temperature, "tokens": 100}, Setting(delta=1e-5))
    assert plan.steps == 100
    assert plan.paper_epsilon == pytest.approx(stated, rel=1e-4)
    for side, factor, (renyi, zcdp) in zip(plan.sides, (1, 2), (ar, ro), strict=True):
        assert side.figures["eta"] == pytest.approx(factor * eta, abs=factor * 1e-5)
        assert side.report.bounds["RDP"] == pytest.approx(renyi, rel=2e-4)
        assert side.report.bounds["pure"] == pytest.approx(100 * factor * eta, rel=1e-3)
        assert side.report.epsilon <= side.report.bounds["RDP"]
        if zcdp:
            assert 0.98 * zcdp <= side.report.bounds["zCDP"] <= zcdp * (1 + 1e-4)
    if advanced:
        assert plan.side(AR).textbook["advanced"] == pytest.approx(advanced, rel=1e-4)


@pytest.mark.slow
def test_prisms_figure_is_judged_under_each_adjacency():
    def told(batch, temperature):
        plan = explain("prism", {"batch": batch, "temperature": temperature, "tokens": 100}, Setting(delta=1e-5))
        return ["over-reports" in verdict(plan, a) for a in SIDES], ["NOT a valid" in verdict(plan, a) for a in SIDES]

    # Corrections 17 and 18: over-reported for the main settings, exceeded under replace-one at s=255, tau=.131, and
    # under add-remove at s=15, tau=.131, where a run of two tokens has delta .594
    # (O18), and .598 with the best odds.
    assert told(255, 1.02) == ([True, True], [False, False])
    assert told(255, 0.131) == ([True, False], [False, True])
    assert told(15, 0.131) == ([False, False], [True, True])
    plan = explain("prism", {"batch": 15, "temperature": 0.131, "tokens": 100}, Setting(delta=1e-5))
    assert "under add-remove: the least that is proven is" in verdict(plan, AR)
    assert "has delta 0.597 there" in verdict(plan, AR), "what is reached is a lower bound and is rounded down"


def test_o17_the_optimal_bound_of_prism_lies_above_what_is_attained():
    side = explain("prism", {"batch": 255, "temperature": 1.02, "tokens": 100}, Setting(delta=1e-5)).side(AR)
    assert 0.6949 <= side.report.epsilon <= 0.7569


def test_poe_5_1_4_a_paper_epsilon_of_one_costs_two_under_replace_one():
    plan = explain("poe", {"clip": 3, "rate": 1 / 3}, Setting(delta=1e-6))
    assert [plan.side(a).figures["eta"] for a in SIDES] == pytest.approx([1, 2])
    assert [b["pure"] for b in bounds(plan)] == pytest.approx([1, 2])
    assert plan.paper_epsilon == pytest.approx(1)
    assert "agrees" in verdict(plan, AR)
    assert "NOT a valid bound under replace-one" in verdict(plan, RO)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "tokens", "eta", "advanced"),
    [(4, 32, 0.28606, 0.11848), (8, 64, 0.36819, 0.15217), (8, 128, 0.25838, 0.10801)],
)
def test_poe_5_1_6_tokens(epsilon, tokens, eta, advanced):
    setting = Setting(delta=1e-6)
    plan = explain("poe", {"clip": 3, "rate": eta / 3, "tokens": tokens}, setting)
    assert plan.side(AR).report.bounds["RDP"] == pytest.approx(epsilon, abs=2e-3)
    claimed = explain("poe", {"clip": 3, "rate": max(advanced, epsilon / tokens) / 3, "tokens": tokens}, setting)
    assert claimed.paper_epsilon == pytest.approx(epsilon, abs=2e-3)
    priced = explain("poe", {"clip": 3, "tokens": tokens}, Setting(delta=1e-6, epsilon=epsilon, adjacency="add-remove"))
    # The best bound allows a little more than T4 does.
    assert eta * (1 - 1e-4) <= priced.side(AR).figures["eta"] <= 1.1 * eta
    # Rounded to the safe side, to a few digits.
    assert epsilon * (1 - 1e-4) <= priced.side(AR).report.epsilon <= epsilon * (1 + 1e-12)


def test_amin_1_873_and_4_068():
    options = {"batch": 255, "temperature": 2, "threshold_scale": 0.2, "tokens": 100}
    plan = explain("amin", options, Setting(delta=1e-5))
    assert [b["zCDP"] for b in bounds(plan)] == pytest.approx([1.8728, 4.0678], abs=1e-3)
    assert plan.paper_epsilon == pytest.approx(1.873, abs=1e-3)
    assert plan.steps == 100
    figures = plan.side(AR).figures
    # O19: rho .00019223 and .00076894 a step (the second by the paper's eps^2/2; exactly .00076884).
    assert rho_of_bounded_range(figures["eta"]) == pytest.approx(0.00019223, abs=1e-8)
    assert figures["pure_epsilon"] ** 2 / 2 == pytest.approx(0.00076894, abs=1e-8)
    assert figures["rho_total"] == pytest.approx(100 * (0.00019223 + 0.00076884), abs=1e-5)
    assert "over-reports" in verdict(plan, AR)
    assert "NOT a valid bound under replace-one" in verdict(plan, RO)


def test_o20_invisible_ink():
    plan = explain("invisible-ink", {"batch": 8, "clip": 1, "temperature": 1, "tokens": 200}, Setting(delta=1e-5))
    assert [plan.side(a).figures["eta"] for a in SIDES] == [0.25, 0.5]
    assert [b["RDP"] for b in bounds(plan)] == pytest.approx([9.185, 21.82], abs=6e-3)
    # 9.234 and 22.02 charge eta^2/8; so does the paper.
    assert plan.paper_epsilon == pytest.approx(9.234, abs=1e-3)
    for b, least, most in zip(bounds(plan), (9.22, 21.95), (9.234, 22.02), strict=True):
        assert least <= b["zCDP"] <= most + 1e-3
    assert "NOT a valid bound under replace-one" in verdict(plan, RO)


def test_o9_gaussian_votes():
    options = {"noise": "gaussian", "sampler": "continuous"}
    for adjacency, sigma in ((RO, 5.2759), (AR, 3.7306)):
        setting = Setting(delta=1e-5, epsilon=1, adjacency=adjacency.value)
        plan = explain("rnm", options, setting)
        assert plan.parameters["sigma"] == pytest.approx(sigma, abs=1e-3)
        assert plan.side(adjacency).report.epsilon <= 1
    # The noise of a sensitivity of 1, when a vote can move.
    plan = explain("rnm", {**options, "sigma": 3.7306}, Setting(delta=1e-5))
    assert plan.paper_epsilon == pytest.approx(1, abs=1e-3)
    assert epsilons(plan) == pytest.approx([1, 1.4652], abs=1e-3)
    assert "NOT a valid bound under replace-one" in verdict(plan, RO)
    few = explain("rnm", {**options, "sigma": 3.7306, "candidates": 2}, Setting(delta=1e-5))
    assert epsilons(few)[0] < 0.75


def test_o12_ptr_has_the_maximum_of_its_deltas_where_the_paper_adds_them():
    options = {"release": "ptr", "sigma": 2, "failure_delta": 1e-6, "sampler": "continuous"}
    plan = explain("ksa", options, Setting(delta=1e-5))
    assert epsilons(plan) == pytest.approx([1.9930, 1.9930], abs=1e-3)
    assert plan.paper_epsilon == pytest.approx(2.0057, abs=1e-3)
    assert plan.side(RO).figures == {"mu": 0.5, "rho_total": 0.125, "failure_delta": 1e-6}
    # Two releases add their failures.
    two = explain("ksa", options, Setting(delta=1e-5, queries=2)).side(RO)
    assert two.figures["failure_delta"] == 2e-6
    # mu = sqrt(2)/2 at the delta that two failures leave; an embedding with that mu, under a drop.
    gauss = explain("esa", {"experts": 1, "sigma": math.sqrt(2), "sampler": "continuous"}, Setting(delta=8e-6)).side(AR)
    assert two.report.epsilon == pytest.approx(gauss.report.epsilon, rel=1e-6)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("epsilon", "drop", "swap", "wrong", "mu"),
    [(1, 0.03731, 0.07461, 2.155, 0.2472), (3, 0.01391, 0.02781, 6.706, 0.6697), (8, 0.00600, 0.01200, 19.121, 1.5682)],
)
def test_o13_embeddings(epsilon, drop, swap, wrong, mu):
    options = {"experts": 100, "sampler": "continuous"}
    for adjacency, sigma in ((AR, drop), (RO, swap)):
        plan = explain("esa", options, Setting(delta=1e-5, epsilon=epsilon, adjacency=adjacency.value))
        assert plan.parameters["sigma"] == pytest.approx(sigma, abs=1e-5)
    # The drop's noise while slots hold several shots and are evaluated again: a swap under either adjacency.
    exact = explain("esa", options, Setting(delta=1e-5, epsilon=epsilon, adjacency="add-remove")).parameters["sigma"]
    grouped = explain("esa", {**options, "sigma": exact}, Setting(delta=1e-5, units_per_expert=4))
    assert epsilons(grouped) == pytest.approx([wrong, wrong], abs=2e-3)
    assert grouped.paper_epsilon == pytest.approx(epsilon, rel=1e-3)
    assert all("NOT a valid bound" in verdict(grouped, a) for a in SIDES)
    discrete = explain("esa", {"experts": 100}, Setting(delta=1e-5, epsilon=epsilon))
    assert 2 / (100 * discrete.parameters["sigma"]) == pytest.approx(mu, abs=1e-4)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("rate", "sigma", "right", "stated"), [(0.1, 2, 3.874, 2.337), (0.25, 4, 4.108, 2.691), (0.5, 8, 3.879, 2.597)]
)
def test_o15_prediction_by_subsampling(rate, sigma, right, stated):
    options = {"sampling_probability": rate, "sigma": sigma, "subsamples": 100}
    plan = explain("pbs", options, Setting(delta=1e-5))
    assert plan.side(AR).report.epsilon == pytest.approx(right, abs=5e-3)
    assert plan.paper_epsilon == pytest.approx(stated, abs=5e-3)
    if rate == 0.1:
        assert plan.side(RO).report.epsilon == pytest.approx(4.270, abs=5e-3)
    assert all("NOT a valid bound" in verdict(plan, a) for a in SIDES)
    assert "swap" in plan.side(AR).change
    assert "rho_total" not in plan.side(AR).figures


def test_o21_dpm_splits_by_kappa_and_5_6_5_the_total():
    options = {"kappa": 0.01, "count_sigma": 10, "sigma": 5, "levels": 3}
    plan = explain("dpm", options, Setting(delta=1e-5))
    assert [plan.side(a).figures["eta"] / 0.01 for a in SIDES] == pytest.approx([12.2, 17.2])
    one = explain("dpm", {**options, "one_coordinate": True}, Setting(delta=1e-5))
    assert [one.side(a).figures["eta"] / 0.01 for a in SIDES] == pytest.approx([8.6, 13.6])
    # By hand: levels of split and counts, one release of the leaves, and under add-remove the root's count.
    # Replace-one: a split is the larger of one moved point in a node and two changes of one point each, counts double
    # in rho, leaves have mu = 2R/sigma.
    ar = 3 * rho_of_bounded_range(0.122) + 4 / 200 + 1 / 50
    ro = 3 * (max(rho_of_bounded_range(0.172), 2 * rho_of_bounded_range(0.122)) + 1 / 100) + 4 / 50
    assert [plan.side(a).figures["rho_total"] for a in SIDES] == pytest.approx([ar, ro])
    assert [b["zCDP"] for b in bounds(plan)] == pytest.approx([epsilon_of_rho(ar, 1e-5), epsilon_of_rho(ro, 1e-5)])
    assert (plan.steps, plan.paper_epsilon) == (7, None)


@pytest.mark.slow
def test_user_level_by_slots_2_6():
    # Specification 2.6: 50 tokens, eta .1, delta 1e-5: 1.460, 3.143, 6.944 for 1, 2, 4 experts a user.
    for slots, expected in ((1, 1.460), (2, 3.143), (4, 6.944)):
        setting = Setting(delta=1e-5, slots_per_unit=slots)
        plan = explain("poe", {"clip": 1, "rate": 0.1, "tokens": 50}, setting)
        assert plan.side(AR).report.bounds["RDP"] == pytest.approx(expected, abs=1e-3)


def test_laplace_votes_compose_by_their_vector():
    # T7: rho .3679 at scale 1 where pure DP alone has .4621; a moved vote twice .3679.
    plan = explain("rnm", {"noise": "laplace", "scale": 1}, Setting(delta=1e-5, queries=20))
    expected = [epsilon_of_rho(20 * 0.367879, 1e-5), epsilon_of_rho(20 * 2 * 0.367879, 1e-5)]
    assert [b["zCDP"] for b in bounds(plan)] == pytest.approx(expected, rel=1e-5)
    assert [b["pure"] for b in bounds(plan)] == pytest.approx([20, 40])
    assert plan.paper_epsilon is None


def test_exponential_votes_compose_better_than_permute_and_flip():
    # Specification 5.2, for (4, 1e-5): T=1 both 4; T=5 .921 and .800; T=10 .589 and .400 (by T4 and basic).
    for queries, em in ((5, 0.9212), (10, 0.5890)):
        setting = Setting(delta=1e-5, queries=queries)
        plan = explain("rnm", {"rate": em}, setting)
        assert plan.side(AR).report.bounds["RDP"] == pytest.approx(4, abs=2e-3)
        worse = explain("rnm", {"rate": em, "noise": "permute_and_flip"}, setting)
        assert worse.side(AR).report.epsilon > plan.side(AR).report.epsilon


def test_one_shot_top_k_is_k_steps():
    plan = explain("ksa", {"release": "top-k", "rate": 0.1, "keywords": 20}, Setting(delta=1e-5, queries=5))
    generic = explain("exponential", {"eta": 0.1, "steps": 100}, Setting(delta=1e-5))
    assert plan.steps == 100
    assert plan.side(AR).report.bounds == generic.side(AR).report.bounds
    assert plan.paper_epsilon is None


EXAMPLES = {
    "poe": {"rate": 0.1, "tokens": 5},
    "prior-poe": {"rate": 0.1, "tokens": 5},
    "poe-decoding": {"rate": 0.1, "tokens": 5},
    "rnm": {"rate": 0.2},
    "esa": {"experts": 50, "sigma": 0.05, "sampler": "continuous"},
    "ksa": {"release": "histogram", "words": 3, "sigma": 20},
    "dpm": {"kappa": 0.02, "count_sigma": 8, "sigma": 6, "levels": 2},
    "tang": {"experts": 10, "sigma": 0.3, "tokens": 5},
    "amin": {"batch": 100, "threshold_scale": 0.3, "temperature": 1.5, "tokens": 5},
    "prism": {"batch": 100, "temperature": 1.5, "tokens": 5},
    "invisible-ink": {"batch": 8, "clip": 0.5, "temperature": 1.2, "tokens": 5},
    "pbs": {"sampling_probability": 0.1, "sigma": 3, "subsamples": 5},
    "exponential": {"eta": 0.1, "steps": 5},
}
EXAMPLES |= {
    name: {"rate": 0.1}
    for name, cls in registered_methods().items()
    if name not in EXAMPLES and isinstance(cls.step, type) and issubclass(cls.step, RatedStep)
}
"""With those of methods that were added since and whose noise is a rate; others are explained in their own tests."""
PLACED = [name for name, options in EXAMPLES.items() if make_subject(name, **options).placed]


def test_every_example_is_of_a_method_that_releases_something():
    released = {name for name, cls in registered_subjects().items() if not issubclass(cls, _MostLikely)}
    assert set(EXAMPLES) <= released


@pytest.mark.cases(5)
@pytest.mark.parametrize("method", PLACED)
def test_replace_one_never_costs_less_and_grouping_turns_add_remove_into_a_swap(method):
    alone = explain(method, EXAMPLES[method])
    ar, ro = epsilons(alone)
    assert 1.3 * ar < ro
    assert [alone.side(a).change.split(":")[0] for a in SIDES] == ["drop", "swap"]
    grouped = explain(method, EXAMPLES[method], Setting(units_per_expert=4))
    if method == "dpm":  # under add-remove the number of points is private, and its count is charged
        assert ro < epsilons(grouped)[0] < 1.2 * ro
    else:
        assert epsilons(grouped) == pytest.approx([ro, ro])
    content = explain(method, EXAMPLES[method], Setting(units_per_expert=4, assignment="content"))
    assert content.side(AR).report.epsilon == epsilons(grouped)[0]
    assert content.side(RO).report.epsilon > 1.3 * ro
    assert "2-swap" in content.side(RO).change


@pytest.mark.cases(3)
@pytest.mark.parametrize("method", EXAMPLES)
def test_more_answers_cost_more_and_everything_fits_in_json(method):
    one, ten = (explain(method, EXAMPLES[method], Setting(queries=queries)) for queries in (1, 10))
    assert ten.steps == 10 * one.steps
    assert all(a < b for a, b in zip(epsilons(one), epsilons(ten), strict=True))
    values = json.loads(json.dumps(ten.as_dict(), allow_nan=False))
    assert set(values) >= {"delta", "steps", "paper_epsilon", "add-remove", "replace-one", "unit", "units_per_expert"}
    for side in ("add-remove", "replace-one"):
        assert {"eta", "epsilon", "bounds"} <= set(values[side])
        assert values[side]["epsilon"] == pytest.approx(min(values[side]["bounds"].values()))
        if values[side]["eta"] is None and method != "pbs":
            assert {"mu", "rho", "pure_epsilon"} & set(values[side])
    text = "\n".join(ten.lines())
    for word in ("Mechanism", "sensitivity", "steps", "bounds", "add-remove", "replace-one", "adaptive"):
        assert word in text


@pytest.mark.cases(6)
@pytest.mark.parametrize("method", [name for name in EXAMPLES if name != "dpm"])
@pytest.mark.parametrize("adjacency", SIDES, ids=lambda a: a.value)
def test_a_price_sets_the_noise_to_the_safe_side(method, adjacency):
    calibrated_parameter = make_subject(method, **EXAMPLES[method]).calibrated
    options = {name: value for name, value in EXAMPLES[method].items() if name != calibrated_parameter}
    plan = explain(method, options, Setting(epsilon=0.7, adjacency=adjacency.value))
    reached = plan.side(adjacency).report.epsilon
    assert reached <= 0.7 * (1 + 1e-9)
    # Single selections are set by their pure epsilon, which a delta undercuts a little.
    # The noise of 'pbs' is rounded up to four digits, as where a ledger is charged.
    assert reached >= 0.7 * (0.99 if plan.steps == 1 else 1 - 1e-3 if method == "pbs" else 1 - 1e-5)
    again = explain(method, {**options, calibrated_parameter: plan.parameters[calibrated_parameter]})
    assert again.side(adjacency).report.epsilon == pytest.approx(reached)


def test_a_price_of_single_selections_is_the_librarys():
    # Exponential(epsilon) in the mechanisms: rate = epsilon / (width * widths), here 1 / (3 * 2).
    plan = explain("poe", {"clip": 3}, Setting(epsilon=1))
    assert plan.parameters["rate"] == pytest.approx(1 / 6)
    assert plan.side(RO).report.bounds["pure"] == pytest.approx(1)


def test_assignments_without_a_guarantee_are_said_and_refused():
    plan = explain("poe", {"rate": 0.1}, Setting(units_per_expert=3, assignment="chunks"))
    assert plan.side(AR).report is None
    assert "every expert" in plan.side(AR).refused
    assert plan.as_dict()["add-remove"]["epsilon"] is None
    assert plan.side(RO).report.epsilon > 0
    with pytest.raises(AssignmentError, match="by rank"):
        explain("poe", {"rate": 0.1}, Setting(units_per_expert=3, assignment="retrieved-groups"))


@pytest.mark.parametrize(
    ("method", "options", "setting", "name"),
    [
        ("nope", {}, {}, "method"),
        ("poe", {"batch": 3, "rate": 1}, {}, "batch"),
        ("poe", {}, {}, "rate"),
        ("poe", {"rate": 1}, {"epsilon": 1}, "epsilon"),
        ("poe", {"rate": math.nan}, {}, "rate"),
        ("poe", {"rate": 1, "tokens": 1.5}, {}, "tokens"),
        ("poe", {"rate": 1}, {"delta": 1}, "delta"),
        ("poe", {"rate": 1}, {"queries": 0}, "queries"),
        ("poe", {"rate": 1, "tokens": 10**9}, {"queries": 2}, "steps"),
        ("poe", {"rate": 1}, {"adjacency": "both"}, "adjacency"),
        ("poe", {"rate": 1}, {"assignment": "row"}, "assignment"),
        ("poe", {"rate": 1}, {"assignment": "own-slot", "units_per_expert": 2}, "units_per_expert"),
        ("poe", {}, {"epsilon": 0}, "epsilon"),
        ("prism", {"temperature": 1}, {}, "experts"),  # one name for the divisor; --batch is another spelling
        ("prism", {"temperature": 1, "batch": 0}, {}, "batch"),
        ("prism", {"temperature": 1, "batch": 5, "experts": 5}, {}, "experts"),
        ("rnm", {"noise": "uniform"}, {}, "noise"),
        ("rnm", {"rate": 1, "sigma": 1}, {}, "sigma"),
        ("rnm", {"noise": "laplace", "scale": 1, "candidates": 3}, {}, "candidates"),
        ("rnm", {"noise": "gaussian", "sigma": 1, "sampler": "float"}, {}, "sampler"),
        ("ksa", {"release": "ptr", "sigma": 1}, {}, "failure_delta"),
        ("ksa", {"release": "top-k", "rate": 1}, {}, "keywords"),
        ("ksa", {"release": "joint", "rate": 1, "words": 3}, {}, "words"),
        ("ksa", {"release": "ptr", "failure_delta": 1e-5}, {"epsilon": 1, "delta": 1e-6}, "epsilon"),
        ("esa", {"experts": 10}, {"epsilon": 1, "delta": 0}, "delta"),
        ("esa", {"experts": 10, "sampler": "continuous"}, {"epsilon": 1, "delta": 0}, "epsilon"),
        ("ksa", {"release": "top-k", "keywords": 65}, {"epsilon": 1}, "keywords"),
        ("ksa", {"universe": "private"}, {"epsilon": 1}, "universe"),
        ("esa", {"experts": 9, "sampling": "without-replacement"}, {"epsilon": 1}, "units"),
        ("class-means", {"units": 9}, {"epsilon": 1}, "labels"),
        ("class-means", {"labels": 2}, {"epsilon": 1}, "units"),
        ("class-means", {"labels": 2, "units": 9}, {}, "epsilon"),
        ("class-means", {"labels": 2, "units": 9, "clip": 3}, {"epsilon": 1}, "clip"),
        ("class-means", {"labels": 2, "units": 9, "currency": "gold"}, {"epsilon": 1}, "currency"),
        ("class-means", {"labels": 2, "units": 9}, {"epsilon": 1, "units_per_expert": 2}, "units_per_expert"),
        ("choice", {"labels": 2, "units": 9}, {"epsilon": 1}, "candidates"),
        ("choice", {"labels": 2, "units": 9, "candidates": 1}, {"epsilon": 1}, "k"),
        ("dpm", EXAMPLES["dpm"], {"epsilon": 1}, "epsilon"),
        ("pbs", {"sampling_probability": 1, "sigma": 1}, {}, "sampling_probability"),
        ("pbs", EXAMPLES["pbs"], {"units_per_expert": 2}, "units_per_expert"),
        ("exponential", {"eta": 1}, {"assignment": "content"}, "assignment"),
    ],
)
def test_a_wrong_option_is_refused_by_name(method, options, setting, name):
    with pytest.raises(ParameterError) as refused:
        explain(method, options, Setting(**setting))
    assert refused.value.name == name


def test_extreme_parameters_are_priced_and_never_too_low():
    # Above 700 nats exp(eta) overflows; the pure total must stand, not less.
    steps = explain("poe", {"clip": 1000, "rate": 1, "tokens": 2}, Setting(delta=1e-6)).side(AR).report
    assert steps.epsilon >= 2000 - 2 * -math.log(1e-6)
    assert (
        explain("esa", {"experts": 1, "sigma": 1e-6, "sampler": "continuous"}, Setting()).side(AR).report.epsilon > 1e9
    )
    # The smallest clip is the method's own: what it does not take has no price.
    assert explain("poe", {"clip": 1e-3, "rate": 1e-9}, Setting()).side(RO).report.epsilon <= 1e-11
    none = explain("esa", {"experts": 10, "sigma": 1}, Setting(delta=0))
    assert none.as_dict()["add-remove"]["epsilon"] is None
    assert "no finite epsilon" in "\n".join(none.lines())


def test_what_two_candidates_reach_is_a_lower_bound_by_enumeration():
    # Every outcome of three steps of a two-point law, its odds enumerated; never above T6's bound for the family.
    eta, epsilon = 0.8, 0.9
    best = 0.0
    for t in np.linspace(0, eta, 400)[1:-1]:
        p = math.expm1(t - eta) / math.expm1(-eta)
        first, second = np.array([p, 1 - p]), np.array([p * math.exp(-t), (1 - p) * math.exp(eta - t)])
        assert second.sum() == pytest.approx(1)
        runs = list(itertools.product((0, 1), repeat=3))
        laws = [[float(np.prod([law[i] for i in run])) for run in runs] for law in (first, second)]
        best = max(best, hockey_stick(*laws, epsilon))
    assert claims.reached_delta(epsilon, eta, 3) == pytest.approx(best, rel=1e-3)
    report = explain("exponential", {"eta": eta, "steps": 3}, Setting(delta=best)).side(AR).report
    assert report.epsilon >= epsilon - 1e-3


def test_o18_the_counterexample_is_found():
    # s=15, tau=.131: token probabilities .824491 with the record and .028141 without, a hundred times.
    eta = 10 / (15 * 0.131)
    assert math.log(0.824491 / 0.028141) - math.log(0.175509 / 0.971859) == pytest.approx(eta, abs=1e-4)
    ups = np.arange(101)
    loss = ups * math.log(0.824491 / 0.028141) + (100 - ups) * math.log(0.175509 / 0.971859)
    found = float((binom.pmf(ups, 100, 0.824491) * -np.expm1(-np.maximum(loss - 244.2, 0))).sum())
    assert found == pytest.approx(0.594, abs=1e-3)
    # Other odds are a little worse still.
    assert found <= claims.reached_delta(244.2, eta, 100) <= found + 0.01
    assert claims.reached_delta(244.2, eta, 10**6) == 0


def test_events_are_priced_under_the_adjacency_they_were_worked_out_for():
    read = read_events([{"event": "BoundedRange", "eta": 0.1, "count": 100}], "plan.json")
    assert read == [(BoundedRange(0.1), 100)]
    priced = explain_events(read, Setting(delta=1e-5, adjacency="add-remove"))
    assert priced.side(AR).report.bounds["RDP"] == pytest.approx(2.152, abs=1e-3)
    assert priced.side(AR).figures == {"eta": 0.1}
    assert priced.side(RO).report is None
    assert "add-remove" in priced.side(RO).refused
    assert priced.steps == 100
    mixed = explain_events([(BoundedRange(0.1), 2), (ZCDpEvent(0.01), 1)], Setting(delta=1e-5))
    assert mixed.side(RO).figures == {}
    assert mixed.side(RO).report.epsilon > 0
    zero = explain_events(read, Setting(delta=1e-5, adjacency="zero-out"))
    assert zero.side(Adjacency.ZERO_OUT).report.epsilon > 0
    nested = {"event": "ComposedDpEvent", "events": [{"event": "BoundedRange", "eta": 0.1}]}
    assert read_events([nested], "x")[0][0].events == [BoundedRange(0.1)]


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({}, "JSON list"),
        ([], "JSON list"),
        (["x"], "event 1"),
        ([{"event": "Nope"}], "event 1"),
        ([{"event": "BoundedRange", "eta": 0.1}, {"event": "BoundedRange", "eta": -1}], "event 2: eta is -1"),
        ([{"event": "BoundedRange", "eta": math.nan}], "eta is nan"),
        ([{"event": "BoundedRange", "eta": math.inf}], "eta is inf"),
        ([{"event": "BoundedRange", "eta": "0.1"}], "eta is '0.1'"),
        ([{"event": "BoundedRange", "eta": 0.1, "count": 0}], "count is 0"),
        ([{"event": "BoundedRange", "eta": 0.1, "count": 1.5}], "count is 1.5"),
        ([{"event": "BoundedRange", "eta": 0.1, "rho": 1}], "rho"),
        ([{"event": "GaussianDpEvent", "noise_multiplier": 0}], "noise_multiplier is 0"),
        ([{"event": "WithFailure", "event_": 1}], "event 1"),
        ([{"event": "ApproximateDP", "epsilon": 1, "delta": 2}], "delta is 2"),
        ([{"event": "BoundedRange"}], "event 1"),
        ([{"event": "ComposedDpEvent", "events": 3}], "events is 3"),
        ([{"event": "ComposedDpEvent", "events": [3]}], "events is 3"),
    ],
)
def test_a_wrong_plan_is_refused_with_its_place(plan, told):
    with pytest.raises(ParameterError, match=told):
        read_events(plan, "plan.json")


def test_events_inside_events_are_read():
    inner = {"event": "BoundedRange", "eta": 0.1}
    for event in (
        SelfComposedDpEvent(BoundedRange(0.1), 3),
        WithFailure(BoundedRange(0.1), 1e-6, exclusive=True),
        PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)),
        ComposedDpEvent([BoundedRange(0.1), WithFailure(ZCDpEvent(0.1), 1e-6)]),
    ):
        assert read_events([json.loads(json.dumps(event_to_json(event)))], "x") == [(event, 1)]
    sampled = {"event": "SampledWithoutReplacementDpEvent", "source_dataset_size": 10, "sample_size": 11}
    for wrong, told in (
        ({**sampled, "inner": inner}, "sample_size is 11"),
        ({**sampled, "sample_size": 5, "inner": 3}, "event is 3"),
        ({**sampled, "sample_size": 0, "inner": inner}, "sample_size is 0"),
        ({"event": "PoissonSampledDpEvent", "sampling_probability": 2, "inner": inner}, "sampling_probability is 2"),
        ({"event": "WithFailure", "inner": inner, "delta": 1e-6, "exclusive": 3}, "exclusive is 3"),
        ({"event": "WithFailure", "inner": inner, "delta": True}, "delta is True"),
    ):
        with pytest.raises(ParameterError, match=told):
            read_events([wrong], "plan.json")
    read = read_events([{**sampled, "sample_size": 5, "inner": inner}], "plan.json")
    assert explain_events(read, Setting(delta=1e-5)).side(RO).report.epsilon < 0.1
    with pytest.raises(AssignmentError, match="add-remove"):
        explain_events(read, Setting(delta=1e-5, adjacency="add-remove"))
