"""An expert on whom the model fails adds zero: to nobody else's row, and to no law more than its price allows."""

from __future__ import annotations

import asyncio
import math
import pickle
import traceback
from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import anyio
import numpy as np
import pytest
import torch

from sottovoce.errors import ModelError
from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.label_scores import normalized
from sottovoce.experts.partition import Partition
from sottovoce.experts.reading import Reading
from sottovoce.experts.subsample import SampledEnsemble
from sottovoce.methods.base import Price
from sottovoce.methods.poe import PoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.failures import is_shared
from sottovoce.models.fake import FakeScorer, one_shot
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Example, Task

TASK = Task(labels=["billing", "fraud", "shipping"])
QUERIES = [{"text": "one"}, {"text": "two"}]
GOOD = [[Example({"text": f"note {i}"}, i % 3)] for i in range(4)]
BAD = [Example({"text": "poison"}, 2)]


class Stops(Exception):
    """What a model raises."""


def poisoned(context, query=None):
    return any(example.fields["text"].startswith("poison") for example in context)


def raises(error):
    def score(task, context, query):
        if poisoned(context):
            raise error
        return one_shot(task, context, query)

    return FakeScorer(score)


def says(answer):
    return FakeScorer(lambda task, context, query: answer if poisoned(context) else one_shot(task, context, query))


class StopsReading:
    """A model that fails while it reads, and takes down whoever is read together with a bad one."""

    name = "stops"

    def __init__(self, error=None):
        self.error, self.inner = error or Stops(), FakeScorer()
        self.isolation = self.inner.isolation

    def prepare(self, task, contexts):
        if any(map(poisoned, contexts)):
            raise self.error
        return self.inner.prepare(task, contexts)


MODELS = {
    "raises on a question": lambda: raises(Stops()),
    "raises while it reads": StopsReading,
    "raises its own error": lambda: raises(ModelError("too long")),
    "says too much": lambda: says([0.0] * 4),
    "says too little": lambda: says([0.0]),
    "says words": lambda: says(["a", "b", "c"]),
    "says a table": lambda: says([[0.0] * 3] * 3),
    "says NaN": lambda: says([math.nan] * 3),
    "says infinity": lambda: says([math.inf, 0.0, 0.0]),
}


@pytest.fixture(autouse=True)
def _no_warnings():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("model", MODELS)
def test_whom_the_model_fails_on_is_null_and_nobody_else_is_touched(model):
    alone = Reading(FakeScorer(), TASK, GOOD).score(QUERIES)
    for place in (0, 2, 4):
        reading = Reading(MODELS[model](), TASK, [*GOOD[:place], BAD, *GOOD[place:]])
        for _ in range(2):
            found = reading.score(QUERIES)
            assert not np.isfinite(found[:, place]).all(axis=-1).any()
            assert np.delete(found, place, axis=1).tobytes() == alone.tobytes()
        reading.close()


def test_an_expert_is_null_for_the_questions_it_fails_on_alone():
    def score(task, context, query):
        if poisoned(context) and query["text"] == "two":
            raise Stops
        return one_shot(task, context, query)

    found = Reading(FakeScorer(score), TASK, [BAD, *GOOD]).score(QUERIES)
    assert np.isfinite(found).all(axis=-1).tolist() == [[True] * 5, [False] + [True] * 4]


class SoftTimeLimitExceeded(Exception):
    """What a queue of tasks raises in whatever is running when its time is over."""


class PanicException(BaseException):
    """What a library written in Rust raises: no ``Exception``."""


def wrapped(inner):
    """An error that was raised in place of another one, as one that hides where it came from."""
    try:
        try:
            raise inner
        except BaseException:
            raise ModelError("stopped") from None
    except ModelError as error:
        return error


ALLOCATOR = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"
SHARED = [
    MemoryError(),
    ModelError("busy", retryable=True),
    RuntimeError(ALLOCATOR),
    RuntimeError("can't start new thread"),
    PanicException("failed to spawn thread"),
    RuntimeError("could not create a memory object"),
    RuntimeError("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"),
    OSError("out of memory when reading image file"),
    SoftTimeLimitExceeded(),
    OSError(24, "Too many open files"),
    ConnectionError("gone"),
    wrapped(RuntimeError(ALLOCATOR)),
    wrapped(MemoryError()),
]


