"""Private clustering: widths, exact laws over small worlds, replays of the whole release, price, and what it finds."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from clustering_worlds import Script, play
from sottovoce.errors import ParameterError
from sottovoce.mechanisms.clustering import private_clustering
from sottovoce.mechanisms.clustering.price import Level, split_event
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.mechanisms.clustering.release import Branch
from sottovoce.mechanisms.clustering.tree import Node, SplitScore, cuts_within, windows_and_ranks
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.privacy.accounting.accountant import ALPHAS, accumulate, rdp_of_bounded_range, rho_of_bounded_range
from sottovoce.privacy.accounting.adaptive_composition import optimal_epsilon
from sottovoce.privacy.accounting.bounded_range import epsilon_of_bounded_range
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.events import BoundedRange, ComposedDpEvent, SelfComposedDpEvent, ZCDpEvent
from sottovoce.privacy.ledger.budget import Budget, amount_of
from sottovoce.privacy.points import PrivatePoints, grid_rows
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness

RO, AR, ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT
BOTH = pytest.mark.parametrize("adjacency", [AR, RO], ids=lambda a: a.value)
EMPTY = np.empty((0, 2), dtype=np.int64)
PUBLISHED = SplitScore()


def plane(steps: int = 4) -> PublicProjection:
    return PublicProjection.raw(2, steps=steps)


def small(adjacency: Adjacency, **changes) -> DPM:
    settings = {"levels": (Level(0.05, 0.5),), "sum_rho": 0.1, "half_window": 1, "min_size": 1, "max_gap": None}
    return DPM(adjacency, changes.pop("projection", plane()), **{**settings, **changes})


def law_of(dpm: DPM, rows: np.ndarray, size: int, public: np.ndarray = EMPTY) -> np.ndarray:
    """Log-probabilities of every cut of a root with released size ``size``."""
    node = Node.whole(dpm.projection, (rows, public), size)
    cuts = cuts_within(node.box, dpm.half_window, range(dpm.projection.coordinates), frozenset())
    law = Exponential(dpm._epsilon(dpm.levels[0])).law(dpm.split_scores(node, cuts))
    return np.array([math.log(p.numerator) - math.log(p.denominator) for p in law])


# The width of a cut's score (oracle O21).


def test_o21_widths_by_hand():
    assert PUBLISHED.steepest == Fraction(18, 5)
    assert PUBLISHED.concave
    assert [float(PUBLISHED.width(a)) for a in (AR, ZO, RO)] == [12.2, 12.2, 17.2]
    assert [float(PUBLISHED.width(a, one_axis=True)) for a in (AR, RO)] == [8.6, 13.6]


def test_o21_utilities_equal_the_published_score_up_to_a_constant():
    # The slow obvious version, in exact fractions: n (5 (1 - count / n) + f(rank)), with f drawn from its corners.
    def height(rank: Fraction) -> Fraction:
        near = min(rank, 1 - rank)
        q, t = Fraction(1, 12), Fraction(3, 10)
        return near * t / q if near <= q else t + (near - q) * (1 - t) / (Fraction(1, 2) - q)

    for size in (1, 7, 12, 36, 100):
        ranks = np.arange(size + 1)
        windows = ranks[::-1] % (size + 1)
        found = PUBLISHED.utilities(windows, ranks, size)
        for window, rank, utility in zip(windows.tolist(), ranks.tolist(), found.tolist(), strict=True):
            score = 5 * (1 - Fraction(window, size)) + height(Fraction(rank, size))
            assert Fraction(utility, PUBLISHED.scale) == size * score - 5 * size


def range_of_change(before, after, half_window: int, steps: int, size: int) -> Fraction:
    box = ((0, steps),) * before.shape[1]
    cuts = cuts_within(box, half_window, range(len(box)), frozenset())
    first, second = (
        PUBLISHED.utilities(*windows_and_ranks(places, cuts, half_window, steps), size) for places in (before, after)
    )
    return Fraction(int(np.ptp(second - first)), PUBLISHED.scale)


def test_o21_widths_are_attained_on_two_axes():
    # Released size 36, so that a rank is steep up to 3 and from 33 on; 35 points low on axis 0 and high on axis 1.
    crowd = np.array([[2, 7]] * 35)
    joined = np.vstack([crowd, [[4, 0]]])
    moved = np.vstack([crowd, [[7, 5]]])
    assert range_of_change(crowd, joined, 1, 8, 36) == Fraction(61, 5)
    # On axis 0 the point comes down into a window with everybody below it, on axis 1 it leaves one with nobody below.
    assert range_of_change(moved, joined, 1, 8, 36) == Fraction(86, 5)


@pytest.mark.slow
@pytest.mark.parametrize(("axes", "most"), [(1, (8.6, 13.6)), (2, (12.2, 17.2)), (3, (12.2, 17.2))])
@pytest.mark.parametrize("half_window", [1, 3])
def test_o21_widths_hold_and_are_nearly_attained_in_random_search(axes, most, half_window):
    source = np.random.default_rng(axes)
    added = moved = 0.0
    for _ in range(1500):
        count, size = int(source.integers(2, 60)), 36
        spread = source.dirichlet(np.ones(12) * 0.3, axes)
        places = np.stack([source.choice(12, count, p=p) for p in spread], axis=1)
        new = source.integers(12, size=(1, axes))
        added = max(added, range_of_change(places, np.vstack([places, new]), half_window, 12, size))
        moved = max(moved, range_of_change(places, np.vstack([places[1:], new]), half_window, 12, size))
    assert added <= PUBLISHED.width(AR, one_axis=axes == 1)
    assert moved <= PUBLISHED.width(RO, one_axis=axes == 1)
    assert (float(added), float(moved)) >= (most[0] - 0.01, most[1] - 4)
    if axes > 1:
        # The narrower width of one axis would be wrong here.
        assert added > PUBLISHED.width(AR, one_axis=True)


@pytest.mark.parametrize("half_window", [1, 2])
def test_o21_widths_of_one_axis_hold_in_every_small_world_and_are_attained(half_window):
    # Windows of half width 2 overlap; every multiset of up to three points on eight steps, every point added or moved.
    cuts = cuts_within(((0, 8),), half_window, [0], frozenset())
    added = moved = 0
    for size, count in itertools.product((1, 2, 5), range(4)):
        for base in itertools.combinations_with_replacement(range(8), count):
            worlds = [
                np.array([*base, *more], dtype=np.int64).reshape(-1, 1) for more in [[], *([p] for p in range(8))]
            ]
            before, *after = (
                PUBLISHED.utilities(*windows_and_ranks(world, cuts, half_window, 8), size) for world in worlds
            )
            changes = np.array(after)
            added = max(added, int(np.ptp(changes - before, axis=1).max()))
            moved = max(moved, int(np.ptp(changes[:, None] - changes, axis=2).max()))
    assert (added, moved) == tuple(PUBLISHED.scale * PUBLISHED.width(a, one_axis=True) for a in (AR, RO))


def test_a_profile_that_is_not_concave_gets_no_narrower_width_on_one_axis():
    flat = SplitScore(shoulder=Fraction(1, 20), margin=Fraction(1, 4))
    assert not flat.concave
    assert flat.width(AR, one_axis=True) == flat.width(AR)


def test_a_score_whose_utilities_could_overflow_is_refused_before_it_sees_points():
    # 9e17 whole units a rank: two points passed 60 bits, eleven wrapped round, and the error told how many there were.
    with pytest.raises(ParameterError, match="denominator"):
        SplitScore(Fraction(5, 997), Fraction(980099, 983), Fraction(977, 1000), Fraction(3, 971))
    finest = SplitScore(Fraction(5), Fraction(1), Fraction(333, 1000), Fraction(87, 1000))
    crowd = 1 << 30
    for rank, window in ((crowd, 0), (crowd // 2, crowd), (0, crowd)):
        for size in (1, crowd):
            # In exact fractions, for the farthest corners.
            near = min(rank, size - rank)
            rim = near <= size * finest.margin
            height = near * finest.outer_slope if rim else (near - size * finest.margin) * finest.inner_slope
            exactly = finest.scale * (height + (0 if rim else size * finest.shoulder) - 5 * window)
            assert abs(exactly) <= 1 << 60
            assert finest.utilities(np.array([window]), np.array([rank]), size).tolist() == [exactly]


# The exact law of the choice, over all small worlds.


def worlds_around(dpm: DPM, size: int, most: int = 2, public: np.ndarray = EMPTY):
    """For every multiset of at most ``most`` points in 16 cells: its law, and its laws with each further point."""
    cells = grid_rows(np.array(list(itertools.product((-0.7, -0.2, 0.2, 0.7), repeat=2))), Fraction(1))
    for count in range(most + 1):
        for chosen in itertools.combinations_with_replacement(range(16), count):
            base = cells[list(chosen)].reshape(-1, 2)
            grown = np.stack([law_of(dpm, np.vstack([base, cells[[i]]]), size, public) for i in range(16)])
            yield law_of(dpm, base, size, public), grown


def worst_choice(dpm: DPM, sizes=(1, 2, 12), public: np.ndarray = EMPTY) -> tuple[float, float]:
    """Largest loss and largest width of losses over all neighbours of the mechanism's adjacency."""
    loss = width = 0.0
    for size in sizes:
        for law, grown in worlds_around(dpm, size, public=public):
            pairs = grown - law if dpm.adjacency is AR else grown[:, None, :] - grown[None, :, :]
            loss, width = max(loss, float(np.abs(pairs).max())), max(width, float(np.ptp(pairs, axis=-1).max()))
    return loss, width


