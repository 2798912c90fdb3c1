"""Time by method: what is timed, through which door, and what is said of it."""

from __future__ import annotations

import importlib.util
import json
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.experiment import Bench, Cell, Key, Piece, Result
from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.benchmarks.harness.runner import main
from sottovoce.benchmarks.harness.score_cache import ScoreCache, StoredScorer
from sottovoce.benchmarks.harness.tables import text_tables
from sottovoce.benchmarks.poetry import time as poetry_time
from sottovoce.benchmarks.poetry.time import (
    EXPERIMENT,
    METHODS,
    PBS_MANY,
    PHASES,
    measure,
    order,
    random_model,
    ratios,
    section,
)
from sottovoce.models.base import Isolation
from sottovoce.models.fake import FakeScorer
from sottovoce.session import PrivateICL

RECORDS = 25
TOGETHER = 6
"""Questions of the batch, of ten."""
UNIT = "milliseconds a question"
PIECE = Piece("tickets", "own", 3)
LOCAL = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
PROMPTS = {e.ZERO_SHOT: 0, e.FULL: 1, e.PBS: 10, PBS_MANY: 100}
"""Private prompts behind one answer; the others have one for each record. The public prediction is one more."""


class Clock:
    """Time goes by as models work: a second to load, 3 ms to read a prompt, 1 ms to answer by one prompt."""

    def __init__(self) -> None:
        self.now, self.sessions = 0.0, []

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return 2 * self.now

    @contextmanager
    def opened(self):
        self.now += 1.0
        yield Slow(self)


class Slow:
    name, isolation = "slow", Isolation.BY_CONSTRUCTION

    def __init__(self, clock: Clock) -> None:
        self.clock, self.asked = clock, []
        clock.sessions.append(self)

    def prepare(self, task, contexts):
        self.clock.now += 0.003 * len(contexts)
        return SimpleNamespace(score=lambda queries: self.score(task, contexts, queries), close=lambda: None)

    def score(self, task, contexts, queries):
        self.clock.now += 0.001 * len(contexts) * len(queries)
        self.asked += [(len(contexts), query["text"]) for query in queries]
        return np.full((len(queries), len(contexts), len(task.labels)), -2.0)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(poetry_time, "time", clock)
    monkeypatch.setattr(poetry_time, "_warmed", set())
    monkeypatch.setattr(poetry_time, "_models", lambda bench: [("slow", clock.opened, bench.settings.queries)])
    return clock


@pytest.fixture
def bench(tmp_path):
    store = ScoreCache(tmp_path / "scores.db")
    yield Bench(EXPERIMENT.settings.changed(queries=10), StoredScorer(FakeScorer(), store))
    store.close()


def times(bench) -> dict[tuple[str, str, str], float]:
    found = {}
    for key, value in measure(bench, PIECE):
        unit, phase, kind = key.quantity.split(", ")
        assert (unit, key.option, key.records) == (UNIT, "slow", RECORDS)
        found[key.method, phase, kind] = value
    return found


def result(values: dict[str, list[float]], option: str = "embedded") -> Result:
    """Seconds by method in every phase and by both clocks."""
    cells = [
        Cell(Key("tickets", "own", method, f"{UNIT}, {phase}, {kind}", 25, 1, "replace-one", 1.0, option), tuple(each))
        for method, each in values.items()
        for phase in PHASES
        for kind in ("clock", "processor")
    ]
    settings = EXPERIMENT.settings.changed(seeds=len(next(iter(values.values()))))
    return Result("poetry-time", settings, cells, describe(), 1.0, {"asked": 0, "found": 0})


@pytest.mark.slow
def test_every_method_is_timed_at_work_and_at_nothing_else(clock, bench):
    # By hand: an answer takes 1 ms a prompt, the public one included; the first also 3 ms to read each prompt.
    # Samples are drawn and read anew for every question. Where there are experts, the bare question is read and asked
    # again before the charge and behind the private read, and behind every sample.
    found = times(bench)
    assert len(found) == len(METHODS) * len(PHASES) * 2
    for method in METHODS:
        prompts = PROMPTS.get(method, RECORDS)
        reading = (3 * prompts + 4) if method in (e.PBS, PBS_MANY) else 0
        looks = 2 if prompts else 0
        first, alone, together = (found[method, phase, "clock"] for phase in PHASES)
        sampled = 4 if reading else 0
        assert first == pytest.approx(1 + prompts + 3 * (1 + prompts) + 4 * looks + sampled), method
        assert alone == pytest.approx(1 + prompts + reading + 4 * looks), method
        assert together == pytest.approx(1 + prompts + reading + (1 + 3 / TOGETHER) * looks), method
        assert found[method, PHASES[0], "processor"] == pytest.approx(2 * first)


@pytest.mark.slow
def test_no_score_is_taken_from_the_store(clock, bench):
    times(bench)
    assert bench.scorer.asked == bench.scorer.found == 0


@pytest.mark.slow
def test_every_method_has_the_same_questions_and_none_twice(clock, bench):
    times(bench)
    rounds = clock.sessions[-len(METHODS) :]
    public = [[text for contexts, text in session.asked if contexts == 1] for session in rounds]
    # Full context has a private prompt of size 1 beside the public one; the bare question is looked at again.
    assert len({frozenset(texts) for texts in public}) == 1
    assert len(set(public[0])) == 10
    assert min(map(len, public)) == 10, "without private records each question is asked once"


