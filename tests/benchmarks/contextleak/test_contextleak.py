"""The experiments on what answers give away: small runs of each, what they would notice, and the page in docs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from benchmarks.public_data.tiny_worlds import write_worlds
from benchmarks.tiny_rows import reader
from benchmarks.tiny_writer import measured
from sottovoce.audits.exact.pair import GaussianPair, Pair
from sottovoce.audits.game.games import Repetition
from sottovoce.audits.game.play import Runs
from sottovoce.benchmarks.contextleak import (
    copying,
    defences,
    drawn_pairs,
    esa,
    games,
    grid,
    methods,
    pairs,
    snapshots,
    token_pairs,
    utility,
    wordings,
)
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.experiment import Result
from sottovoce.benchmarks.reporting.collect import family_of, sections
from sottovoce.benchmarks.reporting.report import write_markdown
from sottovoce.methods.answering.answerer import registered_answerers
from sottovoce.methods.base import Reads, registered_methods
from sottovoce.methods.decoding.decoder import registered_decoders
from sottovoce.methods.fitting.fitter import registered_fitters
from sottovoce.methods.poe import PoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.base import LabelScorer
from sottovoce.models.fake import FakeWriter
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness

RESULTS = Path(__file__).parents[3] / "docs" / "results"
MODULES = {
    "methods": methods,
    "grid": grid,
    "defences": defences,
    "utility": utility,
    "esa": esa,
    "wordings": wordings,
    "copying": copying,
    "snapshots": snapshots,
}
FEW = Runs(2, 6, 40)


class Embedding:
    """A model whose scores depend on every letter, and that embeds texts by their letters."""

    def __init__(self) -> None:
        self._scorer: LabelScorer = reader("fake")
        self.name, self.isolation = "fake", self._scorer.isolation

    def prepare(self, task, contexts):
        return self._scorer.prepare(task, contexts)

    def embed_records(self, task, queries):
        counts = np.array([[task.text_of(query).lower().count(letter) for letter in "aeiou"] for query in queries])
        return counts / np.maximum(1, np.linalg.norm(counts, axis=1, keepdims=True))

    embed_questions = embed_records


@pytest.fixture
def small(monkeypatch):
    """Few methods, releases and cases; the embedded model is not opened."""
    monkeypatch.setattr(runner, "open_model", lambda spec, store: Embedding())
    monkeypatch.setattr(methods, "private_methods", lambda: iter([("poe", PoE()), ("rnm, gaussian", RNM("gaussian"))]))
    monkeypatch.setattr(methods, "SIZES", dict.fromkeys(Repetition, FEW))
    monkeypatch.setattr(methods, "CALIBRATED", {"rnm, gaussian": "rnm"})
    monkeypatch.setattr(methods, "RUNS", 60)
    monkeypatch.setattr(methods, "FEWER_RUNS", 20)
    monkeypatch.setattr(pairs, "_THRESHOLDS", 20)
    monkeypatch.setattr(wordings, "CASES", 4)
    for module in (grid, defences):
        monkeypatch.setattr(module, "_NOISY", FEW)
        monkeypatch.setattr(module, "_REPEATING", FEW)
    for module in (utility, wordings):
        monkeypatch.setattr(module, "_RUNS", FEW)


def ran(name, folder, *options):
    runner.main(f"contextleak-{name}", ["--quick", "--results", str(folder), "--cache", str(folder), *options])
    return Result.read(folder / f"contextleak-{name}.json")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["grid", "utility", *(pytest.param(name, marks=pytest.mark.slow) for name in ("defences", "wordings"))]
)
def test_a_small_run_shows_what_it_found(name, small, tmp_path, capsys):
    options = {"utility": ("--records", "4"), "defences": ("--queries", "4")}.get(name, ())
    result = ran(name, tmp_path, "--epsilon", "4", *options)
    assert all(math.isfinite(value) for cell in result.cells for value in cell.values)
    exact = [cell for cell in result.cells if cell.key.quantity == "exact"]
    assert (not exact) == (name == "wordings")
    assert all(max(cell.values) <= cell.key.epsilon * 1.001 for cell in exact)
    section = MODULES[name].section(result)
    assert grid.SMALL_MODEL in section.reading
    assert section.tables[0].title in capsys.readouterr().out


@pytest.mark.slow
def test_what_a_writer_copies_is_counted_with_the_canary_and_without(small, monkeypatch, tmp_path):
    """A writer that quotes all addresses and the shortest example says the canary where it is there, and only then."""

    def says(request):
        shown = [text for text, _ in request.shots]
        addresses = [word for text in shown for word in text.split() if "@" in word]
        return "No." if "attack?" in request.question else " ".join([*addresses, min(shown, key=len)])

    loud = FakeWriter(says)
    monkeypatch.setattr(copying, "writer_of", lambda spec: loud)
    runner.main(
        "contextleak-copying", ["--quick", "--results", str(tmp_path), "--cache", str(tmp_path), "--writer", "x"]
    )
    (file,) = tmp_path.glob("contextleak-copying*.json")
    result = Result.read(file)
    for level in copying.LEVELS:
        assert copying._counts(result, copying.SECRET, level, copying.PRESENT, "repeat") == (3, 3)
        assert copying._counts(result, copying.SECRET, level, copying.ABSENT) == (0, 12)
        assert copying._counts(result, copying.ADDRESS, level, copying.PRESENT) == (3, 3)
        assert copying._counts(result, copying.ADDRESS, level, copying.ABSENT) == (0, 3)
    section = copying.section(result)
    assert ("Writer", "x") in section.about
    assert "L0 100 (74 to 100) against 0 (0 to 26)" in section.reading[0]


def test_reruns_of_esa_leak_by_the_root_of_their_number_and_within_what_is_charged(monkeypatch, tmp_path):
    monkeypatch.setattr(esa, "RERUNS", (1, 4))
    settings = replace(
        esa.EXPERIMENT.quick, model="fake", writer="nearest", tasks=("medquad",), experts=(4,), shots=(2,)
    )
    result = measured(esa.EXPERIMENT, settings, write_worlds(tmp_path))
    told = {
        (name, reruns): esa._largest(result, "medquad", name, (8, 2), 4.0, reruns)
        for name in (esa.REPLACED, esa.PLANTED, esa.CHARGED)
        for reruns in esa.RERUNS
    }
    one = brentq(lambda mu: epsilon_of_mu(mu, 1e-5) - told[esa.PLANTED, 1], 0.01, 2.0)
    assert told[esa.PLANTED, 4] == pytest.approx(epsilon_of_mu(2 * one, 1e-5), rel=1e-3)
    assert told[esa.CHARGED, 1] == pytest.approx(4.0, rel=1e-3)
    for name in (esa.REPLACED, esa.PLANTED):
        assert all(0 < told[name, reruns] <= told[esa.CHARGED, reruns] for reruns in esa.RERUNS)
    section = esa.section(result)
    assert section.reading[0] == "medquad: 0 of 4 exact leakages are above what is charged."
    assert [len(table.rows) for table in section.tables] == [1, 2]


@pytest.mark.slow
def test_every_claimed_adjacency_is_measured_and_shown_on_one_plot(small, tmp_path):
    result = ran("methods", tmp_path)
    rows = methods._rows(result)
    names = {"poe", "rnm, gaussian", *methods.worst_pairs()}
    assert {(row["method"], row["adjacency"]) for row in rows} == {(n, a.value) for n in names for a in Adjacency}
    assert methods.above(rows) == []
    (figure,) = methods.section(result).figures
    assert [series.name for series in figure.series] == ["proof", "epsilon 4"]
    assert set(figure.series[1].x) == names
    assert all(high <= 100.1 for series in figure.series for high in series.high)


def test_every_private_method_of_labels_is_audited():
    named = {name.partition(",")[0] for name, _ in methods.private_methods()}
    assert named == {n for n, kind in registered_methods().items() if kind.private and kind.reads is not Reads.NOTHING}
    assert {"rnm, permute_and_flip", "rnm, gaussian"} < {name for name, _ in methods.private_methods()}
    assert {"poe, calibrated"} < {name for name, _ in methods.private_methods()}


def test_every_private_fit_text_and_long_answer_has_a_worst_pair():
    answers = {n for n, kind in registered_answerers().items() if kind.private and kind.reads is not Reads.NOTHING}
    assert {name.partition(",")[0] for name in methods.worst_pairs()} == {
        *registered_fitters(), *registered_decoders(), *answers
    }  # fmt: skip


def test_what_lies_above_the_proof_is_named():
    fine = {"bound": 0.9, "exact": 1.0, "proof": 1.0, "method": "a", "adjacency": "x", "epsilon": 1.0, "option": "o"}
    high, leaking = {**fine, "bound": 1.1}, {**fine, "exact": 1.01}
    assert methods.above([fine, high, leaking]) == [high, leaking]


# Worst pairs


WITH_LAW = {**{name: pair_of for name, (_, pair_of) in pairs.OTHERS.items()}, "prism": token_pairs.token_pairs("prism")}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WITH_LAW))
def test_releases_of_a_worst_pair_follow_its_laws(name):
    worst = WITH_LAW[name](4.0, Adjacency.REPLACE_ONE, SeededRandomness(5))
    draws = [np.array([draw() for _ in range(300)]) for draw in worst.draws]
    if isinstance(worst.leak, GaussianPair):
        means = [worst.leak.mu, 0.0]
        assert [draw.mean() for draw in draws] == pytest.approx(means, abs=4 / math.sqrt(300))
        assert [draw.std() for draw in draws] == pytest.approx([1.0, 1.0], abs=0.2)
    else:
        assert isinstance(worst.leak, Pair)
        for drawn, law in zip(draws, (worst.leak.log_p, worst.leak.log_q), strict=True):
            likely = worst.leak.losses >= 0
            assert (drawn >= 0).mean() == pytest.approx(np.exp(law)[likely].sum(), abs=0.12)
    assert 0 < worst.exact <= 4 * (1 + 1e-9)


@pytest.mark.slow
def test_an_attack_on_the_worst_pair_comes_near_its_exact_leakage_and_notices_half_the_noise():
    worst = pairs.label_pairs(PoE(), 2.0, Adjacency.ADD_REMOVE, SeededRandomness(5))
    assert 0.6 * worst.exact < worst.bound(1500) < worst.exact * 1.05

    doubled = pairs.label_pairs(PoE(), 4.0, Adjacency.ADD_REMOVE, SeededRandomness(5))
    assert doubled.bound(1500) > 2.0  # what a release with half of its noise would show against a claim of 2


@pytest.mark.parametrize("told", ["numbers", "things"])
def test_an_attacker_who_knows_no_law_learns_from_other_releases_than_those_that_count(told):
    draws = np.random.default_rng(3)

    def world(rate):
        def draw():
            one = bool(draws.random() < rate)
            return np.array([0.3, 5.0 * one + draws.random()]) if told == "numbers" else ("a", one)

        return draw

    def bound(first, second):
        return drawn_pairs.DrawnPair(0.0, (world(first), world(second))).bound(400)

    assert bound(0.5, 0.5) == 0.0
    assert 0.8 < bound(0.2, 0.8) < math.log(4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*methods.DRAWN])
def test_a_pair_without_a_law_is_drawn_by_the_method_s_own_code_and_less_noise_shows(name):
    pair = methods.DRAWN[name](400.0, Adjacency.REPLACE_ONE, SeededRandomness(1))
    assert pair.exact is None
    assert pair.bound(40) > 1.0


# Games


def test_the_exact_epsilon_of_a_pair_at_a_delta():
    pair = Pair.of([0.9, 0.1], [0.5, 0.5])
    assert games.exact_epsilon(pair, 0.0) == pytest.approx(math.log(5))
    found = games.exact_epsilon(pair, 0.1)
    assert float(pair.delta(np.array([found]))[0]) <= 0.1 < float(pair.delta(np.array([found - 1e-6]))[0])
    assert games.exact_epsilon(pair, 0.5) == 0.0
    assert games.exact_epsilon(GaussianPair(1.0), 1e-5) == pytest.approx(epsilon_of_mu(1.0, 1e-5), abs=1e-6)


def test_a_price_has_a_delta_where_the_noise_needs_one():
    assert games.price_at(PoE(), 2.0, Adjacency.REPLACE_ONE).delta == 0.0
    assert games.price_at(RNM("gaussian"), 2.0, Adjacency.REPLACE_ONE).delta == e.DELTA


# The page


@pytest.mark.slow
def test_the_page_is_that_of_the_numbers(tmp_path):
    shown = sections(RESULTS / "contextleak")
    assert [section.experiment for section in shown] == [f"contextleak-{name}" for name in MODULES]
    title, introduction = family_of(shown)
    figures = tmp_path / "contextleak" / "figures"
    page = tmp_path / "contextleak.md"
    write_markdown(shown, page, title=title, introduction=introduction, figures=figures)
    assert page.read_text("utf-8") == (RESULTS / "contextleak.md").read_text("utf-8")


def test_no_measured_number_lies_above_its_proof():
    result = Result.read(RESULTS / "contextleak" / "contextleak-methods.json")
    rows = methods._rows(result)
    assert methods.above(rows) == []
    assert {row["epsilon"] for row in rows} == {1.0, 2.0, 4.0, 8.0}
    audited = {row["method"] for row in rows}
    assert audited == {name for name, _ in methods.private_methods()} | {*methods.worst_pairs()}
    assert result.settings.model == "embedded"
