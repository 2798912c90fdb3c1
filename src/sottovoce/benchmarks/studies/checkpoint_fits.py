"""Fits with a published checkpoint: class means of its hidden states, and candidates and variations that it wrote.

    sotto bench run checkpoint-fits

Layer and pooling are chosen on two sets (``DEVELOPMENT``) by class means without the model's own answer, and the
others are reported with that choice. The built-in encoder stands beside it, and so does the embedded writer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Final, final

import numpy as np

from sottovoce.benchmarks.frontier.kept import DELTA, REGRESSION
from sottovoce.benchmarks.frontier.measure import regression
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.checkpoint import CHECKPOINT, installed_checkpoint
from sottovoce.benchmarks.harness.datasets import OWN, Episode
from sottovoce.benchmarks.harness.experiment import (
    Bench,
    Cell,
    Experiment,
    Key,
    Measurements,
    Piece,
    Result,
    Settings,
    about,
)
from sottovoce.benchmarks.harness.quick_fits import SHORTCUTS, PublicSums, shortcuts
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.harness.runner import open_model
from sottovoce.data.bundled import pool_vectors, public_pool
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitSetting, PublicInputs, make_fitter
from sottovoce.methods.fitting.writing import ModelWriter
from sottovoce.models.base import FloatArray
from sottovoce.models.registry import load_stepper
from sottovoce.models.text_vectors import public_texts, unit
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Query, Task

DEVELOPMENT: Final = ("subj", "sarcasm")
SHARES: Final = (1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 1.0)
"""How far up the layers lie that are compared."""
POOLINGS: Final = ("mean", "last")
POOL_STEP: Final = 4
"""Every so many bundled public texts concentrate hidden states: a pass over all 5,444 takes minutes."""
CANDIDATES: Final = 200
"""Texts that each writer writes for a task."""
WRITERS: Final = {"checkpoint": CHECKPOINT, "embedded": "embedded"}
STATES, ENCODER = "class-means, hidden states", "class-means, built-in encoder"
ALONE, WITH_ANSWER = "alone", "with the model's own answer"
CHOICE, EVOLVE = "choice", "evolve"
BUNDLED: Final = "bundled pool"


def measure(bench: Bench, piece: Piece) -> Measurements:
    """References and fits of one draw; sets on which layer and pooling are chosen are drawn once."""
    if piece.task in DEVELOPMENT and piece.seed:
        return
    [records], [epsilon], [adjacency] = bench.settings.records, bench.settings.epsilons, bench.adjacencies
    episode = bench.world(piece.task).episode(piece.seed, bench.settings.queries, piece.names, records)
    cell = _Draw(bench, piece, episode, epsilon, adjacency)
    states = _states(bench)
    recorded = states.of([_text(episode.task, example.fields) for example in episode.records])
    asked = states.of([_text(episode.task, query) for query in episode.questions])
    pool = states.of([str(row.values["text"]) for row in list(public_pool())[::POOL_STEP]])
    reported = piece.task not in DEVELOPMENT
    public = e.ask_public(bench.scorer, episode) if reported else np.zeros((len(asked), len(episode.task.labels)))
    for place in states.places:
        vectors, questions, texts = (states.placed(each, place) for each in (recorded, asked, pool))
        support = cell.fitted("class-means", states.scorer, vectors, texts, {"prior_weight": 0.0}, place)
        evidence = support.log_probabilities(questions, np.zeros_like(public))
        yield cell.key(STATES, f"{place}, {ALONE}"), e.right(e.best_laws(evidence), episode.truth)
        if reported:
            yield cell.key(STATES, f"{place}, {WITH_ANSWER}"), e.right(e.best_laws(public + evidence), episode.truth)
            plain = regression(vectors, cell.labels, questions, len(episode.task.labels))
            yield cell.key(REGRESSION, place), e.right(e.best_laws(plain), episode.truth)
    if reported:
        yield cell.key(e.ZERO_SHOT, "checkpoint"), e.right(e.best_laws(public), episode.truth)
        yield from _built_in(bench, cell)


def _built_in(bench: Bench, cell: _Draw) -> Measurements:
    """The built-in encoder: class means, and choices among public texts of each kind."""
    model, episode = _encoder(bench), cell.episode
    task, name = episode.task, "built-in encoder"
    vectors = np.asarray(model.embed_records(task, [example.fields for example in episode.records]))
    asked = np.asarray(model.embed_questions(task, episode.questions))
    public = e.ask_public(model, episode)
    bundled: list[Query] = [{task.fields[0]: str(row.values["text"])} for row in public_pool()]
    kept = pool_vectors(model.embedding, [task.text_of(text) for text in bundled])
    yield cell.key(e.ZERO_SHOT, name), e.right(e.best_laws(public), episode.truth)
    plain = regression(vectors, cell.labels, asked, len(task.labels))
    yield cell.key(REGRESSION, name), e.right(e.best_laws(plain), episode.truth)
    pools: dict[str, list[Query]] = {BUNDLED: bundled}
    pools |= {f"written by {writer}": _written(bench, task, writer) for writer in WRITERS}
    embedded = {
        pool: np.asarray(model.embed_questions(task, texts)) if pool != BUNDLED or kept is None else kept
        for pool, texts in pools.items()
    }
    fits: list[tuple[str, str, str, Any]] = [(ENCODER, "class-means", BUNDLED, None)]
    fits += [(CHOICE, "choice", pool, None) for pool in pools]
    fits += [(f"{EVOLVE}, varied by {writer}", "evolve", BUNDLED, writer) for writer in WRITERS]
    for method, fitter, pool, writer in fits:
        varied = ModelWriter(task, _stepper(writer)) if writer else None
        option = "" if method == ENCODER else pool
        support = cell.fitted(fitter, model, vectors, embedded[pool], {}, method + option, pools[pool], varied)
        classifier = getattr(support, "classifier", support)
        evidence = classifier.log_probabilities(asked, np.zeros_like(public))
        for weight, how in ((0.0, ALONE), (1.0, WITH_ANSWER)):
            law = e.best_laws(weight * public + evidence)
            yield cell.key(method, f"{option}, {how}".removeprefix(", ")), e.right(law, episode.truth)


@final
class _Draw:
    """One episode at one price."""

    def __init__(self, bench: Bench, piece: Piece, episode: Episode, epsilon: float, adjacency: Adjacency) -> None:
        self.bench, self.piece, self.episode, self.epsilon, self.adjacency = bench, piece, episode, epsilon, adjacency
        self.labels = np.array([example.label for example in episode.records], dtype=np.intp)

    def key(self, method: str, option: str) -> Key:
        private = method not in (e.ZERO_SHOT, REGRESSION)
        return Key(
            self.piece.task, self.piece.names, method, "right", len(self.labels), 1,
            self.adjacency.value if private else None, self.epsilon if private else None, option,
        )  # fmt: skip

    def fitted(
        self, name: str, model: Any, vectors: FloatArray, pool: FloatArray, options: dict[str, Any], salt: str,
        texts: Sequence[Query] = (), writer: ModelWriter | None = None,
    ) -> Any:  # fmt: skip
        """What a fit of these vectors leaves, its noise by a seed of its own."""
        task, change = self.episode.task, change_type(Assignment.OWN_SLOT, self.adjacency)
        setting = FitSetting(
            labels=len(task.labels), dimension=vectors.shape[1], units=len(vectors), adjacency=self.adjacency,
            change=change, candidates=len(pool),
        )  # fmt: skip
        plan = make_fitter(name, **options).plan(Price(self.epsilon, DELTA), setting)
        private = PublicSums(vectors, self.labels, change, self.adjacency, _unasked)
        inputs = PublicInputs(
            task, model, model, texts or [{}] * len(pool), pool,
            lambda queries: e.ask_public(model, replace(self.episode, questions=queries)), writer,
        )  # fmt: skip
        said = f"{self.piece.name}|{name}|{salt}|{self.epsilon}".encode()
        seed = int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "big")
        with shortcuts():
            return plan.fitter.fit(plan, private, inputs, SeededRandomness(seed))


def _unasked(queries: Sequence[Query]) -> tuple[FloatArray, FloatArray]:
    raise AssertionError("these fitters ask no expert")


def _text(task: Task, query: Query) -> str:
    return task.text_of(query)


# What is worked out once


@lru_cache(maxsize=1)
def _encoder(bench: Bench) -> Any:
    return open_model("embedded", bench.scorer.store)


@lru_cache(maxsize=2)
def _stepper(writer: str) -> Any:
    return load_stepper(installed_checkpoint() if WRITERS[writer] == CHECKPOINT else WRITERS[writer])


def _written(bench: Bench, task: Task, writer: str) -> list[Query]:
    """Texts that a writer wrote for a task before any record was read; kept, since they follow from public words."""
    name = f"written {CANDIDATES} by {writer}"
    asked = json.dumps([list(task.labels), task.instruction, task.query, task.example])
    [kept] = bench.scorer.store.find(name, [asked])
    if kept is None:
        texts = ModelWriter(task, _stepper(writer)).candidates(CANDIDATES)
        letters = np.frombuffer(json.dumps(texts).encode(), np.uint8).astype(np.float32)
        bench.scorer.store.keep(name, [asked], [letters])
        kept = letters
    found: list[Query] = json.loads(kept.astype(np.uint8).tobytes())
    return found


@lru_cache(maxsize=1)
def _states(bench: Bench) -> _States:
    return _States(bench)


@final
class _States:
    """Hidden states of the checkpoint at several layers, one pass a text, kept between runs.

    Attributes:
        scorer: The checkpoint.
        places: Layers and poolings by name.
    """

    def __init__(self, bench: Bench) -> None:
        scorer: Any = bench.scorer.scorer
        self.scorer, embedder = scorer, scorer.embedder()
        self._store, self._name = bench.scorer.store, f"states of {bench.settings.model}"
        self._layers = [max(1, round(share * embedder.layers)) for share in SHARES]
        self._embedder = embedder
        self.places = [f"layer {layer}, {pooling}" for layer in self._layers for pooling in POOLINGS]

    def of(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of length one at every place, shape (texts, places, width)."""
        known = list(self._store.find(self._name, texts))
        for start in range(0, len(texts), 64):
            missing = [at for at in range(start, min(start + 64, len(texts))) if known[at] is None]
            fresh = [self._read(texts[at]) for at in missing]
            self._store.keep(self._name, [texts[at] for at in missing], fresh)
            for at, vector in zip(missing, fresh, strict=True):
                known[at] = vector
        return np.array(known, dtype=np.float64).reshape(len(texts), len(self.places), -1)

    def placed(self, states: FloatArray, place: str) -> FloatArray:
        """Vectors at one place, off the public mean, as ``HiddenStates`` has them."""
        at = self.places.index(place)
        return unit(states[:, at] - self._centre[at])

    @cached_property
    def _centre(self) -> FloatArray:
        return np.asarray(self.of(public_texts()).mean(axis=0))

    def _read(self, text: str) -> Any:
        """One pass; every layer from its numbers there."""
        found = [unit(rows) for rows in self._embedder.pooled_states(text, self._layers)]
        return np.concatenate([row.ravel() for row in found]).astype(np.float32)