@pytest.mark.slow
def test_every_answer_is_charged_at_the_door(clock, bench, monkeypatch):
    opened = []

    def door(**given):
        opened.append(PrivateICL(**given))
        return opened[-1]

    monkeypatch.setattr(poetry_time, "PrivateICL", door)
    times(bench)
    rounds = {icl.method: icl for icl in opened[-len(METHODS) :]}
    assert rounds[METHODS[e.ZERO_SHOT]].balance is None
    for name in METHODS.keys() - {e.ZERO_SHOT}:
        balance = rounds[METHODS[name]].balance
        assert (balance.answers, balance.non_private) == ((0, 10) if name == e.FULL else (10, 0)), name
        assert (balance.levels[0].spent.loss > 0) is (name != e.FULL), name


def test_in_eight_rounds_each_method_is_first_once_and_last_once():
    rounds = [order(list(METHODS), seed) for seed in range(len(METHODS))]
    assert all(sorted(one) == sorted(METHODS) for one in rounds)
    assert sorted(one[0] for one in rounds) == sorted(one[-1] for one in rounds) == sorted(METHODS)
    # Rotation alone would leave everyone behind the same neighbour.
    assert len({one[(one.index(e.POE) - 1) % 8] for one in rounds}) == 2


@pytest.mark.parametrize(
    ("poe", "said"),
    [
        ([11.0, 12.0, 11.0], "yes"),
        ([11.0, 12.0, 90.0], "yes"),  # one disturbed round of three decides nothing
        ([12.5, 12.5, 10.0], "no"),
    ],
)
def test_whether_poe_is_within_bounds_follows_from_medians_over_rounds(poe, said):
    lines = section(result({e.POE: poe, e.VOTES: [10.0, 10.0, 10.0], e.PBS: [40.0, 20.0, 30.0]})).reading
    assert len(lines) == len(PHASES)
    assert all(f"PoE is within 1.2 times RNM: {said}." in line for line in lines)
    assert all("PbS takes 3.00 (2.00 to 4.00) times as long" in line for line in lines)


def test_processor_time_counts_for_the_verdict_too():
    good = result({e.POE: [10.0], e.VOTES: [10.0]})
    cells = [
        Cell(c.key, (30.0,)) if c.key.method == e.POE and c.key.quantity.endswith("processor") else c
        for c in good.cells
    ]
    slow = Result("poetry-time", good.settings, cells, good.machine, 1.0, good.scores)
    assert all("RNM: no." in line for line in section(slow).reading)


def test_ratios_are_taken_round_by_round():
    # The ratio of means would be 4 / 3.
    place = {"option": "embedded", "task": "tickets", "names": "own", "records": 25, "adjacency": "replace-one"}
    found = ratios(
        result({e.POE: [2.0, 6.0], e.VOTES: [1.0, 5.0]}), {**place, "epsilon": 1.0}, e.POE, PHASES[0], "clock"
    )
    assert found == [2.0, 1.2]


def test_tables_and_bars_show_medians_and_ranges():
    shown = section(result({e.ZERO_SHOT: [1, 2, 9], e.POE: [30, 10, 20], e.VOTES: [10, 10, 10]}))
    assert len(shown.tables) == 2
    rows = {row[0]: row for row in shown.tables[0].rows}
    assert rows[e.POE][1] == "20 (10 to 30)"
    assert rows[e.POE][4] == "2.00 (1.00 to 3.00)"
    (figure,) = shown.figures
    bars = {one.name: one for one in figure.series}
    assert (figure.kind, figure.log_y) == ("bars", True)
    assert (list(bars[e.POE].y), list(bars[e.POE].low), list(bars[e.POE].high)) == ([20] * 3, [10] * 3, [30] * 3)
    assert bars[e.ZERO_SHOT].reference
    assert not bars[e.POE].reference
    assert "first answer" in text_tables(shown)
    assert "3 rounds" in dict(shown.about)["Protocol"]


def test_a_model_of_ones_own_takes_the_place_of_the_random_one(bench):
    own = Bench(bench.settings.changed(model="hf:mine"), bench.scorer)
    names = [name for name, _, _ in poetry_time._models(own)]
    assert names == ["embedded", "hf:mine"]


@pytest.mark.slow
@pytest.mark.skipif(not LOCAL, reason="the extra 'local' is not installed")
def test_the_random_model_reads_all_records_in_one_prompt(bench):
    made = random_model()
    # By hand: 2 vocabularies of 8192 x 256, 8 layers of 4 x 256 x 256 + 3 x 256 x 704 + 2 norms, and a last norm.
    assert made.parameters == 2 * 8192 * 256 + 8 * (4 * 256**2 + 3 * 256 * 704 + 2 * 256) + 256 == 10_621_184
    episode = bench.world("tickets").episode(0, 1, "own")
    prepared = made.scorer.prepare(episode.task, [episode.records[:RECORDS]])
    assert np.isfinite(prepared.score(episode.questions)).all()
    prepared.close()


@pytest.mark.slow
@pytest.mark.skipif(not LOCAL, reason="the extra 'local' is not installed")
def test_a_short_run_measures_both_models(tmp_path, capsys):
    main("poetry-time", ["--seeds", "1", "--queries", "6", "--results", str(tmp_path), "--cache", str(tmp_path)])
    told = json.loads((tmp_path / "poetry-time.json").read_text("utf-8"))
    # The language model is not asked with as many prompts as by default: its answers alone would take minutes.
    assert len(told["cells"]) == (2 * len(METHODS) - 1) * len(PHASES) * 2
    assert sum(cell["method"] == PBS_MANY for cell in told["cells"]) == len(PHASES) * 2
    assert all(value > 0 for cell in told["cells"] for value in cell["values"])
    assert "random hf model of 10.6 M" in capsys.readouterr().out
