"""Planted in private clustering: true counts in control flow, uncharged releases, widths, a box from the data."""

from __future__ import annotations

from mutants.mutant import Mutant

_FILE = "tests/mechanisms/clustering/test_private_clustering.py::"
TELLS = (_FILE + "test_a_release_tells_nothing_but_its_draws",)
CHARGED = (_FILE + "test_whatever_is_drawn_is_charged", _FILE + "test_the_price_by_hand")
WIDTHS = (
    _FILE + "test_no_neighbour_moves_the_choice_of_a_cut_past_its_price",
    _FILE + "test_a_replaced_points_price_covers_one_node_and_two",
    _FILE + "test_o21_widths_by_hand",
)
NORMS = (
    _FILE + "test_sums_move_by_at_most_the_stated_norm_and_can_move_that_far",
    _FILE + "test_rows_are_shortened_in_whole_numbers_whatever_their_size",
)
LEVEL = (_FILE + "test_the_law_of_a_whole_level_keeps_its_price_and_needs_most_of_it",)

MUTANTS = [
    Mutant(
        "cuts-kept-by-true-counts",
        "a cut is kept if the true number of points on either side is large",
        "mechanisms/clustering/private_clustering.py",
        "smaller = min(sum(pieces[:half]) + public[0], sum(pieces[half:]) + public[1])",
        "smaller = (node.private_counts(axis, [edge]) + public).min()",
        TELLS,
    ),
    Mutant(
        "true-number-of-points",
        "under add-remove the root's size is not noisy",
        "mechanisms/clustering/private_clustering.py",
        "return GaussianVector(self.levels[0].count_rho).release(count, randomness).steps[0]",
        "return int(count.values[0])",
        TELLS,
    ),
    Mutant(
        "true-size-of-a-node",
        "utilities and centres use the true number of points in a node",
        "mechanisms/clustering/tree.py",
        "return max(1, self.size + len(self.public))",
        "return max(1, len(self.members) + len(self.public))",
        TELLS,
    ),
    Mutant(
        "exact-zero-for-an-empty-leaf",
        "a leaf with nobody in it gets no noise",
        "mechanisms/clustering/private_clustering.py",
        "mean = (total + public[leaf.public].sum(axis=0)) / leaf.estimate",
        "mean = (total * bool(len(leaf.members)) + public[leaf.public].sum(axis=0)) / leaf.estimate",
        TELLS,
    ),
    Mutant(
        "box-from-the-data",
        "cuts are looked for between the outermost private points",
        "mechanisms/clustering/tree.py",
        "box = ((0, projection.steps),) * projection.coordinates",
        "edges = [*zip(*private.tolist(), strict=True)] or [(0, projection.steps - 1)] * projection.coordinates\n"
        "        box = tuple((min(places), max(places) + 1) for places in edges)",
        TELLS,
    ),
    Mutant(
        "uncharged-counts",
        "a level's noisy counts are not in the price",
        "mechanisms/clustering/private_clustering.py",
        "            parts += [ZCDpEvent(level.count_rho)]\n",
        "",
        CHARGED,
    ),
    Mutant(
        "uncharged-number-of-points",
        "under add-remove the noisy number of points is not in the price",
        "mechanisms/clustering/private_clustering.py",
        "parts: list[DpEvent] = [] if self.adjacency.size_is_public else [ZCDpEvent(self.levels[0].count_rho)]",
        "parts: list[DpEvent] = []",
        CHARGED,
    ),
    Mutant(
        "one-selection-under-replacement",
        "a replaced point is charged for one node, and it touches two",
        "mechanisms/clustering/price.py",
        "rho = max(rho_of_bounded_range(float(epsilon)), 2 * rho_of_bounded_range(apart))",
        "rho = rho_of_bounded_range(float(epsilon))",
        WIDTHS,
    ),
    Mutant(
        "add-remove-width-under-replacement",
        "a moved point is taken to touch a cut's window once",
        "mechanisms/clustering/private_clustering.py",
        "return self.score.width(adjacency, one_axis=self._one_axis)",
        "return self.score.width(Adjacency.ADD_REMOVE, one_axis=self._one_axis)",
        WIDTHS,
    ),
    Mutant(
        "one-axis-width-for-all",
        "the narrow width of one axis is used for cuts along several",
        "mechanisms/clustering/tree.py",
        "if one_axis and self.concave:",
        "if self.concave:",
        WIDTHS,
    ),
    Mutant(
        "moved-point-changes-one-count",
        "a replaced point is taken to change one side's count",
        "mechanisms/clustering/price.py",
        "return 2 if adjacency is Adjacency.REPLACE_ONE else 1",
        "return 1",
        LEVEL,
    ),
    Mutant(
        "turned-row-adds-squares",
        "a row that turns round in its leaf is taken to move the sum by root two, not two",
        "mechanisms/clustering/private_clustering.py",
        "squared = (4 if replaced else 1) * bound * bound",
        "squared = (2 if replaced else 1) * bound * bound",
        NORMS,
    ),
    Mutant(
        "rows-shortened-in-floating-point",
        "long rows are scaled in floats and rounded, past the radius",
        "privacy/points.py",
        "norm = math.isqrt(int(squares[index])) + 1",
        "norm = round(math.sqrt(int(squares[index])))",
        NORMS,
    ),
]
