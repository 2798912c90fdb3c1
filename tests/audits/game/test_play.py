"""Games: sound releases pass, leaking ones are caught, and what certifies was never seen by what chose.

Seeds are fixed. Answers of the fake model follow its demonstration, so that one record decides what an expert says.
"""

from __future__ import annotations

import math

import pytest

from sottovoce.audits.game import detectors as d
from sottovoce.audits.game.canaries import Insertion, own_canary
from sottovoce.audits.game.games import FunctionGame, LabelGame, Repetition
from sottovoce.audits.game.play import Claim, Runs, play
from sottovoce.audits.game.questions import Question
from sottovoce.errors import ParameterError
from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.partition import Partition
from sottovoce.experts.reading import bare_scores
from sottovoce.methods.base import Price, make_method, registered_methods
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

TASK = Task(labels=["a", "b", "c"])
ROWS = [Row(i, {"text": f"note {i}", "label": "ab"[i % 2]}) for i in range(3)]
CANARIES = [own_canary("Locker seven is mine.", "c")]
ASKED = [Question("if-then", "Is {secret} there?")]
RO = Adjacency.REPLACE_ONE


def played(game, claim, runs=None, seed=1, insertion=Insertion.REPLACE, detectors=d.of_labels, **more):
    return play(
        game, ROWS, TASK, CANARIES, [insertion], ASKED, detectors, claim, SeededRandomness(seed),
        other="a", runs=runs or Runs(20, 40, 300), **more,
    )  # fmt: skip


def label_game(method, price, adjacency=RO, seed=2):
    return LabelGame(make_method(method), FakeScorer(), TASK, price, adjacency, randomness=SeededRandomness(seed))


def is_there(rows):
    return any("Locker" in str(getattr(row, "values", None) or row.fields) for row in rows)


def responding(epsilon, seed):
    """Randomised response about the canary: exactly epsilon-DP, and no better release is."""
    source, scale = SeededRandomness(seed), 1 << 40
    keep = int(scale / (1 + math.exp(-epsilon)))
    return FunctionGame("response", lambda rows, question: "ca"[(source.below(scale) < keep) != is_there(rows)])


@pytest.mark.cases(1)
@pytest.mark.parametrize("method", ["poe", "rnm", "prior-poe"])
@pytest.mark.parametrize("insertion", [Insertion.REPLACE, Insertion.ADD, Insertion.BLANK])
def test_a_sound_method_keeps_its_claim_under_every_adjacency(method, insertion):
    game = label_game(method, Price(2.0), insertion.adjacency)
    found = played(game, Claim.of(2.0, 0.0, insertion.adjacency, game.event), insertion=insertion)
    assert not found.violated
    assert found.best.bound <= found.best.exact <= 2.0 + 1e-9
    assert found.best.exact > 0.1, "the attack sees something"


@pytest.mark.parametrize("adjacency", [RO, Adjacency.ZERO_OUT])
def test_both_data_sets_share_units_out_in_one_order(adjacency):
    # With an order for each world, every expert differs, and a sound method seems to break its claim.
    def by_company(task, context, query):
        letters = sum(map(ord, "".join(sorted(example.fields["text"] for example in context))))
        return [9.0 * (letters % 3 == label) for label in range(3)]

    rows = [Row(i, {"text": f"note {i}", "label": "ab"[i % 2]}) for i in range(12)]
    for seed in range(6):
        game = LabelGame(
            make_method("rnm"), FakeScorer(by_company), TASK, Price(2.0), adjacency, Partition(3),
            randomness=SeededRandomness(2),
        )  # fmt: skip
        found = play(
            game, rows, TASK, CANARIES, Insertion.of(adjacency)[-1:], ASKED, d.of_labels,
            Claim.of(2.0, 0.0, adjacency, game.event), SeededRandomness(seed), other="a", runs=Runs(2, 2, 10),
        )  # fmt: skip
        assert found.best.exact <= 2.0 + 1e-9


def test_an_order_is_drawn_once_a_game_and_holds_every_unit():
    games = [LabelGame(make_method("rnm"), FakeScorer(), TASK, Price(1.0), partition=Partition(2)) for _ in range(2)]
    orders = [game.order(40) for game in games]
    assert orders == [game.order(40) for game in games]
    assert [sorted(order) for order in orders] == [list(range(40))] * 2
    assert orders[0] != orders[1]