# How it is shown


def chosen_place(result: Result) -> str:
    """The layer and pooling with the best mean over the development sets; empty where none was measured."""
    means: dict[str, list[float]] = {}
    for cell in result.cells:
        if cell.key.task in DEVELOPMENT and cell.key.method == STATES:
            means.setdefault(cell.key.option.removesuffix(f", {ALONE}"), []).append(cell.mean)
    return max(means, key=lambda place: sum(means[place])) if means else ""


def section(result: Result) -> ReportSection:
    """Layer and pooling on the development sets, and the other sets with that choice."""
    place = chosen_place(result)
    line = f"Chosen on {', '.join(DEVELOPMENT)}: {place}."
    tables = [*_development(result), *_reported(result, place)]
    return ReportSection(result.experiment, EXPERIMENT.title, EXPERIMENT.source, [line], tables, [], about(result))


def _development(result: Result) -> Iterator[Table]:
    cells = [cell for cell in result.cells if cell.key.task in DEVELOPMENT and cell.key.method == STATES]
    tasks = list(dict.fromkeys(cell.key.task for cell in cells))
    by = {(cell.key.task, cell.key.option): cell for cell in cells}
    rows = []
    for option in dict.fromkeys(cell.key.option for cell in cells):
        here = [by[task, option].mean for task in tasks]
        place = option.removesuffix(f", {ALONE}")
        rows.append((place, *(f"{mean:.1f}" for mean in here), f"{sum(here) / len(here):.1f}"))
    yield Table("Layer and pooling: percent right, one draw", ("where", *tasks, "mean"), rows)