def test_the_processors_allocator_is_heard():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_shared(caught.value, None)
    assert not is_shared(RuntimeError("shapes do not fit"), None)


@pytest.mark.parametrize("before", ["", "torch: ", "(", "a_"])
def test_a_word_is_heard_where_it_begins_and_not_inside_another_one(before):
    for word in ("HIP error: out of order", "bad_alloc", "alloc_failed", "allocate memory", "spawn thread"):
        assert is_shared(RuntimeError(before + word), None), word
    assert is_shared(RuntimeError("cannot reallocate memory"), None)
    for own in ("membership error", "relationship error in row 3"):
        assert not is_shared(RuntimeError(before + own), None), own


def test_a_decoders_words_are_heard():
    # Pillow has them for one of its decoders. As it raises them there, they would else count as damage.
    pillow = pytest.importorskip("PIL.ImageFile")
    with pytest.raises(OSError, match="out of memory") as caught:
        raise_in(pillow, OSError("out of memory when reading image file"))
    assert is_shared(caught.value, None)
    with pytest.raises(OSError, match="broken") as caught:
        raise_in(pillow, OSError("broken data stream when reading image file"))
    assert not is_shared(caught.value, None)


def raise_in(module, error):
    """Raises an error as if code of this module did."""
    exec("def raising(error):\n    raise error\n", made := {"__name__": module.__name__})
    made["raising"](error)


@pytest.mark.parametrize("error", SHARED, ids=repr)
@pytest.mark.parametrize("model", [raises, StopsReading])
def test_what_experts_share_fails_the_whole_answer(model, error):
    with pytest.raises(ModelError):
        Reading(model(error), TASK, [*GOOD, BAD]).score(QUERIES)


def test_a_model_that_is_broken_from_then_on_fails_the_whole_answer_and_makes_nobody_null():
    # Else one record would silence everybody behind it, which no sensitivity covers.
    broken = []

    def score(task, context, query):
        if poisoned(context):
            broken.append(True)
        if broken:
            raise Stops
        return one_shot(task, context, query)

    with pytest.raises(ModelError, match=r"\(Stops\)"):
        Reading(FakeScorer(score), TASK, [*GOOD, BAD]).score(QUERIES)


@pytest.mark.parametrize("raised", [True, False])
@pytest.mark.parametrize("answer", [[math.nan] * 3, [0.0, 0.0, 9.0]])
def test_a_model_that_says_other_things_from_then_on_fails_the_whole_answer(raised, answer):
    broken = []

    def score(task, context, query):
        if poisoned(context):
            broken.append(True)
            if raised:
                raise Stops
            return [math.nan] * 3
        return answer if broken else one_shot(task, context, query)

    rehearsed = FakeScorer().prepare(TASK, [()]).score(QUERIES)[:, 0]
    with pytest.raises(ModelError, match=r"failed while it read private examples \(ModelError\)"):
        Reading(FakeScorer(score), TASK, [BAD, *GOOD]).score(QUERIES, rehearsed)


@pytest.mark.parametrize("retryable", [True, False])
def test_words_of_a_model_stay_here_and_only_whether_to_try_again_leaves(retryable):
    model = FakeScorer(lambda *_: (_ for _ in ()).throw(ModelError("quotes poison", retryable=retryable)))
    with pytest.raises(ModelError) as caught:
        Reading(model, TASK, [BAD]).score(QUERIES)
    assert "poison" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert caught.value.retryable is retryable


def test_a_panic_is_a_failure_and_an_order_to_stop_is_none():
    found = Reading(raises(PanicException("no")), TASK, [*GOOD, BAD]).score(QUERIES)
    assert np.isfinite(found).all(axis=(0, 2)).tolist() == [True] * 4 + [False]
    for stop in (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, Timeout):
        for model in (raises, StopsReading):
            with pytest.raises(stop):
                Reading(model(stop()), TASK, [*GOOD, BAD]).score(QUERIES)


class Timeout(BaseException):
    """As that of gevent."""


def hides_its_memory(task, context, query):
    if poisoned(context):
        try:
            raise MemoryError
        except MemoryError:
            raise ModelError("stopped") from None
    return one_shot(task, context, query)


