"""Experiments on long answers in a tiny mode: every method has its row, and attacks find what leaks."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.public_data.tiny_worlds import TOPICS, write_receipts, write_worlds
from benchmarks.tiny_writer import measured
from sottovoce.audits.exact.answers import AnswerWorld, worst_answer_pair
from sottovoce.audits.exact.pair import exact_epsilon
from sottovoce.benchmarks.harness.experiment import Cell, Key, Result
from sottovoce.benchmarks.harness.runner import load_experiment
from sottovoce.benchmarks.harness.tables import text_tables
from sottovoce.benchmarks.public_data import documents, repeat, shots, table, time
from sottovoce.benchmarks.public_data.accounting import DELTA, RATE, added, poisson, solved
from sottovoce.benchmarks.public_data.episode import Episode
from sottovoce.benchmarks.public_data.pools import CORESET, WRONG, with_wrong
from sottovoce.benchmarks.public_data.scoring import COSINE, SCORES, difference, scored, shown, verdict
from sottovoce.benchmarks.public_data.worlds import (
    ANSWER_WORDS,
    IN,
    INPUT_WORDS,
    OUT,
    RECEIPTS,
    records_of,
    world_of,
)
from sottovoce.benchmarks.public_data.writers import (
    NEAREST,
    REPEATS,
    KeptWriter,
    nearest_answer,
    repeated_context,
    writer_of,
)
from sottovoce.cli import run as run_command
from sottovoce.errors import InputError
from sottovoce.methods.answering.answerer import make_answerer
from sottovoce.models.base import WritingRequest
from sottovoce.models.fake import FakeScorer, FakeWriter

SMALL = {"model": "fake", "writer": NEAREST, "records": (96,), "experts": (40,)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_worlds(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Fewer public pairs, so that the tiny files fill them."""
    size = replace(table.SIZE, pool=32, context=4)
    for module in (table, shots, time, repeat):
        monkeypatch.setattr(module, "SIZE", size)
    monkeypatch.setattr("sottovoce.benchmarks.public_data.pools.SIZE", size)
    monkeypatch.setattr(repeat, "REPLICATES", 100)


def run(name, data, **given) -> Result:
    experiment = load_experiment(name)
    return measured(experiment, replace(experiment.settings, **{**SMALL, **given}), data)


def methods(result) -> set[str]:
    return {cell.key.method for cell in result.cells}


@pytest.mark.slow
def test_every_table_has_the_references_and_one_private_choice(data):
    result = run("answers-methods", data, seeds=2, queries=2, tasks=("medquad",), epsilons=(8.0,))
    assert methods(result) == {
        table.ZERO, table.SHOTS, table.CONSENSUS, table.FULL, table.MEAN, table.ONE, table.ALL, *table.PRIVATE,
    }  # fmt: skip
    assert {cell.key.quantity for cell in result.cells} == set(SCORES)
    assert {cell.key.option for cell in result.cells if cell.key.method == "ksa"} == set(table.POOLS)
    assert {cell.key.option for cell in result.cells if cell.key.method == "esa"} == {IN, OUT}
    assert {cell.key.epsilon for cell in result.cells if cell.key.method == "sga top-k"} == {8.0, None}
    assert all(len(cell.values) == 2 and 0 <= cell.mean <= 100 for cell in result.cells if cell.key.quantity != COSINE)
    section = load_experiment("answers-methods").section(result)
    (printed,) = (text_tables(section),)
    assert "no guarantee" in printed
    assert "none (100)" in printed
    assert {row[0] for row in section.tables[1].rows} == set(table.ASKED)
    assert section.reading[0].startswith("medquad: 40 comparisons; ")


@pytest.mark.slow
def test_a_method_that_is_refused_at_a_price_has_no_row(data):
    result = run("answers-methods", data, seeds=1, queries=1, tasks=("medquad",), epsilons=(0.1,), experts=(8,))
    refused = [cell for cell in result.cells if cell.key.method.startswith("sga") and cell.key.epsilon is not None]
    assert all(math.isnan(value) for cell in refused for value in cell.values)
    section = load_experiment("answers-methods").section(result)
    shown_prices = {(row[0], row[1]) for row in section.tables[0].rows}
    assert ("esa", "0.1") in shown_prices
    assert not {("sga top-1", "0.1"), ("sga top-k", "0.1")} & shown_prices
    assert not section.reading


