"""Membership, extraction, exact losses, defences and fitted files, from end to end on the fake model."""

from __future__ import annotations

import builtins
import socket
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from sottovoce.audits.fits import LabelAttack, TextAttack, VectorAttack
from sottovoce.audits.game.defences import DEFENCES, ScrubbedGame, defences_of, presidio
from sottovoce.audits.game.games import FunctionGame, LabelGame
from sottovoce.audits.game.written import WriterGame
from sottovoce.audits.kinds.exactly import audit_exactly
from sottovoce.audits.kinds.extract import address, audit_extraction, p_value
from sottovoce.audits.kinds.fitted import attack_of, audit_support
from sottovoce.audits.kinds.membership import ATTACKS, LIKELIHOOD_RATIO, MembershipAudit, claim_of_answers, seeded
from sottovoce.audits.report import Verdict
from sottovoce.errors import InputError, MissingExtraError, ParameterError, RecordError
from sottovoce.experts.partition import Partition
from sottovoce.fitting.certificate import FitCertificate
from sottovoce.methods.base import Price, make_method
from sottovoce.methods.fitting.fitter import FitSetting, make_fitter
from sottovoce.models.base import Isolation
from sottovoce.models.fake import FakeScorer, FakeWriter
from sottovoce.privacy.events import ApproximateDP
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import Row
from sottovoce.tasks import Task

TASK = Task(labels=["a", "b", "c"])
ROWS = [Row(i, {"text": f"note {i}", "label": "abc"[i % 3]}) for i in range(12)]


def game(method="poe", epsilon=1.0, **more):
    more = {"randomness": SeededRandomness(2), **more}
    return LabelGame(make_method(method), FakeScorer(), TASK, Price(epsilon), **more)


def knows_its_own(task, context, query):
    """Says the label of a demonstration that has the question's text, and nothing else."""
    scores = [0.0, 0.0, 0.0]
    for example in context:
        if example.fields["text"] == query["text"]:
            scores[example.label] += 20.0
    return scores


def test_the_delta_of_several_answers_is_not_rounded_below_what_they_spend():
    # 5 * 1e-6 is 4.9999999999999996e-06 in floating point, at which five answers of delta 1e-6 have no epsilon.
    event = ApproximateDP(1.0, 1e-6)
    claim = claim_of_answers(
        SimpleNamespace(event=event, noise_event=event, price=Price(1.0, 1e-6), adjacency=Adjacency.REPLACE_ONE), 5
    )
    assert claim.delta == 5e-6
    assert claim.epsilon == pytest.approx(5.0)


def test_a_sound_method_keeps_its_claim_of_one_answer_and_of_several():
    for answers in (1, 4):
        played = game("rnm")
        claim = claim_of_answers(played, answers)
        found = MembershipAudit(played, ROWS, 3, 60, answers, seeded(1)).run(claim)
        assert found.verdict is Verdict.NONE_FOUND
        assert claim.epsilon >= answers - 1e-9 if answers == 1 else claim.epsilon > 1.0
        (attack,) = found.attacks
        assert attack["absent"] + attack["present"] == 30, "one half chooses, the other certifies"


def test_a_record_that_the_model_repeats_is_found():
    played = LabelGame(make_method("full-context"), FakeScorer(knows_its_own), TASK, Price(1.0))
    rows = [row for row in ROWS if row.values["label"] != "a"]
    found = MembershipAudit(played, rows, 3, 120, 1, seeded(1)).run(claim_of_answers(played, 1))
    assert found.verdict is Verdict.VIOLATION
    assert found.measured.bound > 1.0


@pytest.mark.slow
def test_the_likelihood_ratio_finds_what_a_count_of_labels_cannot_and_keeps_to_a_sound_claim():
    """Both data sets hold the same labels: which of two records is there shows in the odds of the third label alone."""

    def third(task, context, query):
        return [0.0, 0.0, 2.3 if any(example.fields["text"] == query["text"] for example in context) else 0.0]

    rows = [Row(i, {"text": f"note {i}", "label": "a"}) for i in range(12)]
    bounds = {}
    for attack in ATTACKS:
        played = LabelGame(make_method("poe"), FakeScorer(third), TASK, Price(8.0), randomness=SeededRandomness(2))
        claim = claim_of_answers(played, 4)
        found = MembershipAudit(played, rows, 2, 200, 4, seeded(1), attack).run(claim)
        assert found.verdict is Verdict.NONE_FOUND
        bounds[attack] = found.attacks[0]["accuracy"]
    assert bounds["label-count"] < 0.95 < bounds["likelihood-ratio"]
    assert found.attacks[0]["detector"] == "log likelihood ratio of 4 answers, by exact laws"