def _reported(result: Result, place: str) -> Iterator[Table]:
    tasks = [task for task in result.settings.tasks if task not in DEVELOPMENT]
    rows: list[tuple[str, ...]] = []

    def add(name: str, of: Callable[[str], Cell | None]) -> None:
        cells = [of(task) for task in tasks]
        if any(cells):
            rows.append((name, *(str(cell) if cell else "" for cell in cells)))

    for method, option in dict.fromkeys((c.key.method, c.key.option) for c in result.cells if c.key.task in tasks):
        other = option.startswith("layer") and not option.startswith(f"{place},") and option != place
        if not other:
            keys = {c.key.task: c for c in result.cells if (c.key.method, c.key.option) == (method, option)}
            add(f"{method}: {option}", keys.get)
    yield Table(
        "Percent right, the classifier of each fit",
        ("fit", *tasks),
        rows,
        f"{result.settings.records[0]} records, total epsilon {result.settings.epsilons[0]:g}, delta {DELTA:g}, "
        f"{result.settings.adjacencies[0]}, own label names; mean and standard error over seeds. {SHORTCUTS}",
    )


EXPERIMENT: Final = Experiment(
    name="checkpoint-fits",
    title="A published checkpoint as embedder and as writer: what does a fit gain?",
    source="specification 5.13 to 5.15; no counterpart in the papers",
    settings=Settings(
        model=CHECKPOINT,
        seeds=3,
        queries=100,
        tasks=(*DEVELOPMENT, "agnews", "trec"),
        names=(OWN,),
        records=(240,),
        epsilons=(4.0,),
        adjacencies=("replace-one",),
    ),
    measure=measure,
    section=section,
)
