"""Joining by id and splitting: what each half sees, in which order, and what choosing on the same runs would do."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.audits.bounds import Rates, epsilon_of_accuracy, refutes
from sottovoce.audits.split import Split, best_threshold, joined, threshold_against
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.errors import ParameterError


def trials_of(scores, present):
    names = [f"c{i}" for i in range(len(scores))]
    return joined(dict(zip(names, map(float, scores), strict=True)), dict(zip(names, map(bool, present), strict=True)))


def test_scores_are_joined_by_id_whatever_their_order():
    scores = {"x": 0.5, "y": 0.1, "z": 0.9}
    truths = {"z": True, "x": False, "y": False}
    trials = joined(scores, truths)
    assert dict(zip(trials.ids, trials.scores.tolist(), strict=True)) == scores
    assert dict(zip(trials.ids, trials.present.tolist(), strict=True)) == truths
    turned = joined(dict(reversed(scores.items())), truths)
    assert turned.ids == trials.ids


@pytest.mark.parametrize(
    ("scores", "present", "word"),
    [
        ({"a": 1.0}, {"b": True}, "'a' in one of them alone"),
        ({"a": 1.0, "b": 2.0}, {"a": True}, "'b' in one of them alone"),
        ({}, {}, "none"),
        ({"a": float("nan")}, {"a": True}, "NaN"),
        ({"a": 1.0}, {"a": 1}, "true or false"),
    ],
)
def test_what_does_not_belong_together_is_refused(scores, present, word):
    with pytest.raises(ParameterError, match=word):
        joined(scores, present)


def test_names_of_canaries_cannot_bend_ties():
    # All scores are equal, and names tell the coin: an order of names would pick 100 absent ones, and guess "absent".
    present = {**{f"in-{i}": True for i in range(100)}, **{f"out-{i}": False for i in range(100)}}
    canaries, guesses, correct = joined(dict.fromkeys(present, 0.0), present).one_run(100)
    assert (canaries, guesses) == (200, 100)
    assert 30 < correct < 70


def test_one_run_guesses_on_the_surest():
    trials = trials_of([5, -5, 4, -4, 0.1, -0.1], [True, False, True, True, False, True])
    assert trials.one_run(2) == (6, 2, 2)
    assert trials.one_run(4) == (6, 4, 3)
    with pytest.raises(ParameterError, match="guesses"):
        trials.one_run(7)


def test_the_rule_sees_one_half_and_the_other_half_certifies_once():
    trials = trials_of(range(100), [i >= 50 for i in range(100)])
    seen = []
    split = Split(trials, np.random.default_rng(1), 0.3)
    choice = split.choose(lambda half: seen.append(half) or best_threshold(half))
    counted = []
    choice.certify(lambda half, threshold: counted.append((half, threshold)))
    assert len(seen[0]) == 30
    assert len(counted[0][0]) == 70
    assert not set(seen[0].ids) & set(counted[0][0].ids)
    assert set(seen[0].ids) | set(counted[0][0].ids) == set(trials.ids)
    assert counted[0][1] == choice.chosen
    with pytest.raises(ParameterError, match="second choice"):
        split.choose(best_threshold)
    with pytest.raises(ParameterError, match="second count"):
        choice.rates()


def test_certifying_trials_cannot_be_read_off_a_split():
    split = Split(trials_of(range(10), [True] * 5 + [False] * 5), np.random.default_rng(1))
    assert "c1" not in repr(split)
    assert repr(split) == "Split(5 trials to choose, 5 to certify)"


def test_a_threshold_guesses_present_at_and_above_it():
    trials = trials_of([1, 2, 3, 4], [False, True, False, True])
    assert trials.rates(3) == Rates(1, 2, 1, 2)
    assert trials.rates(2.5) == Rates(1, 2, 1, 2)
    assert trials.rates(3.5) == Rates(0, 2, 1, 2)


def test_a_choice_that_is_no_threshold_counts_no_rates():
    split = Split(trials_of(range(10), [i > 4 for i in range(10)]), np.random.default_rng(1))
    with pytest.raises(ParameterError, match="threshold"):
        split.choose(lambda half: "left").rates()
    with pytest.raises(ParameterError, match="share"):
        Split(trials_of([1, 2], [True, False]), np.random.default_rng(1), 0.01)
    with pytest.raises(ParameterError, match="present"):
        threshold_against(trials_of([1, 2], [True, True]), TradeOff.of_mu(1.0))


def most_accurate(trials) -> float:
    order = trials.scores.argsort()
    present, scores = trials.present[order], trials.scores[order]
    right = np.concatenate([[0], np.cumsum(~present)]) + np.concatenate([np.cumsum(present[::-1])[::-1], [0]])
    return float(np.append(scores, np.inf)[int(right.argmax())])


def bound(trials, threshold) -> float:
    return epsilon_of_accuracy(int(((trials.scores >= threshold) == trials.present).sum()), len(trials))


@pytest.mark.slow
def test_choosing_on_other_runs_keeps_the_level_and_choosing_on_the_same_does_not():
    """False alarm: at 5 % more than 34 of 400 has chance 1e-3 at most. Specification 10.8 has 34 % on the same runs."""
    draws, other, same = np.random.default_rng(8), 0, 0
    for _ in range(400):
        trials = trials_of(draws.standard_normal(100), draws.random(100) < 0.5)
        same += bound(trials, most_accurate(trials)) > 0
        other += Split(trials, draws).choose(most_accurate).certify(bound) > 0
    assert other <= 34
    assert same / 400 == pytest.approx(0.34, abs=0.08)


def test_the_threshold_against_a_curve_is_one_that_refutes_it():
    draws = np.random.default_rng(2)
    present = draws.random(4000) < 0.5
    trials = trials_of(3 * present + draws.standard_normal(4000), present)
    claim = TradeOff.of_mu(2.0)
    assert refutes(Split(trials, draws).choose(lambda half: threshold_against(half, claim)).rates(), claim, 0.001)
