"""The worlds of the experiments: what a seed draws, what a name tells, and what is said where rows are missing."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tiny_rows import UNSEEN, write_drawings, write_news, write_rows, write_sources
from sottovoce.benchmarks.harness.datasets import (
    DATASETS,
    FITTED,
    MADE_UP,
    MOST_RECORDS,
    OWN,
    SOURCES,
    UNKNOWN,
    default_data,
    read_world,
)
from sottovoce.errors import InputError, ParameterError, RecordError
from sottovoce.tasks import load_task, task_names


def told(examples):
    return [(tuple(sorted(example.fields.items())), example.label) for example in examples]


@pytest.fixture
def news(tmp_path):
    return read_world(write_news(tmp_path), "agnews")


def test_the_same_seed_draws_the_same_rows_under_either_kind_of_name(news):
    for seed in range(5):
        own, unknown = (news.episode(seed, 20, names) for names in (OWN, UNKNOWN))
        assert told(own.records) == told(unknown.records)
        assert own.questions == unknown.questions
        assert own.truth.tolist() == unknown.truth.tolist()
        assert own.task.labels == load_task("agnews").labels
        assert not set(unknown.task.labels) & set(own.task.labels)


def test_an_episode_is_drawn_again_by_its_seed_and_another_seed_draws_another(news):
    one, again, other = news.episode(3, 20, UNKNOWN), news.episode(3, 20, UNKNOWN), news.episode(4, 20, UNKNOWN)
    assert told(one.records) == told(again.records) != told(other.records)
    assert one.questions == again.questions != other.questions
    assert one.task == again.task != other.task


def test_fewer_questions_are_the_first_of_more_and_leave_the_records_alone(news):
    few, many = news.episode(1, 5, OWN), news.episode(1, 50, OWN)
    assert list(few.questions) == list(many.questions)[:5]
    assert told(few.records) == told(many.records)


def test_enough_records_are_drawn_that_any_number_is_the_first_of_more(news):
    # The experiments take the first n, so one draw of MOST_RECORDS serves them all: no row twice, none of the test.
    episode = news.episode(0, 60, OWN)
    assert len(episode.records) == MOST_RECORDS
    assert len(set(told(episode.records))) == MOST_RECORDS
    assert len(episode.questions) == len(episode.truth) == 60
    assert len({question["text"] for question in episode.questions}) == 60
    assert all(f"of kind {label}" in q["text"] for q, label in zip(episode.questions, episode.truth, strict=True))
    asked = {question["text"] for question in episode.questions}
    assert not asked & {example.fields["text"] for example in episode.records}


def test_records_are_not_in_the_order_of_the_file_and_every_row_has_its_turn(news):
    # 128 of 240 rows are drawn: 24 seeds leave a row out with chance (112/240)**24 = 1.1e-8, any row below 3e-6.
    episodes = [news.episode(seed, 1, OWN) for seed in range(24)]
    seen = Counter(key for episode in episodes for key in told(episode.records))
    assert len(seen) == 240
    first = {told(episode.records)[0] for episode in episodes}
    assert len(first) > 15


def test_made_up_names_are_different_and_say_nothing():
    assert len(set(MADE_UP)) == len(MADE_UP)
    names = [label for task in task_names() if task != "pseudonames" for label in load_task(task).labels]
    words = {word for name in [*names, *SOURCES] for word in name.lower().replace("/", " ").split()}
    for word in MADE_UP:
        assert word.isascii()
        assert word.isalpha()
        assert word.islower()
        assert word not in words
    for one, other in itertools.permutations(MADE_UP, 2):
        assert one not in other
    # Enough for the task with the most classes.
    assert len(MADE_UP) >= max(len(load_task(task).labels) for task in task_names())


def test_a_made_up_name_does_not_stay_with_a_class(news):
    # Chance of one word for class 0 in all of 24 seeds: 16**-23.
    for label in range(4):
        assert len({news.episode(seed, 1, UNKNOWN).task.labels[label] for seed in range(24)}) > 5


def test_the_uneven_world_has_the_stated_shares_in_both_halves(tmp_path):
    world = read_world(write_news(tmp_path, 680, 400), "agnews-uneven")
    for rows, most in ((world.train, 170), (world.test, 100)):
        counts = Counter(example.label for example in rows)
        assert counts[0] == most
        assert [counts[label] for label in (1, 2, 3)] == [round(most * 5 / 85)] * 3
        assert counts[0] / len(rows) == pytest.approx(0.85, abs=0.005)
    assert world.task.name == "agnews-uneven"
    assert world.task.labels == load_task("agnews").labels


def test_a_kind_of_text_is_its_own_class_and_rows_that_were_read_as_records_are_not_asked(tmp_path):
    world = read_world(write_sources(tmp_path, shared=2), "sources")
    assert list(world.task.labels) == list(SOURCES)
    folders = [folder for folder, _ in SOURCES.values()]
    for rows in (world.train, world.test):
        assert all(example.fields["text"].startswith(folders[example.label]) for example in rows)
        assert all(example.fields["text"].strip() and len(example.fields["text"]) <= 400 for example in rows)
    assert Counter(example.label for example in world.test) == dict.fromkeys(range(6), 10)
    assert not {e.fields["text"] for e in world.test} & {e.fields["text"] for e in world.train}


def test_a_world_of_rows_without_a_label_reads_it_from_them_and_asks_nothing_that_is_a_record(tmp_path, monkeypatch):
    monkeypatch.setitem(FITTED, "film-genres", 1)
    films = [{"genres": ["War"], "extract": "one"}, {"genres": ["War", "Crime"], "extract": "two genres"},
             {"genres": ["Crime", "Drama"], "extract": "two"}, {"genres": ["War"], "extract": None},
             {"genres": [], "extract": "none"}, {"genres": ["Crime"], "extract": "fitted on"}]  # fmt: skip
    write_rows(tmp_path, "wikimovies", "train", films)
    write_rows(tmp_path, "wikimovies", "test", films)
    world = read_world(tmp_path, "film-genres")
    assert [(e.fields["text"], world.task.labels[e.label]) for e in world.train] == [("one", "War"), ("two", "Crime")]
    assert [e.fields["text"] for e in world.test] == ["fitted on"]

    asked = [{"question": "What causes it?"}, {"question": "Is it one?"}, {"question": "How to diagnose it?"}]
    monkeypatch.setitem(FITTED, "medical-questions", 0)
    write_rows(tmp_path, "medquad", "train", asked)
    write_rows(tmp_path, "medquad", "test", [{"question": "What causes that?"}, *asked])
    world = read_world(tmp_path, "medical-questions")
    assert [world.task.labels[e.label] for e in world.train] == ["causes", "diagnosis"]
    assert [e.fields["text"] for e in world.test] == ["What causes that?"]

    wanted = [{"text": f"film {n} {genre}", "slot": f"genre {genre}"} for genre in range(14) for n in range(15 - genre)]
    write_rows(tmp_path, "mit_g", "train", wanted)
    write_rows(tmp_path, "mit_g", "test", [{"text": "which", "slot": "genre 0"}, {"text": "who", "slot": "genre 13"}])
    world = read_world(tmp_path, "wanted-genres")
    assert list(world.task.labels) == [f"genre {n}" for n in range(12)]
    assert len(world.train) == sum(15 - genre for genre in range(12))
    assert [e.fields["text"] for e in world.test] == ["which"]


def test_pictures_are_of_five_characters_an_episode_that_the_model_never_saw(tmp_path):
    world = read_world(write_drawings(tmp_path), "pseudonames")
    assert len(world.train) == 7 * 14
    kinds = set()
    for seed in range(12):
        episode = world.episode(seed, 100, OWN)
        character = {}
        asked = zip(episode.questions, episode.truth, strict=True)
        for fields, label in [*((record.fields, record.label) for record in episode.records), *asked]:
            name = fields["image"].split()[1]
            assert name in UNSEEN
            assert character.setdefault(int(label), name) == name
        assert sorted(character) == [0, 1, 2, 3, 4]
        assert len(set(character.values())) == 5
        assert (len(episode.records), len(episode.questions)) == (5 * 14, 5 * 6)
        assert all(record.fields["image"].startswith("train") for record in episode.records)
        assert all(question["image"].startswith("test") for question in episode.questions)
        kinds.add(tuple(character[label] for label in range(5)))
    assert len(kinds) == 12


def test_photographs_are_of_five_kinds_an_episode(tmp_path):
    for split, count in (("train", 3), ("test", 2)):
        rows = [{"class": f"kind {k}", "image_b64": f"{split} {k} {i}"} for k in range(6) for i in range(count)]
        write_rows(tmp_path, "caltech101_small", split, rows)
    episode = read_world(tmp_path, "photographs").episode(3, 100, OWN)
    assert (len(episode.records), len(episode.questions)) == (5 * 3, 5 * 2)
    kinds = {(int(e.label), e.fields["image"].split()[1]) for e in episode.records}
    assert len(kinds) == len({kind for _, kind in kinds}) == 5


def test_the_bundled_tickets_need_no_folder_and_ask_nothing_that_is_a_record(tmp_path):
    world = read_world(tmp_path / "nowhere", "tickets")
    assert (len(world.train), len(world.test)) == (440, 160)
    assert not {e.fields["text"] for e in world.test} & {e.fields["text"] for e in world.train}


@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"tickets"}))
def test_missing_rows_are_named_with_the_option_that_names_their_folder(tmp_path, name):
    with pytest.raises(InputError, match=r"train\.jsonl\.gz.*--data") as caught:
        read_world(tmp_path, name)
    assert str(tmp_path) not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_in_place_of_the_folder_is_missing_data_too(tmp_path):
    (tmp_path / "data").write_text("no folder")
    with pytest.raises(InputError, match="--data"):
        read_world(tmp_path / "data", "trec")


def test_an_unknown_world_is_refused_by_name(tmp_path):
    with pytest.raises(ParameterError, match=r"tasks is 'weather'.*one of agnews, .*pseudonames") as caught:
        read_world(tmp_path, "weather")
    assert (caught.value.name, caught.value.value) == ("tasks", "weather")


def test_a_row_that_does_not_suit_the_task_is_named_and_not_quoted(tmp_path):
    write_rows(tmp_path, "trec", "train", [{"text": "fine", "label": 0}, {"text": "a secret", "label": 9}])
    write_rows(tmp_path, "trec", "test", [{"text": "fine", "label": 0}])
    with pytest.raises(RecordError, match=r"train\.jsonl\.gz, line 2") as caught:
        read_world(tmp_path, "trec")
    assert "secret" not in str(caught.value)


def test_the_rows_that_the_model_was_fitted_on_are_those_that_its_card_counts():
    card = json.loads((resources.files("sottovoce") / "data" / "embedded" / "head.json").read_text("utf-8"))
    counts = {name: about["rows"] for name, about in card["fitted_on"].items()}
    named = {"subj": "subjectivity", "film-genres": "film genres", "medical-questions": "medical questions"}
    assert {name: counts[named.get(name, name)] for name in FITTED} == FITTED
    # The last one of the card is cut from a data set that ``SOURCES`` names.
    assert set(counts) == {"dbpedia", "subjectivity", "film genres", "medical questions", "medical answers"}


def test_a_world_leaves_out_the_rows_that_the_model_was_fitted_on(tmp_path, monkeypatch):
    whole = read_world(write_news(tmp_path / "whole"), "agnews")
    monkeypatch.setitem(FITTED, "agnews", 200)
    cut = read_world(write_news(tmp_path / "cut"), "agnews")
    assert told(cut.train) == told(whole.train)[:40]
    assert told(cut.test) == told(whole.test)
    monkeypatch.setitem(FITTED, "agnews", 240)
    with pytest.raises(InputError, match="no training row but the last 240"):
        read_world(write_news(tmp_path / "gone"), "agnews")


def test_benchmark_rows_lie_beside_the_checkout():
    # After a move of this module the folder was looked for in the checkout, and every test below was skipped.
    checkout = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").is_file())
    assert default_data() == checkout.parent / "shared" / "data"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DATASETS))
def test_no_question_of_the_real_rows_is_a_record(name):
    if not default_data().is_dir():
        pytest.skip("the benchmark data (shared/data beside the checkout) is absent")
    world = read_world(default_data(), name)
    train, test = ({key for key, _ in told(rows)} for rows in (world.train, world.test))
    assert not train & test
    classes = world.classes or len(world.task.labels)
    for seed in range(3):
        episode = world.episode(seed, 100, OWN)
        assert len(episode.records) >= min(MOST_RECORDS, 14 * classes)
        assert set(np.unique(episode.truth)) <= set(range(len(episode.task.labels)))


@pytest.mark.slow
def test_the_real_uneven_world_has_the_stated_shares():
    if not default_data().is_dir():
        pytest.skip("the benchmark data (shared/data beside the checkout) is absent")
    world = read_world(default_data(), "agnews-uneven")
    for rows in (world.train, world.test):
        counts = Counter(example.label for example in rows)
        assert [round(100 * counts[label] / len(rows)) for label in range(4)] == [85, 5, 5, 5]
