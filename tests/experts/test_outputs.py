"""P4: what an expert adds lies in its interval, comes from its own row alone, and is nothing where it said nothing."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import (
    NORMALIZATIONS,
    ExpertOutputs,
    calibrated,
    normalized,
    on_grid,
    require_clipping,
    sanitized,
)
from sottovoce.privacy.unit import DROP, SWAP, TWO_SWAP, Adjacency
from worlds import ADJACENCIES, neighbour, outputs

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
GRID = 1024
NULL = [np.nan] * 3

every_mode = pytest.mark.parametrize("mode", NORMALIZATIONS)
every_adjacency = pytest.mark.parametrize("adjacency", ADJACENCIES, ids=lambda a: a.value)

extreme = st.sampled_from([-np.inf, np.inf, np.nan, -1e300, 1e300, -0.0, 0.0, -1e-300, 5.0])
numbers = st.one_of(st.floats(-40, 3), extreme)
worlds = st.integers(2, 5).flatmap(
    lambda labels: st.integers(0, 6).flatmap(lambda n: arrays(np.float64, (n, labels), elements=numbers))
)
clips = st.sampled_from([2**-10, 0.1, 1.0, 2.3, 30.0, 1000.0])


def summands(rows, clip, mode):
    """Every expert's summand, each computed from a world of its own."""
    return np.array([outputs([row], AR).clipped_sum(clip, mode).values for row in np.asarray(rows)], dtype=np.int64)


@given(rows=worlds, clip=clips, mode=st.sampled_from(NORMALIZATIONS))
@settings(max_examples=150, deadline=None)
def test_every_summand_lies_in_its_interval_and_the_sum_is_their_sum(rows, clip, mode):
    each = summands(rows, clip, mode).reshape(len(rows), rows.shape[1])
    assert each.size == 0 or (each.max() <= 0 and each.min() >= -clip * GRID)
    together = outputs(rows, AR).clipped_sum(clip, mode)
    # The world of all experts adds what each alone adds: no row's summand depends on another row.
    assert together.values.tolist() == each.sum(axis=0).tolist()
    assert together.values.tolist() == outputs(rows[::-1], AR).clipped_sum(clip, mode).values.tolist()
    assert outputs(rows, AR).votes().values.tolist() == outputs(rows[::-1], AR).votes().values.tolist()


@given(rows=worlds, other=st.lists(numbers, min_size=5, max_size=5), adjacency=st.sampled_from(ADJACENCIES))
@settings(max_examples=150, deadline=None)
def test_one_change_moves_scores_and_votes_by_no_more_than_their_stated_sensitivity(rows, other, adjacency):
    if len(rows) == 0:
        return
    changed = neighbour(rows, adjacency, np.array(other[: rows.shape[1]]))
    for scores in (lambda o: o.clipped_sum(2.3), lambda o: o.clipped_sum(0.5, "max"), lambda o: o.votes()):
        before, after = scores(outputs(rows, adjacency)), scores(outputs(changed, adjacency))
        assert np.ptp(before.values - after.values) <= before.sensitivity == after.sensitivity
        if before.squared_l2 is not None:
            assert ((before.values - after.values) ** 2).sum() <= before.squared_l2


@every_mode
def test_the_interval_is_used_to_its_ends(mode):
    # A bound that nobody reaches would hide a mistake in it: opposite experts reach the whole width, and twice it.
    one, other = [0.0, -50.0], [-50.0, 0.0]
    for adjacency, change in ((AR, DROP), (RO, SWAP)):
        before = outputs([one], adjacency).clipped_sum(3.0, mode)
        after = outputs(np.zeros((0, 2)) if adjacency is AR else [other], adjacency).clipped_sum(3.0, mode)
        moved = np.ptp(before.values - after.values)
        assert moved == before.sensitivity == 3 * GRID * change.widths