@pytest.mark.slow
@BOTH
def test_no_neighbour_moves_the_choice_of_a_cut_past_its_price(adjacency):
    dpm = small(adjacency)
    loss, width = worst_choice(dpm)
    epsilon = 0.05 * float(PUBLISHED.width(adjacency))
    assert dpm._epsilon(dpm.levels[0]) == pytest.approx(epsilon)
    assert loss <= epsilon + 1e-12
    assert (0.85 if adjacency is AR else 0.9999) * epsilon < width <= epsilon + 1e-12


def test_a_lopsided_crowd_takes_the_whole_price_of_add_remove():
    dpm = small(AR, projection=plane(8))
    crowd = grid_rows(np.array([[-0.4, 0.9]] * 35), Fraction(1))
    joined = np.vstack([crowd, grid_rows(np.array([[0.1, -0.9]]), Fraction(1))])
    width = np.ptp(law_of(dpm, joined, 36) - law_of(dpm, crowd, 36))
    assert 0.61 - 1e-9 < width <= 0.61


@pytest.mark.slow
@BOTH
def test_public_points_do_not_widen_the_choice(adjacency):
    public = grid_rows(np.array([[0.2, 0.2], [0.2, -0.7], [-0.7, 0.7], [-0.2, 0.2]]), Fraction(1))
    loss, width = worst_choice(small(adjacency), sizes=(1, 12), public=public)
    epsilon = 0.05 * float(PUBLISHED.width(adjacency))
    assert loss <= epsilon + 1e-12
    assert width <= epsilon + 1e-12


