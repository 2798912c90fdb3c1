"""How methods are judged: each law against the method's own draws, groups against the rule that a session follows."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.tiny_rows import reader, write_news
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import difference, hard, said_of, series, soft
from sottovoce.benchmarks.harness.datasets import OWN, read_world
from sottovoce.benchmarks.harness.experiment import Cell, Key
from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.partition import Partition
from sottovoce.methods.base import Price
from sottovoce.methods.pbs import PbS
from sottovoce.methods.references import FullContext, Hard, Soft, ZeroShot
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import DROP, SWAP, Adjacency
from sottovoce.randomness import SeededRandomness

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
BOTH = pytest.mark.parametrize("adjacency", [AR, RO], ids=lambda a: a.value)
SOME_PRICE = Price(1.0, e.DELTA)


def said_by(experts, labels=3, seed=0, questions=1):
    """Log-probabilities of shape (questions, experts, labels), the last expert null where there are several."""
    said = np.log(np.random.default_rng(seed).dirichlet([1.0] * labels, (questions, experts)))
    if experts > 1:
        said[:, -1] = np.nan
    return said


def public_of(labels=3, questions=1):
    return np.log(np.random.default_rng(99).dirichlet([4.0] * labels, questions))


def too_far(counts, law, draws, deviations=5.0):
    """Whether some label's frequency is more than five standard deviations (and a thousandth) off its law."""
    slack = deviations * np.sqrt(law * (1 - law) / draws) + 1e-3
    return bool((np.abs(counts / draws - law) > slack).any())


def drawn(method, output, price, draws, seed):
    source = SeededRandomness(seed)
    counts = Counter(method.choose(output, price, source) for _ in range(draws))
    return np.array([counts[label] for label in range(output.labels)])


# Laws


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("name", sorted(e.SELECTING))
def test_the_law_of_a_method_is_how_often_it_chooses(name, adjacency):
    # 10 cases of 3 labels at five standard deviations: false alarm below 2e-5 for the whole test.
    answers = e.Answers(said_by(6), public_of(), e.change_of(1, adjacency), adjacency)
    method, draws = e.SELECTING[name], 8_000
    (law,) = e.laws(method, answers.outputs(), SOME_PRICE)
    counts = drawn(method, answers.outputs()[0], SOME_PRICE, draws, 11)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    assert not too_far(counts, law, draws)
    # Planted: the law at twice the price, which is also the law without the factor 2 of replace-one.
    (wrong,) = e.laws(method, answers.outputs(), Price(2.0, e.DELTA))
    assert too_far(counts, wrong, draws)


@BOTH
def test_laws_are_of_every_question_in_order(adjacency):
    said, public = said_by(6, questions=5), public_of(questions=5)
    whole = e.Answers(said, public, e.change_of(1, adjacency), adjacency).outputs()
    for method in e.SELECTING.values():
        together = e.laws(method, whole, SOME_PRICE)
        assert together.shape == (5, 3)
        for question in range(5):
            one = e.Answers(said[[question]], public[[question]], e.change_of(1, adjacency), adjacency).outputs()
            assert e.laws(method, one, SOME_PRICE).tolist() == together[[question]].tolist()


def test_poe_by_hand():
    # Two experts at log-probabilities (-1, -2) off by their normalizer, clip 2.3 not reached, one label behind by one
    # nat each: a lead of 2 nats. Under add-remove the weight is exp(epsilon * 2 / 2.3), under replace-one its root.
    said = np.log(np.array([[[1, math.exp(-1)], [1, math.exp(-1)]]]) / (1 + math.exp(-1)))
    for adjacency, change in ((AR, 1), (RO, 2)):
        answers = e.Answers(said, np.zeros((1, 2)), e.change_of(1, adjacency), adjacency)
        (law,) = e.laws(e.SELECTING[e.POE], answers.outputs(), Price(1.0))
        # Half a step of 2**-10 nats an expert is lost to the grid.
        assert math.log(law[0] / law[1]) == pytest.approx(2 / 2.3 / change, abs=2e-3)


# Prediction by subsampling


PBS, PBS_PRICE = PbS(0.1, 4), Price(4.0, e.DELTA)