@pytest.mark.cases(3)
@pytest.mark.parametrize("method", [name for name, kind in registered_methods().items() if kind.private])
def test_every_private_method_can_be_played(method):
    options = {"subsamples": 3, "sampling_probability": 0.5} if method == "pbs" else {}
    kind = registered_methods()[method]
    if kind.reads.name == "NOTHING":
        pytest.skip("reads no record")
    game = LabelGame(
        make_method(method, **options), FakeScorer(), TASK, Price(1.0, 1e-6), randomness=SeededRandomness(3)
    )
    found = played(game, Claim.of(1.0, 1e-6, RO, game.noise_event), Runs(2, 4, 20))
    assert not found.violated
    assert [*found.powers()] == ["2 times the epsilon", "4 times the epsilon", "everything"]
    assert game.repetition is (Repetition.SAMPLES if method == "pbs" else Repetition.NOISE)


@pytest.mark.parametrize("calibrate", [True, False])
def test_experts_of_a_game_are_calibrated_as_in_a_session(calibrate):
    game = LabelGame(
        make_method("poe"), FakeScorer(), TASK, Price(1.0), randomness=SeededRandomness(3), calibrate=calibrate
    )
    found = game.world(ROWS).outputs("a question")
    records = PrivateRecords(ROWS, source="rows", synthetic=True).with_public_size()
    query, empty = {"text": "a question"}, TASK.content_free_queries() if calibrate else []
    public = bare_scores(game.model, TASK, [query, *empty])
    ensemble = Ensemble(records, TASK, game.model, game.partition, RO, order=game.order, content_free=empty)
    (same,) = ensemble.ask([query], public)
    assert found.clipped_sum(2.3).values.tolist() == same.clipped_sum(2.3).values.tolist()
    assert found.log_prior().tolist() == same.log_prior().tolist()


def test_a_method_that_spends_four_times_its_claim_is_caught():
    found = played(label_game("poe", Price(8.0)), Claim.of(2.0, 0.0, RO, BoundedRange(2.0)))
    assert found.violated
    assert found.best.bound > 2.0


def test_a_method_without_noise_is_caught_at_the_ceiling():
    likes_the_canary = FakeScorer(lambda task, context, query: [0.0, 0.0, 9.0 * is_there(context)])
    game = LabelGame(make_method("full-context"), likes_the_canary, TASK, Price(1.0))
    found = played(game, Claim.of(1.0, 0.0, RO))
    assert found.violated
    assert found.best.bound == pytest.approx(found.ceiling.perfect)
    assert found.best.estimate == math.inf
    assert found.best.exact is None


def test_a_release_that_tells_nothing_shows_nothing():
    source = SeededRandomness(5)
    found = played(FunctionGame("coin", lambda rows, question: "abc"[source.below(3)]), Claim.of(1.0, 0.0, RO))
    assert found.best.bound == 0.0
    assert not found.violated


@pytest.mark.slow
def test_false_alarms_on_a_tight_release_are_as_rare_as_stated():
    # At 5 % the chance of 10 or more alarms in 60 audits is below 0.1 %; a release of twice the claim has many.
    claim = Claim.of(1.0, 0.0, RO)
    alarms = [
        sum(played(responding(epsilon, seed), claim, Runs(2, 20, 120), seed).violated for seed in range(60))
        for epsilon in (1.0, 2.0)
    ]
    assert alarms[0] < 10
    assert alarms[1] > 40


def test_certifying_answers_come_after_the_choice_and_from_both_worlds_alike():
    asked = []

    class Watched:
        name, repetition = "watched", Repetition.ASKED

        def world(self, rows):
            there = is_there(rows)

            class World:
                def releases(self, question, runs):
                    asked.append((there, question, runs))
                    return ["c" if there else "a"] * runs

                def close(self):
                    asked.append((there, "closed", 0))

            return World()

    questions = [*ASKED, Question("own", "{text}")]
    found = play(
        Watched(), ROWS, TASK, CANARIES, [Insertion.REPLACE], questions, d.of_labels, Claim.of(1.0, 0.0, RO),
        SeededRandomness(1), other="a", runs=Runs(2, 5, 11),
    )  # fmt: skip
    choosing, certifying = asked[:4], asked[4:6]
    assert {runs for _, _, runs in choosing} == {7}
    assert [(there, runs) for there, _, runs in certifying] == [(False, 11), (True, 11)]
    assert len({question for _, question, _ in certifying}) == 1
    assert asked[6:] == [(True, "closed", 0), (False, "closed", 0)]
    rates = found.certified[0].rates
    assert (rates.absent, rates.present, rates.false_positives, rates.false_negatives) == (11, 11, 0, 0)