@pytest.mark.slow
def test_the_width_of_add_remove_is_caught_under_replace_one(monkeypatch):
    honest = SplitScore.width
    monkeypatch.setattr(SplitScore, "width", lambda self, adjacency, **k: honest(self, AR, **k))
    dpm = small(RO)
    assert dpm._epsilon(dpm.levels[0]) == pytest.approx(0.05 * 12.2)
    assert worst_choice(dpm, sizes=(12,))[1] > 0.05 * 12.2 * 1.2


def test_a_replaced_point_in_two_nodes_costs_two_selections():
    # Two nodes below a cut on axis 0; the unit leaves the left one and joins the right one: both choices move.
    dpm = small(RO, projection=plane(8))
    low, high = [-0.6, 0.6], [0.4, 0.6]
    first, second = (
        np.array([low] * (35 + left) + [high] * (35 + 1 - left)) * [[1, -1]] + [[0.0, 0.0]] for left in (0, 1)
    )
    worlds = []
    for vectors, here in ((first, [0.9, 0.3]), (second, [-0.3, 0.3])):
        rows = grid_rows(np.vstack([vectors[:35], vectors[36:], [here]]), Fraction(1))
        root = Node.whole(dpm.projection, (rows, EMPTY), 71)
        laws = []
        for node in root.cut((0, 4), (36, 36)):
            cuts = cuts_within(node.box, 1, range(2), frozenset())
            law = Exponential(dpm._epsilon(dpm.levels[0])).law(dpm.split_scores(node, cuts))
            laws.append(np.array([float(p) for p in law]))
        worlds.append(np.outer(*laws).ravel())
    p, q = worlds
    alpha = 2.0
    divergence = math.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
    event = split_event(0.05, PUBLISHED, RO, one_axis=False)
    assert divergence <= alpha * cost_of(event).rho
    assert np.ptp(np.log(p / q)) > 0.05 * 17.2, "more than any change inside one node"


