"""The frontier in a made-up world: every method at one price, the compact file, and what is shown of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tiny_rows import write_drawings, write_news
from sottovoce.benchmarks.frontier import measure, rows
from sottovoce.benchmarks.frontier.kept import (
    ANOTHER_KIND,
    BUNDLED,
    QUESTIONS,
    REGRESSION,
    SAME_KIND,
    Frontier,
    as_text,
    compact,
    quoted,
    renewed,
)
from sottovoce.benchmarks.frontier.measure import EXPERIMENT, PER_ANSWER, measured_fitters, price_of_one
from sottovoce.benchmarks.frontier.page import main, section, section_of
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.datasets import default_data, read_world
from sottovoce.benchmarks.harness.experiment import Cell, Key, Result, Settings
from sottovoce.benchmarks.harness.runner import load_experiment, run
from sottovoce.errors import InputError, ParameterError
from sottovoce.methods import label_public
from sottovoce.models.fake import FakeScorer, FakeStepper
from sottovoce.parameters import options_of
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PublicRecords, Row

SETTINGS = Settings(
    model="fake", seeds=1, queries=6, tasks=("tickets",), names=("own", "made up"), records=(10, 20),
    epsilons=(1.0, 8.0), adjacencies=("add-remove", "replace-one"), methods=("all",),
)  # fmt: skip
RESULTS = Path(__file__).resolve().parents[3] / "docs" / "results"


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("frontier")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "open_model", lambda spec, store: FakeScorer())
        patch.setattr(rows, "FOREIGN", {"tickets": ("agnews",)})
        patch.setattr(label_public, "MANY_TEXTS", 4)
        texts = [Row(n, {"text": f"an invented text, number {n}"}) for n in range(30)]
        patch.setattr(rows, "public_pool", lambda: PublicRecords(texts, source="pool"))
        yield run(
            EXPERIMENT, SETTINGS, results=folder / "results", cache=folder / "cache", data=write_news(folder / "data")
        )


@pytest.mark.slow
def test_every_method_is_measured_at_every_price_and_with_every_pool(measured):
    grid = Frontier(compact([Result.read(measured)]))
    assert set(grid.fitters) == set(measured_fitters())
    for kind in (("tickets", "own"), ("tickets", "made up")):
        assert len(grid.cell(kind, e.ZERO_SHOT).values) == SETTINGS.seeds
        for records in SETTINGS.records:
            assert grid.cell(kind, e.FULL, records)
            assert grid.cell(kind, REGRESSION, records)
            for adjacency in SETTINGS.adjacencies:
                for epsilon in SETTINGS.epsilons:
                    at = (records, adjacency, epsilon)
                    for name in PER_ANSWER:
                        cells = [grid.cell(kind, name, records, str(q), adjacency, epsilon) for q in QUESTIONS]
                        assert all(cells), (name, at)
                    for name, fitter in measured_fitters().items():
                        for pool in (SAME_KIND, ANOTHER_KIND, BUNDLED) if fitter.pool != "unused" else ("no pool",):
                            assert grid.cell(kind, name, records, pool, adjacency, epsilon), (name, pool, at)


def test_a_fitter_that_lets_a_model_write_is_left_out(monkeypatch):
    every = measured_fitters()
    monkeypatch.setattr(every["choice"], "writes", True, raising=False)
    assert set(every) - set(measured_fitters()) == {"choice"}


@pytest.mark.slow
def test_a_run_says_what_it_cut_short_and_what_the_pools_were(measured):
    extra = Result.read(measured).extra
    assert "NumPy" in extra["shortcuts"]
    assert extra["delta"] == 1e-6
    assert extra["labels"] == {"tickets": 8}
    assert extra["pools"]["tickets"] == {SAME_KIND: 88, ANOTHER_KIND: 48, BUNDLED: 30}


@pytest.mark.slow
def test_the_compact_file_holds_every_number(measured):
    result = Result.read(measured)
    grid = Frontier(json.loads(as_text(compact([result]))))
    assert len(grid._cells) - len(grid.content["quoted"]) == len(result.cells)
    for cell in result.cells:
        key = cell.key
        option = key.option.removesuffix(" questions")
        found = grid.cell((key.task, key.names), key.method, key.records, option, key.adjacency, key.epsilon)
        assert found.values == tuple(round(value, 1) for value in cell.values)


@pytest.mark.slow
def test_records_of_a_world_are_in_none_of_its_pools(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "open_model", lambda spec, store: FakeScorer())
    bench = runner.open_bench(SETTINGS, runner.ScoreCache(tmp_path / "scores.db"), default_data())
    world = rows.world_of(bench, "tickets")
    episodes = [world.dataset.episode(seed, 10, "own", 10_000) for seed in range(3)]
    spare = {example.fields["text"] for example in world.spare}
    for episode in episodes:
        assert spare.isdisjoint(record.fields["text"] for record in episode.records)
        assert spare.isdisjoint(question["text"] for question in episode.questions)


def test_a_pool_of_pictures_has_none_of_the_episodes_characters(tmp_path):
    dataset = read_world(write_drawings(tmp_path), "pseudonames")
    for seed in range(4):
        episode = dataset.episode(seed, 30, "own")
        shown = {record.fields["image"].split()[1] for record in episode.records}
        pool = {text["image"].split()[1] for text in rows._other_classes(dataset, seed)}
        assert len(shown) == 5
        assert shown.isdisjoint(pool)
        assert len(shown | pool) == 7


def test_an_answer_has_the_better_of_two_currencies():
    # One question: the whole epsilon, which bounded range turns into all of it. A thousand: zCDP, with
    # rho = eta^2 / 8 an answer (specification T4), so that eta = sqrt(8 rho / 1000).
    poe = PER_ANSWER[e.POE]
    one, thousand = (price_of_one(poe, Adjacency.REPLACE_ONE, 4.0, questions) for questions in (1, 1000))
    assert one == 4.0
    rho = (np.sqrt(np.log(1e6) + 4) - np.sqrt(np.log(1e6))) ** 2  # the classical bound; the ledger's is no worse
    assert np.sqrt(8 * rho / 1000) <= thousand <= 1.3 * np.sqrt(8 * rho / 1000)
    assert thousand > 4.0 / 1000


@pytest.mark.slow
def test_a_fit_is_drawn_once_for_both_kinds_of_names_unless_it_asks_the_model(monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "open_model", lambda spec, store: FakeScorer())
    monkeypatch.setattr(rows, "FOREIGN", {})
    monkeypatch.setattr(label_public, "MANY_TEXTS", 4)
    monkeypatch.setattr(rows, "public_pool", lambda: PublicRecords([Row(1, {"text": "one"})], source="pool"))
    settings = SETTINGS.changed(records=[20], epsilons=[8.0], adjacencies=["replace-one"])
    bench = runner.open_bench(settings, runner.ScoreCache(tmp_path / "scores.db"), default_data())
    list(measure.measure(bench, EXPERIMENT.pieces(settings)[0]))
    known = rows.drawn_from(bench, "tickets", 0).known
    fits = {key: value for key, value in known.items() if isinstance(key, Key) and key.option == SAME_KIND}
    for name, fitter in measured_fitters().items():
        found = {key.names: value for key, value in fits.items() if key.method == name}
        assert list(found) == (["own"] if fitter.asks_experts else ["own", "made up"])
        if "prior_weight" in options_of(fitter) and not fitter.asks_experts:
            assert found["made up"].prior_weight == 0
            assert found["own"].prior_weight > 0


@pytest.mark.slow
def test_methods_that_are_named_are_measured_alone_and_a_writer_is_asked_for_either_kind_of_names(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(runner, "open_model", lambda spec, store: FakeScorer())
    monkeypatch.setattr(rows, "FOREIGN", {})
    monkeypatch.setattr(measure, "stepper_of", lambda writer: FakeStepper())
    monkeypatch.setattr(rows, "public_pool", lambda: PublicRecords([Row(1, {"text": "one"})], source="pool"))
    written = []
    monkeypatch.setattr(measure.ModelWriter, "variations", lambda self, *_: written.append(self.task.labels[0]) or [])
    settings = SETTINGS.changed(
        records=[20], epsilons=[8.0], adjacencies=["replace-one"], methods=["evolve", "class-means"]
    )
    bench = runner.open_bench(settings, runner.ScoreCache(tmp_path / "scores.db"), default_data())
    found = {key.method for piece in EXPERIMENT.pieces(settings) for key, _ in measure.measure(bench, piece)}
    assert found == {"zero-shot", "evolve", "class-means"}
    assert len(set(written)) == 2
    with pytest.raises(ParameterError, match="methods"):
        measure.fitters_of(["class-mean"])


# What is measured again


def again(*values: float) -> Result:
    before = small()
    cells = [before.cells[0], replace(before.cells[3], values=values)]
    return replace(before, settings=replace(before.settings, methods=("class-means",)), cells=cells)


def test_what_is_measured_again_takes_the_place_of_what_was():
    grid = Frontier(renewed(compact([small()]), [again(50.0, 52.0)]))
    place = (240, BUNDLED, "replace-one", 4.0)
    assert grid.cell(("agnews", "own"), "class-means", *place).values == (50.0, 52.0)
    assert grid.cell(("agnews", "own"), "choice", *place).values == (71.0, 75.0)
    assert grid.cell(("agnews", "own"), e.FULL, 240).values == (80.0, 82.0)
    again_on = "Measured again: class-means, changed since, under own label names on agnews"
    assert section_of(grid).reading[0] == f"{again_on}."
    table = section_of(grid).tables[0]
    assert table.title == "Beside zero-shot, before a change and now"
    assert table.rows == [("class-means", "agnews", "advice", "2", "1", "+11.0", "-10.0", "0", "1", "+11.0", "-10.0")]


def test_sets_whose_figures_are_of_before_are_named():
    other = small()
    cells = [replace(cell, key=replace(cell.key, task="trec")) for cell in other.cells]
    both = compact([small(), replace(other, settings=replace(other.settings, tasks=("trec",)), cells=cells)])
    reading = section_of(Frontier(renewed(both, [again(50.0, 52.0)]))).reading
    assert reading[0].endswith("on agnews; on trec their figures are of before.")


def test_a_method_that_was_measured_again_in_several_runs_is_named_once():
    def run(task: str, *methods: str) -> dict:
        return {"tasks": [task], "methods": methods, "names": ["own"], "seeds": 2, "seconds": 1.0}

    grid = compact([small()])
    runs = [run("agnews", "choice", "class-means"), run("trec", "class-means"), run("agnews", "class-means")]
    assert section_of(Frontier({**grid, "runs": grid["runs"] + runs})).reading[:2] == [
        "Measured again: choice, changed since, under own label names on agnews.",
        "Measured again: class-means, changed since, under own label names on agnews, trec.",
    ]


def test_fewer_seeds_are_compared_with_zero_shot_on_the_same_ones_and_named():
    one = replace(again(50.0), settings=replace(again(50.0).settings, seeds=1))
    one = replace(one, cells=[replace(cell, values=cell.values[:1]) for cell in one.cells])
    section = section_of(Frontier(renewed(compact([small()]), [one])))
    assert section.reading[0].endswith("on agnews (1 seeds).")
    assert section.tables[0].rows[0][-3:] == ("1", "+11.0", "-10.0")  # 50 beside 60, the first seed of 60 and 62


def test_of_more_seeds_than_the_file_has_the_first_count_and_files_with_more_are_shown():
    def with_a_third(result: Result) -> Result:
        cells = [replace(cell, values=(*cell.values, 99.0)) for cell in result.cells]
        return replace(result, settings=replace(result.settings, seeds=3), cells=cells)

    result = with_a_third(again(50.0, 52.0))
    few, more = (Frontier(renewed(compact([first]), [result])) for first in (small(), with_a_third(small())))
    assert few.cell(("agnews", "own"), "class-means", 240, BUNDLED, "replace-one", 4.0).values == (50.0, 52.0)
    tables = [section_of(few, [more]).tables[0], section_of(more, [few]).tables[0]]
    assert [row[3] for table in tables for row in table.rows] == ["3", "3"]


def test_cells_that_were_not_measured_again_stay():
    before = small()
    wide = replace(before, settings=replace(before.settings, epsilons=(1.0, 4.0), records=(60, 240)))
    others = [
        replace(before.cells[3], key=replace(before.cells[3].key, records=60), values=(55.0, 57.0)),
        replace(before.cells[3], key=replace(before.cells[3].key, epsilon=1.0), values=(45.0, 47.0)),
    ]
    grid = compact([replace(wide, cells=[*wide.cells, *others])])
    found = Frontier(renewed(grid, [again(50.0, 52.0)]))

    def values(records: int, epsilon: float):
        return found.cell(("agnews", "own"), "class-means", records, BUNDLED, "replace-one", epsilon).values

    assert [values(60, 4.0), values(240, 1.0), values(240, 4.0)] == [(55.0, 57.0), (45.0, 47.0), (50.0, 52.0)]
    other = again(50.0, 52.0)
    cells = [other.cells[0], replace(other.cells[1], key=replace(other.cells[1].key, epsilon=3.0))]
    with pytest.raises(InputError, match="no epsilon 3"):
        renewed(grid, [replace(other, settings=replace(other.settings, epsilons=(3.0,)), cells=cells)])


def test_methods_that_have_a_model_write_have_a_table_of_their_own():
    result = again(50.0)
    cells = [replace(cell, values=cell.values[:1]) for cell in result.cells]
    cells[1] = replace(cells[1], key=replace(cells[1].key, method="evolve"))
    settings = replace(result.settings, methods=("evolve",), seeds=1)
    grid = Frontier(renewed(compact([small()]), [replace(result, settings=settings, cells=cells)]))
    assert (grid.fitters, grid.writing) == (["class-means", "choice"], ["evolve"])
    section = section_of(grid)
    assert not section.reading[0].startswith("Measured again")
    (table,) = [table for table in section.tables if table.title == "Where a model writes"]
    place = ("agnews", "own", "240", "4", "replace-one", BUNDLED, "1")
    assert dict(zip(table.columns[7:], table.rows[0][7:], strict=True)) == {
        "zero-shot": "60.0", "class-means": "70.0", "choice": "71.0", "evolve": "50.0"
    }  # fmt: skip
    assert table.rows[0][:7] == place
    assert table.note.endswith("(--writer): embedded.")


def test_what_changed_since_stands_on_the_page():
    grid = compact([small()])
    assert "Changed since" not in dict(section_of(Frontier(grid)).about)
    assert dict(section_of(Frontier({**grid, "since": "one rule"})).about)["Changed since"] == "one rule"


def test_a_result_with_other_draws_is_not_taken_up():
    other = replace(again(50.0, 52.0), cells=[Cell(Key("agnews", "own", e.ZERO_SHOT), (60.0, 63.0))])
    with pytest.raises(InputError, match="other draws"):
        renewed(compact([small()]), [other])


# What is shown


def small() -> Result:
    settings = Settings(
        seeds=2, tasks=("agnews",), names=("own",), records=(240,), epsilons=(4.0,), adjacencies=("replace-one",)
    )
    place = {"task": "agnews", "names": "own", "records": 240}
    priced = {**place, "adjacency": "replace-one", "epsilon": 4.0}
    cells = [
        Cell(Key("agnews", "own", e.ZERO_SHOT), (60.0, 62.0)),
        Cell(Key(method=e.FULL, **place), (80.0, 82.0)),
        Cell(Key(method=REGRESSION, **place), (85.0, 87.0)),
        Cell(Key(method="class-means", option=BUNDLED, **priced), (70.0, 74.0)),
        Cell(Key(method="choice", option=BUNDLED, **priced), (71.0, 75.0)),
        Cell(Key(method="choice", option=SAME_KIND, **priced), (90.0, 90.0)),
        *(Cell(Key(method=e.POE, option=f"{q} questions", **priced), (80.0 - q / 50,) * 2) for q in QUESTIONS),
        *(Cell(Key(method=e.VOTES, option=f"{q} questions", **priced), (78.5,) * 2) for q in QUESTIONS[:3]),
    ]
    quotes = [{"t": "agnews", "n": "own", "m": "invisible-ink", "o": "k 8", "a": "replace-one", "r": 240, "e": 4.0,
               "v": [33.0, 35.0], "questions": 100, "from": "docs/results/prism/prism-records.json"}]  # fmt: skip
    machine = {"processor": "p", "cores": 2, "system": "s", "python": "3", "packages": {}, "commit": "c"}
    return Result("frontier", settings, cells, machine, 1.0, {}, {"quoted": quotes, "shortcuts": "none"})


def test_the_figure_has_four_lines_that_a_manager_can_read():
    figure, *_ = EXPERIMENT.section(small()).figures
    lines = {series.name: (list(series.x), list(series.y)) for series in figure.series}
    assert lines == {
        "zero-shot": ([1.0, 1000.0], [61.0, 61.0]),
        "best method that pays for every answer": ([1.0, 10.0, 100.0, 1000.0], [80.0, 79.8, 78.5, 60.0]),
        "pay once": ([1.0, 1000.0], [73.0, 73.0]),  # the pool of the same kind is not everybody's
        "no protection": ([1.0, 1000.0], [86.0, 86.0]),
    }
    assert figure.series[2].low == pytest.approx([69.0] * 2)  # two standard errors of 70 and 74 and 71 and 75


def test_tables_have_zero_shot_and_no_privacy_beside_every_figure():
    for table in EXPERIMENT.section(small()).tables:
        for row in table.rows:
            assert len(row) == len(table.columns)
            assert row[3] == "61.0 ± 1.0"
    questions, _, by_records = EXPERIMENT.section(small()).tables
    assert questions.rows[0][-5:] == ("60.0 ± 0.0", "73.0 ± 2.0", "choice", "81.0 ± 1.0", "86.0 ± 1.0")
    assert by_records.rows[0][4:8] == ("78.5 ± 0.0", "34.0 ± 1.0", "72.0 ± 2.0", "73.0 ± 2.0")


@pytest.mark.slow
def test_the_page_follows_from_the_compact_file_alone(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    small().write(tmp_path / "run" / "frontier.json")
    main(["--results", str(tmp_path / "run"), "--out", str(tmp_path / "first")])
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "frontier.json").write_bytes((tmp_path / "first" / "frontier.json").read_bytes())
    main(["--out", str(tmp_path / "second")])
    pages = [(tmp_path / name / "pay-once.md").read_text("utf-8") for name in ("first", "second")]
    assert pages[0] == pages[1]
    assert "79.8" not in pages[0].partition("## ")[0]
    assert "| 73.0 ± 2.0" in pages[0]
    assert "pay-once/frontier-questions-own.png" in pages[0]
    assert (tmp_path / "first" / "pay-once" / "frontier-questions-own.svg").is_file()
    assert "Written" in capsys.readouterr().out


def test_runs_of_several_tasks_are_put_together():
    other = small()
    cells = [replace(cell, key=replace(cell.key, task="trec")) for cell in other.cells]
    other = replace(other, settings=replace(other.settings, tasks=("trec",)), cells=cells)
    grid = Frontier(compact([small(), other]))
    assert grid.kinds == [("agnews", "own"), ("trec", "own")]
    assert grid.content["settings"]["tasks"] == ("agnews", "trec")
    assert [run["tasks"] for run in grid.content["runs"]] == [("agnews",), ("trec",)]
    with pytest.raises(InputError, match="same settings"):
        compact([small(), replace(other, settings=replace(other.settings, seeds=3))])
    with pytest.raises(InputError, match="no result"):
        compact([])


def test_a_file_that_is_none_is_refused(tmp_path):
    other = tmp_path / "frontier.json"
    for text in ("[]", "{", '{"benchmark": "frontier", "format": 2}'):
        other.write_text(text, "utf-8")
        with pytest.raises(InputError, match="not the frontier"):
            Frontier.read(other)


def test_what_is_quoted_is_the_best_number_of_demonstrations():
    entries = {(q["t"], q["n"], q["r"], q["a"], q["e"]): q for q in quoted()}
    cells = Result.read(RESULTS / "prism" / "prism-records.json").cells
    place = {"task": "agnews", "names": "made up", "records": 960, "adjacency": "add-remove", "epsilon": 4.0}
    found = [
        cell for cell in cells
        if cell.key.method == "invisible-ink" and cell.key.quantity == "right"
        and all(getattr(cell.key, name) == value for name, value in place.items())
    ]  # fmt: skip
    best = max(found, key=lambda cell: cell.mean)
    entry = entries["agnews", "made up", 960, "add-remove", 4.0]
    assert (entry["o"], entry["v"]) == (best.key.option, [round(value, 1) for value in best.values])
    assert entry["from"] == "docs/results/prism/prism-records.json"
    assert quoted(RESULTS / "nowhere") == []


def test_the_experiment_is_enrolled_with_a_small_grid(monkeypatch, tmp_path):
    assert EXPERIMENT.quick is not None
    assert load_experiment("frontier") is EXPERIMENT
    small().write(tmp_path / "frontier.json")
    asked = []
    monkeypatch.setattr(runner, "run", lambda *given, **places: asked.append(given) or tmp_path / "frontier.json")
    for words in ([], ["--quick"], ["--quick", "--seeds", "1"]):
        runner.main("frontier", words)
    assert [settings for _, settings in asked] == [
        EXPERIMENT.settings, EXPERIMENT.quick, EXPERIMENT.quick.changed(seeds=1),
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="no small grid"):
        runner.main("poetry-table2", ["--quick"])
    assert len(asked) == 3


@pytest.mark.slow
def test_the_committed_page_is_that_of_the_committed_file():
    frontier_file = RESULTS / "frontier.json"
    shown = section_of(Frontier.read(frontier_file))
    page = (RESULTS / "pay-once.md").read_text("utf-8")
    assert all(sentence.replace("*", "") in page.replace("\\", "") for sentence in shown.reading)
    assert frontier_file.stat().st_size < 1_000_000


@pytest.mark.slow
@pytest.mark.skipif(not (default_data() / "trec").is_dir(), reason="the benchmark rows are not beside the checkout")
def test_class_means_beat_zero_shot_on_question_types(tmp_path):
    settings = EXPERIMENT.quick.changed(tasks=["trec"], names=["made up"], seeds=1)
    file = run(EXPERIMENT, settings, results=tmp_path / "results", cache=tmp_path / "cache")
    grid = Frontier(compact([Result.read(file)]))
    kind = "trec", "made up"
    found = grid.cell(kind, "class-means", 240, SAME_KIND, "replace-one", 4.0)
    assert found.mean > grid.cell(kind, e.ZERO_SHOT).mean + 15
    assert section(Result.read(file)).tables