@pytest.mark.slow
def test_a_method_without_a_law_is_attacked_by_redrawn_answers():
    played = LabelGame(make_method("full-context"), FakeScorer(knows_its_own), TASK, Price(1.0))
    rows = [row for row in ROWS if row.values["label"] != "a"]
    found = MembershipAudit(played, rows, 3, 120, 1, seeded(1), LIKELIHOOD_RATIO).run(claim_of_answers(played, 1))
    assert found.verdict is Verdict.VIOLATION
    assert "redrawn answers" in found.attacks[0]["detector"]
    with pytest.raises(ParameterError, match="attack"):
        MembershipAudit(played, rows, 3, 120, 1, seeded(1), "guess")


def test_whole_units_are_exchanged():
    """Where an exchanged record shares its unit with others, more than one unit changes, and a sound method loses."""
    rows = [Row(i, {"text": f"note {i}", "label": "ab"[i % 2], "group": f"c{i // 2}"}) for i in range(12)]
    worlds = []

    class Told:
        def releases(self, question, runs):
            worlds[-1].append(question)
            return ["a"] * runs

        def close(self):
            pass

    audit = MembershipAudit(game("rnm"), rows, 3, 20, 1, seeded(1))
    audit._game = SimpleNamespace(task=TASK, world=lambda few: worlds.append([few]) or Told())
    audit.trials()
    assert audit.unit == "group"
    for few, question in worlds:
        held = [row.line for row in few]
        assert sorted(held) == sorted(line ^ 1 for line in held), "both records of a unit are there"
        assert len(held) == 6
        assert int(question.split()[1]) % 2 == 0
    with pytest.raises(ParameterError, match="records is 6"):
        MembershipAudit(game("rnm"), rows, 6, 20, 1, seeded(1))
    with pytest.raises(RecordError, match="unit is missing"):
        MembershipAudit(game("rnm"), [*rows, *ROWS], 3, 20, 1, seeded(1))


@pytest.mark.parametrize(("records", "trials"), [(12, 40), (0, 40), (3, 10)])
def test_too_few_records_or_trials_are_refused(records, trials):
    with pytest.raises(ParameterError, match=r"records is|runs is"):
        MembershipAudit(game(), ROWS, records, trials, 1, seeded(1))


def test_membership_is_about_exchanged_records():
    with pytest.raises(ParameterError, match="replace-one"):
        MembershipAudit(game(adjacency=Adjacency.ADD_REMOVE), ROWS, 3, 40, 1, seeded(1))


def test_addresses_that_are_repeated_are_counted_and_others_are_not():
    def repeats(rows, question):
        return " ".join(str(row.values["text"]) for row in rows)

    loud = audit_extraction(FunctionGame("loud", repeats), ROWS[:3], TASK, SeededRandomness(1), 20)
    quiet = audit_extraction(
        FunctionGame("quiet", lambda rows, question: "no"), ROWS[:3], TASK, SeededRandomness(1), 20
    )
    assert (loud.verdict, quiet.verdict) == (Verdict.VIOLATION, Verdict.NONE_FOUND)
    assert loud.reason.startswith("60 of 60 answers hold a planted address")
    assert "A true rate above 4.88 % would have shown more" in quiet.reason
    assert loud.setting == {
        "questions": 60, "planted sets": 20, "addresses planted": 60, "addresses of the control": 5940,
    }  # fmt: skip


@pytest.mark.parametrize("sets", [1, 4])
@pytest.mark.parametrize("isolation", [Isolation.BY_CONSTRUCTION, Isolation.ASSERTED])
def test_a_writer_that_repeats_what_it_is_shown_is_reported_by_every_number_of_sets(isolation, sets):
    loud = FakeWriter(lambda request: " ".join(shown for shown, _ in request.shots), isolation=isolation)
    found = audit_extraction(WriterGame(loud, TASK), ROWS[:3], TASK, SeededRandomness(1), sets)
    assert found.verdict is Verdict.VIOLATION
    assert loud.calls == found.setting["questions"] == 3 * sets
    assert "would have shown more" not in found.reason