@pytest.mark.parametrize("kappa", [1e-4, 1e-3, 0.01, 0.05, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("one_axis", [False, True])
@pytest.mark.parametrize(
    "score", [PUBLISHED, SplitScore(Fraction(5), Fraction(0)), SplitScore(Fraction(1), Fraction(4))]
)
def test_a_replaced_points_price_covers_one_node_and_two(kappa, one_axis, score):
    wide, narrow = (kappa * float(score.width(a, one_axis=one_axis)) for a in (RO, AR))
    rho = cost_of(split_event(kappa, score, RO, one_axis=one_axis)).rho
    # Where (alpha - 1) eta^2 < 1e-6 the divergence is given as alpha eta^2 / 8, up to 3e-5 of it above the exact one.
    assert (rdp_of_bounded_range(wide) <= ALPHAS * rho * (1 + 3e-5)).all()
    assert (2 * rdp_of_bounded_range(narrow) <= ALPHAS * rho * (1 + 3e-5)).all()
    assert rho == pytest.approx(max(rho_of_bounded_range(wide), 2 * rho_of_bounded_range(narrow)), rel=1e-6)
    assert split_event(kappa, score, AR, one_axis=one_axis) == BoundedRange(pytest.approx(narrow))


def undercut(event_of) -> list[tuple[float, float]]:
    """Settings where an accountant's report on one level is below what one or two nodes lose exactly (T2, T6)."""
    found = []
    for kappa, delta in itertools.product((0.005, 0.02, 0.05, 0.1), (1e-6, 0.01, 0.05, 0.1, 0.2)):
        report = accumulate([event_of(kappa)], RO).report(delta)
        apart = optimal_epsilon(kappa * 12.2, 2, delta, 100).lower
        if report.epsilon < max(epsilon_of_bounded_range(kappa * 17.2, delta) * (1 - 1e-6), apart):
            found.append((kappa, delta))
    return found


def test_no_bound_of_a_replaced_points_price_is_below_what_one_wide_selection_loses():
    assert undercut(lambda kappa: split_event(kappa, PUBLISHED, RO, one_axis=False)) == []
    # Two selections that cover the wide one at every Renyi order have a smaller profile, which accountants use as well.
    eta = max(12.2, 17.2 / math.sqrt(2))
    assert (rdp_of_bounded_range(0.05 * 17.2) <= 2 * rdp_of_bounded_range(0.05 * eta) * (1 + 1e-9)).all()
    assert (0.05, 0.1) in undercut(lambda kappa: SelfComposedDpEvent(BoundedRange(eta * kappa), 2))


# The whole release, replayed by script.


def line(adjacency: Adjacency, **changes) -> DPM:
    return small(adjacency, projection=PublicProjection.raw(1, steps=4), **changes)


def on_line(places, adjacency: Adjacency) -> PrivatePoints:
    return PrivatePoints(np.array(places, dtype=float).reshape(-1, 1), adjacency=adjacency)


def every_script(adjacency: Adjacency):
    """All sequences of draws of one level on a line: number, cut, both counts from -2 to 5. The sums are left at 0."""
    counts = range(-2, 6)
    numbers = [[(n,)] for n in counts] if adjacency is AR else [[]]
    for number, cut, low, high in itertools.product(numbers, range(3), counts, counts):
        leaves = 2 if min(low, high) >= 1 else 1
        yield [*number, cut, (low, high), (0,) * leaves]


WORLDS = {
    AR: [([0.7, 0.7], [0.7, 0.7, -0.2]), ([-0.7, 0.7], [0.7])],
    RO: [([0.7, 0.7, -0.7], [0.7, 0.7, 0.2]), ([-0.2, -0.2, 0.7], [-0.2, 0.2, 0.7])],
}


def divergence(dpm: DPM, pair, monkeypatch, alpha: float) -> float:
    """Renyi divergence of number, cut and counts in two worlds, by running the real code for every outcome."""
    total = 0.0
    points = [on_line(places, dpm.adjacency) for places in pair]
    for draws in every_script(dpm.adjacency):
        p, q = (Script(draws, unscored_rho=dpm.sum_rho) for _ in points)
        assert play(dpm, points[0], p, monkeypatch) == play(dpm, points[1], q, monkeypatch)
        total += math.exp(alpha * p.log_probability + (1 - alpha) * q.log_probability)
    return math.log(total) / (alpha - 1)


@pytest.mark.parametrize("adjacency", [RO, pytest.param(AR, marks=pytest.mark.slow)], ids=lambda a: a.value)
def test_the_law_of_a_whole_level_keeps_its_price_and_needs_most_of_it(adjacency, monkeypatch):
    rho = 1.0 if adjacency is AR else 0.5
    dpm = line(adjacency, levels=(Level(0.06, rho),))
    parts = dpm.event.events[:-1]
    price = cost_of(ComposedDpEvent(parts)).rho
    found = max(divergence(dpm, pair, monkeypatch, 2.0) for pair in WORLDS[adjacency])
    assert found <= 2 * price
    # Uncharged counts, as published, would be caught: selections alone do not pay for this.
    selections = cost_of(split_event(0.06, PUBLISHED, adjacency, one_axis=True)).rho
    assert price == pytest.approx(selections + (2 if adjacency is AR else 1) * rho)
    assert found > 2 * selections * 3
    if adjacency is AR:
        # So would an uncharged number of points.
        assert found > 2 * (price - rho)


@BOTH
def test_whatever_is_drawn_is_charged(adjacency, monkeypatch):
    # Every level is charged once however many nodes it has: nodes are disjoint. The deepest path must be covered.
    dpm = replace(_finder(adjacency), centres="projected")
    script = Script()
    play(dpm, PrivatePoints(_four_heaps(), adjacency=adjacency), script, monkeypatch)
    kappas = {price * PUBLISHED.scale for kind, price in script.prices if kind == "selection"}
    assert max(kappas) <= max(level.kappa for level in dpm.levels) * (1 + 1e-12)
    rhos = {price for kind, price in script.prices if kind == "noise"}
    assert rhos <= {part.rho for part in dpm.event.events if isinstance(part, ZCDpEvent)}
    assert sum(price == dpm.sum_rho for _, price in script.prices) == 1


def _four_heaps(count: int = 150) -> np.ndarray:
    source = np.random.default_rng(5)
    middles = np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]])
    return np.repeat(middles, count, axis=0) + source.normal(scale=0.03, size=(4 * count, 2))


