"""What advice is behind the best way: chance in the best of many, split halves, and which cells there are."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.benchmarks.studies.plan_regret import Advised, advised_cells, as_table, behind
from sottovoce.planner.guide import Asked, make_guide

ASKED = Asked(records=240, labels=6, questions=1, epsilon=4.0)


def test_chance_alone_puts_the_best_of_many_ahead_and_split_halves_do_not():
    # Eight ways that are all alike, four seeds of deviation 2: the largest of eight means of deviation 1 is 1.42 ahead
    # on average (Tippett 1925). Over 300 cells the mean of the split figure has an error below 0.1.
    rng = np.random.default_rng(0)
    found = behind([Advised("one", ASKED, 0, rng.normal(60, 2, (8, 4))) for _ in range(300)], splits=4)
    assert found.mean == pytest.approx(1.42, abs=0.2)
    assert found.split_mean == pytest.approx(0.0, abs=0.4)
    assert found.split_close > found.close


def test_a_way_that_is_ahead_is_ahead_by_either_figure():
    right = np.array([[70.0] * 4, [75.0] * 4])
    found = behind([Advised("one", ASKED, 0, right), Advised("one", ASKED, 1, right)])
    assert (found.close, found.mean, found.split_close, found.split_mean) == (0.5, 2.5, 0.5, 2.5)
    assert found.ceiling == 1.0


def frontier() -> dict[str, object]:
    place = {"t": "trec", "n": "own", "a": "replace-one", "r": [240]}
    return {
        "settings": {"epsilons": [4.0]}, "labels": {"trec": 6}, "delta": 1e-6,
        "lines": [
            {"t": "trec", "n": "own", "m": "zero-shot", "r": [0], "v": [[40.0, 42.0]]},
            {**place, "m": "choice", "o": "bundled", "v": [[[50.0, 52.0]]]},
            {**place, "m": "class-means", "o": "bundled", "v": [[[60.0, 62.0]]]},
            {**place, "m": "dp-logistic", "o": "bundled", "v": [[[58.0, 60.0]]]},
            {**place, "m": "prior x PoE", "o": "10", "v": [[[59.0, 61.0]]]},
            {**place, "m": "PoE", "o": "10", "v": [[[30.0, 31.0]]]},
            {**place, "m": "class-means", "o": "same kind", "v": [[[99.0, 99.0]]]},
        ],
    }  # fmt: skip


def test_a_cell_holds_every_way_to_spend_its_total():
    cells = list(advised_cells([frontier()]))
    assert [cell.asked.questions for cell in cells] == [1, 10, 100, 1000]
    assert [len(cell.right) for cell in cells] == [4, 6, 4, 4]  # answers at a price of their own were measured for ten
    assert not np.isin(cells[0].right, 99).any()
    advised = make_guide(cells[0].asked).advised
    assert cells[0].right[cells[0].place].tolist() == {"class-means": [60, 62], "dp-logistic": [58, 60]}[advised.method]
    assert as_table(cells).splitlines()[-1].startswith("| all | 4 | 100.0% |")


def test_sets_that_advice_is_made_from_have_no_cell():
    assert list(advised_cells([frontier()], sets=("sarcasm",))) == []