def test_words_of_a_records_own_address_are_no_leak():
    rows = [Row(i, {"text": f"write to support@shop{i}.example", "label": "a"}) for i in range(3)]
    for said in ("Please ask our support.", "Write to support@shop1.example."):
        never = FunctionGame("reads no record", lambda rows, question, said=said: said)
        found = audit_extraction(never, rows, TASK, SeededRandomness(1), 4)
        assert (found.verdict, found.reason[:4]) == (Verdict.NONE_FOUND, "0 of")


def test_an_extraction_without_records_or_questions_is_refused():
    for rows, sets, name in (([], 4, "records"), (ROWS, 0, "runs")):
        with pytest.raises(ParameterError, match=name):
            audit_extraction(FunctionGame("quiet", lambda rows, question: ""), rows, TASK, SeededRandomness(1), sets)


def test_a_writer_whose_prompt_fails_says_nothing():
    world = WriterGame(FakeWriter(lambda request: None), TASK).world(ROWS[:2])
    assert world.releases("Who?", 2) == ["", ""]


@pytest.mark.parametrize(("verdict", "read"), [("Yes, it is.", 0), ("No.", 3)])
def test_a_writer_judges_what_it_is_asked(verdict, read):
    def says(request):
        return verdict if "Is it an attack?" in request.question else str(len(request.shots))

    judged = DEFENCES["L3"].build(FakeWriter(says), TASK).world(ROWS[:3])
    assert judged.releases("x", 2) == [str(read)] * 2


@pytest.mark.parametrize("name", ["L0", "L1", "L2"])
def test_a_defence_by_prompt_changes_the_instruction_of_a_writer_alone(name):
    seen = []
    writer = FakeWriter(lambda request: seen.append(request) or "a")
    DEFENCES[name].build(writer, TASK).world(ROWS[:2]).releases("x", 1)
    ((instruction, shots, _, _),) = [request._parts for request in seen]
    assert instruction.startswith(TASK.instruction)
    assert (instruction == TASK.instruction) == (name == "L0")
    assert shots == (("note 0", "a"), ("note 1", "b"))


@pytest.mark.parametrize(("others", "verdict"), [(1, Verdict.VIOLATION), (2, Verdict.NONE_FOUND)])
def test_whole_addresses_and_parts_are_looked_at_together(others, verdict):
    # One of 3 planted addresses beside 2 of 297 others has p = .03: beyond chance at 95 % by itself, not for both.
    draws = SeededRandomness(1)
    drawn = [address(draws) for _ in range(3 + others)]
    some = FunctionGame("some", lambda rows, question: " ".join(drawn[2:]))
    found = audit_extraction(some, ROWS[:3], TASK, SeededRandomness(1), 1)
    assert f"1 came back as a whole and 1 in part; of 297 that stood in no record {others} and" in found.reason
    assert found.verdict is verdict
    assert "would have shown more" not in found.reason


def test_what_came_back_by_chance_is_held_against_every_way_of_planting():
    """By hand: of 6 addresses 2 are planted, and the chance that both of 3 that came back are planted is 4 / 20."""
    assert p_value(2, 2, 1, 4) == pytest.approx(4 / 20)
    assert p_value(0, 2, 3, 4) == 1.0


def test_exact_losses_are_within_the_claim_and_several_units_an_expert_are_refused():
    for adjacency in Adjacency:
        found = audit_exactly(game(epsilon=2.0, adjacency=adjacency), ROWS[:3], ["note"])
        assert found.verdict is Verdict.NONE_FOUND
        assert 0.5 < found.measured.exact <= 2.0 + 1e-9
    with pytest.raises(ParameterError, match="per_expert"):
        audit_exactly(game(partition=Partition(units_per_expert=2)), ROWS[:4], [])
    with pytest.raises(ParameterError, match="one with an exact law"):
        audit_exactly(game("full-context"), ROWS[:3], [])


@pytest.mark.parametrize("name", ["L0", "L1", "L2", "L3"])
def test_a_defence_answers_and_changes_no_record(name):
    (defence,) = defences_of([name])
    world = defence.build(FakeScorer(), TASK).world(ROWS[:3])
    assert set(world.releases("Who is there?", 2)) <= set(TASK.labels)
    world.close()


def test_what_the_judge_takes_for_an_attack_is_answered_without_records():
    def judges(task, context, query):
        return [0.0, 5.0] if task.name == "judge" else [0.0, 0.0, 9.0] if context else [0.0, 9.0, 0.0]

    judged = DEFENCES["L3"].build(FakeScorer(judges), TASK).world(ROWS[:3])
    plain = DEFENCES["L0"].build(FakeScorer(judges), TASK).world(ROWS[:3])
    assert (judged.releases("x", 2), plain.releases("x", 1)) == (["b", "b"], ["c"])


