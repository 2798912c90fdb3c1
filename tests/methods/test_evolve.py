"""Private evolution: the exact law of two rounds, its price, what the writer is given, and what its failures do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from scripted import exact_law
from sottovoce.errors import ModelError, ParameterError
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import Block, Likeness
from sottovoce.fitting.fit import Fitting, fit
from sottovoce.fitting.fitted import Fitted
from sottovoce.mechanisms import exponential
from sottovoce.mechanisms.samplers.integer_weights import WeightTable
from sottovoce.methods.base import Price
from sottovoce.methods.choice import Choice
from sottovoce.methods.evolve import Evolve, EvolveStep
from sottovoce.methods.fitting.fitter import FitPlan, FitSetting
from sottovoce.methods.fitting.writing import LONGEST, ModelWriter
from sottovoce.models.fake import CHARACTERS, FakeScorer, FakeStepper
from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import BoundedRange, SelfComposedDpEvent
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import DROP, SWAP, Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Example, Task
from worlds import hockey_stick, losses

AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
A, B = 0, 1
TINY = WeightTable(shift=1, floor=3, blocks=(3, 2, 1), digits=(np.array([2, 1], dtype=np.uint64),))
WORLD = Task(labels=["a", "b"])
VECTORS = {
    "up": (0.0, 1.0, 0.0),
    "down": (0.0, -1.0, 0.0),
    "up, varied": (0.6, 0.8, 0.0),
    "down, varied": (0.0, -0.8, 0.6),
}
POOL = [{"text": "up"}, {"text": "down"}]
UNITS = [((A, (0.0, 1.0, 0.0)),), ((B, (0.6, 0.8, 0.0)),)]
OTHERS = [
    ((A, (0.6, 0.8, 0.0)),),
    ((A, (0.0, -1.0, 0.0)),),
    ((B, (0.0, -0.8, 0.6)),),
    ((A, (0.0, 1.0, 0.0)), (B, (0.0, -1.0, 0.0))),
]


class Scribe:
    """A writer that varies every text once, by rule, and notes what it was shown."""

    def __init__(self):
        self.shown = []

    def variations(self, shown, each, tokens, turn):
        self.shown.append([(example.fields["text"], example.label) for example in shown])
        return [{"text": f"{example.fields['text']}, varied"} for example in shown]


class Unread(Choice):
    """A method that reads no public texts."""

    pool = "unused"


class Embeds:
    def embed_questions(self, task, queries):
        return np.array([VECTORS[query["text"]] for query in queries])


def public(writer=None):
    vectors = np.array([VECTORS[query["text"]] for query in POOL])
    return SimpleNamespace(task=WORLD, pool=POOL, vectors=vectors, embedder=Embeds(), writer=writer or Scribe())


def setting(adjacency, units=3, candidates=2, labels=2, **more):
    return FitSetting(labels, 3, units, adjacency, change_type(Assignment.OWN_SLOT, adjacency), candidates, **more)


def plan_of(method, adjacency, labels=2) -> FitPlan:
    world = setting(adjacency, labels=labels)
    event = method.event(world)
    return FitPlan(method, world, event, event, world.cost(event, 0.0), 1.0)


def block(units):
    records = [(owner, *record) for owner, unit in enumerate(units) for record in unit]
    owners, labels, vectors = zip(*records, strict=True) if records else ((), (), np.zeros((0, 3)))
    return Block(np.array(vectors), labels, owners)


def private(units):
    return SimpleNamespace(sum_of=lambda rule: rule.add_up(block(units)))


def law_of(units, adjacency, rate=0.5, labels=2):
    """The joint law of two rounds of one text a label: what round 1 chose, and what round 2 chose, as texts."""
    one, world = Choice(k=1, rate=rate, noise=0), setting(adjacency, labels=labels)
    mapped, _ = PublicMap.concentrating(public().vectors, 0.0)

    def turn(texts):
        vectors = mapped(np.array([VECTORS[text] for text in texts]))
        rule = Likeness(labels, vectors, one.floor, one.ceiling, mapped)
        law = one.law(rule.add_up(block(units)), rule, world)
        return {tuple(texts[index] for (index,) in chosen): p for chosen, p in law.items()}

    law = {}
    for first, p in turn(["up", "down"]).items():
        winners = list(dict.fromkeys(first))
        for second, q in turn([*winners, *(f"{text}, varied" for text in winners)]).items():
            law[first, second] = p * q
    return law


# The law


def test_every_branch_of_two_rounds_adds_up_to_their_law(monkeypatch):
    monkeypatch.setattr(exponential, "weight_table", lambda rate: TINY)
    method = Evolve(rounds=2, k=1, rate=0.5, noise=0, variations=1)
    plan = plan_of(method, AR, labels=1)

    def drawn(source):
        scribe = Scribe()
        support = method.fit(plan, private(UNITS[:1]), public(scribe), source)
        ((first,),) = scribe.shown
        return (first[0],), tuple(example.fields["text"] for example in support.examples)

    assert exact_law(drawn) == law_of(UNITS[:1], AR, labels=1)
    assert len(law_of(UNITS[:1], AR, labels=1)) == 4


@pytest.mark.slow
def test_draws_of_two_labels_follow_the_law_and_not_that_of_half_the_noise():
    # What the writer was shown is round 1 without its order: 3 sets. Pearson's statistic has at most 31 degrees of
    # freedom: above 110 once in 1e10 of such tests.
    method, scribe, source, n = Evolve(rounds=2, k=1, rate=2.0, noise=0), Scribe(), SeededRandomness(5), 2000
    plan, seen = plan_of(method, AR), Counter()
    for _ in range(n):
        support = method.fit(plan, private(UNITS), public(scribe), source)
        shown = frozenset(text for text, _ in scribe.shown.pop())
        seen[shown, tuple(example.fields["text"] for example in support.examples)] += 1

    def statistic(rate):
        law = Counter()
        for (first, second), p in law_of(UNITS, AR, rate=rate).items():
            law[frozenset(first), second] += p
        assert set(seen) <= set(law)
        return sum((seen[outcome] - n * float(p)) ** 2 / (n * float(p)) for outcome, p in law.items())

    assert statistic(2.0) < 110
    assert statistic(4.0) > 110


@pytest.mark.parametrize("adjacency", [AR, RO], ids=str)
def test_two_rounds_are_within_two_turns_and_not_within_one(adjacency):
    eta = 0.5 if adjacency is AR else 1.0
    event = Evolve(rounds=2, k=1, rate=0.5, noise=0).event(setting(adjacency))
    assert event == SelfComposedDpEvent(BoundedRange(eta), 2)
    points = [(d, RdpAccountant(adjacency).compose(event).report(d).epsilon) for d in (0.0, 1e-3, 0.03, 0.2)]
    worst = 0.0
    left = [[]] if adjacency is AR else [[unit] for unit in OTHERS]
    for rest in ([], UNITS):
        for unit in OTHERS:
            for other in left:
                p, q = (list(law_of([*rest, *units], adjacency).values()) for units in ([unit], other))
                worst = max(worst, float(abs(losses(p, q)).max()))
                for delta, epsilon in points:
                    assert max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta + 1e-12
    assert worst <= 2 * eta + 1e-12
    assert worst > eta * 0.75, "both rounds tell something of the unit that changed"


def test_one_round_is_choice():
    for adjacency in (AR, RO):
        one = Evolve(rounds=1, k=1).plan(Price(4.0, 1e-6), setting(adjacency))
        same = Choice(k=1).plan(Price(4.0, 1e-6), setting(adjacency))
        assert (one.fitter.rate, one.fitter.noise, one.event) == (same.fitter.rate, same.fitter.noise, same.event)
        evolved, chosen = (plan.fitter.fit(plan, private(UNITS), public(), SeededRandomness(3)) for plan in (one, same))
        assert texts_of(evolved) == texts_of(chosen)
        assert np.array_equal(evolved.classifier.weights, chosen.classifier.weights)


# The price


@pytest.mark.parametrize("adjacency", [AR, RO, ZO], ids=str)
@pytest.mark.parametrize(("rounds", "k"), [(2, 1), (3, 2), (16, 1)])
def test_a_pure_price_is_shared_between_all_turns_of_all_rounds(adjacency, rounds, k):
    plan = Evolve(rounds=rounds, k=k).plan(Price(4.0), setting(adjacency, candidates=9))
    widths = 2 if adjacency is RO else 1
    assert plan.fitter.rate == pytest.approx(4.0 / (rounds * k * widths))
    assert plan.event == SelfComposedDpEvent(BoundedRange(plan.fitter.rate * widths), rounds * k)
    assert plan.report.epsilon <= 4.0


@pytest.mark.parametrize("adds_epsilons", [True, False], ids=["epsilons", "rho"])
def test_a_rate_meets_the_price_in_either_ledger_and_a_larger_one_does_not(adds_epsilons):
    world = setting(RO, candidates=20, adds_epsilons=adds_epsilons)
    plan = Evolve(rounds=3).plan(Price(4.0, 1e-6), world)
    assert world.cost(plan.event, 1e-6).epsilon == plan.report.epsilon <= 4.0
    with pytest.raises(ParameterError, match="epsilon"):
        Evolve(rounds=3, rate=plan.fitter.rate * 1.001).plan(Price(4.0, 1e-6), world)


def test_the_step_tells_its_turns_and_its_sensitivity():
    step = EvolveStep(rate=0.5, k=3, rounds=2)
    assert (step.steps, step.sensitivity(DROP).value, step.sensitivity(SWAP).value) == (6, 1, 2)


@pytest.mark.parametrize(
    ("method", "world", "says"),
    [
        (Evolve(k=4), setting(RO, candidates=3), "at most 3, the number of different public texts"),
        (Evolve(), setting(RO, candidates=0), "--public"),
        (Evolve(k=32, variations=64), FitSetting(10_000, 3, 9, RO, SWAP, 40), "candidates of a later round"),
    ],
    ids=["fewer than k", "none", "too many"],
)
def test_what_does_not_suit_is_refused(method, world, says):
    with pytest.raises(ParameterError, match=says):
        method.plan(Price(4.0), world)
    with pytest.raises(ParameterError, match="floor"):
        Evolve(floor=0.5, ceiling=0.5)


# The writer

WORDS = {"billing": "a fee was charged twice", "fraud": "somebody used my card"}
TASK = Task(labels=list(WORDS))
TEXTS = ["a fee was charged again", "somebody used it", "the weather is nice", "my card"]
SECRET = "xylograph"


def records(n=100):
    rows = [Row(i, {"text": f"{SECRET} {WORDS[label]} {i}", "label": label}) for i in range(n) for label in WORDS]
    return PrivateRecords(rows, source="notes")


def how(**more):
    options = {"method": Evolve(k=1), "ledger": ":memory:", "pool": TEXTS, "model": FakeScorer(), **more}
    return {"epsilon": 8.0, "delta": 1e-6, **options}


END = len(CHARACTERS)


def only(token):
    """Logits of one token and hardly any other."""
    return [50.0 if other == token else -50.0 for other in range(END + 2)]


def texts_of(support):
    return [(example.fields["text"], example.label) for example in support.examples]


class Failing(FakeStepper):
    """Fails from a given read on."""

    def __init__(self, reads, error=RuntimeError):
        super().__init__()
        self.reads, self.error = reads, error

    def read(self, groups, **more):
        self.reads -= 1
        if self.reads < 0:
            raise self.error("gone")
        return super().read(groups, **more)


def test_texts_are_chosen_varied_and_answer_for_good():
    fitted = fit(records(), TASK, **how(writer=FakeStepper()))
    assert [example.label for example in fitted.support.examples] == [0, 1]
    assert fitted.predict(["a fee was charged", "somebody used my card"]) == ["billing", "fraud"]
    again = Fitted.from_bytes(fitted.to_bytes(), "x.sotto")
    again.use(FakeScorer())
    assert np.array_equal(again.log_probabilities(TEXTS), fitted.log_probabilities(TEXTS))
    assert all(check.holds is not False for check in again.certificate.checks(again.content_sha256))
    assert fitted.certificate.asked["writer"] == "fake"


def test_a_variation_like_the_records_takes_the_place_of_what_it_was_made_of():
    # The writer writes a record's words: with 200 records of each label round 2 prefers them to what round 1 had.
    class Knows:
        def variations(self, shown, each, tokens, turn):
            return [{"text": text} for text in WORDS.values()]

    fitting = Fitting(records(), TASK, **how(method=Evolve(k=1, noise=0, ceiling=1.0), writer=FakeStepper()))
    inputs = replace(fitting._rehearsed(), writer=Knows())
    sums = SimpleNamespace(sum_of=lambda rule: rule.add_up(_block()))
    support = fitting.plan.fitter.fit(fitting.plan, sums, inputs, SeededRandomness(1))
    assert [example.fields["text"] for example in support.examples] == list(WORDS.values())


def _block():
    vectors = FakeScorer().embed_questions(TASK, [{"text": text} for text in WORDS.values()])
    return Block(np.repeat(vectors, 200, axis=0), np.repeat([0, 1], 200).tolist(), range(400))


def test_nothing_private_reaches_the_writer_in_any_prompt():
    class Spy(FakeStepper):
        def __init__(self):
            super().__init__()
            self.prompts = []

        def read(self, groups, **more):
            self.prompts += [group.public for group in groups]
            assert not any(group.experts for group in groups)
            return super().read(groups, **more)

    spy = Spy()
    fit(records(), TASK, **how(writer=spy))
    assert len(spy.prompts) > 1
    for prompt in spy.prompts:
        whole = prompt.prefix + prompt.private_text + prompt.suffix
        assert SECRET not in whole
        assert prompt.private_text == ""
        assert any(text in whole for text in TEXTS)
    assert spy.prompts_read == 0


def test_a_writer_that_fails_before_the_charge_is_refused_and_nothing_is_charged():
    from sottovoce.privacy.ledger.ledger import Ledger

    ledger = Ledger(":memory:")
    fitting = Fitting(records(), TASK, **how(writer=Failing(0), ledger=ledger))
    with pytest.raises(ModelError, match="Nothing was charged"):
        fitting.run()
    assert fitting.balance.spent == 0


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, ModelError], ids=lambda error: error.__name__)
def test_a_writer_that_fails_between_rounds_leaves_the_texts_and_draws_nothing_again(error, monkeypatch):
    drawn = []
    choose = Choice.choose
    monkeypatch.setattr(Choice, "choose", lambda self, *given: drawn.append(1) or choose(self, *given))
    fitted = fit(records(), TASK, **how(method=Evolve(k=1, rounds=3), writer=Failing(1, error)))
    assert len(drawn) == 3
    assert {example.fields["text"] for example in fitted.support.examples} <= set(TEXTS)
    assert len(fitted.support.examples) == 2


def test_what_a_writer_wrote_before_it_failed_is_kept():
    shown = [Example({"text": f"a fee was charged {number}"}, 0) for number in range(40)]
    every, some = (ModelWriter(TASK, Failing(reads)).variations(shown, 1, 8, 0) for reads in (2, 1))
    assert 0 < len(some) < len(every)
    assert some == every[: len(some)]


def test_a_writer_that_is_silent_and_words_that_cannot_be_embedded_are_no_error():
    blank = FakeStepper(lambda prompt, text: only(END))
    fitted = fit(records(), TASK, **how(writer=blank))
    assert {example.fields["text"] for example in fitted.support.examples} <= set(TEXTS)

    class Deaf(Embeds):
        def embed_questions(self, task, queries):
            raise ValueError("cannot be embedded")

    method, world = Evolve(rounds=2, k=1, rate=0.5, noise=0), public()
    world.embedder = Deaf()
    support = method.fit(plan_of(method, AR), private(UNITS), world, SeededRandomness(4))
    assert {example.fields["text"] for example in support.examples} <= {"up", "down"}
    world.embedder = SimpleNamespace(embed_questions=lambda task, queries: np.full((len(queries), 3), np.nan))
    support = method.fit(plan_of(method, AR), private(UNITS), world, SeededRandomness(4))
    assert {example.fields["text"] for example in support.examples} <= {"up", "down"}


def test_a_writer_is_refused_where_nothing_is_written_and_candidates_where_texts_are_given():
    with pytest.raises(ParameterError, match="nothing is written"):
        Fitting(records(), TASK, **how(method="choice", writer=FakeStepper()))
    with pytest.raises(ParameterError, match="where public texts are given"):
        Fitting(records(), TASK, **how(method="choice", candidates=3))
    with pytest.raises(ParameterError, match="reads no public texts"):
        Fitting(records(), TASK, **how(method=Unread(), pool=None, candidates=3))
    with pytest.raises(ParameterError, match="candidates"):
        Fitting(records(), TASK, **how(method="choice", pool=None, candidates=0))


# Candidates that a model writes


@pytest.mark.slow
def test_candidates_are_written_from_public_words_each_once_and_always_the_same():
    prompts = []

    def likes(prompt, text):
        prompts.append(prompt.prefix + prompt.private_text + prompt.suffix)
        return FakeStepper().echo(prompt, text)

    writer = ModelWriter(TASK, FakeStepper(likes))
    texts = writer.candidates(6)
    assert 1 <= len(texts) <= 6
    assert len({text["text"] for text in texts}) == len(texts)
    assert all(label in " ".join(prompts) for label in TASK.labels)
    assert SECRET not in " ".join(prompts)
    assert ModelWriter(TASK, FakeStepper()).candidates(6) == texts
    fitted = fit(records(), TASK, **how(method="choice", pool=None, candidates=6, writer=FakeStepper()))
    assert fitted.certificate.candidates == len(texts)
    assert {example.fields["text"] for example in fitted.support.examples} <= {text["text"] for text in texts}


def test_candidates_that_cannot_be_written_are_refused_before_a_ledger_is_opened(tmp_path):
    for writer, says in ((Failing(0), "failed as it wrote"), (FakeStepper(lambda prompt, text: only(END)), "no text")):
        with pytest.raises(ModelError, match=says):
            Fitting(
                records(),
                TASK,
                **how(method="choice", pool=None, candidates=3, writer=writer, ledger=str(tmp_path / "l.db")),
            )
    assert not (tmp_path / "l.db").exists()


@pytest.mark.slow
def test_variations_are_read_as_the_tasks_fields_and_too_long_ones_are_left_out():
    both = Task(labels=["a", "b"], query="{title}: {body}", example="{title}: {body} {label}")
    example = Example({"title": "t", "body": "b"}, 0)

    def spells(line):
        return FakeStepper(lambda prompt, text: only(pieces.index(line[len(text)])), pieces=pieces)

    pieces = (*(piece for piece in CHARACTERS if piece not in "%#"), *"{}")
    lines = ('{"title": "x", "body": "y"}\n', '{"title": "x"}\n', "no object\n")
    kept = [ModelWriter(both, spells(line)).variations([example], 1, 60, 0) for line in lines]
    assert kept == [[{"title": "x", "body": "y"}], [], []]
    long = FakeStepper(lambda prompt, text: only(CHARACTERS.index("a")))
    few, many = (ModelWriter(TASK, long).variations([Example({"text": "a"}, 0)], 1, n, 0) for n in (9, LONGEST + 10))
    assert (few, many) == ([{"text": "a" * 9}], [])


def test_a_ledger_of_rho_is_charged_all_turns():
    fitted = fit(records(), TASK, **how(writer=FakeStepper(), budget=Budget(8.0, 1e-6)))
    assert fitted.certificate.charge == fitted.certificate.event
    assert fitted.certificate.charge["event"] == "SelfComposedDpEvent"


def test_the_same_texts_are_varied_otherwise_in_another_round_and_alike_in_the_same():
    writer, shown = ModelWriter(TASK, FakeStepper()), [Example({"text": "a fee was charged twice on my bill"}, 0)]
    first, again, second = (writer.variations(shown, 3, 20, turn) for turn in (0, 0, 1))
    assert first == again
    assert first != second
