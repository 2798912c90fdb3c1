"""Workers that sum shards, behind a made-up Ray: what is counted, what is refused, what its store holds.

The real one is started in ``tests/slow/test_ray.py``.
"""

import json
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag

from sottovoce.errors import MissingExtraError, ModelError, ParameterError
from sottovoce.experts import encoded, ray_engine
from sottovoce.experts.blocks import BlockReader
from sottovoce.experts.encoded import EncodedRecords
from sottovoce.experts.ray_engine import RayEngine, Seal, Worker
from sottovoce.experts.unit_sums import LIMIT, ClassSums, UnitCount
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.readers import read_private
from sottovoce.tasks import Task

TASK = Task(labels=["a", "b"])
PUBLIC = [{"text": "is this still the same"}]
RULES = [UnitCount(), ClassSums(2, 16)]
UNITS = 20


class MadeUpRay:
    """Runs a worker's calls when they are asked for, last first; ``spoil`` may change an answer or lose a worker."""

    class RayError(Exception):
        pass

    class RayTaskError(RayError):
        pass

    def __init__(self, cores=2, spoil=lambda number, answer: answer):
        self.exceptions = SimpleNamespace(RayError=self.RayError, RayTaskError=self.RayTaskError)
        self.cloudpickle = SimpleNamespace(dumps=lambda x: x, loads=lambda x: x)
        self.util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
        self.cores, self.spoil, self.started, self.killed, self.seen, self.calls = cores, spoil, 0, 0, [], []

    def is_initialized(self):
        return True

    def cluster_resources(self):
        return {"CPU": float(self.cores)}

    def remote(self, **options):
        assert options == {"num_cpus": 1, "max_restarts": 0}

        def actor(*arguments):
            self.started += 1
            return _Actor(self, Worker(*arguments))

        return lambda cls: SimpleNamespace(remote=actor)

    def wait(self, refs, num_returns):
        return [refs[-1]], refs[:-1]

    def get(self, ref, timeout=None):
        return ref()

    def kill(self, actor):
        self.killed += 1


