"""What an experiment is made of: settings that are checked by name, pieces, and a result file that reads back equal."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from benchmarks.tiny_rows import reader, write_news
from sottovoce.benchmarks.harness import accuracy
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.accuracy import measure_accuracy
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN
from sottovoce.benchmarks.harness.experiment import Bench, Cell, Experiment, Key, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.benchmarks.harness.score_cache import ScoreCache, StoredScorer
from sottovoce.errors import InputError, ParameterError
from sottovoce.methods.pbs import PbS
from sottovoce.models.fake import FakeScorer


def experiment(**settings):
    return Experiment("trial", "title", "source", Settings(**settings), lambda bench, piece: (), lambda result: None)


# Settings


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"adjacencies": ["add-remove", "zero-out"]}, "adjacencies", "zero-out"),
        ({"tasks": ["agnews", "weather"]}, "tasks", "weather"),
        ({"names": ["own", "none"]}, "names", "none"),
        ({"epsilons": [1.0, -0.5]}, "epsilons", -0.5),
        ({"epsilons": [0.0]}, "epsilons", 0.0),
        ({"epsilons": [math.nan]}, "epsilons", math.nan),
        ({"epsilons": [math.inf]}, "epsilons", math.inf),
        ({"seeds": 0}, "seeds", 0),
        ({"seeds": -1}, "seeds", -1),
        ({"queries": 0}, "queries", 0),
        ({"records": [4, 0]}, "records", 0),
        ({"groups": [-2]}, "groups", -2),
        ({"clips": [2.3]}, "clips", (2.3,)),
    ],
)
def test_a_setting_out_of_range_is_refused_with_its_name_and_value(given, name, value):
    with pytest.raises(ParameterError, match=name) as caught:
        Settings().changed(**given)
    assert caught.value.name == name
    assert caught.value.value is value or caught.value.value == value


def test_a_setting_that_an_experiment_does_not_have_is_refused_and_one_that_it_has_is_not():
    with pytest.raises(ParameterError, match="no such setting"):
        Settings(groups=()).changed(groups=[2])
    assert Settings(clips=(1.0,)).changed(clips=[2.3, 5.0]).clips == (2.3, 5.0)


def test_what_is_not_given_stays_and_lists_become_tuples():
    before = Settings(seeds=7)
    after = before.changed(epsilons=[2.0], queries=3, seeds=None, tasks=None, model="fake")
    assert after == replace(before, epsilons=(2.0,), queries=3, model="fake")


def test_a_setting_named_twice_counts_once():
    # Twice the same piece would count every seed twice and shrink the standard errors by the root of 2.
    settings = Settings().changed(tasks=["agnews", "trec", "agnews"], names=["own", "own"], records=[4, 4])
    assert (settings.tasks, settings.names, settings.records) == (("agnews", "trec"), ("own",), (4,))
    pieces = experiment().pieces(settings)
    assert len(pieces) == len(set(pieces)) == 2 * settings.seeds


# Pieces


def test_every_seed_world_and_kind_of_name_is_a_piece_seeds_outermost():
    settings = Settings(seeds=2, tasks=("agnews", "gsm8k", "trec"))
    pieces = experiment().pieces(settings)
    one = [("agnews", OWN), ("agnews", UNKNOWN), ("gsm8k", OWN), ("trec", OWN), ("trec", UNKNOWN)]
    assert [(p.task, p.names, p.seed) for p in pieces] == [(*each, seed) for seed in (0, 1) for each in one]
    assert len({piece.name for piece in pieces}) == len(pieces)


# The result file


def result(**changes):
    keys = [
        Key("agnews", OWN, e.ZERO_SHOT),
        Key("agnews", OWN, e.POE, records=25, adjacency="add-remove", epsilon=1.0),
        Key("agnews", OWN, e.POE, records=25, group=2, adjacency="replace-one", epsilon=0.5, option="clip 2.3"),
        Key("agnews", OWN, e.POE, "time", records=25),
    ]
    cells = [Cell(key, (50.0 + n, 61.125, 0.25)) for n, key in enumerate(keys)]
    parts = {
        "experiment": "trial",
        "settings": Settings(clips=(2.3,), seeds=3, model="hf:some/model"),
        "cells": cells,
        "machine": describe(),
        "seconds": 12.5,
        "scores": {"asked": 3, "found": 4},
        "extra": {"curve": [[0.0, 0.5], [1.0, 1.0]], "told": {"a": None}},
    }
    return Result(**{**parts, **changes})


def strictly(text):
    """JSON without the numbers that only Python reads."""

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_a_result_is_read_as_it_was_written(tmp_path):
    first = result()
    first.write(tmp_path / "new" / "trial.json")
    again = Result.read(tmp_path / "new" / "trial.json")
    assert again == first
    again.write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "new" / "trial.json").read_bytes()


def test_the_file_says_on_what_it_was_measured_and_holds_a_cell_a_line(tmp_path):
    file = tmp_path / "trial.json"
    result().write(file)
    told = strictly(file.read_text("utf-8"))
    assert set(told["machine"]) >= {"processor", "cores", "system", "python", "packages", "commit"}
    assert told["machine"]["packages"]["numpy"]
    assert told["settings"]["model"] == "hf:some/model"
    assert set(told["cells"][0]) == {"task", "names", "method", "mean", "se", "values"}
    lines = [line for line in file.read_text("utf-8").splitlines() if line.startswith('{"task"')]
    assert len(lines) == 4
    # Mean of 50, 61.125 and 0.25 by hand: 111.375 / 3.
    assert told["cells"][0]["mean"] == pytest.approx(37.12, abs=0.01)


def test_small_numbers_are_not_rounded_away(tmp_path):
    file = tmp_path / "trial.json"
    result(cells=[Cell(Key("agnews", OWN, "soft", "probability"), (0.00125, 0.00135))]).write(file)
    told = strictly(file.read_text("utf-8"))["cells"][0]
    assert told["mean"] == pytest.approx(0.0013)
    assert told["se"] == pytest.approx(0.00005)


@pytest.mark.parametrize("values", [(61.5,), (61.5, math.nan), (math.nan,), (math.inf,)])
def test_one_seed_or_a_number_that_is_none_leaves_valid_json(tmp_path, values):
    file = tmp_path / "trial.json"
    first = result(cells=[Cell(Key("agnews", OWN, e.POE), values)])
    first.write(file)
    assert strictly(file.read_text("utf-8"))["cells"][0]["se"] is None
    (cell,) = Result.read(file).cells
    assert [v if math.isfinite(v) else None for v in values] == [v if math.isfinite(v) else None for v in cell.values]


def test_a_result_without_cells_or_with_such_a_name_inside_reads_back_too(tmp_path):
    for changes in ({"cells": []}, {"extra": {"cells": []}}, {"cells": [], "extra": {"cells": [], "b": [1]}}):
        first = result(**changes)
        first.write(tmp_path / "trial.json")
        assert Result.read(tmp_path / "trial.json") == first


def test_a_cell_is_found_by_its_key_alone():
    found = result()
    assert found.cell(task="agnews", names=OWN, method=e.ZERO_SHOT) is found.cells[0]
    at = {"task": "agnews", "names": OWN, "method": e.POE, "records": 25}
    assert found.cell(**at, adjacency="add-remove", epsilon=1) is found.cells[1]
    assert found.cell(**at, adjacency="replace-one", epsilon=1) is None
    assert found.cell(**at, quantity="time") is found.cells[3]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "3",
        '{"settings": []}',
        '{"settings": {}, "cells": []}',
        '{"settings": {"x": 1}, "cells": []}',
        "[" * 100_000,
        None,
    ],
)
def test_what_is_no_result_is_said_to_be_none(tmp_path, text):
    file = tmp_path / "trial.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=r"trial\.json is not a result"):
        Result.read(file)


def test_what_a_reader_needs_is_told():
    told = dict(about(result()))
    assert told["Model"] == "hf:some/model"
    assert "3 seeds x 100 questions" in told["Protocol"]
    assert told["Command"].startswith("sotto bench run trial --model hf:some/model --seeds 3 --queries 100 --tasks ")
    assert told["Model asked"] == "3 pairs of prompt and question; 4 were known"
    assert "numpy" in told["Packages"]


# Accuracies of one piece


@pytest.fixture
def bench(tmp_path):
    write_news(tmp_path)
    store = ScoreCache(tmp_path / "scores.db")
    settings = Settings(queries=6, records=(4, 6, 500), groups=(1, 3, 5), epsilons=(1.0,))
    yield Bench(settings, StoredScorer(reader(), store), tmp_path)
    store.close()


PIECE = Piece("agnews", OWN, 1)


@pytest.mark.slow
def test_one_piece_has_every_method_and_reference_once(bench):
    pairs = list(measure_accuracy(bench, PIECE, pbs=PbS(0.1, 2)))
    found = dict(pairs)
    assert len(found) == len(pairs)
    released = {
        Key("agnews", OWN, method, "right", n, g, adjacency, 1.0)
        for n, groups in ((4, (1, 3)), (6, (1, 3, 5)))
        for adjacency in ("add-remove", "replace-one")
        for method, g in [*((m, g) for m in e.SELECTING for g in groups), (e.PBS, 1)]
    }
    references = {Key("agnews", OWN, e.ZERO_SHOT), *(Key("agnews", OWN, e.FULL, records=n) for n in (4, 6))} | {
        Key("agnews", OWN, m, records=n, group=g) for m in (e.SOFT, e.HARD) for n, g in ((4, 1), (4, 3), (6, 1), (6, 3),
                                                                                         (6, 5))
    }  # fmt: skip
    assert set(found) == released | references
    assert all(0 <= value <= 100 for value in found.values())


@pytest.mark.slow
def test_more_epsilons_adjacencies_and_methods_ask_nothing_more(bench):
    first = dict(measure_accuracy(bench, PIECE))
    asked = bench.scorer.asked
    more = Bench(replace(bench.settings, epsilons=(0.5, 1.0, 8.0)), bench.scorer, bench.data)
    found = dict(measure_accuracy(more, PIECE, methods={**e.SELECTING, "PoE at 1": e.PoE(clip=1.0)}))
    assert bench.scorer.asked == asked
    assert {key: found[key] for key in first} == first


def test_a_figure_is_the_law_of_the_method_on_the_experts_of_the_piece(bench):
    found = dict(measure_accuracy(bench, PIECE))
    episode = bench.world("agnews").episode(1, 6, OWN)
    for adjacency in bench.adjacencies:
        rows = e.ask(reader(), episode, [[n] for n in range(6)])
        answers = e.Answers(rows, e.ask_public(reader(), episode), e.change_of(1, adjacency), adjacency)
        law = e.laws(e.SELECTING[e.POE], answers.outputs(), e.Price(1.0, e.DELTA))
        expected = 100 * sum(law[q, label] for q, label in enumerate(episode.truth)) / 6
        key = Key("agnews", OWN, e.POE, "right", 6, 1, adjacency.value, 1.0)
        assert found[key] == pytest.approx(expected, abs=1e-12)
    # Replace-one has twice the noise: another figure.
    assert len({found[replace(key, adjacency=a.value)] for a in bench.adjacencies}) == 2


def test_options_are_written_into_the_keys_of_the_methods_that_have_them(bench):
    methods = {e.POE: e.PoE(), e.VOTES: e.RNM()}
    keys = [key for key, _ in measure_accuracy(bench, PIECE, methods=methods, options={e.POE: "clip 2.3"})]
    assert {key.option for key in keys if key.method == e.POE} == {"clip 2.3"}
    assert {key.option for key in keys if key.method != e.POE} == {""}


def test_a_record_that_could_not_be_read_counts_as_no_expert_and_makes_no_nan(tmp_path):
    write_news(tmp_path)

    def partly(task, context, query):
        long = len(context) > 2 or any("kind 1" in example.fields["text"] for example in context)
        return [math.nan] * 4 if long else [1.0, 0.0, 0.0, 0.0]

    store = ScoreCache(tmp_path / "scores.db")
    settings = Settings(queries=8, records=(6,), groups=(1, 2), epsilons=(1.0,))
    bench = Bench(settings, StoredScorer(FakeScorer(partly), store), tmp_path)
    found = dict(measure_accuracy(bench, PIECE))
    store.close()
    assert all(math.isfinite(value) for value in found.values())
    assert found[Key("agnews", OWN, e.FULL, records=6)] == 25
    assert accuracy.kinds(result()) == [("agnews", OWN)]