@pytest.mark.parametrize("handled", [FileNotFoundError(2, "no cache"), ModelError("busy", retryable=True)], ids=repr)
@pytest.mark.parametrize("model", [lambda: raises(Stops()), StopsReading])
def test_what_the_caller_is_handling_has_no_part_in_a_failure(model, handled):
    # Python attaches it to whatever is raised meanwhile. A second try in an ``except`` is what ``retryable`` asks for.
    base = Reading(model(), TASK, [*GOOD, BAD]).score(QUERIES)
    try:
        try:
            raise MemoryError
        except MemoryError:
            raise handled from None
    except Exception:
        found = Reading(model(), TASK, [*GOOD, BAD]).score(QUERIES)
        with pytest.raises(ModelError):  # what led to a failure still counts
            Reading(FakeScorer(hides_its_memory), TASK, [*GOOD, BAD]).score(QUERIES)
    assert found.tobytes() == base.tobytes()


@pytest.mark.parametrize("others", [[], [BAD]])
def test_a_model_that_never_repeats_itself_is_found_out_whether_or_not_anybody_is_null(others):
    # Else "is anybody null?" would be told by whether an answer comes.
    times = []

    def score(task, context, query):
        times.append(query)
        return [math.nan] * 3 if poisoned(context) else [0.0, 1.0, 2.0 + 1e-12 * len(times)]

    model = FakeScorer(score)
    rehearsed = model.prepare(TASK, [()]).score(QUERIES)[:, 0]
    with pytest.raises(ModelError, match=r"failed while it read private examples \(ModelError\)"):
        Reading(model, TASK, [*GOOD, *others]).score(QUERIES, rehearsed)
    sampled = SampledEnsemble(
        records([*NOTES, *("poison" for _ in others)]), TASK, model, Adjacency.ADD_REMOVE,
        sampling_probability=0.5, subsamples=4, randomness=SeededRandomness(3), max_records=4,
    )  # fmt: skip
    with pytest.raises(ModelError, match=r"failed while it read private examples \(ModelError\)"):
        sampled.ask(QUERIES, rehearsed)


@pytest.mark.parametrize("there", [True, False])
def test_a_model_that_never_repeats_itself_is_found_out_whether_or_not_anybody_is_there(there):
    # Else "is there any record?" would be told by whether an answer comes.
    times = []

    def score(task, context, query):
        times.append(query)
        return [0.0, 1.0, 2.0 + 1e-12 * len(times)]

    model = FakeScorer(score)
    rehearsed = model.prepare(TASK, [()]).score(QUERIES)[:, 0]
    row = {"text": "note", "label": "fraud"} if there else {"text": "", "label": ""}
    sealed = PrivateRecords([Row(1, row)], source="made up", size_is_public=True)
    ensemble = Ensemble(sealed, TASK, model, Partition(), Adjacency.ZERO_OUT)
    with pytest.raises(ModelError, match=r"failed while it read private examples \(ModelError\)"):
        ensemble.ask(QUERIES, rehearsed)
    assert len(ensemble.ask(QUERIES)) == 2, "without a rehearsal there is nothing to compare with"


def test_minus_zero_is_another_answer_than_zero():
    def model(zero):
        scores = SimpleNamespace(score=lambda queries: np.tile([zero, 0.0, -1.0], (len(queries), 1, 1)), close=list)
        return SimpleNamespace(name="says zero", prepare=lambda task, contexts: scores)

    rehearsed = model(0.0).prepare(TASK, [()]).score(QUERIES)[:, 0]
    Reading(model(0.0), TASK, GOOD[:1]).score(QUERIES, rehearsed)
    with pytest.raises(ModelError):
        Reading(model(-0.0), TASK, GOOD[:1]).score(QUERIES, rehearsed)


def test_an_order_to_stop_does_not_carry_what_the_model_was_handling():
    def score(task, context, query):
        if poisoned(context):
            try:
                raise ValueError("quotes poison")
            except ValueError as error:
                raise asyncio.CancelledError from error
        return one_shot(task, context, query)

    with pytest.raises(asyncio.CancelledError) as caught:
        Reading(FakeScorer(score), TASK, [*GOOD, BAD]).score(QUERIES)
    assert caught.value.__cause__ is caught.value.__context__ is None


class Worded(OSError):
    """An error that finds its words when it is asked; an order to stop, or a failure, comes meanwhile."""

    def __init__(self, comes, when):
        super().__init__("quotes poison")
        self.comes, self.left = comes, when

    def __str__(self):
        self.left -= 1
        if self.left == 0:
            raise self.comes from ValueError("quotes poison")
        return super().__str__()


