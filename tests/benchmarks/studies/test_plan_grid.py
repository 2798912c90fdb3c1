"""The grid behind the planner: halves of seeds that are kept apart, and the packaged file read back as written."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from benchmarks.tiny_rows import reader
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.experiment import Cell, Key, Result, Settings
from sottovoce.benchmarks.harness.runner import run
from sottovoce.benchmarks.studies import plan_grid
from sottovoce.benchmarks.studies.plan_grid import EXPERIMENT, compact, main, write
from sottovoce.errors import InputError
from sottovoce.planner.measurements import Setting, packaged_grid, read_grid

SETTINGS = Settings(
    model="fake", seeds=5, queries=4, tasks=("tickets",), names=("own",), records=(4,), epsilons=(0.5, 2.0),
    adjacencies=("add-remove",), clips=(1.0, 2.3), groups=(1,),
)  # fmt: skip
FLOOR = (40.0, 10.0, 44.0, 20.0, 48.0)
LOW, HIGH = (50.0, 11.0, 52.0, 23.0, 60.0), (70.0, 31.0, 72.0, 33.0, 74.0)
POE = Key("tickets", "own", e.POE, "right", 4, 1, "add-remove", 0.5, "clip 1")


def result(settings: Settings = SETTINGS) -> Result:
    cells = [
        Cell(Key("tickets", "own", e.ZERO_SHOT), FLOOR),
        Cell(POE, LOW),
        Cell(Key("tickets", "own", e.POE, "right", 4, 1, "add-remove", 2.0, "clip 1"), HIGH),
        Cell(Key("tickets", "own", e.SOFT, "right", 4), HIGH),
    ]
    return Result("plan-grid", settings, cells, {"cpu": "a machine"}, 1.0, {})


def error(values: list[float]) -> float:
    return round(float(np.std(values, ddof=1)) / math.sqrt(len(values)), 2)


def test_each_half_of_the_seeds_is_summed_up_by_itself():
    (line,) = compact([result()])["series"]
    assert (line["m"], line["c"], line["r"], line["g"], line["a"]) == ("PoE", 1.0, 4, 1, "add-remove")
    first, second = line["h"]
    assert first == [
        [54.0, 72.0],
        [error([50, 52, 60]), error([70, 72, 74])],
        [error([10, 8, 12]), error([30, 28, 26])],
    ]
    assert second[0] == [17.0, 32.0]
    assert second[2] == [error([1, 3]), error([21, 13])]


def test_the_difference_to_zero_shot_is_taken_seed_by_seed():
    # The same numbers in another order have the same means and another error of the difference.
    (line,) = compact([result()])["series"]
    shuffled = result()
    shuffled.cells[1] = Cell(POE, (60.0, 11.0, 50.0, 23.0, 52.0))
    (other,) = compact([shuffled])["series"]
    assert other["h"][0][0] == line["h"][0][0]
    assert other["h"][0][1] == line["h"][0][1]
    assert other["h"][0][2][0] != line["h"][0][2][0]


def test_what_is_written_is_what_the_planner_reads(tmp_path):
    file = tmp_path / "plan.json"
    write(compact([result()]), file)
    grid = read_grid(json.loads(file.read_text("utf-8")))
    line = grid.lines["tickets", "own", 4, "add-remove"][Setting("PoE", 1, 1.0)]
    assert line.at(0.5, 0).mean == 54.0
    assert line.at(2.0, 1).mean == 32.0
    assert line.at(1.0, 0).mean == pytest.approx(63.0)
    assert [half.mean for half in grid.floors["tickets", "own"]] == [44.0, 15.0]
    assert (grid.models, grid.seeds, grid.prior_weight) == ({"tickets": "fake"}, {"tickets": 5}, 5.0)


def test_runs_that_do_not_belong_together_are_refused():
    with pytest.raises(InputError, match="no result"):
        compact([])
    with pytest.raises(InputError, match="4 seeds or more"):
        compact([result(Settings(**{**vars(SETTINGS), "seeds": 3}))])
    with pytest.raises(InputError, match="same prices"):
        compact([result(), result(Settings(**{**vars(SETTINGS), "epsilons": (0.5, 4.0)}))])


@pytest.fixture
def measured(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "open_model", lambda spec, store: reader())
    return run(EXPERIMENT, SETTINGS, results=tmp_path / "results", cache=tmp_path / "cache")


def test_a_run_measures_every_method_and_clip_and_its_file_is_compacted(measured, tmp_path, capsys):
    main(["--results", str(tmp_path / "results"), "--out", str(tmp_path / "plan.json")])
    told = json.loads((tmp_path / "plan.json").read_text("utf-8"))
    found = [(line["m"], line.get("c")) for line in told["series"]]
    expected = [(e.POE, 1.0), (e.POE, 2.3), (e.PRIOR_POE, 1.5), (e.VOTES, None), (e.VOTES_PF, None)]
    assert sorted(found, key=str) == sorted(expected, key=str)
    cell = Result.read(measured).cell(**{**vars(POE), "option": "clip 2.3"})
    (line,) = (one for one in told["series"] if (one["m"], one.get("c")) == (e.POE, 2.3))
    assert line["h"][0][0][0] == round(float(np.mean(cell.values[::2])), 2)
    assert line["h"][1][0][0] == round(float(np.mean(cell.values[1::2])), 2)
    assert "5 series" in capsys.readouterr().out


def test_its_tables_tell_the_best_setting_and_where_zero_shot_is_as_good(measured):
    shown = EXPERIMENT.section(Result.read(measured))
    (table,) = shown.tables
    (row,) = table.rows
    assert row[:3] == ("tickets", "own", "4")
    assert len(row) == len(table.columns) == 6
    cells = [c for c in Result.read(measured).cells if c.key.method in plan_grid.FAMILIES]
    best = [max(c.mean for c in cells if c.key.epsilon == price) for price in SETTINGS.epsilons]
    assert [told.split()[0] for told in row[4:]] == [f"{mean:.0f}" for mean in best]
    floor = Result.read(measured).cell(task="tickets", names="own", method=e.ZERO_SHOT)
    assert shown.reading[0].endswith(f"in {sum(floor.mean >= mean for mean in best)}.")


def test_the_packaged_file_is_of_the_grid_that_the_experiment_runs_by_default():
    settings = EXPERIMENT.settings
    grid = packaged_grid()
    for task in settings.tasks:
        assert grid.seeds[task] == settings.seeds
        for names in ("own", "made up"):
            assert grid.counts(task, names) == list(settings.records)
    assert {s.clip for lines in grid.lines.values() for s in lines if s.method == e.POE} == set(settings.clips)