class _Actor:
    def __init__(self, ray, worker):
        self._ray, self._worker, self.lost = ray, worker, False
        self.keep_to_core = SimpleNamespace(remote=lambda number: None)
        self.rehearsed = SimpleNamespace(remote=lambda: worker.rehearsed)
        self.add_up = SimpleNamespace(remote=self._add_up)

    def _add_up(self, number, sealed):
        def answer():
            if self.lost:
                raise self._ray.RayError
            self._ray.calls.append(number)
            try:
                found = self._ray.spoil(number, self._worker.add_up(number, sealed))
            except self._ray.RayError:
                self.lost = True
                raise
            self._ray.seen += [sealed, found]
            return found

        return answer


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(encoded, "UNITS_TOGETHER", 3)
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: object())
    for name in (*ray_engine._OWN, ray_engine.TOKEN):
        monkeypatch.setenv(name, "as it was")
    rows = [
        {"text": f"secret{i} word{i % 5}", "label": "ab"[i % 3 % 2], "group": str(i // 2)} for i in range(2 * UNITS)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "rows.jsonl"


def sums(file, ray=None, monkeypatch=None, *, workers=None, model=None):
    """Sums by the workers of a made-up Ray, or by this process."""
    model = model or FakeScorer()
    records = EncodedRecords(read_private(file, stream=True), TASK, model, Adjacency.REPLACE_ONE)
    told = []
    if ray is None:
        records.read(records.reader(PUBLIC), told.append, RULES)
    else:
        monkeypatch.setitem(sys.modules, "ray", ray)
        engine = RayEngine(workers)
        try:
            engine.start(BlockReader(model, TASK, PUBLIC), RULES)
            records.read(records.reader(PUBLIC), told.append, RULES, engine)
        finally:
            engine.close()
    assert sum(told) == UNITS
    return [records.sum_of(rule).tolist() for rule in RULES]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_give_the_sums_of_one_process(file, monkeypatch, workers):
    ray = MadeUpRay(cores=5)
    assert sums(file, ray, monkeypatch, workers=workers) == sums(file)
    assert (ray.started, ray.killed) == (workers, workers)
    assert sorted(ray.calls) == list(range(-(-UNITS // 3)))


class Recorded:
    """Progress that begins behind so many units."""

    def __init__(self, start=None):
        self.start, self.steps = start, []

    def found(self, order):
        return self.start

    def keep(self, order, done):
        self.steps.append((done[0], [one.tolist() for one in done[1]]))


def test_what_is_kept_on_the_way_are_the_sums_of_the_first_units_whoever_works(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", MadeUpRay(cores=3))
    steps = []
    for engine in (None, RayEngine()):
        for start in (None, 2):
            model, progress = FakeScorer(), Recorded()
            if start is not None:
                progress.start = steps[0][start][0], [np.array(one) for one in steps[0][start][1]]
            if engine is not None:
                engine.start(BlockReader(model, TASK, PUBLIC), RULES)
            records = EncodedRecords(read_private(file, stream=True), TASK, model, Adjacency.REPLACE_ONE)
            records.read(records.reader(PUBLIC), None, RULES, engine, progress)
            steps.append(progress.steps)
    assert len(steps[0]) == -(-UNITS // 3)
    assert [units for units, _ in steps[0]] == [3, 6, 9, 12, 15, 18, 20]
    assert steps[1] == steps[3] == steps[0][3:]
    assert steps[2] == steps[0]


def test_what_ray_carries_says_nothing(file, monkeypatch):
    ray = MadeUpRay()
    total = np.array(sums(file, ray, monkeypatch)[1], dtype="<i8")
    assert len(ray.seen) == 2 * len(ray.calls)
    for content in ray.seen:
        assert b"secret" not in content
        assert b"word" not in content
        assert total.tobytes()[:16] not in content
    assert len(set(ray.seen)) == len(ray.seen)


def test_shards_of_a_lost_worker_are_computed_again_and_counted_once(file, monkeypatch):
    lost = []

    def spoil(number, answer):
        if number in (0, 4) and lost.count(number) < 2:
            lost.append(number)
            raise MadeUpRay.RayError
        return answer

    ray = MadeUpRay(spoil=spoil)
    assert sums(file, ray, monkeypatch) == sums(file)
    assert sorted(lost) == [0, 0, 4, 4]
    assert ray.started > 2


@pytest.mark.parametrize("call", ["wait", "kill"])
def test_a_cluster_that_ends_is_a_model_error_that_quotes_nothing(file, monkeypatch, call):
    ray, waited = MadeUpRay(), []

    def gone(*given, **named):
        waited.append(1)
        raise ConnectionError("the head node said secret3 word3")

    monkeypatch.setattr(ray, "wait", gone)
    if call == "kill":
        monkeypatch.setattr(ray, "kill", gone)
    with pytest.raises(ModelError, match=r"were lost with the Ray cluster.*nothing was drawn") as caught:
        sums(file, ray, monkeypatch)
    assert waited
    assert "secret3" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_worker_that_fails_on_a_shard_is_a_model_error_that_quotes_nothing(file, monkeypatch):
    def spoil(number, answer):
        raise MadeUpRay.RayTaskError("the worker said secret3 word3")

    with pytest.raises(ModelError, match="failed on a shard") as caught:
        sums(file, MadeUpRay(spoil=spoil), monkeypatch)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_shard_whose_workers_are_lost_each_time_ends_the_run(file, monkeypatch):
    def spoil(number, answer):
        if number == 5:
            raise MadeUpRay.RayError
        return answer

    ray = MadeUpRay(spoil=spoil)
    with pytest.raises(ModelError, match=r"lost 3 times with the same shard.*nothing was drawn") as caught:
        sums(file, ray, monkeypatch)
    assert caught.value.retryable
    assert ray.calls.count(5) == ray_engine.TRIES
    assert ray.killed == 2


def closed(numbers, name):
    def spoil(number, answer):
        return answer if number != 2 else Seal(KEY).closed(name, b"\0" + np.array(numbers, "<i8").tobytes())

    return spoil


KEY = b"k" * 32
SIZE = sum(rule.size for rule in RULES)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda number, answer: bytes(len(answer)) if number == 2 else answer, "not those of their shard"),
        (closed([0] * SIZE, "sums 1"), "not those of their shard"),
        (closed([0] * (SIZE + 1), "sums 2"), "of another length"),
        (closed([3 * LIMIT + 1] + [0] * (SIZE - 1), "sums 2"), "beyond their bounds"),
        (closed([0] * (SIZE - 1) + [-3 * LIMIT - 1], "sums 2"), "beyond their bounds"),
    ],
)
def test_sums_that_cannot_be_right_end_the_run(file, monkeypatch, spoil, words):
    monkeypatch.setattr(ray_engine.secrets, "token_bytes", lambda size: KEY[:size])
    with pytest.raises(ModelError, match=words):
        sums(file, MadeUpRay(spoil=spoil), monkeypatch)


def test_sums_at_their_bounds_are_taken(file, monkeypatch):
    monkeypatch.setattr(ray_engine.secrets, "token_bytes", lambda size: KEY[:size])
    numbers = [3 * LIMIT] + [0] * (SIZE - 2) + [-3 * LIMIT]
    found = sums(file, MadeUpRay(spoil=closed(numbers, "sums 2")), monkeypatch)
    assert found != sums(file)


def test_what_a_model_says_of_a_record_stays_with_the_worker(file, monkeypatch):
    model = FakeScorer()

    def embed_records(task, records):
        raise MemoryError(f"no room for {records[0]['text']}")

    monkeypatch.setattr(model, "embed_records", embed_records)
    ray = MadeUpRay()
    with pytest.raises(ModelError, match="Its message is withheld") as caught:
        sums(file, ray, monkeypatch, model=model)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert not any(b"secret" in content for content in ray.seen)


def test_a_worker_that_embeds_otherwise_is_refused_before_anything_is_read(file, monkeypatch):
    model, ray = FakeScorer(), MadeUpRay()
    reader = BlockReader(model, TASK, PUBLIC)
    reader.rehearsed = np.nextafter(reader.rehearsed, 1)
    monkeypatch.setitem(sys.modules, "ray", ray)
    engine = RayEngine()
    with pytest.raises(ModelError, match="embeds public texts otherwise"):
        engine.start(reader, RULES)
    engine.close()
    assert (model.contexts_read, ray.killed) == (0, 2)


def test_a_worker_whose_model_changes_is_found_out(file, monkeypatch):
    model = FakeScorer()
    vectors = model.vectors
    monkeypatch.setattr(model, "vectors", lambda text: np.multiply(vectors(text), 1 if model.contexts_read < 9 else -1))
    with pytest.raises(ModelError, match="withheld"):
        sums(file, MadeUpRay(), monkeypatch, model=model)


@pytest.mark.parametrize("workers", [0, 3, -1, 1.5])
def test_a_number_of_workers_that_cannot_be_is_refused(file, monkeypatch, workers):
    with pytest.raises(ParameterError, match="workers"):
        sums(file, MadeUpRay(), monkeypatch, workers=workers)


def test_a_model_that_cannot_be_sent_is_refused(file, monkeypatch):
    ray = MadeUpRay()
    ray.cloudpickle.dumps = lambda x: json.dumps(object())
    with pytest.raises(ParameterError, match="the model fake cannot be sent to other processes"):
        sums(file, ray, monkeypatch)


@pytest.mark.parametrize("imported", [False, True])
def test_a_ray_that_may_be_open_to_others_is_not_started(file, monkeypatch, imported):
    ray = MadeUpRay()
    ray.is_initialized = lambda: False
    started = []
    ray.init = lambda **options: started.append(options)
    for name in (*ray_engine._OWN, ray_engine.TOKEN, ray_engine.ADDRESS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    if imported:
        monkeypatch.setitem(sys.modules, "ray", ray)
    engine = RayEngine(2)
    monkeypatch.setitem(sys.modules, "ray", ray)
    ray.shutdown = lambda: started.append("shutdown")
    if imported:
        with pytest.raises(ModelError, match="before it could be closed to others"):
            engine.start(BlockReader(FakeScorer(), TASK, PUBLIC), RULES)
        assert started == []
    else:
        engine.start(BlockReader(FakeScorer(), TASK, PUBLIC), RULES)
        assert started[0]["address"] == "local"
        assert len(os.environ[ray_engine.TOKEN]) == 64
        engine.close()
        assert started[1:] == ["shutdown"]


def test_a_ray_that_listens_elsewhere_is_shut_down(file, monkeypatch):
    ray = MadeUpRay()
    ray.is_initialized = lambda: False
    ray.init = ray.shutdown = lambda **options: ray.seen.append(options)
    ray.util.get_node_ip_address = lambda: "192.0.2.2"
    monkeypatch.setitem(sys.modules, "ray", ray)
    for name, value in ray_engine._OWN.items():
        monkeypatch.setenv(name, value)
    engine = RayEngine(2)
    with pytest.raises(ModelError, match="closed to others"):
        engine.start(BlockReader(FakeScorer(), TASK, PUBLIC), RULES)
    engine.close()
    assert (len(ray.seen), ray.started) == (2, 0)


def test_ray_is_an_extra(monkeypatch):
    monkeypatch.setattr(ray_engine, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'sottovoce\[ray\]'"):
        RayEngine()


def test_a_seal_opens_under_its_key_and_name_alone():
    sealed = Seal(KEY).closed("shard 1", b"a record")
    assert Seal(KEY).opened("shard 1", sealed) == b"a record"
    assert sealed != Seal(KEY).closed("shard 1", b"a record")
    for key, name, content in (
        (b"j" * 32, "shard 1", sealed),
        (KEY, "shard 2", sealed),
        (KEY, "shard 1", sealed[:-1] + bytes([sealed[-1] ^ 1])),
    ):
        with pytest.raises(InvalidTag):
            Seal(key).opened(name, content)