@pytest.mark.parametrize("when", [1, 2])  # as the prompts are read, and as the words of the failure stay here
@pytest.mark.parametrize(("comes", "leaves"), [(KeyboardInterrupt, KeyboardInterrupt), (ValueError, ModelError)])
def test_what_comes_while_a_failure_is_looked_at_does_not_carry_it(comes, leaves, when):
    error = Worded(comes("poison") if comes is ValueError else comes(), when)
    with pytest.raises(leaves) as caught:
        Reading(StopsReading(error), TASK, [*GOOD, BAD]).score(QUERIES)
    assert error.left <= 0, "it never came"
    assert "poison" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is caught.value.__context__ is None


def noted(order):
    order.add_note("quotes poison")
    return order


@pytest.mark.parametrize(
    ("stop", "leaves"),
    [
        (noted(KeyboardInterrupt()), KeyboardInterrupt),
        (BaseExceptionGroup("quotes poison", [ValueError("poison"), noted(KeyboardInterrupt())]), KeyboardInterrupt),
        (
            BaseExceptionGroup("x", [BaseExceptionGroup("y", [PanicException("poison"), SystemExit(3)]), ValueError()]),
            SystemExit,
        ),
        (BaseExceptionGroup("poison", [PanicException("poison")]), None),
    ],
    ids=["notes", "group", "groups", "panics alone"],
)
def test_an_order_to_stop_leaves_without_what_was_written_beside_it(stop, leaves):
    if leaves is None:  # nobody ordered anything
        found = Reading(raises(stop), TASK, [*GOOD, BAD]).score(QUERIES)
        assert np.isfinite(found).all(axis=(0, 2)).tolist() == [True] * 4 + [False]
        return
    with pytest.raises(leaves) as caught:
        Reading(raises(stop), TASK, [*GOOD, BAD]).score(QUERIES)
    assert "poison" not in "".join(traceback.format_exception(caught.value))
    assert [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.tb)][-1] == "withheld"


class Deadline(BaseException):
    """An order that says what it interrupted."""

    def __init__(self, words):
        super().__init__(words)
        self.interrupted = words

    def __str__(self):
        return f"in the middle of {vars(self).get('interrupted')}"


class Leaves(SystemExit):
    """An exit of somebody's own."""


@pytest.mark.parametrize(
    ("order", "args"),
    [
        (KeyboardInterrupt("poison"), ()),
        (asyncio.CancelledError("while it read poison"), ()),
        (GeneratorExit("poison"), ()),
        (Deadline("poison"), ("",)),
        (BaseException("poison"), ()),
        (SystemExit("cannot read poison"), (1,)),
        (SystemExit(["poison"]), (1,)),
        (SystemExit("poison", 2), (1,)),
        (SystemExit(3), (3,)),
        (SystemExit(), ()),
        (Leaves(4), (4,)),
    ],
    ids=repr,
)
def test_an_order_to_stop_leaves_without_words_of_its_own(order, args):
    with pytest.raises(type(order)) as caught:
        Reading(raises(order), TASK, [*GOOD, BAD]).score(QUERIES)
    assert type(caught.value) is type(order)
    assert caught.value.args == args
    assert not any(vars(caught.value).values())
    assert pickle.loads(pickle.dumps(caught.value)).args == args
    assert "poison" not in "".join(traceback.format_exception(caught.value))
    if isinstance(order, SystemExit):
        assert caught.value.code == (args[0] if args else None)


class Timer(BaseException):
    """An order as gevent and pytest have them: with attributes that its own words and its library ask for."""

    def __init__(self, words=None, *, seconds=None):
        super().__init__(words)
        self.seconds, self.words = seconds, words

    def __str__(self):
        return f"{self.seconds} seconds, {self.words}"


@dataclass(frozen=True)
class Frozen(SystemExit):
    """An exit whose class refuses what is set."""

    words: str = ""


class Answers(SystemExit):
    """An exit whose class answers for its code."""

    @property
    def code(self):
        return 3


def test_an_order_has_the_attributes_that_its_library_asks_for():
    with pytest.raises(Timer) as caught:
        Reading(raises(Timer("poison", seconds=2)), TASK, [*GOOD, BAD]).score(QUERIES)
    assert str(caught.value) == "None seconds, None"
    assert str(pickle.loads(pickle.dumps(caught.value))) == "None seconds, None"