@every_mode
@pytest.mark.parametrize(
    "row",
    [NULL, [-np.inf] * 3, [np.nan, -np.inf, np.nan], [np.inf, 0.0, 0.0], [np.nan, np.inf, -1.0]],
    ids=["nan", "impossible", "mixed", "infinite", "infinite and nan"],
)
def test_an_expert_without_a_finite_best_label_is_null_and_adds_nothing(mode, row):
    assert outputs([row], RO).clipped_sum(2.0, mode).values.tolist() == [0, 0, 0]
    assert outputs([row], RO).votes().values.tolist() == [0, 0, 0]
    assert outputs([row], RO).summed_without_noise().tolist() == [0, 0, 0]
    beside = [[-0.1, -2.0, -3.0], row]
    assert outputs(beside, RO).votes().values.tolist() == [1, 0, 0]
    assert (
        outputs(beside, RO).clipped_sum(2.0, mode).values.tolist()
        == outputs(beside[:1], RO).clipped_sum(2.0, mode).values.tolist()
    )


@every_mode
def test_a_row_wider_than_floating_point_warns_of_nothing(mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # only a record can have made a model say such a row
        found = outputs([[1.7e308, -1.7e308, 1.6e308]], AR).clipped_sum(2.0, mode).values.tolist()
    assert found == ([0, -2048, 0] if mode == "vocabulary" else [0, -2048, -2048])


@every_mode
def test_no_experts_at_all_add_nothing(mode):
    nobody = outputs(np.zeros((0, 3)), AR)
    assert nobody.clipped_sum(2.0, mode).values.tolist() == [0, 0, 0]
    assert nobody.votes().values.tolist() == [0, 0, 0]


def test_a_label_that_is_not_a_number_is_impossible_and_the_others_stand():
    assert outputs([[np.nan, 0.0, -1.0]], AR).clipped_sum(2.0, "max").values.tolist() == [-2048, 0, -1024]
    assert outputs([[np.nan, -1.0, -0.5]], AR).votes().values.tolist() == [0, 0, 1]


@pytest.mark.parametrize("mode", ["labels", "max"])
def test_adding_a_constant_to_an_experts_logits_changes_nothing(mode):
    # Dyadic logits and constants, so that the shift itself is exact.
    for row in itertools.product((0.0, -0.25, -3.5, -np.inf), repeat=3):
        for constant in (-1024.0, -0.5, 4.0, 65536.0):
            shifted = outputs([np.array(row) + constant], AR).clipped_sum(2.0, mode)
            assert shifted.values.tolist() == outputs([row], AR).clipped_sum(2.0, mode).values.tolist()


def test_in_vocabulary_mode_the_level_counts_and_mass_outside_the_labels_is_no_vote():
    away = outputs([np.log([1e-9, 2e-9, 1e-9])], AR).clipped_sum(2.0, "vocabulary")
    assert away.values.tolist() == [-2048] * 3


def test_over_the_labels_one_expert_always_leaves_a_label_near_the_top():
    for row in itertools.product((0.0, -1.0, -30.0, -np.inf), repeat=3):
        if max(row) == -np.inf:
            continue
        best = outputs([row], AR).clipped_sum(30.0, "labels").values.max()
        assert best >= np.floor(-np.log(3) * GRID)
        assert outputs([row], AR).clipped_sum(30.0, "max").values.max() == 0


@every_mode
def test_order_of_the_labels_is_kept(mode):
    row = [-0.5, -1.0, -1.5]
    for order in itertools.permutations(range(3)):
        turned = outputs([[row[i] for i in order]], AR).clipped_sum(2.0, mode).values
        straight = outputs([row], AR).clipped_sum(2.0, mode).values
        assert turned.tolist() == [straight[i] for i in order]


def test_a_tie_inside_an_expert_goes_to_the_lower_index_as_a_function_of_that_expert():
    assert outputs([[-1.0, -1.0, -2.0], [-2.0, -1.0, -1.0]], AR).votes().values.tolist() == [1, 1, 0]


def test_changing_one_row_never_changes_another_rows_summand_bit_for_bit():
    rng = np.random.default_rng(3)
    rows = rng.normal(-2, 2, (40, 4))
    known = on_grid(normalized(sanitized(rows), "labels"), 2048)
    for place, value in itertools.product((0, 17, 39), (np.nan, np.inf, -np.inf, 1e300, -5.0)):
        changed = rows.copy()
        changed[place] = value
        again = on_grid(normalized(sanitized(changed), "labels"), 2048)
        assert np.array_equal(np.delete(again, place, axis=0), np.delete(known, place, axis=0))


def test_a_row_alone_is_added_up_as_beside_others_in_any_order_of_the_memory():
    rows = np.random.default_rng(4).normal(-3, 2, (40, 33))
    for made in (np.ascontiguousarray, np.asfortranarray):
        together = normalized(sanitized(made(rows)), "labels")
        alone = [normalized(sanitized(row[None]), "labels")[0] for row in rows]
        assert together.tobytes() == np.array(alone).tobytes()


@every_adjacency
def test_sensitivities_follow_the_change_type(adjacency):
    scores = outputs([[0.0, -1.0]], adjacency)
    factor = {AR: 1, RO: 2}[adjacency]
    assert scores.clipped_sum(2.0).sensitivity == 2048 * factor
    assert scores.votes().sensitivity == factor
    assert scores.votes().squared_l2 == {AR: 1, RO: 2}[adjacency]
    assert scores.votes().adjacency is adjacency


def test_two_swaps_double_again():
    scores = ExpertOutputs(np.zeros((2, 2)), TWO_SWAP, RO)
    assert scores.clipped_sum(1.0).sensitivity == 4 * GRID
    assert scores.votes().sensitivity == 4
    # Two votes leave one label for another: (2, -2), squared 8.
    assert scores.votes().squared_l2 == 8


@pytest.mark.parametrize("clip", [0, -1, 2**-11, 1001, float("nan"), float("inf")])
def test_a_clip_that_is_no_width_is_refused(clip):
    for ask in (lambda: require_clipping(clip, "labels"), lambda: outputs([[0.0, 0.0]], RO).clipped_sum(clip)):
        with pytest.raises(ParameterError, match="clip"):
            ask()


def test_an_unknown_normalization_is_refused():
    with pytest.raises(ParameterError, match="normalization"):
        outputs([[0.0, 0.0]], RO).clipped_sum(1.0, "softmax")


def test_rows_are_copied_so_that_a_later_change_of_the_array_changes_no_score():
    rows = np.zeros((1, 2))
    held = outputs(rows, RO)
    rows[:] = -9
    assert held.clipped_sum(1.0, "max").values.tolist() == [0, 0]


# Planted mistakes


def worst_move(summand, change=SWAP, labels=2) -> float:
    """Largest range that one change moves, over a grid of rows with null ones, in units of the clip 2."""
    rows = [np.array(r) for r in itertools.product((0.0, -1.0, -9.0), repeat=labels)] + [np.full(labels, np.nan)]
    null = np.zeros(labels)
    pairs = itertools.product(rows, rows) if change is SWAP else ((row, None) for row in rows)
    moves = [np.ptp(summand(a) - (null if b is None else summand(b))) for a, b in pairs]
    return max(moves) / 2


def honest(row):
    return outputs([row], AR).clipped_sum(2.0, "vocabulary").values / GRID


def without_a_clip(row):
    return np.where(np.isnan(row), 0.0, row)


def null_votes_for_label_zero(row):
    """An expert that said nothing counts as a vote for label 0."""
    return np.eye(2)[0] if np.isnan(row).all() else outputs([row], AR).votes().values.astype(float)


def zeroed(row):
    """The paper's wording: what is outside the interval becomes zero, the best score."""
    kept = np.where((row >= -2) & (row <= 0), row, 0.0)
    return np.where(np.isnan(row), 0.0, kept)


def test_the_honest_summand_moves_one_width_for_a_drop_and_two_for_a_swap():
    assert worst_move(honest, DROP) == 1
    assert worst_move(honest, SWAP) == 2


def test_a_missing_clip_is_caught():
    assert worst_move(without_a_clip, DROP) > 1
    assert worst_move(without_a_clip, SWAP) > 2


def test_zeroing_is_caught_because_it_makes_a_hopeless_label_the_best():
    # Privacy is the same, the answer is not: a clamp never turns the order of two labels round.
    rows = [np.array(r) for r in itertools.product((0.0, -1.0, -1.5, -9.0), repeat=2)]
    ours = [(row, outputs([row], AR).clipped_sum(2.0, "vocabulary").values) for row in rows]
    assert all((row[0] >= row[1]) <= (s[0] >= s[1]) for row, s in ours)
    assert any(row[0] > row[1] and zeroed(row)[0] < zeroed(row)[1] for row in rows)


def test_a_null_expert_that_votes_for_label_zero_is_caught():
    honest_null = outputs([[np.nan, np.nan]], AR).votes().values
    assert honest_null.tolist() == [0, 0]
    assert null_votes_for_label_zero(np.full(2, np.nan)).tolist() != honest_null.tolist()
    # Under zero-out a blank must add the zero vector: exchanging it for a real expert is then a drop, width 1.
    blank, real = np.full(2, np.nan), np.array([-9.0, 0.0])
    moved = np.ptp(null_votes_for_label_zero(blank) - null_votes_for_label_zero(real))
    assert moved == 2 > outputs([real], AR).votes().sensitivity


def test_an_experts_numbers_are_the_same_to_the_bit_at_every_place_among_any_number_of_others():
    # Sums and exponentials run several numbers at a time, and the last ones one by one.
    for labels in (2, 3, 7, 9, 17, 150):
        table = np.random.default_rng(labels).normal(size=(33, labels)) * 3
        for normalization in ("labels", "max"):
            whole = normalized(table, normalization)
            for cut in range(1, 33):
                assert normalized(table[:cut].copy(), normalization).tobytes() == whole[:cut].tobytes()
                assert normalized(table[cut:].copy(), normalization).tobytes() == whole[cut:].tobytes()


# Contextual calibration


def test_content_free_answers_are_subtracted_by_hand():
    asked = np.log([[[0.6, 0.4]], [[0.5, 0.5]]])
    empty = np.log([[[0.75, 0.25]], [[0.75, 0.25]]])
    found = calibrated(np.concatenate([asked, empty]), 2)
    assert np.exp(found[:, 0, 0] - found[:, 0, 1]) == pytest.approx([1.5 / 3, 1 / 3])
    assert np.exp(found).sum(axis=-1) == pytest.approx(np.ones((2, 1)))
    assert calibrated(asked, 0) is asked


def test_an_expert_is_calibrated_by_its_own_answers_alone_to_the_bit():
    scores = np.log(np.random.default_rng(0).dirichlet(np.ones(3), size=(8, 33)))
    whole = calibrated(scores, 3)
    for cut in (1, 2, 7, 16, 32):
        assert calibrated(scores[:, :cut].copy(), 3).tobytes() == whole[:, :cut].copy().tobytes()
        assert calibrated(scores[:, cut:].copy(), 3).tobytes() == whole[:, cut:].copy().tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, -1])
def test_an_expert_without_a_usable_answer_is_null_and_the_others_stay(value, place):
    scores = np.log(np.random.default_rng(1).dirichlet(np.ones(3), size=(5, 4)))
    whole = calibrated(scores, 3)
    scores[place, 2] = value
    found = calibrated(scores, 3)
    assert np.isnan(found[0, 2]).all()
    assert np.delete(found, 2, axis=1).tobytes() == np.delete(whole, 2, axis=1).tobytes()


@given(arrays(np.float64, (4, 3, 2), elements=numbers), clips)
@settings(max_examples=25, deadline=None)
def test_calibrated_summands_stay_within_their_interval(scores, clip):
    rows = calibrated(scores, 3)[0]
    width = int(np.ceil(clip * GRID))
    for mode in NORMALIZATIONS:
        summed = ExpertOutputs(rows, DROP, AR).clipped_sum(clip, mode).values
        assert -3 * width <= summed.min() <= summed.max() <= 0
