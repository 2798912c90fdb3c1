"""Membership with one demonstration: a writer that copies exceeds its cap and is said to, one with noise does not."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.tiny_rows import write_news
from sottovoce.audits.membership import NOT_RELEASED
from sottovoce.audits.roc import caps
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.experiment import Bench, Piece, Result, Settings
from sottovoce.benchmarks.harness.runner import run
from sottovoce.benchmarks.harness.score_cache import ScoreCache, StoredScorer
from sottovoce.benchmarks.harness.tables import text_tables
from sottovoce.benchmarks.prism import demonstrations as prism_demonstrations
from sottovoce.benchmarks.prism import membership as prism_membership
from sottovoce.benchmarks.prism.extraction import Undefended
from sottovoce.benchmarks.prism.membership import (
    ABOVE,
    CONFIDENCE,
    EXPERIMENT,
    IN,
    LABEL,
    METHODS,
    UNDEFENDED,
    Attack,
    attacks_of,
    cap_of,
    curve_of,
    reading,
)
from sottovoce.errors import ParameterError
from sottovoce.intervals import Proportion
from sottovoce.models.fake import CHARACTERS, FakeScorer, FakeStepper
from sottovoce.privacy.unit import Adjacency

SETTINGS = Settings(
    model="fake", seeds=5, queries=1, tasks=("agnews",), names=("own",), records=(1,), epsilons=(0.5,),
    adjacencies=("add-remove", "replace-one"),
)  # fmt: skip
STORY = tuple(f"train story {n} of kind {n % 4}" for n in range(240))
PIECES = (" ", "Text:", *STORY, *CHARACTERS[1:])


def copier(prompt, text):
    """A blank, then the whole story of its prompt, then the end."""
    logits = [0.0] * (len(PIECES) + 2)
    story = next((piece for piece in STORY if f"Text: {piece}\n" in prompt.private_text), None)
    if story is not None:
        logits[[0, PIECES.index(story), len(PIECES)][min(len(text), 2)]] = 60.0
    return logits


def recognizer(task, context, query):
    """Sure of a label where its demonstration is the question itself, a little where it is any other text."""
    truth = int(query["text"][-1])
    sure = next((4.0 if shown.fields["text"] == query["text"] else 0.5 for shown in context), 0.0)
    return [sure if label == truth else 0.0 for label in range(len(task.labels))]


@pytest.fixture
def copies(monkeypatch, tmp_path):
    """A model that copies the record in its prompt, and tiny rows."""
    write_news(tmp_path / "data")
    prism_demonstrations.stepper_of.cache_clear()
    made = FakeStepper(copier, pieces=PIECES)
    monkeypatch.setattr(prism_demonstrations, "load_stepper", lambda model: made)
    monkeypatch.setattr(prism_membership, "TOKENS", 3)
    monkeypatch.setattr(prism_membership, "REPLICATES", 100)
    curve_of.cache_clear()
    yield made
    prism_demonstrations.stepper_of.cache_clear()
    curve_of.cache_clear()


def measured(tmp_path, monkeypatch, scorer=recognizer, settings=SETTINGS) -> Result:
    monkeypatch.setattr(runner, "open_model", lambda spec, store: FakeScorer(scorer))
    places = {"results": tmp_path / "results", "cache": tmp_path / "cache", "data": tmp_path / "data"}
    return Result.read(run(EXPERIMENT, settings, **places))


class Leaky:
    """The likeliest token of the first expert, at any price: no defence at all."""

    def __init__(self, stepper):
        self.chooser = Undefended(stepper, 3, None)

    over = property(lambda self: self.chooser.over)

    def next(self, step):
        block = next(step.blocks, None)
        return self.chooser.next(SimpleNamespace(public=step.public if block is None else block[0]))


def leaky(monkeypatch, stepper):
    """Plans that are priced as they should be, and write without noise."""
    priced = prism_membership.plan_of

    def plan_of(*given):
        start = lambda plan, randomness, *, eos_tokens, forbidden_tokens: Leaky(stepper)  # noqa: E731
        return SimpleNamespace(event=priced(*given).event, decoder=SimpleNamespace(start=start))

    monkeypatch.setattr(prism_membership, "plan_of", plan_of)


@pytest.mark.slow
def test_a_record_in_the_prompt_is_told_and_noise_hides_it(copies, tmp_path, monkeypatch):
    found = attacks_of(measured(tmp_path, monkeypatch))
    bare = {one.name: one for one in found if one.key.method == UNDEFENDED}
    # 4 nats against a half: a member always scores above another record.
    assert bare[CONFIDENCE].auroc.value == bare[ABOVE].auroc.value == 1.0
    assert (int(bare[ABOVE].members.sum()), len(bare[ABOVE].members)) == (60, 120)
    # The label is right either way, so one released label tells nothing.
    assert bare[LABEL].auroc.value == 0.5
    assert bare[ABOVE].cap is None
    defended = [one for one in found if one.key.epsilon is not None]
    assert len(defended) == 3 * len(METHODS) * 2
    assert not any(one.exceeds for one in defended)
    assert all(one.auroc.value < 0.75 for one in defended)
    lines = reading(found)
    assert lines[-1].startswith("Attacks on defended answers that exceed")
    assert "0 of 12." in lines[-1]
    assert any("tells members from others by: confidence" in line for line in lines)


@pytest.mark.slow
def test_a_writer_that_copies_exceeds_its_cap(copies, tmp_path, monkeypatch):
    leaky(monkeypatch, copies)
    found = attacks_of(measured(tmp_path, monkeypatch))
    over = [one for one in found if one.exceeds]
    # Confidences of both kinds, two methods, two adjacencies. The label is right with any demonstration, so it tells
    # nothing of a stand-in; where nobody stands in, there is no text and a constant answer.
    assert sum(one.name in (CONFIDENCE, ABOVE) for one in over) == 2 * len(METHODS) * 2
    assert [one.key.adjacency for one in over if one.name == LABEL] == ["add-remove"] * len(METHODS)
    certified = [one.epsilon for one in over if one.name == CONFIDENCE]
    assert certified == [None] * 4
    line = reading(found)[-1]
    assert "10 of 12" in line
    assert "Repeat with other seeds" in line


@pytest.mark.slow
def test_the_certificate_refutes_the_price_of_a_copying_writer(copies, tmp_path, monkeypatch):
    # Sure of a label only after its own text, and of another label without: the label gives membership away.
    def told(task, context, query):
        truth = int(query["text"][-1])
        own = any(shown.fields["text"] == query["text"] for shown in context)
        return [1.0 if (label == truth) == own else 0.0 for label in range(4)]

    leaky(monkeypatch, copies)
    found = [one for one in attacks_of(measured(tmp_path, monkeypatch, told)) if one.name == LABEL]
    # 0 errors of either kind in 60 runs each: both limits are 1 - .025 ** (1 / 60), by hand.
    limit = 1 - 0.025 ** (1 / 60)
    for one in found:
        if one.key.epsilon is not None:
            assert one.epsilon == pytest.approx(np.log((1 - 1e-5 - limit) / limit), abs=1e-9)
            assert one.exceeds


@pytest.mark.slow
def test_a_scorer_that_reads_no_demonstration_shows_nothing_and_is_said_to(copies, tmp_path, monkeypatch):
    found = attacks_of(measured(tmp_path, monkeypatch, lambda task, context, query: [1.0, 0.0, 0.0, 0.0]))
    assert {one.auroc.value for one in found} == {0.5}
    assert "does not tell members from others, so it shows nothing about any defence here" in reading(found)[0]


@pytest.mark.slow
def test_a_batch_holds_the_candidate_or_its_stand_in_or_neither(copies, tmp_path, monkeypatch):
    asked = []

    def watched(prompt, text):
        asked.append(prompt.private_text.count("Text: train"))
        return copier(prompt, text)

    copies.function = watched
    settings = Settings(**{**vars(SETTINGS), "seeds": 1, "records": (3,)})
    groups = []
    real = prism_membership.write

    def write(stepper, given, choosers, **options):
        groups.append((given, [len(its) for its in choosers]))
        return real(stepper, given, choosers, **options)

    monkeypatch.setattr(prism_membership, "write", write)
    measured(tmp_path, monkeypatch, settings=settings)
    assert len(groups) == 12
    assert set(asked) == {0, 1}  # the public prompt holds none, an expert one
    for (inside, replaced, absent), counts in groups:
        texts = [[expert.private_text for expert in group.experts] for group in (inside, replaced, absent)]
        assert [len(its) for its in texts] == [3, 3, 2]
        assert texts[0][1:] == texts[1][1:] == texts[2]
        assert texts[0][0] not in (*texts[1], *texts[2])
        assert len(set(texts[0]) | set(texts[1])) == 4
        # Members under both adjacencies; replace-one against a stand-in, add-remove against nobody.
        assert counts == [2 * len(METHODS), len(METHODS), len(METHODS)]


@pytest.mark.slow
def test_what_a_text_becomes_is_one_demonstration_of_its_label(copies, tmp_path, monkeypatch):
    seen = []

    def watched(task, context, query):
        seen.append([(shown.fields["text"], shown.label, query["text"]) for shown in context])
        return recognizer(task, context, query)

    leaky(monkeypatch, copies)
    measured(tmp_path, monkeypatch, watched, Settings(**{**vars(SETTINGS), "seeds": 1}))
    assert {len(context) for context in seen} == {0, 1}
    for context in seen:
        for text, label, query in context:
            assert label == int(query[-1])
            assert text not in STORY or int(text[-1]) == label


@pytest.mark.slow
def test_zero_shot_is_taken_off_where_it_is_said(copies, tmp_path, monkeypatch):
    # Records differ in how sure the model is of them anyway, by more than a demonstration adds.
    def uneven(task, context, query):
        truth, number = int(query["text"][-1]), int(query["text"].split()[2])
        added = recognizer(task, context, query)[truth]
        return [number % 50 + added if label == truth else 0.0 for label in range(len(task.labels))]

    found = attacks_of(measured(tmp_path, monkeypatch, uneven))
    bare = {one.name: one.auroc.value for one in found if one.key.method == UNDEFENDED}
    assert bare[CONFIDENCE] < 0.75
    assert bare[ABOVE] > 0.85


def test_only_what_lies_beyond_its_interval_exceeds():
    arm = prism_membership.Key("agnews", "own", "prism", records=4, adjacency="add-remove", epsilon=1.0)
    limit = {rate: caps(1.0, 0.0, rate) for rate in (0.01, 0.001)}

    def attack(low, certified, cap=limit):
        auroc = Proportion(max(low, 0.8), low, 0.95)
        return Attack(arm, LABEL, np.zeros(2), np.array([True, False]), auroc, {}, cap, certified)

    assert limit[0.01].auroc == pytest.approx(0.73106, abs=1e-5)
    assert not attack(0.70, None).exceeds
    assert not attack(0.70, 0.99).exceeds
    assert attack(0.74, None).exceeds
    assert attack(0.70, 1.01).exceeds
    assert not attack(0.99, 5.0, None).exceeds


@pytest.mark.slow
def test_caps_are_those_of_the_price_or_tighter(copies):
    for name in METHODS:
        for adjacency in Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE:
            arm = prism_membership.Key("agnews", "own", name, records=4, adjacency=adjacency.value, epsilon=2.0)
            own, stated = cap_of(arm, 0.01), caps(2.0, 1e-5, 0.01)
            assert own.auroc < stated.auroc
            assert own.tpr < stated.tpr
            assert own.auroc > 0.55  # not nothing either: a cap at a half would be passed by chance


@pytest.mark.slow
def test_sections_are_whole_mark_what_is_not_released_and_repeat(copies, tmp_path, monkeypatch):
    settings = Settings(**{**vars(SETTINGS), "seeds": 2})
    first, second = (measured(tmp_path, monkeypatch, settings=settings) for _ in range(2))
    assert [(cell.key, cell.values) for cell in first.cells] == [(cell.key, cell.values) for cell in second.cells]
    section = EXPERIMENT.section(first)
    assert [NOT_RELEASED in table.title for table in section.tables] == [True, True, False]
    assert all(len(row) == len(table.columns) for table in section.tables for row in table.rows)
    (figure,) = section.figures
    assert len(figure.series) == 1 + 2 * len(METHODS)
    assert "story" not in text_tables(section)
    assert "story" not in next((tmp_path / "results").glob("*.json")).read_text("utf-8")
    assert EXPERIMENT.section(second).reading == section.reading


def test_one_size_of_batch_that_the_rows_allow(copies, tmp_path, monkeypatch):
    for records, message in (((2, 3), "one number"), ((30,), "at most 19")):
        with pytest.raises(ParameterError, match=message):
            measured(tmp_path, monkeypatch, settings=Settings(**{**vars(SETTINGS), "records": records}))


@pytest.mark.slow
def test_a_piece_has_a_number_for_every_candidate_arm_and_world(copies, tmp_path):
    store = ScoreCache(tmp_path / "scores.db")
    bench = Bench(SETTINGS, StoredScorer(FakeScorer(recognizer), store), tmp_path / "data")
    numbers = dict(EXPERIMENT.measure(bench, Piece("agnews", "own", 0)))
    store.close()
    # 12 candidates; zero-shot, two without a defence, two methods x two adjacencies x two worlds; two quantities.
    assert len(numbers) == 12 * (1 + 2 + 8) * 2
    assert sum(key.method == e.ZERO_SHOT for key in numbers) == 24
    assert {key.quantity for key in numbers} == {CONFIDENCE, LABEL}
    assert sum(key.option.endswith(f" {IN}") for key in numbers) == 12 * (1 + 4) * 2