@pytest.mark.parametrize(("kind", "code", "args"), [(Frozen, None, ()), (Answers, 3, (1,))])
@pytest.mark.parametrize("closing", [False, True])
def test_a_class_that_refuses_or_answers_leaves_as_an_order_all_the_same(kind, code, args, closing):
    model = ClosesBadly(kind("poison")) if closing else raises(kind("poison"))
    with pytest.raises(kind) as caught:
        asked(model, sampled=False)
    assert caught.value.code == code
    assert caught.value.args == args
    assert "poison" not in "".join(traceback.format_exception(caught.value))


def test_a_scope_of_anyio_knows_its_own_order():
    async def cancelled():
        asked = anyio.Event()

        async def never():
            asked.set()
            await anyio.sleep_forever()

        def asks(task, context, query):
            if context:
                anyio.from_thread.run(never)
            return one_shot(task, context, query)

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, lambda: Reading(FakeScorer(asks), TASK, GOOD).score(QUERIES))
                await asked.wait()
                scope.cancel()
        return scope.cancelled_caught

    assert anyio.run(cancelled)


@pytest.mark.parametrize("words", ["Cancelled via cancel scope 7f00; poison", "Cancelled via cancel scope poison"])
def test_of_the_words_of_a_cancelled_task_the_scope_alone_is_kept(words):
    with pytest.raises(asyncio.CancelledError) as caught:
        Reading(raises(asyncio.CancelledError(words)), TASK, [*GOOD, BAD]).score(QUERIES)
    assert caught.value.args == (("Cancelled via cancel scope 7f00",) if "7f00" in words else ())


def test_what_was_kept_of_a_prompt_is_freed_where_the_model_fails_on_it():
    closed = []

    class Kept:
        def __init__(self, inner, contexts):
            self.inner, self.contexts = inner, contexts

        def score(self, queries):
            return self.inner.score(queries)

        def close(self):
            closed.append(self.contexts)

    class Keeping:
        name, isolation = "keeping", FakeScorer().isolation

        def prepare(self, task, contexts):
            return Kept(raises(Stops()).prepare(task, contexts), contexts)

    reading = Reading(Keeping(), TASK, [*GOOD, BAD])
    reading.score(QUERIES)
    assert [BAD] in closed
    reading.close()
    assert all([context] in closed for context in GOOD)


class ClosesBadly:
    """A model whose prompts cannot be closed."""

    name, isolation = "closes badly", FakeScorer().isolation

    def __init__(self, comes, scores=one_shot):
        self.comes, self.inner, self.closed = comes, FakeScorer(scores), []

    def prepare(self, task, contexts):
        prepared = self.inner.prepare(task, contexts)
        return SimpleNamespace(score=prepared.score, close=lambda: self.close(contexts))

    def close(self, contexts):
        self.closed.append(contexts)
        if any(contexts):
            raise self.comes from ValueError(f"quotes {contexts}")


def asked(model, *, sampled):
    notes, adjacency = records(["one note", "poison", "another note"]), Adjacency.ADD_REMOVE
    ensemble = SampledEnsemble(
        notes, TASK, model, adjacency, sampling_probability=0.9, subsamples=3,
        randomness=SeededRandomness(1), max_records=1,
    ) if sampled else Ensemble(notes, TASK, model, Partition(), adjacency)  # fmt: skip
    try:
        return ensemble.ask(QUERIES)
    finally:
        ensemble.close()


def orders(task, context, query):
    if context:
        raise KeyboardInterrupt
    return one_shot(task, context, query)


def stops(task, context, query):
    if poisoned(context):
        raise Stops
    return one_shot(task, context, query)


@pytest.mark.parametrize("sampled", [False, True])
def test_what_cannot_be_closed_takes_the_place_of_no_answer_and_no_order(sampled):
    assert len(asked(ClosesBadly(ValueError("quotes poison")), sampled=sampled)) == len(QUERIES)
    model = ClosesBadly(ValueError("quotes poison"), orders)
    with pytest.raises(KeyboardInterrupt) as caught:
        asked(model, sampled=sampled)
    assert "poison" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("sampled", [False, True])
