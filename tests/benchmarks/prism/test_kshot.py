"""Accuracy with synthetic demonstrations: what is written is paid for, what is compared is compared alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.tiny_rows import reader
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.datasets import default_data, read_world
from sottovoce.benchmarks.harness.experiment import Bench, Piece, Result, Settings
from sottovoce.benchmarks.harness.runner import run
from sottovoce.benchmarks.prism import demonstrations as prism_demonstrations
from sottovoce.benchmarks.prism import judging
from sottovoce.benchmarks.prism import kshot as prism_kshot
from sottovoce.benchmarks.prism.kshot import EXPERIMENT, METHODS, PUBLIC, REAL
from sottovoce.errors import ParameterError
from sottovoce.models.fake import FakeScorer, FakeStepper, one_shot
from sottovoce.tasks import CONTENT_FREE

SETTINGS = Settings(
    model="fake", seeds=2, queries=5, tasks=("tickets",), names=("own",), records=(20,), epsilons=(2.0,),
    adjacencies=("add-remove", "replace-one"), shots=(1, 3),
)  # fmt: skip
SMALL = replace(SETTINGS, seeds=1, adjacencies=("add-remove",))
PIECES = ("late ", "fee ", "lamp ")


@pytest.fixture
def quick(monkeypatch):
    """Short texts, and a model that writes whatever is asked."""
    prism_demonstrations.stepper_of.cache_clear()
    monkeypatch.setattr(prism_kshot, "SIZE", prism_demonstrations.Size(per_label=1, tokens=4, draws=2))
    made = FakeStepper(lambda prompt, text: [1.0, 0.5, 0.2, len(text) - 2.0, 0.0], pieces=PIECES)
    monkeypatch.setattr(prism_demonstrations, "load_stepper", lambda model: made)
    yield made
    prism_demonstrations.stepper_of.cache_clear()


@pytest.fixture
def unjudged(quick, monkeypatch):
    """The same, and nothing is asked of the judge, which embeds every row first: ``test_judging.py`` is about it."""
    for name in ("judged", "judged_real"):
        monkeypatch.setattr(judging, name, lambda *asked: ())
    return quick


def measured(tmp_path, monkeypatch, scorer=None, settings=SETTINGS) -> Result:
    monkeypatch.setattr(runner, "open_model", lambda spec, store: scorer or reader())
    return Result.read(run(EXPERIMENT, settings, results=tmp_path / "results", cache=tmp_path / "cache"))


@pytest.mark.slow
def test_every_method_price_and_control_is_measured(quick, tmp_path, monkeypatch):
    result = measured(tmp_path, monkeypatch)
    at = {"task": "tickets", "names": "own"}
    for k in (1, 3):
        assert result.cell(**at, method=REAL, records=20, option=f"k {k}")
        assert result.cell(**at, method=PUBLIC, option=f"k {k}")
        for name in METHODS:
            for adjacency in SETTINGS.adjacencies:
                price = {"records": 20, "adjacency": adjacency, "epsilon": 2.0}
                assert len(result.cell(**at, method=name, **price, option=f"k {k}").values) == 2
                assert result.cell(**at, method=name, **price, quantity="readable").mean >= 50
    tables = EXPERIMENT.section(result).tables
    titles = [table.title for table in tables]
    assert titles[:2] == ["Percent right, k = 3, add-remove", "Percent right, k = 3, replace-one"]
    assert "By the number of demonstrations, epsilon 2, replace-one" in titles
    assert "Percent right, k = 3, calibrated, replace-one" in titles
    assert [(one["task"], one["epsilon"]) for one in result.extra["texts"]] == [("tickets", 2.0)] * 4
    assert titles[-1] == "Texts written by invisible-ink, replace-one"
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    assert not any("-" in row[3:6] for table in tables[:2] for row in table.rows)


@pytest.mark.slow
def test_the_same_run_twice_has_the_same_numbers(quick, tmp_path, monkeypatch):
    first, second = (measured(tmp_path / name, monkeypatch, settings=SMALL) for name in ("a", "b"))
    assert [(cell.key, cell.values) for cell in first.cells] == [(cell.key, cell.values) for cell in second.cells]


@pytest.mark.slow
def test_the_scorer_sees_k_demonstrations_under_their_labels(unjudged, tmp_path, monkeypatch):
    seen = []

    def watched(task, context, query):
        seen.append(tuple((example.fields["text"], example.label) for example in context))
        return one_shot(task, context, query)

    measured(tmp_path, monkeypatch, FakeScorer(watched), SMALL)
    assert {len(context) for context in seen} == {0, 1, 3}
    written = {text for context in seen for text, _ in context if set(text.split()) <= {"late", "fee", "lamp"}}
    assert written


@pytest.mark.slow
def test_controls_are_above_or_below_as_they_should_be(unjudged, tmp_path, monkeypatch):
    # A model that answers with its demonstration's label: real ones beat none where labels are uneven, by far from 0.
    result = measured(tmp_path, monkeypatch, FakeScorer(), SMALL)
    at = {"task": "tickets", "names": "own"}
    assert result.cell(**at, method=e.ZERO_SHOT).mean == pytest.approx(100 / 8)


@pytest.mark.slow
def test_calibration_takes_off_what_is_said_to_questions_without_content(unjudged, tmp_path, monkeypatch):
    # A model that leans to the first label by more than it knows: plain it says the first, calibrated the truth.
    def leaning(the_task, context, query):
        text = query["text"]
        lean = [3.0, *[0.0] * (len(the_task.labels) - 1)]
        return lean if text in CONTENT_FREE else [a + b for a, b in zip(lean, truth[text], strict=True)]

    world = read_world(default_data(), "tickets")
    truth = {x.fields["text"]: [1.0 * (x.label == i) for i in range(len(world.task.labels))] for x in world.test}
    result = measured(tmp_path, monkeypatch, FakeScorer(leaning), SMALL)
    at = {"task": "tickets", "names": "own", "method": REAL, "records": 20}
    assert result.cell(**at, option="k 3, calibrated").mean == 100
    assert result.cell(**at, option="k 3").mean < 50


def test_private_records_are_rows_that_the_writer_never_met(monkeypatch):
    monkeypatch.setattr(prism_demonstrations, "RESERVED", 7)
    bench = Bench(SETTINGS, reader())
    piece = Piece("tickets", "own", 0)
    _, held = prism_demonstrations.held_of(bench, piece, 7)
    assert {x.fields["text"] for x in held} == {x.fields["text"] for x in bench.world("tickets").train[:7]}
    with pytest.raises(ParameterError, match="up to 7"):
        prism_demonstrations.held_of(bench, piece, 8)


@pytest.mark.slow
def test_another_model_can_write(unjudged, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(prism_demonstrations, "load_stepper", lambda model: asked.append(model) or unjudged)
    measured(tmp_path, monkeypatch, settings=replace(SMALL, writer="hf:other"))
    assert asked == ["hf:other"]
    assert (tmp_path / "results" / "prism-kshot-fake-hf-other.json").exists()


def test_one_number_of_records_is_asked_for(quick, tmp_path, monkeypatch):
    for records in ((20, 40), (500,)):
        with pytest.raises(ParameterError, match="records"):
            measured(tmp_path, monkeypatch, settings=Settings(**{**vars(SETTINGS), "records": records}))