@pytest.mark.slow
def test_pairs_an_expert_and_pools_are_varied(data):
    result = run("answers-shots", data, seeds=2, tasks=("medquad",), shots=(1, 2), epsilons=(8.0,))
    assert {cell.key.option for cell in result.cells if cell.key.method == "esa"} == {"k 1", "k 2"}
    section = load_experiment("answers-shots").section(result)
    assert [line.name for line in section.figures[0].series] == [*table.PRIVATE, table.FULL]
    result = run("answers-pools", data, seeds=2, tasks=("medquad",), epsilons=(8.0,))
    pools = {cell.key.option for cell in result.cells if cell.key.method == "esa"}
    assert {IN, OUT, CORESET, *WRONG} <= pools
    assert "coreset" in methods(result)
    assert load_experiment("answers-pools").section(result).reading


def test_kept_answers_write_nothing_and_need_more_noise(data):
    result = run("answers-time", data, seeds=2, tasks=("medquad",), experts=(8, 16))
    for experts in (8, 16):
        about = {"task": "medquad", "names": "own", "records": 96, "group": experts}
        first, again = (
            {q: result.cell(**about, method=method, quantity=q).mean for q in (time.WRITTEN, time.NOISE)}
            for method in (time.FIRST, time.AGAIN)
        )
        assert first[time.WRITTEN] >= experts
        assert again[time.WRITTEN] == 0
        assert again[time.NOISE] > first[time.NOISE]
    assert "kept answers" in text_tables(load_experiment("answers-time").section(result))


@pytest.mark.slow
def test_answers_from_documents_state_what_they_give_away(tmp_path, monkeypatch):
    data, searched = write_receipts(tmp_path), []
    worst = documents._worst

    def beside_a_search(plan, outputs, others):
        if outputs is others:
            world = AnswerWorld(tuple(outputs.texts_without_noise()), outputs.vectors_without_noise())
            found = exact_epsilon(worst_answer_pair(plan, world, delta=DELTA).pair, DELTA)
            searched.append((worst(plan, outputs, others), found))
        return worst(plan, outputs, others)

    monkeypatch.setattr(documents, "_worst", beside_a_search)
    result = run("answers-documents", data, seeds=2, tasks=(RECEIPTS,), experts=(6,), epsilons=(2.0, 4.0))
    assert all(own == pytest.approx(found, rel=1e-3) for own, found in searched)
    assert len(searched) == 4
    leaks = {
        (cell.key.quantity, cell.key.epsilon): cell.values
        for cell in result.cells
        if cell.key.quantity in documents.LEAKS
    }
    assert len(leaks) == 4
    assert all(0 < value <= epsilon for (_, epsilon), values in leaks.items() for value in values)
    section = load_experiment("answers-documents").section(result)
    assert section.reading == ["receipts: 0 of 8 exact leakages are above epsilon."]
    assert [row[0] for row in section.tables[0].rows] == [
        table.ZERO, table.SHOTS, table.CONSENSUS, table.FULL, table.MEAN, "esa", "esa", table.ONE, table.ONE,
    ]  # fmt: skip
    more = replace(result, cells=[replace(c, values=tuple(9 * value for value in c.values)) for c in result.cells])
    assert load_experiment("answers-documents").section(more).reading != section.reading