def lead(gap, multiplier, prompts):
    """Two labels, summed probabilities ``gap`` apart: each of k vectors brings noise of multiplier sqrt(2) a label."""
    return float(norm.cdf(gap / (math.sqrt(2 * prompts) * math.sqrt(2) * multiplier)))


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("method", [PBS, PbS(0.3, 1)], ids=["4 prompts", "1 prompt"])
def test_two_labels_follow_the_closed_form(adjacency, method):
    share = np.random.default_rng(4).random((6, method.subsamples))
    said = np.log(np.stack([share, 1 - share], axis=-1))
    law = e.pbs_laws(method, said, PBS_PRICE, adjacency)
    multiplier = method.noise_multiplier(PBS_PRICE, adjacency)
    for row, shares in zip(law, share, strict=True):
        gap = float((2 * shares - 1).sum())
        assert row[0] == pytest.approx(lead(gap, multiplier, method.subsamples), abs=1e-9)
        assert abs(row[0] - lead(gap, multiplier / math.sqrt(2), method.subsamples)) > 1e-3 or abs(gap) < 0.1


DRAWS = 4_000


@pytest.fixture(scope="module")
def subsampled():
    """Four prompts, the last of which could not be read, and how often each label was chosen from them."""
    said = np.log(np.random.default_rng(6).dirichlet([3.0, 0.5, 0.5], (1, 4)))
    said[0, 3] = np.nan
    return said, {a: drawn(PBS, ExpertOutputs(said[0], SWAP, a), PBS_PRICE, DRAWS, 21) for a in (AR, RO)}


@pytest.mark.slow
@BOTH
def test_the_law_of_subsampling_is_how_often_it_chooses(adjacency, subsampled):
    # 3 + 3 statistics at five standard deviations: false alarm below 1e-5.
    said, counts = subsampled
    (law,) = e.pbs_laws(PBS, said, PBS_PRICE, adjacency)
    assert not too_far(counts[adjacency], law, DRAWS)
    assert law.max() - law.min() > 0.3


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("factor", [1 / math.sqrt(2), math.sqrt(2), 2.0], ids=["published", "root 2", "root of k"])
def test_a_wrong_deviation_of_subsampling_is_noticed(factor, adjacency, subsampled, monkeypatch):
    said, counts = subsampled
    right = PbS.noise_multiplier
    monkeypatch.setattr(PbS, "noise_multiplier", lambda *args: factor * right(*args))
    assert too_far(counts[adjacency], e.pbs_laws(PBS, said, PBS_PRICE, adjacency)[0], DRAWS)


@pytest.mark.slow
def test_many_labels_far_apart_and_equal_ones_have_a_law_that_sums_to_one():
    far = np.log(np.full((1, 4, 14), 1e-12))
    far[..., 3] = 0.0
    equal = np.full((1, 4, 14), -5.0)
    law = e.pbs_laws(PBS, np.concatenate([far, equal]), Price(50.0, e.DELTA), AR)
    assert law.sum(axis=1) == pytest.approx([1, 1], abs=1e-12)
    assert law[0, 3] > 0.99
    assert law[1] == pytest.approx([1 / 14] * 14, abs=1e-9)


def test_another_number_of_prompts_than_the_method_has_is_refused():
    with pytest.raises(ParameterError, match="3 prompts") as caught:
        e.pbs_laws(PBS, said_by(3), PBS_PRICE, AR)
    assert caught.value.name == "said"


def test_prompts_of_a_sample_hold_each_record_with_its_chance(tmp_path):
    # 40 questions x 10 prompts x 20 records = 8,000 coins: five standard deviations, false alarm below 1e-6.
    episode = read_world(write_news(tmp_path), "agnews").episode(0, 40, OWN)
    seen = []

    def keep(task, context, query):
        seen.append([example.fields["text"] for example in context])
        return [0.0] * 4

    method = PbS(0.25, 10)
    said = e.ask_samples(FakeScorer(keep), episode, 20, method, 5)
    assert said.shape == (40, 10, 4)
    texts = [record.fields["text"] for record in episode.records[:20]]
    assert all(sample == [text for text in texts if text in sample] for sample in seen)
    slack = 5 * math.sqrt(0.25 * 0.75 / 8_000)
    assert abs(sum(map(len, seen)) / 8_000 - 0.25) < slack < abs(0.25 - 0.3)
    again = e.ask_samples(reader(), episode, 20, method, 5)
    assert again.tolist() == e.ask_samples(reader(), episode, 20, method, 5).tolist()
    assert again.tolist() != e.ask_samples(reader(), episode, 20, method, 6).tolist()


# Right or not