def test_an_order_to_stop_that_comes_while_prompts_are_closed_leaves_bare(sampled):
    with pytest.raises(KeyboardInterrupt) as caught:
        asked(ClosesBadly(noted(KeyboardInterrupt())), sampled=sampled)
    assert "poison" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("comes", [ValueError, KeyboardInterrupt])
def test_every_prompt_is_closed_though_the_first_cannot_be(comes):
    model = ClosesBadly(comes("quotes poison"))
    reading = Reading(model, TASK, GOOD)
    reading._alone = {number: model.prepare(TASK, [context]) for number, context in enumerate(GOOD)}
    with pytest.raises(KeyboardInterrupt) if comes is KeyboardInterrupt else nullcontext():
        reading.close()
    assert model.closed == [[context] for context in GOOD]
    assert reading._alone is None


def test_a_prompt_that_cannot_be_closed_where_it_fails_fails_nobody_else():
    found = Reading(ClosesBadly(ValueError("quotes poison"), stops), TASK, [*GOOD, BAD]).score(QUERIES)
    assert np.isfinite(found).all(axis=(0, 2)).tolist() == [True] * 4 + [False]


def test_a_model_without_failures_reads_everybody_together_and_once():
    model = FakeScorer()
    reading = Reading(model, TASK, GOOD)
    reading.score(QUERIES)
    reading.score(QUERIES[:1])
    assert (model.contexts_read, model.calls) == (4, (4 + 1) * 3)  # and the bare question behind each reading


def test_prompts_by_themselves_are_read_once_too_and_freed():
    model = StopsReading()
    reading = Reading(model, TASK, [*GOOD, BAD])
    reading.score(QUERIES)
    read = model.inner.contexts_read
    reading.score(QUERIES)
    assert (read, model.inner.contexts_read) == (4, 4)
    reading.close()
    assert reading._alone is None


# The law of an answer


def records(texts):
    rows = [Row(i, {"text": text, "label": TASK.labels[i % 3]}) for i, text in enumerate(texts, 1)]
    return PrivateRecords(rows, source="notes")


def outputs(texts, adjacency, model):
    [found] = Ensemble(records(texts), TASK, model, Partition(), adjacency).ask(QUERIES[:1])
    return found


def law(texts, adjacency, method, price, model):
    """Exact log-probabilities of the labels."""
    return np.log([float(share) for share in method.law(outputs(texts, adjacency, model), price)])


NOTES = ["note 1", "note 2", "note 3"]
NEIGHBOURS = {
    Adjacency.ADD_REMOVE: [(NOTES, [*NOTES, "poison"])],
    Adjacency.REPLACE_ONE: [([*NOTES, "note 4"], [*NOTES, "poison"]), ([*NOTES, "poison a"], [*NOTES, "poison b"])],
}


@pytest.mark.cases(20)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", [PoE(5.0), PoE(0.01), RNM()])
@pytest.mark.parametrize("adjacency", NEIGHBOURS)
def test_a_record_that_makes_the_model_fail_moves_no_answer_past_epsilon(adjacency, method, model):
    price = Price(0.7, 1e-6)
    for one, other in NEIGHBOURS[adjacency]:
        p, q = (law(texts, adjacency, method, price, MODELS[model]()) for texts in (one, other))
        assert np.abs(p - q).max() <= 0.7 + 1e-9
        if adjacency is Adjacency.ADD_REMOVE:
            assert p.tolist() == q.tolist()  # not there and not readable are the same


def test_votes_for_the_first_label_would_be_caught():
    # The mistake: who says nothing votes for label 0. Then a record that cannot be read is seen under add-remove.
    price = Price(0.7, 1e-6)
    p = law(NOTES, Adjacency.ADD_REMOVE, RNM(), price, MODELS["raises on a question"]())
    silent = says([0.0, -50.0, -50.0])
    q = law([*NOTES, "poison"], Adjacency.ADD_REMOVE, RNM(), price, silent)
    assert p.tolist() != q.tolist()


# Random samples