def test_the_free_consensus_of_the_tables_is_that_of_the_command(data, tmp_path, monkeypatch, capfd):
    world, size = world_of(data, "medquad"), table.SIZE
    pools = {kind: world.pool(kind, size.pool) for kind in (IN, OUT)}
    episodes = [Episode(world, seed, size, KeptWriter(FakeWriter()), FakeScorer(), pools) for seed in range(10)]
    questions = [episode.questions(1)[0][0] for episode in episodes]
    (asked,), given = world.task.fields, world.task.output_field
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps({asked: text}) + "\n" for text in questions))
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for kind, pairs in pools.items():
        rows = [json.dumps({asked: shown, given: answer}) + "\n" for shown, answer in pairs]
        (tmp_path / "public.jsonl").write_text("".join(rows))
        command = ["answer", "--public", "public.jsonl", "--queries", "queries.jsonl", "--task", "question"]
        command += ["--method", table.CONSENSUS, "--model", "fake", "--embedder", "fake", "--tokens", str(size.tokens)]
        command += ["--shots", str(size.public_shots), "--public-experts", str(size.public)]
        assert run_command(command) == 0
        told = [json.loads(line)["value"] for line in capfd.readouterr().out.splitlines()]
        method = make_answerer(table.CONSENSUS)
        measured = [episode.answer(method, text, kind, None) for episode, text in zip(episodes, questions, strict=True)]
        assert told == measured
        sides = [episode.side(text, kind) for episode, text in zip(episodes, questions, strict=True)]
        assert min(len(side.candidates) for side in sides) > 3
        assert any(text not in side.candidates[:2] for text, side in zip(told, sides, strict=True))


def test_a_record_of_the_receipts_is_a_receipt_with_one_question(tmp_path):
    world = world_of(write_receipts(tmp_path), RECEIPTS)
    assert world.train[0] == ("CARD SHOP train 0 TOTAL 0.50\nQuestion: Who issued it?", "CARD SHOP")
    assert world.train[1] == ("PARCEL SHOP train 1 TOTAL 1.50\nQuestion: What is the total?", "1.50")
    assert len(world.train) == 44
    assert world.task.render_query(world.query(world.tests[0][0])) == world.tests[0][0]


@pytest.mark.slow
def test_the_published_accounting_is_compared_with_the_right_figure(data):
    # Specification 7: mu = 1 costs 2.150 by a Poisson accountant, 7.226 for a replaced record of a fixed sample.
    assert solved(lambda mu: added([poisson(mu)]), added([poisson(1.0)])) == pytest.approx(1.0, rel=2e-3)
    assert (DELTA, round(RATE, 6)) == (1e-5, 0.153846)
    stated = added([poisson(1.0)])
    result = run("answers-accounting", data, epsilons=(stated,))
    right = result.cell(task="prices", names="own", method="sample", quantity="right", epsilon=stated, option="1")
    assert right.mean == pytest.approx(7.226, abs=0.03)
    section = load_experiment("answers-accounting").section(result)
    assert section.reading[0].startswith("One answer stated to cost 2.14952 costs 7.2")
    assert len(section.tables) == 2


@pytest.mark.slow
def test_the_attack_finds_full_context_and_not_the_private_methods(data):
    result = run("answers-repeat", data, tasks=("medquad",), queries=12, epsilons=(8.0,), experts=(16,))
    area = {(cell.key.method, cell.key.option): cell.mean for cell in result.cells if cell.key.quantity == repeat.LOW}
    assert set(area) >= {(table.FULL, "1:1"), (table.FULL, "1:4"), (table.MEAN, "1:1"), ("esa", "1:4")}
    assert area["esa", "1:1"] <= 0.5
    printed = text_tables(load_experiment("answers-repeat").section(result))
    assert "no guarantee" in printed
    assert "desk" not in printed


@pytest.mark.slow
def test_a_writer_that_repeats_its_prompt_is_found_in_full_context_alone(data):
    result = run("answers-repeat", data, tasks=("medquad",), queries=30, epsilons=(1.0,), experts=(16,), writer=REPEATS)
    area = {(cell.key.method, cell.key.quantity): cell.mean for cell in result.cells if cell.key.option == "1:1"}
    assert area[table.FULL, repeat.LOW] > 0.5
    assert area["esa", repeat.LOW] <= 0.5
    assert area["ksa", repeat.LOW] <= 0.5


def test_the_writer_that_repeats_has_no_answer_of_its_own():
    assert repeated_context(WritingRequest("Answer.", [("why", "so")], "what")) == "Answer. why so"
    assert writer_of(REPEATS).name == REPEATS