def test_equally_good_labels_share_the_credit():
    scores = np.array([[2.0, 2.0, 0.0], [0.0, 1.0, 0.0], [5.0, 5.0, 5.0], [-np.inf, -1.0, -np.inf]])
    law = e.best_laws(scores)
    assert law.tolist() == [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.0, 1.0, 0.0]]
    # By hand: (1/2 + 0 + 1/3 + 1) / 4.
    assert e.right(law, np.array([0, 0, 2, 1])) == pytest.approx(100 * (0.5 + 0 + 1 / 3 + 1) / 4)


def test_a_prompt_that_could_not_be_read_is_right_by_chance_and_no_nan():
    law = e.best_laws(np.array([[np.nan] * 4, [0.0, 1.0, np.nan, 0.0]]))
    assert law.tolist() == [[0.25] * 4, [0, 1, 0, 0]]
    assert e.right(law, np.array([2, 1])) == pytest.approx(62.5)


def test_right_answers_are_counted_with_their_probability():
    law = np.array([[0.75, 0.25], [0.1, 0.9]])
    assert e.right(law, np.array([0, 0])) == pytest.approx(100 * (0.75 + 0.1) / 2)


# References


def odd_answers():
    """Answers with experts that are null, half read, impossible or infinite in places."""
    rng = np.random.default_rng(13)
    said = np.log(rng.dirichlet([1.0] * 4, (60, 5)))
    kinds = rng.integers(12, size=(60, 5))
    said[kinds == 0] = np.nan
    said[kinds == 1] = -np.inf
    said[..., 2][kinds == 2] = np.nan
    said[..., 3][kinds == 3] = np.inf
    said[..., 1][kinds == 4] = -np.inf
    said[:3] = np.nan
    return said


def test_soft_and_hard_references_choose_as_the_methods_of_that_name():
    said = odd_answers()
    outputs = [ExpertOutputs(rows, SWAP, RO) for rows in said]
    source = SeededRandomness(1)
    for method, scores in ((Soft(), soft(said)), (Hard(), hard(said))):
        assert scores.argmax(axis=1).tolist() == [method.choose(output, SOME_PRICE, source) for output in outputs]
    assert hard(said).sum(axis=1).min() == 0
    assert hard(said).tolist() == [output.votes().values.tolist() for output in outputs]


def test_zero_shot_and_full_context_choose_as_the_methods_of_that_name():
    said = odd_answers()[:, :1]
    law, source = e.best_laws(said[:, 0]), SeededRandomness(1)
    for rows, found in zip(said, law, strict=True):
        if np.isposinf(rows).any():
            continue
        for method in (ZeroShot(), FullContext()):
            assert found[method.choose(ExpertOutputs(rows, SWAP, RO), SOME_PRICE, source)] == found.max()


# Who shares an expert


@BOTH
@pytest.mark.parametrize("group", [1, 2, 4])
def test_the_change_type_is_the_one_a_session_would_charge_for(adjacency, group):
    capacity = 6 if group > 1 and adjacency is AR else None
    _, change = Partition(group, capacity).rule(adjacency)
    assert e.change_of(group, adjacency) == change
    assert (e.change_of(group, adjacency) == DROP) == (group == 1 and adjacency is AR)


def test_where_the_number_is_public_records_are_dealt_out_exactly():
    assert e.grouped(7, 3, RO, 5) == [[0, 1, 2], [3, 4, 5], [6]]
    assert e.grouped(4, 4, RO, 5) == [[0, 1, 2, 3]]
    for adjacency in (AR, RO):
        assert e.grouped(3, 1, adjacency, 5) == [[0], [1], [2]]


def test_under_add_remove_every_record_draws_its_own_slot():
    # 4 records, 2 a slot, 2 slots: five statistics of 3,000 seeds at five standard deviations, false alarm below 1e-5.
    # Records that are dealt out in random order would share a slot with chance 1/3, and none would be left out.
    seeds = 3_000
    places = np.full((seeds, 4), -1)
    for seed in range(seeds):
        slots = e.grouped(4, 2, AR, seed)
        assert len(slots) == 2
        assert max(map(len, slots)) <= 2
        held = [record for slot in slots for record in slot]
        assert len(held) == len(set(held))
        for place, slot in enumerate(slots):
            assert slot == sorted(slot)
            places[seed, slot] = place
    slack = 5 * math.sqrt(0.25 / seeds)
    # The first two records of a slot stay, so records 0 and 1 are always held.
    first = places[:, :2]
    assert (first >= 0).all()
    assert np.abs((first == 0).mean(axis=0) - 0.5).max() < slack
    assert abs((first[:, 0] == first[:, 1]).mean() - 0.5) < slack < 0.5 - 1 / 3
    # A record is left out where two before it drew its slot: chance 1/4 for record 2, 1/2 for record 3.
    assert abs((places[:, 3] == -1).mean() - 0.5) < slack
    assert (places[:, 2] == -1).mean() == pytest.approx(0.25, abs=slack)


