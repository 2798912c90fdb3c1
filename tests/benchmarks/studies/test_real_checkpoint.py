"""The papers' claims on a published checkpoint: calibration by each prompt itself, every cell there, and its file."""

from __future__ import annotations

import math
import sys

import pytest

from benchmarks.tiny_rows import write_news
from sottovoce.benchmarks.harness import checkpoint, runner
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.checkpoint import CHECKPOINT, FILE, installed_checkpoint
from sottovoce.benchmarks.harness.experiment import Result, Settings
from sottovoce.benchmarks.studies import real_checkpoint as study
from sottovoce.errors import InputError
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PublicRecords, Row
from sottovoce.tasks import CONTENT_FREE

SETTINGS = Settings(
    model="fake", seeds=2, queries=4, tasks=("agnews",), names=("own",), records=(3,), epsilons=(1.0, 4.0),
)  # fmt: skip
EMPTY = len(CONTENT_FREE)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    with pytest.MonkeyPatch.context() as patch:
        for module in (runner, study):
            patch.setattr(module, "open_model", lambda spec, store: FakeScorer())
        texts = [Row(n, {"text": f"an invented text, number {n}"}) for n in range(12)]
        patch.setattr(study, "public_pool", lambda: PublicRecords(texts, source="pool"))
        file = runner.run(
            study.EXPERIMENT, SETTINGS, results=folder, cache=folder / "cache", data=write_news(folder / "data")
        )
    return Result.read(file)


@pytest.mark.slow
def test_every_method_stands_there_as_it_is_and_calibrated(result):
    at = {"task": "agnews", "names": "own", "records": 3}
    for option in (study.AS_IS, study.CALIBRATED):
        for method in e.REFERENCES:
            assert len(result.cell(**at, method=method, option=option).values) == 2
        for adjacency in SETTINGS.adjacencies:
            for epsilon in SETTINGS.epsilons:
                for method in e.SELECTING:
                    assert result.cell(**at, method=method, adjacency=adjacency, epsilon=epsilon, option=option)
    for name in study.FITTERS:
        for option in (study.ONE_ANSWER, study.ALL_ANSWERS):
            assert result.cell(**at, method=name, adjacency="replace-one", epsilon=4.0, option=option)


@pytest.mark.slow
def test_tables_hold_every_cell_and_the_reading_every_task(result):
    shown = study.section(result)
    titles = [table.title for table in shown.tables]
    assert len(titles) == 7
    assert all(len(row) == len(table.columns) for table in shown.tables for row in table.rows)
    assert not any("" in row for table in shown.tables for row in table.rows)
    assert [line.partition(":")[0] for line in shown.reading] == ["agnews"]


def test_one_answer_costs_its_epsilon_and_many_no_more_than_their_sum():
    for adjacency in Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE:
        assert 1.98 < study.total_price(2.0, 1, adjacency) <= 2.0
        assert 2.0 < study.total_price(0.5, 100, adjacency) < 50 * (1 - 1e-9)


def test_the_file_here_is_taken_before_an_installed_one_and_its_absence_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoint, "PACKAGE", "no_such_package")
    with pytest.raises(InputError, match=r"requirements/smollm.txt"):
        installed_checkpoint()
    (tmp_path / "a_package").mkdir()
    (tmp_path / "a_package" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(checkpoint, "PACKAGE", "a_package")
    assert installed_checkpoint() == f"hf:{tmp_path / 'a_package' / FILE}"
    assert "a_package" not in sys.modules
    (tmp_path / FILE).touch()
    assert installed_checkpoint() == CHECKPOINT


def test_the_total_is_never_above_what_a_price_may_be():
    assert math.isfinite(study.total_price(8.0, 1000, Adjacency.REPLACE_ONE))
    assert study.total_price(8.0, 1000, Adjacency.REPLACE_ONE) <= 1000