def _finder(adjacency: Adjacency) -> DPM:
    return DPM.for_budget(adjacency=adjacency, projection=plane(16), depth=4, epsilon=8, delta=1e-6)


def replays_alike(dpm: DPM, worlds, monkeypatch, seeds=range(8)) -> bool:
    """Whether a script drawn in any world leads to one and the same release in every other world."""
    for seed, first in itertools.product(seeds, worlds):
        written = Script()
        release = play(dpm, first, written, monkeypatch, seed=seed)
        for other in worlds:
            followed = Script(written.done)
            try:
                if play(dpm, other, followed, monkeypatch) != release or followed.done != written.done:
                    return False
            except (AssertionError, IndexError, TypeError):
                return False
    return True


def _unlike_worlds(adjacency: Adjacency) -> list[PrivatePoints]:
    worlds = [[[0.6, 0.6]] * 3, [[-0.6, 0.1], [0.2, -0.9], [0.5, 0.5]], [[0.0, 0.0], [9.0, -9.0], [math.nan, 0.0]]]
    if adjacency is AR:
        worlds.append([[0.1, 0.1]])
    return [PrivatePoints(world, adjacency=adjacency) for world in worlds]


@pytest.mark.cases(2)
@BOTH
@pytest.mark.parametrize("centres", ["original", "projected"])
@pytest.mark.parametrize("max_gap", [None, Fraction(3)])
def test_a_release_tells_nothing_but_its_draws(adjacency, centres, max_gap, monkeypatch):
    # However unlike the worlds are, the same draws give the same release: no count, box or branch depends on data.
    dpm = small(adjacency, levels=(Level(0.05, 0.05),) * 3, centres=centres, max_gap=max_gap)
    assert replays_alike(dpm, _unlike_worlds(adjacency), monkeypatch)


def _true_sizes(dpm, node, cut, level, randomness):
    return tuple(node.private_counts(cut[0], [cut[1]]).tolist())


def _stops_on_true_counts(dpm, node, cut, pieces):
    return min(node.private_counts(cut[0], [cut[1]])) >= 1


def _largest_utility(dpm, node, number, level, randomness):
    cuts = cuts_within(node.box, 1, range(2), node.refused)
    if not cuts:
        return [node]
    best = int(np.argmax(dpm.split_scores(node, cuts).values))
    return node.cut(cuts[best], dpm._noisy_pieces(node, cuts[best], level, randomness))


def _zero_for_empty_leaves(dpm, leaves, rows, points, randomness):
    clusters = HONEST_AVERAGE(dpm, leaves, rows, points, randomness)
    return [replace(c, centre=c.centre * (len(leaf.members) > 0)) for c, leaf in zip(clusters, leaves, strict=True)]


def _true_number(dpm, points, randomness):
    return len(points.rows)


HONEST_AVERAGE = DPM._average


@pytest.mark.parametrize(
    ("method", "mistake"),
    [
        ("_noisy_pieces", _true_sizes),
        ("_keeps", _stops_on_true_counts),
        ("_ask", _largest_utility),
        ("_average", _zero_for_empty_leaves),
        ("_number", _true_number),
    ],
)
def test_a_true_count_a_zero_for_an_empty_leaf_and_an_argmax_are_caught(method, mistake, monkeypatch):
    dpm = small(AR, levels=(Level(0.05, 0.05),) * 3)
    monkeypatch.setattr(DPM, method, mistake)
    assert not replays_alike(dpm, _unlike_worlds(AR), monkeypatch)


def test_a_box_from_the_data_is_caught(monkeypatch):
    dpm = small(AR, levels=(Level(0.05, 0.05),) * 3)
    honest = Node.whole

    def fitted(projection, rows, size):
        if len(rows[0]):
            object.__setattr__(projection, "lows", (rows[0].min(axis=0) << 16) - 1)
            object.__setattr__(projection, "highs", (rows[0].max(axis=0) << 16) + 1)
        return honest(projection, rows, size)

    monkeypatch.setattr(Node, "whole", fitted)
    assert not replays_alike(dpm, _unlike_worlds(AR), monkeypatch)


def test_a_zero_for_an_empty_leaf_would_be_a_failure_with_the_specifications_probability():
    # Specification 5.6.4: Laplace noise of scale 5 passes a limit of 4 although nobody is there.
    assert 0.5 * math.exp(-4 / 5) == pytest.approx(0.2247, abs=5e-5)