class Keeps(StopsReading):
    """A model that keeps what it reads, as the embedded one does."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def read_once(self, task, examples):
        if poisoned(examples):
            raise Stops
        self.kept += [example.fields["text"] for example in examples]


def test_a_prompt_that_holds_a_record_the_model_fails_on_is_null():
    texts = [*NOTES, "poison"]
    model = Keeps()
    ensemble = SampledEnsemble(
        records(texts), TASK, model, Adjacency.ADD_REMOVE,
        sampling_probability=0.5, subsamples=40, randomness=SeededRandomness(3), max_records=4,
    )  # fmt: skip
    [found] = ensemble.ask(QUERIES[:1])
    vectors = np.array([one.values for one in found.probability_vectors()])
    null = (vectors == 0).all(axis=1)
    assert 0 < null.sum() < 40
    assert sorted(model.kept) == NOTES


# Contextual calibration

EMPTY = TASK.content_free_queries()


def leaning(task, context, query):
    """Likes the labels of its demonstrations, and more so where it is asked nothing."""
    likes = one_shot(task, context, query)
    return [2 * x for x in likes] if query in EMPTY else [x + len(query["text"]) * i for i, x in enumerate(likes)]


def test_each_expert_is_calibrated_by_its_own_record():
    contexts = [GOOD[0], GOOD[1]]
    found = Reading(FakeScorer(leaning), TASK, contexts, EMPTY).score(QUERIES[:1])[0]
    # "one" adds 0, 3 and 6; the demonstration's label loses the 3 that it has more without content.
    odds = np.exp(found - found[:, :1])
    assert np.log(odds) == pytest.approx(np.array([[0, 6, 9], [0, 0, 6]]))
    for number, context in enumerate(contexts):
        alone = Reading(FakeScorer(leaning), TASK, [context], EMPTY).score(QUERIES[:1])
        assert alone[0, 0].tobytes() == found[number].tobytes()


def test_content_free_questions_are_asked_of_each_expert_once():
    model = FakeScorer(leaning)
    reading = Reading(model, TASK, GOOD, EMPTY)
    first, second = reading.score(QUERIES), reading.score(QUERIES)
    assert first.tobytes() == second.tobytes()
    assert model.calls == 4 * (3 + 2 + 2) + 2 * (2 + 3)  # experts, and what is looked at without any record
    reading.close()
    assert reading.score(QUERIES).tobytes() == first.tobytes()


def test_an_expert_that_fails_on_a_content_free_question_is_null_and_nobody_else_is_touched():
    def score(task, context, query):
        if poisoned(context) and query in EMPTY:
            raise Stops
        return leaning(task, context, query)

    alone = Reading(FakeScorer(leaning), TASK, GOOD, EMPTY).score(QUERIES)
    found = Reading(FakeScorer(score), TASK, [*GOOD, BAD], EMPTY).score(QUERIES)
    assert np.isnan(found[:, -1]).all()
    assert found[:, :-1].tobytes() == alone.tobytes()


@pytest.mark.parametrize("there", [True, False])
def test_other_answers_to_content_free_questions_after_the_records_stop_everything(there):
    asked = []

    def score(task, context, query):
        asked.append(query)
        return [0.0, 1.0, 2.0 + (len(asked) > 5 and query in EMPTY)]

    model = FakeScorer(score)
    rehearsed = model.prepare(TASK, [()]).score([*QUERIES, *EMPTY])[:, 0]
    row = {"text": "note", "label": "fraud"} if there else {"text": "", "label": ""}
    sealed = PrivateRecords([Row(1, row)], source="made up", size_is_public=True)
    ensemble = Ensemble(sealed, TASK, model, Partition(), Adjacency.ZERO_OUT, content_free=EMPTY)
    with pytest.raises(ModelError, match=r"failed while it read private examples \(ModelError\)"):
        ensemble.ask(QUERIES, rehearsed)


@pytest.mark.parametrize("sampled", [True, False])
def test_methods_compare_with_the_calibrated_public_answer(sampled):
    model, sealed = FakeScorer(leaning), records(NOTES)
    public = model.prepare(TASK, [()]).score([*QUERIES, *EMPTY])[:, 0]
    ensemble = SampledEnsemble(
        sealed, TASK, model, Adjacency.ADD_REMOVE,
        sampling_probability=0.5, subsamples=2, randomness=SeededRandomness(3), max_records=4, content_free=EMPTY,
    ) if sampled else Ensemble(sealed, TASK, model, Partition(), Adjacency.ADD_REMOVE, content_free=EMPTY)  # fmt: skip
    found = ensemble.ask(QUERIES, public)
    assert [outputs.public.tolist() for outputs in found] == [
        pytest.approx(normalized(row[None], "labels")[0].tolist()) for row in public[:2]
    ]