def test_an_insertion_that_tests_another_adjacency_is_refused():
    with pytest.raises(ParameterError, match="one that tests replace-one: append, replace"):
        played(label_game("poe", Price(1.0)), Claim.of(1.0, 0.0, RO), insertion=Insertion.ADD)


def test_only_noise_is_drawn_again():
    model = FakeScorer()
    game = LabelGame(make_method("poe"), model, TASK, Price(1.0), randomness=SeededRandomness(1))
    world = game.world(ROWS)
    world.releases("who?", 50)
    calls = model.calls
    assert world.releases("who?", 500).count("c") < 500
    assert model.calls == calls
    world.close()


@pytest.mark.slow
def test_samples_of_records_are_drawn_for_every_answer():
    model = FakeScorer()
    pbs = make_method("pbs", subsamples=3, sampling_probability=0.5)
    world = LabelGame(pbs, model, TASK, Price(1.0, 1e-6), randomness=SeededRandomness(1)).world(ROWS)
    world.releases("who?", 5)
    calls = model.calls
    world.releases("who?", 5)
    assert model.calls >= calls + 15


def test_what_a_detector_learns_comes_from_training_answers_alone():
    seen = []

    class Watching:
        name = "watching"

        def fit(self, absent, present):
            seen.append((list(absent), list(present)))

        def scores(self, answers):
            return d.RareClass(CANARIES[0]).scores(answers)

    counts = iter(range(1000))
    game = FunctionGame("counting", lambda rows, question: f"{is_there(rows)} {next(counts)}")
    played(game, Claim.of(1.0, 0.0, RO), Runs(2, 5, 11), detectors=lambda canary: [Watching()])
    assert seen == [(["False 0", "False 1"], ["True 7", "True 8"])]


def test_bounds_of_several_attacks_hold_together():
    canaries = [own_canary("Locker seven is mine.", "c", 1), own_canary("Locker eight is mine.", "c", 2)]
    found = play(
        FunctionGame("leaky", lambda rows, question: "c" if is_there(rows) else "a"), ROWS, TASK, canaries,
        [Insertion.REPLACE], ASKED, d.of_labels, Claim.of(1.0, 0.0, RO), SeededRandomness(1), other="a",
        runs=Runs(2, 10, 100),
    )  # fmt: skip
    # 0 of 100 errors: the upper limits at 2.5 % / 2 each are 1 - .0125^(1/100) = .04287, so ln(.95713 / .04287).
    assert [round(attack.bound, 3) for attack in found.certified] == [3.106, 3.106]
    assert all(attack.adjusted >= attack.p_value for attack in found.certified)


def test_a_hidden_answer_is_found_by_what_was_learned_from_others():
    # The answer differs by a letter that no rule names: only a detector that learned from training answers sees it.
    game = FunctionGame("letter", lambda rows, question: "yes." if is_there(rows) else "yes!")
    found = played(game, Claim.of(1.0, 0.0, RO))
    assert (found.violated, found.best.cell.detector) == (True, "likelihood ratio")


def test_detectors_of_texts():
    canary = CANARIES[0]
    answers = ["It says locker seven is mine.", "seven things", "abc"]
    assert d.ExactString(canary).scores(answers).tolist() == [1.0, 0.0, 0.0]
    assert d.Keyword(canary).scores(answers).tolist() == [1.0, 0.25, 0.0]
    assert d.RareClass(canary).scores(["C", "a c.", "cc"]).tolist() == [1.0, 1.0, 0.0]
    embed = FakeScorer().vectors
    vector = d.ReferenceVector(lambda texts: __import__("numpy").array([embed(text) for text in texts]))
    vector.fit(["parcel late"] * 3, ["locker seven"] * 3)
    low, high = vector.scores(["parcel late", "locker seven"])
    assert low < high