def test_a_cut_that_was_not_kept_is_not_asked_for_again(monkeypatch):
    dpm = line(RO, levels=(Level(0.06, 0.5),) * 2, min_size=10)
    scripts = [[cut, (-5, -5), other, (-5, -5), (0,)] for cut, other in ((0, 1), (1, 1), (2, 2))]
    for draws in scripts[:2]:
        play(dpm, on_line([0.7, -0.7], RO), Script(draws), monkeypatch)
    # Three cuts at first, two behind the first refusal: there is no third any more.
    with pytest.raises(IndexError):
        play(dpm, on_line([0.7, -0.7], RO), Script(scripts[2]), monkeypatch)


# Sums.


@pytest.mark.cases(2)
@BOTH
@pytest.mark.parametrize("centres", ["original", "projected"])
def test_sums_move_by_at_most_the_stated_norm_and_can_move_that_far(adjacency, centres, monkeypatch):
    dpm = small(adjacency, centres=centres)
    sealed = []
    honest = DPM._sums
    monkeypatch.setattr(DPM, "_sums", lambda self, sums, bound: sealed.append(honest(self, sums, bound)) or sealed[-1])
    draws = [0, (1, 1), (0, 0, 0, 0)] if adjacency is RO else [(5,), 0, (1, 1), (0, 0, 0, 0)]
    worst = 0.0
    source = np.random.default_rng(2)
    pairs = [([[1.0, 1.0]], [[-1.0, -1.0]])] + [
        (source.normal(size=(1, 2)), source.normal(size=(1, 2))) for _ in range(60)
    ]
    for first, second in pairs:
        for world in (first, second) if adjacency is RO else (first, np.empty((0, 2))):
            play(dpm, PrivatePoints(np.vstack([[[0.3, 0.2]], world]), adjacency=adjacency), Script(draws), monkeypatch)
        moved = sealed[-1].values - sealed[-2].values
        worst = max(worst, float((moved**2).sum() / sealed[-1].squared_l2))
        assert (moved.astype(object) ** 2).sum() <= sealed[-1].squared_l2
    if centres == "original":
        assert worst > (0.99 if adjacency is AR else 0.49)


def test_a_row_that_turns_round_in_its_leaf_needs_twice_the_radius():
    # O21's neighbour in 5.6.4: 2R under replacement, not sqrt(2) R.
    first, second = (PrivatePoints([[sign * 0.6, sign * 0.8]], adjacency=RO).rows.sum(axis=0) for sign in (1, -1))
    vector = small(RO)._sums(first, 1 << 16)
    assert 0.9999 * vector.squared_l2 < int(((first - second) ** 2).sum()) <= vector.squared_l2


def test_rows_are_shortened_in_whole_numbers_whatever_their_size():
    source = np.random.default_rng(3)
    for dimension, scale in ((1, 1e300), (384, 1e6), (16384, 1e9), (384, 0.04)):
        rows = grid_rows(source.normal(size=(5, dimension)) * scale, Fraction(16))
        assert all(sum(int(x) ** 2 for x in row) <= (16 << 16) ** 2 for row in rows)
    assert grid_rows(np.array([[0.6, -0.8], [3.0, -4.0]]), Fraction(1)).tolist() == [[39321, -52428], [39321, -52428]]


def test_a_points_place_depends_on_that_point_alone():
    source = np.random.default_rng(4)
    vectors = source.normal(size=(400, 384))
    projection = PublicProjection.random(384, 6)
    rows = PrivatePoints(vectors, adjacency=RO).rows
    assert (projection.project(rows) == np.vstack([projection.project(row[None]) for row in rows])).all()
    exactly = [
        [sum(int(x) * int(a) for x, a in zip(row, axis, strict=True)) for axis in projection.axes] for row in rows[:3]
    ]
    assert projection.project(rows[:3]).tolist() == exactly
    together = projection.steps_of(PrivatePoints(vectors, adjacency=RO).rows)
    alone = np.vstack([projection.steps_of(PrivatePoints(v[None], adjacency=RO).rows) for v in vectors])
    assert (together == alone).all()
    shuffled = projection.steps_of(PrivatePoints(vectors[::-1].copy(order="F"), adjacency=RO).rows)
    assert (together[::-1] == shuffled).all()


def test_a_projection_of_floats_is_refused():
    # Products of floats depend on the batch: a row alone and the same row among 1,000 had different coordinates.
    honest = PublicProjection.random(384, 2)
    for axes, lows in ((honest.axes.astype(float), honest.lows), (honest.axes, honest.lows.astype(float))):
        with pytest.raises(ParameterError, match="whole numbers"):
            PublicProjection("floats", axes, lows, honest.highs, 48, 384)


def test_a_vector_that_is_not_finite_is_nobody():
    points = PrivatePoints([[0.5, 0.5], [math.nan, 0.0], [math.inf, 0.0]], adjacency=RO)
    assert points.rows.shape == (1, 2)
    assert points.slots == 3