@pytest.mark.slow
def test_the_score_of_several_draws_is_their_mean():
    asked, key = [("a", "one two three four"), ("b", "five six seven eight")], Key("w", "own", "m")
    right, wrong = [given for _, given in asked], ["nine", "ten"]
    once, both = (dict(scored(key, answers, asked, FakeScorer())) for answers in (right, right + wrong))
    poor = dict(scored(key, wrong, asked, FakeScorer()))
    for quantity, value in both.items():
        assert value == pytest.approx((once[quantity] + poor[quantity]) / 2)
    assert all(math.isnan(value) for _, value in scored(key, None, asked, FakeScorer()))


def test_worlds_keep_private_public_and_test_pairs_apart(data):
    world = world_of(data, "samsum")
    private, own, other = world.private(90), world.pool(IN, 40), world.pool(OUT, 40)
    assert not set(private) & {*own, *other}
    assert not set(own) & set(other)
    assert all(len(shown.split()) <= INPUT_WORDS and len(given.split()) <= ANSWER_WORDS for shown, given in world.train)
    assert world.asked(0, 3) != world.asked(1, 3)
    assert len(records_of(world.task, private).with_public_size()) == 90
    with pytest.raises(InputError, match="samsum has 130 pairs for the private part, and 500 were asked for"):
        world.private(500)
    with pytest.raises(InputError, match="--data"):
        world_of(data / "nowhere", "samsum")


def test_the_stand_in_repeats_the_example_most_like_the_question():
    shown = [(f"about the {topic}", f"see the {topic} desk") for topic in TOPICS]
    assert nearest_answer(WritingRequest("Answer.", shown, "where is my parcel")) == "see the parcel desk"
    assert nearest_answer(WritingRequest("Answer.\nUse these words: river", shown, "?")) == "see the river desk"
    assert nearest_answer(WritingRequest("Answer.", (), "where?")) == "where?"


def test_a_request_is_asked_once():
    kept = KeptWriter(FakeWriter(nearest_answer))
    requests = [WritingRequest("A.", (), question) for question in ("one", "two", "one")]
    assert kept.write(requests, tokens=4) == kept.write(requests, tokens=4) == ["one", "two", "one"]
    assert kept.asked == 2


def test_texts_that_are_asked_for_one_by_one_are_written_together():
    asked = []

    class Counts:
        name, isolation, longest = "counts", None, None

        def write(self, requests, *, tokens):
            asked.append(len(requests))
            return [f"{request.question}!" for request in requests]

    kept = KeptWriter(Counts())

    def work():
        first = [kept.write([WritingRequest("A.", (), question)], tokens=4)[0] for question in ("one", "two")]
        return kept.write([WritingRequest("A.", (), f"after {first[0]}")], tokens=4)

    assert kept.together(work) == ["after one!!"]
    # The third request is not known before the first text is there; what was asked for without it is asked for too.
    assert asked == [3, 1]
    assert kept.write([WritingRequest("A.", (), "two")], tokens=4) == ["two!"]


def test_wrong_pairs_have_answers_of_others():
    pairs = [(f"q{n}", f"a{n}") for n in range(20)]
    wrong = with_wrong(pairs, 0.5, np.random.default_rng(1))
    assert sum(one != two for one, two in zip(pairs, wrong, strict=True)) == 10
    assert sorted(given for _, given in wrong) == sorted(given for _, given in pairs)
    assert with_wrong(pairs, 0.0, np.random.default_rng(1)) == pairs


def test_a_difference_needs_the_same_seeds_and_more_than_one():
    first, second = (Cell(Key("w", "own", "m"), values) for values in ((3.0, 4.0, 5.5), (1.0, 2.0, 2.5)))
    found = difference(first, second)
    assert found.value == pytest.approx(7 / 3)
    assert verdict("Is it?", found).startswith("Is it? Yes: +2.3 points of ROUGE-L (+0.9 to +3.8)")
    assert verdict("Is it?", difference(second, first)).startswith("Is it? No, the other way round")
    assert verdict("Is it?", difference(first, first)).startswith("Is it? Not shown")
    assert difference(first, Cell(Key("w", "own", "m"), (1.0,))) is None
    assert shown(Cell(Key("w", "own", "m"), (1.0,))) == "1.0"
    assert shown(None) == "-"
