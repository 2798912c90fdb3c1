"""Kept scores: what is known is never asked again, what differs in anything is, and no bit changes on the way."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.tiny_rows import reader, write_news
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN, Episode, read_world
from sottovoce.benchmarks.harness.evaluation import ask, ask_public, ask_samples
from sottovoce.benchmarks.harness.score_cache import ScoreCache, StoredScorer, digest, identity_of
from sottovoce.methods.pbs import PbS
from sottovoce.models.base import Isolation
from sottovoce.models.embedded.sentence_encoder import DEFAULT_PACKAGE
from sottovoce.models.fake import FakeScorer
from sottovoce.tasks import Example, Task

TASK = Task(labels=["a", "b", "c"])


@pytest.fixture
def store(tmp_path):
    kept = ScoreCache(tmp_path / "new" / "scores.db")
    yield kept
    kept.close()


def examples(*texts, label=0):
    return [Example({"text": text}, label) for text in texts]


def queries(count):
    return [{"text": f"question {n}"} for n in range(count)]


def score(scorer, contexts, asked, task=TASK):
    prepared = scorer.prepare(task, contexts)
    try:
        return prepared.score(asked)
    finally:
        prepared.close()


def same_bits(one, other):
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


# What reaches the model


def test_a_second_ask_never_reaches_the_model_and_changes_no_bit(store):
    model, contexts = reader(), [examples("x"), examples("y", "z"), []]
    plain = score(reader(), contexts, queries(4))
    first = StoredScorer(model, store)
    assert same_bits(score(first, contexts, queries(4)), plain)
    assert (model.calls, first.asked, first.found) == (12, 12, 0)
    again = StoredScorer(model, store)
    assert same_bits(score(again, contexts, queries(4)), plain)
    assert (model.calls, again.asked, again.found) == (12, 0, 12)


def test_scores_outlive_the_process_that_asked(tmp_path):
    model, contexts = reader(), [examples("x")]
    for _ in range(2):
        store = ScoreCache(tmp_path / "scores.db")
        said = score(StoredScorer(model, store), contexts, queries(3))
        store.close()
    assert model.calls == 3
    assert same_bits(said, score(reader(), contexts, queries(3)))


@pytest.mark.parametrize(
    ("known", "missing"),
    [
        ((0, 0), 48),
        ((8, 3), 24),  # more experts
        ((4, 6), 24),  # more questions
        ((4, 3), 36),  # both: what is missing has the shape of an L
    ],
)
def test_of_a_partly_known_set_just_the_missing_pairs_are_asked(store, known, missing):
    model = reader()
    scorer = StoredScorer(model, store)
    contexts = [examples(f"record {n}") for n in range(6)]
    score(scorer, contexts[: known[1]], queries(known[0]))
    assert model.calls == scorer.asked == known[0] * known[1]
    said = score(scorer, contexts, queries(8))
    assert model.calls == scorer.asked == known[0] * known[1] + missing
    assert scorer.found == 48 - missing
    assert same_bits(said, score(reader(), contexts, queries(8)))


def test_holes_in_any_place_are_filled_and_no_pair_is_asked_twice(store):
    # 30 random patterns of known pairs, half of the contexts and questions equal to another one of the same call.
    rng = np.random.default_rng(8)
    for turn in range(30):
        model = reader(f"model {turn}")
        scorer = StoredScorer(model, store)
        contexts = [examples(f"record {n}") for n in rng.integers(6, size=8)]
        asked = [{"text": f"q{n}"} for n in rng.integers(5, size=7)]
        for _ in range(4):
            score(scorer, [contexts[rng.integers(8)]], [asked[rng.integers(7)]])
        said = score(scorer, contexts, asked)
        pairs = {(context[0].fields["text"], query["text"]) for context in contexts for query in asked}
        assert model.calls == scorer.asked == len(pairs)
        assert scorer.asked + scorer.found == 4 + 56
        assert same_bits(said, score(reader(), contexts, asked))


def test_empty_prompts_of_a_sampled_method_are_asked_once_a_question(tmp_path, store):
    episode = read_world(write_news(tmp_path), "agnews").episode(0, 10, OWN)
    model, method = reader(), PbS(0.1, 10)
    said = ask_samples(StoredScorer(model, store), episode, 4, method, 0)
    assert same_bits(said, ask_samples(reader(), episode, 4, method, 0))
    # A prompt of four records at chance .1 is empty with chance .66; all 100 prompts different would be 100 asks.
    assert model.calls <= 10 * 2**4
    assert model.calls < 60


def test_no_question_or_no_prompt_is_no_work(store):
    scorer = StoredScorer(reader(), store)
    assert score(scorer, [examples("x")], []).shape == (0, 1, 3)
    assert score(scorer, [], queries(2)).shape == (2, 0, 3)
    assert (scorer.asked, scorer.found) == (0, 0)


# What a key tells apart


def changed_task(**changes):
    return lambda task, context, query: (replace(task, **changes), context, query)


@pytest.mark.parametrize(
    "change",
    [
        changed_task(labels=["a", "b", "d"]),
        changed_task(labels=["b", "a", "c"]),
        changed_task(labels=["a", "b", "c", "d"]),
        changed_task(instruction="Say something else."),
        changed_task(example="Text: {text}\nLabel: {label}."),
        changed_task(query="Text: {text}\nLabel", example="Text: {text}\nLabel: {label}"),
        lambda task, context, query: (task, context[::-1], query),
        lambda task, context, query: (task, context[:1], query),
        lambda task, context, query: (task, [], query),
        lambda task, context, query: (task, [context[0], Example(context[1].fields, 2)], query),
        lambda task, context, query: (task, context, {"text": "question 0 "}),
        # One demonstration that reads like two.
        lambda task, context, query: (task, examples(f"x\nLabel: a{task.answer_suffix}Text: y"), query),
    ],
    ids=["label", "label order", "more labels", "instruction", "example", "query", "order of demonstrations", "fewer",
         "none", "a label given", "question", "text across demonstrations"],
)  # fmt: skip
def test_whatever_a_prompt_says_is_part_of_its_key(store, change):
    model = reader()
    task, context, query = TASK, examples("x", "y"), {"text": "question 0"}
    scorer = StoredScorer(model, store)
    score(scorer, [context], [query], task)
    other = change(task, context, query)
    said = score(scorer, [other[1]], [other[2]], other[0])
    assert model.calls == 2
    assert same_bits(said, score(reader(), [other[1]], [other[2]], other[0]))


def test_what_a_prompt_does_not_say_is_no_part_of_its_key(store):
    model = reader()
    scorer = StoredScorer(model, store)
    score(scorer, [examples("x")], queries(1))
    told_twice = [Example({"text": "x", "id": "another"}, 0)]
    score(scorer, [told_twice], [{"text": "question 0", "source": "another"}], replace(TASK, name="other"))
    assert model.calls == 1


def test_another_model_is_asked_itself(store):
    one, other = reader("fake one"), reader("fake other")
    for model in (one, other):
        score(StoredScorer(model, store), [examples("x")], queries(2))
    assert (one.calls, other.calls) == (2, 2)


def model_with(**parts):
    return SimpleNamespace(isolation=Isolation.TESTED, **parts)


def checkpoint(folder: Path, weights: bytes) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text('{"layers": 2}')
    (folder / "model.safetensors").write_bytes(weights)


@pytest.mark.parametrize("place", [0, 1_500_000, 2 << 20, -1], ids=["start", "second", "middle", "end"])
def test_another_checkpoint_in_the_same_folder_is_another_model(tmp_path, place):
    # Five mebibytes of weights; what differs is one tensor of two, wherever it lies.
    weights = bytearray(np.random.default_rng(1).bytes(5 << 20))
    folder = tmp_path / "checkpoint"
    scorer = model_with(name=f"hf:{folder}")
    checkpoint(folder, bytes(weights))
    before = identity_of(scorer)
    assert identity_of(scorer) == before
    start = place if place >= 0 else 3 << 20
    weights[start : start + (2 << 20)] = np.random.default_rng(2).bytes(2 << 20)
    checkpoint(folder, bytes(weights))
    assert identity_of(scorer) != before


def test_another_file_or_number_type_is_another_model(tmp_path):
    folder = tmp_path / "checkpoint"
    checkpoint(folder, b"weights")
    scorer = model_with(name=f"hf:{folder}")
    before = identity_of(scorer)
    (folder / "adapter.safetensors").write_bytes(b"adapter")
    assert identity_of(scorer) != before
    kinds = {
        identity_of(model_with(name="hf:one/model", model=SimpleNamespace(dtype=dtype)))
        for dtype in ("float32", "bfloat16")
    }
    assert len(kinds) == 2


def test_another_head_or_image_encoder_is_another_model():
    heads = [SimpleNamespace(scale=1.0, mean=np.zeros(3)), SimpleNamespace(scale=1.5, mean=np.zeros(3)),
             SimpleNamespace(scale=1.0, mean=np.array([0.0, 1e-12, 0.0]))]  # fmt: skip
    assert len({identity_of(model_with(name="embedded", head=head)) for head in heads}) == 3
    images = [(numbers, weights) for numbers in ({"scale": 1.0}, {"scale": 2.0}) for weights in ("one", "other")]
    told = {
        identity_of(model_with(name="embedded-image", numbers=n, _encoder=SimpleNamespace(identity=w)))
        for n, w in images
    }
    assert len(told) == 4


def test_the_image_model_that_ships_tells_its_weights():
    pytest.importorskip("PIL", reason="the extra 'vision' is not installed")
    from sottovoce.models.embedded.image_scorer import EmbeddedImageScorer

    scorer = EmbeddedImageScorer(store=False)
    before = identity_of(scorer)
    assert identity_of(EmbeddedImageScorer(store=False)) == before
    scorer._encoder.__dict__["identity"] = "of other weights"
    assert identity_of(scorer) != before


def test_a_digest_tells_where_one_text_ends():
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("c", "ab"), digest("ab", "c", "")}) == 5


# What is kept


def test_a_prompt_that_could_not_be_read_stays_unread_and_is_not_asked_again(store):
    def partly(task, context, query):
        return [np.nan] * 3 if context and context[0].fields["text"] == "too long" else [-np.inf, 0.0, 1.0]

    model, contexts = FakeScorer(partly), [examples("too long"), examples("x")]
    first = score(StoredScorer(model, store), contexts, queries(2))
    again = score(StoredScorer(model, store), contexts, queries(2))
    assert np.isnan(again[:, 0]).all()
    assert np.isneginf(again[:, 1, 0]).all()
    assert same_bits(first, again)
    assert model.calls == 4


def test_embeddings_of_texts_are_kept_for_the_encoder_that_made_them(tmp_path):
    vectors = list(np.random.default_rng(3).standard_normal((700, 5)).astype(np.float32))
    texts = [f"text {n}" for n in range(700)]
    store = ScoreCache(tmp_path / "scores.db")
    assert store.find("one", texts) == [None] * 700
    store.keep("one", texts, vectors)
    store.close()
    store = ScoreCache(tmp_path / "scores.db")
    found = store.find("one", [*texts[::-1], "text 3", "unknown"])
    assert found.pop() is None
    assert all(same_bits(v, w) for v, w in zip(found, [*vectors[::-1], vectors[3]], strict=True))
    assert store.find("other", texts[:1]) == [None]
    store.close()


def test_two_runs_may_use_one_file_at_a_time(tmp_path):
    one, other = (ScoreCache(tmp_path / "scores.db") for _ in range(2))
    model = reader()
    score(StoredScorer(model, one), [examples("x")], queries(2))
    score(StoredScorer(model, other), [examples("x"), examples("y")], queries(2))
    score(StoredScorer(model, one), [examples("y")], queries(2))
    assert model.calls == 4
    one.close()
    other.close()


def test_a_run_that_meets_another_one_making_the_file_goes_on(tmp_path, monkeypatch):
    # SQLite does not wait for a lock where the journal is changed: 4 of 240 simultaneous starts failed.
    class Meeting(sqlite3.Connection):
        def execute(self, sql, *values):
            if "journal_mode" in sql:
                raise sqlite3.OperationalError("database is locked")
            return super().execute(sql, *values)

        def executescript(self, sql):
            assert "journal_mode" not in sql
            return super().executescript(sql)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Meeting))
    store = ScoreCache(tmp_path / "scores.db")
    store.add_scores({digest("one"): np.zeros(2)})
    assert len(store.scores([digest("one")])) == 1
    store.close()


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from sottovoce.benchmarks.harness.score_cache import ScoreCache, digest
store = ScoreCache(Path(sys.argv[1]))
store.add_scores({digest("kept"): np.array([-0.5, -1.0])})
store._rows.execute("BEGIN IMMEDIATE")
rows = ((digest(str(n)), bytes(4000)) for n in range(3000))
store._rows.executemany("INSERT INTO score VALUES (?, ?)", rows)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill so")
def test_a_writer_that_is_killed_leaves_a_usable_file(tmp_path):
    file = tmp_path / "scores.db"
    done = subprocess.run([sys.executable, "-c", KILLED, str(file)], env={**os.environ}, check=False)
    assert done.returncode == -signal.SIGKILL
    store = ScoreCache(file)
    assert store._rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert store.scores([digest("kept"), digest("7")]).keys() == {digest("kept")}
    assert store.scores([digest("kept")])[digest("kept")].tolist() == [-0.5, -1.0]
    store.add_scores({digest("7"): np.array([0.0])})
    assert digest("7") in store.scores([digest("7")])
    store.close()


def test_an_ask_that_fails_keeps_what_was_answered_before(store):
    def broken(task, context, query):
        if query["text"] == "question 3":
            raise RuntimeError("the model broke")
        return [0.0, 1.0, 2.0]

    model = FakeScorer(broken)
    scorer = StoredScorer(model, store)
    score(scorer, [examples("x")], queries(2))
    with pytest.raises(RuntimeError, match="broke"):
        score(scorer, [examples("x")], queries(4))
    calls = model.calls
    assert score(scorer, [examples("x")], queries(3)).shape == (3, 1, 3)
    assert model.calls == calls + 1


def test_the_file_holds_no_text(tmp_path):
    store = ScoreCache(tmp_path / "scores.db")
    score(StoredScorer(reader(), store), [examples("an unusual demonstration")], [{"text": "an unusual question"}])
    store.keep("encoder", ["an unusual text"], [np.zeros(3, np.float32)])
    store.close()
    assert b"unusual" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
    tables = sqlite3.connect(tmp_path / "scores.db")
    assert tables.execute("SELECT count(*) FROM score").fetchone() == (1,)
    tables.close()


# An episode


@pytest.mark.parametrize("names", [OWN, UNKNOWN])
def test_an_episode_is_answered_bit_for_bit_as_without_a_store(tmp_path, store, names):
    episode: Episode = read_world(write_news(tmp_path), "agnews").episode(2, 8, names)
    groups = [[0], [1, 2], [], [3], [4, 5, 6]]
    model = reader()
    for _ in range(2):
        scorer = StoredScorer(model, store)
        assert same_bits(ask(scorer, episode, groups), ask(reader(), episode, groups))
        assert same_bits(ask_public(scorer, episode), ask_public(reader(), episode))
    assert model.calls == 8 * 5
    assert json.dumps(identity_of(model)) == json.dumps(scorer.identity)


@pytest.mark.slow
def test_the_embedded_model_answers_bit_for_bit_as_without_a_store(tmp_path, store):
    if find_spec(DEFAULT_PACKAGE) is None:
        pytest.skip("the encoder is not installed")
    from sottovoce.benchmarks.harness.runner import open_model
    from sottovoce.models.embedded.label_scorer import EmbeddedScorer

    episode = read_world(tmp_path, "tickets").episode(0, 12, OWN)
    groups = [[n] for n in range(25)]
    plain = ask(EmbeddedScorer(store=False), episode, groups)
    scorer = StoredScorer(open_model("embedded", store), store)
    ask(scorer, replace(episode, questions=episode.questions[:5], truth=episode.truth[:5]), groups[:9])
    assert same_bits(ask(scorer, episode, groups), plain)
    assert same_bits(ask(StoredScorer(open_model("embedded", store), store), episode, groups), plain)
