"""Shards of private records read and summed by the workers of a Ray cluster. The head adds; nobody else draws.

Guarantee   The sums are those that this process would work out by itself (specification 5.17): shards are whole units,
            their sums whole numbers, and a worker must embed public texts bit for bit as the head does, when it begins
            and behind every shard. Each shard is counted once: its sums are bound to its number, and their shape and
            bounds are looked at. A lost worker's shard is computed again; else there is no sum.
Assumes     The cluster is trusted with the records: its nodes, and Ray's own services, which pass the key of the run on
            to the workers. What is in Ray's object store, and may be written to a disk from there, is ciphertext.
Sources     specification 5.17; AES-256-GCM.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Final, final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sottovoce.errors import MissingExtraError, ModelError, ParameterError
from sottovoce.experts.blocks import BlockReader
from sottovoce.experts.encoded import Shard, Summed
from sottovoce.experts.reading import withheld
from sottovoce.experts.unit_sums import SumRule
from sottovoce.models.base import Embedder
from sottovoce.parameters import Number
from sottovoce.privacy.aggregates import IntArray
from sottovoce.tasks import Example, Query, Task

TRIES: Final = 3
"""So often a shard is given to a worker before the run fails."""
AHEAD: Final = 2
"""Shards that a worker has at once, so that it need not wait for the head."""
START_S: Final = 300.0
"""Time for all workers to load the model."""
STORE_BYTES: Final = 256 << 20
"""Object store of a Ray that is started here."""
ADDRESS: Final = "RAY_ADDRESS"
TOKEN: Final = "RAY_AUTH_TOKEN"
NONCE_BYTES: Final = 12
_OWN: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on every system: services listen on the loopback address alone
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Surroundings of a Ray that is started here: nobody else can reach it."""
_LOOPBACK: Final = ("127.0.0.1", "::1")
_SUMS, _FAILURE = b"\0", b"\1"


@final
class Seal:
    """Closes what goes through Ray.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def closed(self, name: str, content: bytes) -> bytes:
        """Ciphertext that opens under this name alone."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, name.encode())

    def opened(self, name: str, sealed: bytes) -> bytes:
        """The content.

        Raises:
            InvalidTag: It was not closed under this name and key.
        """
        return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], name.encode())


@final
class Worker:
    """What one process of the cluster does: it sums shards by rules, and draws nothing.

    Args:
        key: Of the run.
        embedder: The model.
        task: Labels and fields.
        public: Questions that the embedder must answer alike before and behind every shard.
        rules: What is summed.
    """

    def __init__(
        self, key: bytes, embedder: Embedder, task: Task, public: Sequence[Query], rules: Sequence[SumRule]
    ) -> None:
        self._seal, self._rules = Seal(key), rules
        self._reader = BlockReader(embedder, task, public)

    def rehearsed(self) -> bytes:
        """Its vectors of the public questions, bit by bit."""
        return self._reader.rehearsed.tobytes()

    def keep_to_core(self, number: int) -> None:
        """Computes on one core of its machine, as it was counted out to it."""
        if hasattr(os, "sched_setaffinity"):
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[number % len(cores)]})

    def add_up(self, number: int, sealed: bytes) -> bytes:
        """The sums of a shard, sealed; or what may be said of a failure."""
        try:
            content = _SUMS + withheld(self._reader.embedder, lambda: self._summed(number, sealed))
        except ModelError as error:
            content = _FAILURE + json.dumps([str(error), error.retryable]).encode()
        return self._seal.closed(f"sums {number}", content)

    def _summed(self, number: int, sealed: bytes) -> bytes:
        read = json.loads(self._seal.opened(f"shard {number}", sealed))
        sums = self._reader.sums([[Example(fields, label) for fields, label in unit] for unit in read], self._rules)
        return b"".join(np.ascontiguousarray(one, "<i8").tobytes() for one in sums)


@dataclass(frozen=True)
class _Job:
    """A shard that was given away."""

    number: int
    sealed: bytes
    units: int
    place: int
    actor: Any
    tries: int = 1