def test_nobody_can_be_clustered():
    nobody = PrivatePoints(np.empty((0, 2)), adjacency=AR)
    assert PrivatePoints([], adjacency=AR, dimension=2).rows.shape == nobody.rows.shape
    assert len(small(AR, min_size=50).cluster(nobody, SeededRandomness(1)).clusters) == 1


# Price.


@pytest.mark.cases(9)
@pytest.mark.parametrize("adjacency", [AR, RO, ZO])
@pytest.mark.parametrize("budget", [(1.0, 1e-6), (3.0, 1e-6), (8.0, 1e-5)])
@pytest.mark.parametrize("options", [{}, {"depth": 3, "growth": 2.0}, {"axes": "in turn", "max_gap": None}])
def test_a_budget_is_met_from_below(adjacency, budget, options):
    epsilon, delta = budget
    dpm = DPM.for_budget(adjacency=adjacency, projection=plane(16), epsilon=epsilon, delta=delta, **options)
    assert accumulate([dpm.event], adjacency).report(delta).epsilon <= epsilon
    cap = Budget(epsilon, delta).cap
    assert cap * (1 - 1e-7) <= amount_of(dpm.event, "rho") <= cap
    assert len(dpm.levels) == options.get("depth", 6)


def test_a_budget_in_rho_buys_less_under_replacement():
    bought = {a: DPM.for_budget(adjacency=a, projection=plane(16), rho=0.2) for a in (AR, ZO, RO)}
    for dpm in bought.values():
        assert cost_of(dpm.event).rho == pytest.approx(0.2, rel=1e-6)
    # Two selections of 12.2 for one: kappa falls by the root of 2 for small ranges.
    ratio = bought[ZO].levels[0].kappa / bought[RO].levels[0].kappa
    assert ratio == pytest.approx(math.sqrt(2), rel=0.01)
    assert bought[AR].levels[0].count_rho < bought[ZO].levels[0].count_rho


def test_the_price_by_hand():
    dpm = small(AR, levels=(Level(0.05, 0.5), Level(0.1, 0.25)), sum_rho=0.125)
    assert dpm.event == ComposedDpEvent(
        [ZCDpEvent(0.5), BoundedRange(0.61), ZCDpEvent(0.5), BoundedRange(1.22), ZCDpEvent(0.25), ZCDpEvent(0.125)]
    )
    swapped = cost_of(small(RO, levels=(Level(0.05, 0.5),), sum_rho=0.125).event)
    assert swapped.rho == pytest.approx(2 * 0.61**2 / 8 + 0.625, rel=1e-2)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"epsilon": 1.0, "delta": 0.0}, "delta"),
        ({"epsilon": 1.0}, "budget"),
        ({"rho": 0.1, "epsilon": 1.0, "delta": 1e-6}, "budget"),
        ({"rho": 0.1, "depth": 0}, "depth"),
        ({"rho": 0.1, "shares": (0.5, 0.5, 0.1)}, "shares"),
        ({"rho": 0.1, "half_window": 9}, "half_window"),
        ({"rho": 0.1, "min_size": 0}, "min_size"),
        ({"rho": 0.1, "centres": "elsewhere"}, "centres"),
        ({"rho": 0.1, "radius": 1000}, "radius"),
    ],
)
def test_what_cannot_be_promised_is_refused_by_name(options, name):
    with pytest.raises(ParameterError, match=name):
        DPM.for_budget(adjacency=RO, projection=plane(16), **options)


def test_points_of_another_adjacency_radius_or_length_are_refused_unshown():
    secret = [[0.12345, 0.6789]]
    dpm = small(RO)
    for points in (
        PrivatePoints(secret, adjacency=AR),
        PrivatePoints(secret, adjacency=RO, radius=2),
        PrivatePoints([[0.12345]], adjacency=RO),
    ):
        with pytest.raises(ParameterError) as refusal:
            dpm.cluster(points, SeededRandomness(1))
        assert "0.12" not in str(refusal.value)
        assert "0.12" not in repr(points)
    assert "units" not in repr(PrivatePoints(secret, adjacency=AR))


# What it finds.


@BOTH
def test_four_heaps_are_found_named_and_counted(adjacency):
    heaps = _four_heaps()
    found = _finder(adjacency).cluster(PrivatePoints(heaps, adjacency=adjacency), SeededRandomness(3))
    assert len(found.clusters) == 4
    names = found.assign(heaps)
    assert sorted(len(set(names[i * 150 : i * 150 + 150])) for i in range(4)) == [1, 1, 1, 1]
    # Noise on a size has a standard deviation below 10 and on a centre below .04; five of each.
    for index, cluster in enumerate(found.clusters):
        assert abs(cluster.size - 150) < 50
        assert np.linalg.norm(cluster.centre - heaps[names == index].mean(axis=0)) < 0.2


