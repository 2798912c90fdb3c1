"""What tables say about their numbers: intervals hold their means, tasks have their own labels, nulls are no NaN."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from benchmarks.tiny_rows import reader, write_drawings, write_news
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import difference
from sottovoce.benchmarks.harness.datasets import OWN
from sottovoce.benchmarks.harness.experiment import Bench, Cell, Key, Piece, Result, Settings
from sottovoce.benchmarks.harness.score_cache import ScoreCache, StoredScorer
from sottovoce.benchmarks.poetry import soft_hard as poetry_soft_hard
from sottovoce.benchmarks.poetry import table2 as poetry_table2
from sottovoce.benchmarks.poetry import table3 as poetry_table3
from sottovoce.errors import ParameterError
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import Adjacency

MACHINE = {"processor": "p", "cores": 1, "system": "s", "python": "3", "packages": {}, "commit": "c"}


def result_of(settings, cells, extra=None):
    return Result("x", settings, cells, MACHINE, 1.0, {"asked": 0, "found": 0}, extra or {})


@pytest.fixture
def open_bench(tmp_path):
    stores = []

    def opened(settings, scorer):
        stores.append(ScoreCache(tmp_path / f"scores-{len(stores)}.db"))
        return Bench(settings, StoredScorer(scorer, stores[-1]), tmp_path)

    yield opened
    for store in stores:
        store.close()


def test_an_interval_of_expected_successes_holds_its_mean():
    # 84 seeds at 6.48 of 30 right, 21.6 %: rounded seed by seed that is 6 each, 20.0 %, with an interval that ends at
    # 21.6 (Clopper and Pearson for 504 of 2,520). Rounded once it is 544 of 2,520.
    settings = Settings(tasks=("pseudonames",), names=(OWN,), seeds=84, records=(4,), groups=(1,), epsilons=(1.0,))
    asked = Cell(Key("pseudonames", OWN, "questions", poetry_table3.TRIALS), (30.0,) * 84)
    zero = Cell(Key("pseudonames", OWN, e.ZERO_SHOT), (21.6,) * 84)
    shown = poetry_table3._interval(result_of(settings, [asked, zero]), zero)
    mean, error, low, high = map(float, re.findall(r"[\d.]+", shown))
    assert (mean, error) == (21.6, 0.0)
    assert low == pytest.approx(20.0, abs=0.05)
    assert high == pytest.approx(23.2, abs=0.05)
    assert low + 1 < mean < high - 1


@pytest.mark.slow
def test_table_3_says_how_many_questions_there_were_and_lives_without_a_method(tmp_path, open_bench):
    write_drawings(tmp_path)
    settings = Settings(model="fake", seeds=1, tasks=("pseudonames",), names=(OWN,), records=(4, 500), epsilons=(1.0,))
    bench = open_bench(settings, reader())
    cells = [Cell(key, (value,)) for key, value in poetry_table3.measure(bench, Piece("pseudonames", OWN, 0))]
    shown = poetry_table3.section(result_of(settings, cells))
    assert "1 seeds x 30 questions" in dict(shown.about)["Protocol"]
    assert "not measured at 500 records" in shown.reading[0]


def test_imbalance_is_that_of_the_tasks_that_were_asked(tmp_path, open_bench):
    write_news(tmp_path, 40, 12)
    settings = Settings(model="fake", seeds=1, tasks=("agnews", "tickets"), names=(OWN,), records=(4,))
    bench = open_bench(settings, reader())
    pieces = poetry_table2.EXPERIMENT.pieces(settings)
    found = poetry_table2.imbalance(bench, pieces)
    assert list(found) == ["agnews", "tickets"]
    assert found["agnews"] == {
        "labels": list(bench.world("agnews").task.labels), "train": [10] * 4, "test": [3] * 4
    }  # fmt: skip
    assert sum(found["tickets"]["train"]) == 440
    assert len(found["tickets"]["labels"]) == len(found["tickets"]["test"]) == 8
    shown = poetry_table2.section(result_of(settings, [], found))
    assert shown.reading[0].startswith("agnews: always answering World,")
    assert "is right 25.0 % of the time" in shown.reading[0]
    assert not any("cannot calculate" in line for line in shown.reading)
    assert [figure.name for figure in shown.figures] == ["imbalance-agnews", "imbalance-tickets"]


@pytest.mark.parametrize("broken", ["all", "some"])
def test_soft_and_hard_predictions_of_experts_that_cannot_be_read_are_even_and_warn_of_nothing(
    broken, tmp_path, open_bench
):
    write_news(tmp_path)

    def partly(task, context, query):
        if broken == "all" or any("kind 1" in example.fields["text"] for example in context):
            return [math.nan] * 4
        return [2.0, 0.0, -math.inf, 0.0]

    settings = Settings(model="fake", queries=5, tasks=("agnews",), records=(3, 6))
    bench = open_bench(settings, FakeScorer(partly, name="fake"))
    found = dict(poetry_soft_hard.measure(bench, Piece("agnews", OWN, 0)))
    assert found
    assert all(math.isfinite(value) for value in found.values())
    if broken == "all":
        assert set(found.values()) == {0.25}
    for way in poetry_soft_hard.WAYS:
        ranks = [v for k, v in found.items() if (k.method, k.quantity, k.records) == (way, poetry_soft_hard.RANK, 6)]
        assert sum(ranks) == pytest.approx(1)


def test_soft_is_the_geometric_mean_of_those_that_could_be_read_by_hand():
    p = np.array([[[0.8, 0.2], [0.5, 0.5], [math.nan, math.nan]]])
    found = poetry_soft_hard.shares(poetry_soft_hard.soft(np.log(p)) / 2)
    assert found[0, 0] == pytest.approx(math.sqrt(0.4) / (math.sqrt(0.4) + math.sqrt(0.1)))


def test_cells_of_different_numbers_of_seeds_make_no_difference():
    with pytest.raises(ParameterError, match=r"seeds is \(2, 3\)"):
        difference(Cell(Key("a", OWN, "x"), (1.0, 2.0)), Cell(Key("a", OWN, "y"), (1.0, 2.0, 3.0)))
    assert Adjacency.REPLACE_ONE.size_is_public
