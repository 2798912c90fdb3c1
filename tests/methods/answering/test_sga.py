"""Semantic groups: what is found and shown, what it costs, and when it refuses before anything is charged."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.experts.sampling import ExpertSampling
from sottovoce.experts.written import WrittenOutputs
from sottovoce.mechanisms.clustering.tree import SplitScore
from sottovoce.methods.answering.answerer import AnswerSetting, Outcome, make_answerer
from sottovoce.methods.answering.augment import Augment
from sottovoce.methods.answering.sga import SGA, representatives
from sottovoce.methods.base import Price
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.unit import DROP, SWAP, Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.testing.answer_worlds import Writing, public_side

RO, AR, ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT
LONG = 384


def groups(count: int, sizes: tuple[int, ...], spread: float = 0.2, seed: int = 1):
    """Unit vectors of length 384 in planted groups, with one public answer near the middle of each."""
    source = np.random.default_rng(seed)
    middles = source.normal(size=(len(sizes), LONG))
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    truth = np.repeat(np.arange(len(sizes)), sizes)[:count]
    vectors = middles[truth] + spread / math.sqrt(LONG) * source.normal(size=(count, LONG))
    public = np.repeat(middles, 4, axis=0) + spread / math.sqrt(LONG) * source.normal(size=(4 * len(sizes), LONG))
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (vectors, public)]
    return unit[0], unit[1], truth


def side_of(public: np.ndarray, write=None):
    side = public_side(0, write or Writing())
    names = [f"group {number // 4}" + f" answer {number % 4}" for number in range(len(public))]
    return type(side)(**{**vars(side), "candidates": names, "vectors": public, "zero_shot": names[0]})


def setting(experts, candidates, adjacency=RO, shots=1) -> AnswerSetting:
    units = experts * shots if adjacency.size_is_public else None
    return AnswerSetting(adjacency, ExpertSampling(shots, experts), units=units, dimension=LONG, candidates=candidates)


def written(vectors, change=SWAP, adjacency=RO) -> WrittenOutputs:
    return WrittenOutputs(["said"] * len(vectors), change, adjacency, slots=len(vectors), vectors=vectors)


@pytest.mark.parametrize(("adjacency", "change"), [(RO, SWAP), (AR, SWAP), (AR, DROP), (ZO, DROP)])
def test_planted_groups_of_unit_vectors_are_found_and_ranked_by_charged_counts(adjacency, change):
    vectors, public, _ = groups(400, (220, 120, 60))
    shots = 4 if (adjacency, change) == (AR, SWAP) else 1
    at = setting(400, len(public), adjacency, shots)
    assert at.change == change
    plan = SGA(depth=3, axes=3).plan(Price(8.0, 1e-6), at)
    outcome = plan.answerer.draw(at, written(vectors, change, adjacency), side_of(public), SeededRandomness(3))
    assert [answer.split(" answer")[0] for answer in outcome.values["answers"]] == ["group 0", "group 1", "group 2"]
    # Noisy counts: beside the true sizes within five deviations of a sum of two pieces, and not all of them exact.
    noise = math.sqrt((2 if change is SWAP else 1) / (2 * plan.answerer.clustering(at).levels[0].count_rho))
    assert np.abs(np.array(outcome.values["sizes"]) - [220, 120, 60]).max() < 5 * math.sqrt(2) * noise
    assert outcome.values["sizes"] != [220, 120, 60]


def test_every_level_and_every_sum_is_charged_whether_or_not_a_cut_is_kept():
    at = setting(100, 40)
    plan = SGA(depth=3).plan(Price(8.0, 1e-6), at)
    dpm = plan.answerer.clustering(at)
    assert len(dpm.levels) == 3
    parts = sum(level.count_rho for level in dpm.levels) + dpm.sum_rho
    assert 0.5 * cost_of(plan.base).rho == pytest.approx(parts, rel=1e-2)  # half of it is for cuts
    assert cost_of(plan.base).rho <= plan.answerer.rho


def test_oracle_21_the_widths_of_the_splits_are_those_of_a_replaced_point():
    at = setting(100, 40)
    (split, _), *_ = SGA(rho=1.0).cost(at)
    assert float(SplitScore().width(RO)) == 17.2 == pytest.approx(split.width(joins=False))
    assert float(SplitScore().width(AR)) == 12.2 == pytest.approx(split.width(joins=True))


@pytest.mark.parametrize(("adjacency", "shots"), [(RO, 1), (AR, 1), (AR, 4), (ZO, 1)])
def test_the_steps_that_are_explained_cost_what_is_charged(adjacency, shots):
    at = setting(100, 40, adjacency, shots)
    plan = SGA().plan(Price(8.0, 1e-6), at)
    explained = sum(cost_of(step.event(at.change)).rho * times for step, times in plan.answerer.cost(at))
    assert explained == pytest.approx(cost_of(plan.base).rho, rel=1e-6)


def test_the_papers_own_accounting_is_far_below_what_a_replaced_record_costs():
    # Specification 11, items 9 to 12: parts amplified apart, by Poisson coins, for points that come or go, counts free.
    sampled = AnswerSetting(
        RO, ExpertSampling(4, 100, "without-replacement"), units=2600, dimension=LONG, candidates=100
    )
    figures = {}
    for epsilon, at in itertools.product((1.0, 8.0), (sampled, setting(100, 100, shots=4))):
        plan = SGA().plan(Price(epsilon, 1e-6), at)
        figures[epsilon, at.rate is None] = plan.answerer.claim(at).epsilon(1e-6, 1)
        assert plan.report.epsilon == pytest.approx(epsilon, rel=1e-4)
    assert figures == {
        (1.0, False): pytest.approx(0.2871, abs=1e-3),
        (1.0, True): pytest.approx(0.6125, abs=1e-3),
        (8.0, False): pytest.approx(1.576, abs=1e-2),
        (8.0, True): pytest.approx(4.290, abs=1e-2),
    }
    # By hand, at epsilon 1: two cuts of 2 * 8.6 kappa, each ln(1 + q (e^it - 1)), are most of it.
    (level, _) = SGA().plan(Price(1.0, 1e-6), sampled).answerer.clustering(sampled).levels
    one = math.log1p(400 / 2600 * math.expm1(17.2 * level.kappa))
    assert one < figures[1.0, False] < 3 * one


# Too few experts


def test_too_few_experts_are_refused_before_the_charge_with_the_number_that_is_needed():
    # By hand: at epsilon 1 a level's counts have rho .3 * .02436 / 2 = .00365, their sum of two pieces a deviation of
    # sqrt(2 * 2 / (2 * .00365)) = 23.4, and a side needs three of them: 71. Two sides are 142, less 9 public answers.
    with pytest.raises(ParameterError) as refused:
        SGA().plan(Price(1.0, 1e-6), setting(100, 9))
    assert "experts is 100; it must be 133 or more" in str(refused.value)
    assert "a group needs 71 answers" in str(refused.value)
    assert "--method ksa" in str(refused.value)
    assert SGA().plan(Price(1.0, 1e-6), setting(133, 9)).report.epsilon <= 1.0


def test_public_answers_help_but_experts_alone_must_be_more_than_noise():
    assert SGA().plan(Price(1.0, 1e-6), setting(71, 100)).answerer.fewest_experts(setting(71, 100)) == 71
    with pytest.raises(ParameterError, match="experts is 70; it must be 71 or more"):
        SGA().plan(Price(1.0, 1e-6), setting(70, 100))


@pytest.mark.cases(1)
@pytest.mark.parametrize("experts", [60, 100, 132])
def test_where_it_refuses_no_cut_would_be_kept_without_luck(experts):
    # The best of all worlds, two groups of equal size: noise would have to lift the smaller side by what is missing.
    answerer = SGA(rho=SGA().plan(Price(1.0, 1e-6), setting(133, 9)).answerer.rho)
    least = answerer.clustering(setting(133, 9)).min_size
    assert (experts + 9) // 2 < least
    vectors, public, _ = groups(experts, (experts // 2, experts - experts // 2))
    found = []
    for seed in range(30):
        outcome = answerer.draw(setting(133, 9), written(vectors), side_of(public), SeededRandomness(seed))
        found.append(len(outcome.values["sizes"]))
    assert sum(number > 1 for number in found) <= 15


def test_a_private_number_of_experts_is_refused():
    private = AnswerSetting(AR, ExpertSampling(), dimension=LONG, candidates=40)
    with pytest.raises(ParameterError, match="experts is missing; it must be a public number"):
        SGA().plan(Price(8.0, 1e-6), private)


# Representatives


def test_what_stands_for_a_group_is_a_public_answer_of_its_own_cell():
    vectors, public, truth = groups(300, (150, 150))
    at = setting(300, len(public))
    answerer = SGA().plan(Price(8.0, 1e-6), at).answerer
    found = answerer.clustering(at, public).cluster(written(vectors).points(), SeededRandomness(2), public)
    chosen = representatives(found, public)
    cells = found.assign(vectors)
    for cell, index in enumerate(chosen):
        shown = index // 4
        assert (truth[cells == cell] == shown).mean() > 0.9


def test_a_cell_without_a_public_answer_is_shown_by_the_nearest_one():
    vectors, public, _ = groups(300, (150, 150))
    only = public[:4]
    at = setting(300, 4)
    answerer = SGA(projection="random").plan(Price(8.0, 1e-6), at).answerer
    outcome = answerer.draw(at, written(vectors), side_of(only), SeededRandomness(2))
    assert set(outcome.values["answers"]) <= {f"group 0 answer {number}" for number in range(4)}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("representatives", "private", "shows the records in its prompt.*Allowed are public answers"),
        ("ranks", "exact", "ranks by true sizes are a leak"),
        ("box", "private", "a box read off private answers gives them away"),
    ],
)
def test_what_is_a_leak_is_refused_with_what_is_allowed(option, value, words):
    for name in ("sga", "augment"):
        with pytest.raises(ParameterError, match=words):
            make_answerer(name, **{option: value})


# Projections


def test_axes_follow_from_public_numbers_and_raw_coordinates_find_one_group():
    assert SGA(axes=4)._kind(setting(100, 12)) == "principal"
    assert SGA(axes=4)._kind(setting(100, 11)) == "random"
    vectors, public, _ = groups(400, (220, 120, 60))
    at = setting(400, len(public))
    raw = SGA(depth=3, projection="raw").plan(Price(8.0, 1e-6), at)
    outcome = raw.answerer.draw(at, written(vectors), side_of(public), SeededRandomness(3))
    assert len(outcome.values["sizes"]) == 1


def test_public_answers_that_do_not_differ_get_random_axes_and_no_error_behind_the_charge():
    same = np.repeat(np.eye(LONG)[:1], 12, axis=0)
    vectors, _, _ = groups(100, (100,))
    at = setting(100, 12)
    answerer = SGA().plan(Price(8.0, 1e-6), at).answerer
    outcome = answerer.draw(at, written(vectors), side_of(same), SeededRandomness(3))
    assert outcome.values["answers"][0].startswith("group 0")


def test_principal_axes_of_too_few_answers_are_refused_before_the_charge():
    with pytest.raises(ParameterError, match="more than the number of axes, 4"):
        SGA(projection="principal").plan(Price(8.0, 1e-6), setting(100, 4))


# The answer


def test_the_first_k_groups_are_shown_to_the_writer_behind_public_examples():
    write = Writing()
    outcome = Outcome("sga", {"answers": ["one", "two", "three", "four"], "sizes": [9, 5, 3, 2]})
    assert SGA().finish(outcome, side_of(np.eye(LONG)[:4], write)) == "one"
    assert not write.asked
    said = SGA(show="top-k", k=3).finish(outcome, side_of(np.eye(LONG)[:4], write))
    assert said.endswith("1. one\n2. two\n3. three")
    silent = side_of(np.eye(LONG)[:4], Writing(silent=True))
    assert SGA(show="top-k").finish(outcome, silent) == "one"


def test_what_is_written_around_groups_is_written_from_public_texts_and_the_outcome():
    asked = []

    def write(requests):
        asked.extend(requests)
        return [f"like {request.instruction.splitlines()[-1]}" for request in requests]

    outcome = Outcome("augment", {"answers": ["one", "two"], "sizes": [9, 5]})
    said = Augment(k=2, each=1).finish(outcome, side_of(np.eye(LONG)[:4], write))
    assert [request.instruction.splitlines()[-1] for request in asked] == ["one", "two", "- like two"]
    assert "- one\n- two\n- like one\n- like two" in asked[-1].instruction
    assert said == "like - like two"
    silent = side_of(np.eye(LONG)[:4], Writing(silent=True))
    assert Augment().finish(outcome, silent) == "one"


def test_augmentation_costs_what_its_clustering_costs():
    at = setting(100, 40)
    assert Augment().plan(Price(3.0, 1e-6), at).base == SGA().plan(Price(3.0, 1e-6), at).base