def test_assignment_follows_the_printed_positions():
    found = _finder(RO).cluster(PrivatePoints(_four_heaps(), adjacency=RO), SeededRandomness(3))
    points = np.random.default_rng(8).uniform(-0.7, 0.7, size=(300, 2))

    def descend(node, point):
        while isinstance(node, Branch):
            node = node.below if point[node.axis] < node.position else node.above
        return node.index

    assert found.assign(points).tolist() == [descend(found.tree, point) for point in points]
    assert json.loads(json.dumps(found.to_json()))["clusters"][0]["size"] == found.clusters[0].size


def sphere(count: int, clusters: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of length 384 about random middles; ``spread`` is the noise's norm against the middle's 1."""
    source = np.random.default_rng(seed)
    middles = source.normal(size=(clusters, 384))
    middles /= np.linalg.norm(middles, axis=1, keepdims=True)
    truth = source.integers(clusters, size=count)
    vectors = middles[truth] + spread / math.sqrt(384) * source.normal(size=(count, 384))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), truth


@pytest.mark.slow
def test_raw_coordinates_of_unit_vectors_give_one_cluster_and_a_public_projection_finds_them():
    vectors, truth = sphere(2000, 4, 0.2)
    # As published: eight intervals in [-1, 1]. Coordinates lie within 5/sqrt(384) = .26 of 0, so the outer intervals
    # are empty, win on emptiness and cut off nobody.
    raw = PublicProjection.raw(384, steps=16)
    public = PublicProjection.random(384, 16)
    points = PrivatePoints(vectors, adjacency=RO)
    counts = {}
    for projection, options in ((raw, {"max_gap": None, "half_window": 1}), (public, {"half_window": 3})):
        dpm = DPM.for_budget(adjacency=RO, projection=projection, epsilon=3, delta=1e-6, centres="projected", **options)
        found = dpm.cluster(points, SeededRandomness(1))
        counts[projection.name] = len(found.clusters)
    assert counts[raw.name] == 1
    names = found.assign(vectors)
    pure = sum(np.bincount(truth[names == name]).max() for name in set(names.tolist())) / len(truth)
    assert counts[public.name] >= 4
    assert pure > 0.95


def test_public_axes_are_orthonormal_and_the_same_everywhere():
    projection = PublicProjection.random(384, 8)
    axes = projection.axes / (1 << 16)
    assert np.abs(axes @ axes.T - np.eye(8)).max() < 1e-3
    # A change of these digits changes every published clustering: they are part of the public seed's meaning.
    assert projection.axes[0, :4].tolist() == [-2212, -1963, -544, 2072]
    assert (PublicProjection.random(384, 8, seed=1).axes != projection.axes).any()


def test_the_box_of_random_axes_holds_random_unit_vectors():
    projection = PublicProjection.random(384, 8)
    vectors, _ = sphere(2000, 2000, 0.0)
    inside = projection.project(grid_rows(vectors, Fraction(1)))
    share = ((inside > projection.lows) & (inside < projection.highs)).mean()
    # Three standard deviations hold .9973 of a normal coordinate; five standard errors of 16,000 are .002.
    assert abs(share - 0.9973) < 0.002


def test_principal_axes_come_from_public_vectors_alone():
    vectors, _ = sphere(400, 4, 0.5)
    projection = PublicProjection.principal(vectors, 3)
    middle = vectors.mean(axis=0)
    axes = projection.axes / (1 << 16)
    spread = np.linalg.svd(vectors - middle, compute_uv=False)[:3] / math.sqrt(len(vectors))
    assert ((vectors - middle) @ axes.T).std(axis=0) == pytest.approx(spread, rel=1e-3)
    with pytest.raises(ParameterError, match="axes"):
        PublicProjection.principal(vectors[:3], 3)


@pytest.mark.slow
def test_two_thousand_points_take_a_couple_of_seconds():
    import time

    vectors, _ = sphere(2000, 8, 0.3)
    dpm = DPM.for_budget(adjacency=RO, projection=PublicProjection.random(384, 16), epsilon=8, delta=1e-6)
    started = time.process_time()
    dpm.cluster(PrivatePoints(vectors, adjacency=RO), SeededRandomness(1))
    # Measured .4 s; twenty times that on a slow machine still passes.
    assert time.process_time() - started < 8


def test_the_registered_example_runs():
    cls, example = private_clustering_registration()
    dpm = cls(**example)
    assert dpm.event == cls(**example).event
    assert len(dpm.cluster(PrivatePoints([[0.1, 0.2]] * 30, adjacency=RO), SeededRandomness(1)).clusters) >= 1


def private_clustering_registration():
    from sottovoce.mechanisms.base import registered

    assert private_clustering.DPM is registered()["private_clustering"][0]
    return registered()["private_clustering"]