def test_under_add_remove_one_more_record_moves_nobody():
    for seed in range(200):
        fewer, more = e.grouped(9, 5, AR, seed), e.grouped(10, 5, AR, seed)
        assert len(fewer) == len(more) == 2
        changed = [(old, new) for old, new in zip(fewer, more, strict=True) if old != new]
        assert len(changed) <= 1
        assert all(new == [*old, 9] for old, new in changed)


@BOTH
@pytest.mark.parametrize("group", [2, 3])
def test_an_expert_holds_no_more_than_a_group(adjacency, group):
    for seed in range(100):
        for records in (4, 8, 25):
            slots = e.grouped(records, group, adjacency, seed)
            assert len(slots) == math.ceil(records / group)
            assert max(map(len, slots)) <= group
            held = sorted(record for slot in slots for record in slot)
            assert held == (list(range(records)) if adjacency is RO else sorted(set(held)))


def test_experts_see_the_records_of_their_slot_in_order_and_empty_slots_are_null(tmp_path):
    episode = read_world(write_news(tmp_path), "agnews").episode(0, 3, OWN)
    seen = set()

    def keep(task, context, query):
        seen.add(tuple(example.fields["text"] for example in context))
        return [float(len(context)), 0.0, 0.0, 0.0]

    said = e.ask(FakeScorer(keep), episode, [[2, 0], [], [1]])
    text = [record.fields["text"] for record in episode.records]
    assert seen == {(text[2], text[0]), (text[1],)}
    assert np.isnan(said[:, 1]).all()
    assert said[:, 0].argmax(axis=1).tolist() == [0, 0, 0]
    assert said.shape == (3, 3, 4)
    assert np.isnan(e.ask(FakeScorer(keep), episode, [[], []])).all()
    assert e.ask_public(FakeScorer(keep), episode).tolist() == np.log([[0.25] * 4] * 3).tolist()


# Statistics


def cell(*values):
    return Cell(Key("agnews", OWN, e.POE), values)


def test_a_cells_standard_error_by_hand():
    # Mean 4, squared deviations 4 + 0 + 4 = 8, variance 8 / 2 = 4, error sqrt(4 / 3).
    assert cell(2.0, 4.0, 6.0).mean == 4
    assert cell(2.0, 4.0, 6.0).standard_error == pytest.approx(math.sqrt(4 / 3))
    assert str(cell(2.0, 4.0, 6.0)) == "4.0 ± 1.2"
    assert math.isnan(cell(2.0).standard_error)
    assert str(cell(2.0)) == "2.0"


def test_a_difference_is_taken_seed_by_seed():
    # Gaps 1, 2, 3: mean 2, variance 1, error sqrt(1 / 3), though the cells themselves scatter by tens.
    one, other = cell(11.0, 52.0, 93.0), cell(10.0, 50.0, 90.0)
    assert difference(one, other) == (pytest.approx(2), pytest.approx(math.sqrt(1 / 3)))
    unpaired = math.hypot(one.standard_error, other.standard_error)
    assert unpaired > 30
    assert said_of(difference(one, other)) == "+2.0 ± 0.6"
    assert difference(other, one)[0] == pytest.approx(-2)


def test_a_difference_of_nothing_or_of_one_seed_says_so():
    for pair in ((None, cell(1.0)), (cell(1.0), None)):
        assert all(map(math.isnan, difference(*pair)))
        assert said_of(difference(*pair)) == "not measured"
    gap, error = difference(cell(3.0), cell(1.0))
    assert gap == 2
    assert math.isnan(error)


def test_a_line_has_two_standard_errors_either_way_and_leaves_out_what_is_missing():
    line = series(e.POE, [4.0, 8.0, 25.0], [cell(2.0, 4.0, 6.0), None, cell(5.0)])
    assert list(line.x) == [4.0, 25.0]
    assert list(line.y) == [4.0, 5.0]
    assert list(line.low) == pytest.approx([4 - 2 * math.sqrt(4 / 3), 5])
    assert list(line.high) == pytest.approx([4 + 2 * math.sqrt(4 / 3), 5])
    assert not line.reference
    assert series(e.SOFT, [1.0], [cell(1.0)]).reference