@final
class RayEngine:
    """Workers of a Ray cluster: the one that ``RAY_ADDRESS`` names, the one that this process joined, or a new one on
    this machine, open to nobody else.

    Args:
        workers: How many, each on one core; by default as many as the cluster has cores.

    One that is started here is closed by what Ray reads when it is imported; make the engine before that.

    Raises:
        ParameterError: The number is not usable.
        MissingExtraError: Ray is not installed.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None:
            limit = Number(1, whole=True, strict=True, words="at least 1")
            limit.read("workers", workers)
        if find_spec("ray") is None:
            raise MissingExtraError("ray", "ray")
        _keep_to_this_machine()
        self._count, self._joined = workers, False
        self._key = secrets.token_bytes(32)
        self._actors: list[Any] = []
        self._new_worker: Callable[[int], Any] | None = None
        self._rules: Sequence[SumRule] = ()
        self._model = ""

    def start(self, reader: BlockReader, rules: Sequence[SumRule]) -> None:
        """Starts the workers and sees that they embed as the head does. Nothing private is read.

        Args:
            reader: With the model, the task and the public questions.
            rules: What is to be summed.

        Raises:
            ParameterError: The cluster has not so many cores, or the model cannot be sent.
            ModelError: A worker does not start in time, or embeds otherwise than the head.
        """
        import ray

        self._join()
        cores = int(ray.cluster_resources().get("CPU", 0))
        count = self._count or cores
        if not 1 <= count <= cores:
            raise ParameterError("workers", count, f"from 1 to {cores}, the cores of the Ray cluster")
        self._rules, self._model = rules, reader.embedder.name
        arguments = (self._key, reader.embedder, reader.task, list(reader.public), list(rules))
        try:
            ray.cloudpickle.loads(ray.cloudpickle.dumps(arguments))
        except Exception as error:
            limit = f"local: the model {self._model} cannot be sent to other processes ({type(error).__name__})"
            raise ParameterError("engine", "ray", limit) from None
        remote = ray.remote(num_cpus=1, max_restarts=0)(Worker)

        def new_worker(number: int) -> Any:
            actor = remote.remote(*arguments)
            actor.keep_to_core.remote(number)
            return actor

        self._new_worker = new_worker
        self._actors = [new_worker(number) for number in range(count)]
        self._expected = reader.rehearsed.tobytes()
        for actor in self._actors:
            self._require_alike(actor)

    def sums(self, shards: Iterator[Shard]) -> Iterator[Summed]:
        """The sums of each shard by each rule, in the order of the shards. Private.

        Raises:
            ModelError: A shard could not be read, its sums came back damaged, or workers were lost with it too often.
                There is no sum then.
        """
        places = deque(place for _ in range(AHEAD) for place in range(len(self._actors)))
        waiting: dict[Any, _Job] = {}
        ready: dict[int, Summed] = {}
        coming, next_number = enumerate(shards), 0
        while True:
            while places and (shard := next(coming, None)) is not None:
                self._give(waiting, self._job(*shard, places.popleft()))
            if not waiting:
                return
            done = self._first_done(waiting)
            job = waiting.pop(done)
            answer = self._answer(done)
            if answer is None:
                self._give(waiting, self._again(job))
                continue
            places.append(job.place)
            ready[job.number] = job.units, self._checked(answer, job)
            while next_number in ready:
                yield ready.pop(next_number)
                next_number += 1

    def close(self) -> None:
        """Ends the workers, and a Ray that was started here."""
        import ray

        for actor in self._actors:
            with suppress(Exception):  # a cluster that has ended has no workers
                ray.kill(actor)
        self._actors, self._new_worker = [], None
        if self._joined:
            ray.shutdown()
            self._joined = False

    def _join(self) -> None:
        import ray

        if ray.is_initialized():
            return
        address = os.environ.get(ADDRESS)
        if not address and any(os.environ.get(name) != value for name, value in _OWN.items()):
            raise self._open_to_others()
        own = {"include_dashboard": False, "object_store_memory": STORE_BYTES, "num_cpus": self._count}
        try:
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="ERROR",
                **({} if address else {name: value for name, value in own.items() if value is not None}),
            )
        except Exception as error:
            raise ModelError(
                f"The Ray cluster {address or 'local'!r} cannot be joined ({type(error).__name__}). Nothing was read. "
                f"Start it, or leave {ADDRESS} out for workers on this machine.",
                retryable=True,
            ) from None
        self._joined = True
        if not address and ray.util.get_node_ip_address() not in _LOOPBACK:
            raise self._open_to_others()

    @staticmethod
    def _open_to_others() -> ModelError:
        return ModelError(
            "Ray was imported before it could be closed to others (other packages import it, too). Nothing was read. "
            f"Make the RayEngine before the model is loaded, or join a cluster by {ADDRESS} or ray.init()."
        )

    def _require_alike(self, actor: Any) -> None:
        import ray

        try:
            vectors = ray.get(actor.rehearsed.remote(), timeout=START_S)
        except ray.exceptions.RayError as error:
            raise ModelError(
                f"A Ray worker did not start with the model {self._model} ({type(error).__name__}). See that every "
                "node has the same packages and model files, and cores to spare.",
                retryable=True,
            ) from None
        if vectors != self._expected:
            raise ModelError(
                f"A Ray worker embeds public texts otherwise than this process with the model {self._model}. Use nodes "
                "with the same processor and the same packages, or --engine local."
            )

    def _job(self, number: int, shard: Shard, place: int) -> _Job:
        units = [[[dict(example.fields), example.label] for example in unit] for unit in shard]
        sealed = Seal(self._key).closed(f"shard {number}", json.dumps(units).encode())
        return _Job(number, sealed, len(shard), place, self._actors[place])

    def _give(self, waiting: dict[Any, _Job], job: _Job) -> None:
        waiting[self._of_cluster(lambda: job.actor.add_up.remote(job.number, job.sealed))] = job

    def _first_done(self, waiting: dict[Any, _Job]) -> Any:
        import ray

        (done,), _ = self._of_cluster(lambda: ray.wait(list(waiting), num_returns=1))
        return done

    def _of_cluster(self, call: Callable[[], Any]) -> Any:
        """A call that fails where the cluster itself ends. What Ray says then may quote what it carried."""
        with suppress(Exception):
            return call()
        # Raised here and not above, so that Ray's error is not attached to it.
        raise self._failed("were lost with the Ray cluster")

    def _answer(self, done: Any) -> bytes | None:
        """What came back; ``None`` where the worker was lost."""
        import ray

        try:
            return bytes(ray.get(done))
        except ray.exceptions.RayError as error:
            if not isinstance(error, ray.exceptions.RayTaskError):
                return None
        raise self._failed("failed on a shard")  # not above, so that Ray's error is not attached to it

    def _again(self, job: _Job) -> _Job:
        """The job for a worker that lives."""
        if job.tries == TRIES:
            raise self._failed(f"were lost {TRIES} times with the same shard")
        assert self._new_worker is not None
        if self._actors[job.place] is job.actor:
            fresh = self._new_worker(job.place)
            self._actors[job.place] = fresh
            self._require_alike(fresh)
        return replace(job, actor=self._actors[job.place], tries=job.tries + 1)

    def _checked(self, answer: bytes, job: _Job) -> list[IntArray]:
        try:
            content = Seal(self._key).opened(f"sums {job.number}", answer)
        except InvalidTag:
            raise self._failed("sent sums that are not those of their shard") from None
        if content[:1] == _FAILURE:
            message, retryable = json.loads(content[1:])
            raise ModelError(message, retryable=retryable)
        numbers = np.frombuffer(content[1:], "<i8").astype(np.int64)
        if len(numbers) != sum(rule.size for rule in self._rules):
            raise self._failed("sent sums of another length")
        sums = np.split(numbers, np.cumsum([rule.size for rule in self._rules])[:-1])
        for rule, one in zip(self._rules, sums, strict=True):
            most = job.units * rule.most
            if ((one > most) | (one < -most)).any():
                raise self._failed("sent sums beyond their bounds")
        return sums

    def _failed(self, how: str) -> ModelError:
        return ModelError(
            f"Workers {how} while they read private examples with the model {self._model}. There is no sum, and "
            "nothing was drawn. What was charged stands.",
            retryable=True,
        )


def _keep_to_this_machine() -> None:
    """Sets what Ray reads when it is imported, for one that is started here."""
    if ADDRESS not in os.environ and "ray" not in sys.modules:
        os.environ.update(_OWN)
        os.environ.setdefault(TOKEN, secrets.token_hex(32))