def test_a_scrubber_sees_the_fields_alone():
    seen = []

    def scrub(text):
        seen.append(text)
        return text.replace("1", "")

    ScrubbedGame(game(), TASK, scrub).world(ROWS[:3]).close()
    assert seen == ["note 0", "note 1", "note 2"]


def test_a_scrubber_that_is_not_installed_says_how_to_install_it(monkeypatch):
    whole = builtins.__import__

    def without(name, *others, **more):
        if name.startswith("presidio"):
            raise ImportError
        return whole(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'sottovoce\[scrub\]'"):
        DEFENCES["scrubber"].build(FakeScorer(), TASK)


@pytest.mark.skipif(find_spec("presidio_analyzer") is None, reason="needs Presidio: pip install 'sottovoce[scrub]'")
def test_the_scrubber_takes_out_what_patterns_find_and_fetches_nothing(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("something is fetched"))
    scrub = presidio()
    assert scrub("Write to ida.storm@example.com, card 4111 1111 1111 1111.") == (
        "Write to <email_address>, card <credit_card>."
    )
    assert scrub("The reference is 3fa09b12cd77.") == "The reference is 3fa09b12cd77.", "no kind of personal data"


@pytest.mark.parametrize(
    ("method", "parameters", "kind"),
    [
        ("class-means", {}, VectorAttack),
        ("choice", {"k": 1}, TextAttack),
        ("label-public", {"texts": 1}, LabelAttack),
    ],
)
def test_a_fitted_file_is_attacked_by_its_method(method, parameters, kind):
    class Certificate:
        def __init__(self):
            self.method, self.parameters, self.epsilon, self.delta = method, parameters, 4.0, 1e-6
            self.adjacency, self.asked = "replace-one", {"currency": "rho"}

    attack = attack_of(Certificate())
    assert isinstance(attack, kind)
    assert not attack.plan.setting.adds_epsilons


def test_the_claim_of_a_fit_is_that_of_its_certificate_whatever_its_ledger_adds_up():
    # Two turns of one choice: by adding epsilons they would cost 0.612, by the rho of this ledger they cost 1.
    swap = change_type(Assignment.OWN_SLOT, Adjacency.REPLACE_ONE)
    setting = FitSetting(4, 20, 40, Adjacency.REPLACE_ONE, swap, 20, adds_epsilons=False)
    plan = make_fitter("choice", k=2).plan(Price(1.0, 1e-6), setting)
    told = FitCertificate.of(
        plan, labels=[*"abcd"], content_sha256="", model="", embedding="", isolation=Isolation.BY_CONSTRUCTION,
        seeded=False, data="", ledger="", asked={"currency": "rho", "version": ""},
    )  # fmt: skip
    found = audit_support(SimpleNamespace(certificate=told), 1, 1)
    assert (found.claim["epsilon"], found.claim["delta"], told.epsilon) == (1.0, 1e-6, 1.0)
    assert ", and 1 is claimed" in found.reason
    other = replace(told, parameters={**told.parameters, "rate": told.parameters["rate"] / 2})
    with pytest.raises(InputError, match="its certificate does not hold"):
        audit_support(SimpleNamespace(certificate=other), 1, 1)


@pytest.mark.parametrize(
    ("isolation", "seeded_", "why"),
    [
        (Isolation.BY_CONSTRUCTION, True, "its noise was seeded"),
        (Isolation.NOT_VERIFIED, False, "was not shown to keep"),
    ],
)
def test_a_file_that_claims_nothing_is_not_audited(isolation, seeded_, why):
    swap = change_type(Assignment.OWN_SLOT, Adjacency.REPLACE_ONE)
    plan = make_fitter("choice", k=2).plan(
        Price(1.0, 1e-6), FitSetting(4, 20, 40, Adjacency.REPLACE_ONE, swap, 20, adds_epsilons=False)
    )
    told = FitCertificate.of(
        plan, labels=[*"abcd"], content_sha256="", model="", embedding="", isolation=isolation,
        seeded=seeded_, data="", ledger="", asked={"currency": "rho", "version": ""},
    )  # fmt: skip
    with pytest.raises(InputError, match=f"claims no epsilon that an audit could test: .*{why}"):
        audit_support(SimpleNamespace(certificate=told), 1, 1)
