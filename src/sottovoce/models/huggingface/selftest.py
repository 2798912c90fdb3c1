"""What a model on this machine really does: exact cache, isolated rows, finite numbers. Made-up public text only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from sottovoce.models.base import Context, FloatArray
from sottovoce.models.huggingface.causal_model import CausalModel
from sottovoce.models.huggingface.contexts import prepare
from sottovoce.models.huggingface.engine import Engine
from sottovoce.models.huggingface.label_tree import LabelTree
from sottovoce.models.huggingface.prompts import PromptWriter
from sottovoce.tasks import Example, Query, Task

TASK = Task(labels=["north", "north east", "south wind", "rain"], name="self-test", instruction="Say which it is.")
QUERIES = (
    {"text": "Seven boats came home before the storm, and one did not; the harbour lamps stayed lit until morning."},
    {"text": "Blue."},
)


@final
@dataclass(frozen=True)
class SelfTestCheck:
    """One thing that was tried.

    Attributes:
        name: Short name.
        passed: Whether it is as it should be.
        largest_difference: In nats, over all scores compared.
        bit_equal: Whether every bit was equal; ``None`` where that is not asked.
        wording: What this means, in a sentence.
        required: Whether the engine, as it was set up, relies on it.
    """

    name: str
    passed: bool
    largest_difference: float
    bit_equal: bool | None
    wording: str
    required: bool = True


@final
@dataclass(frozen=True)
class SelfTestReport:
    """All checks, and whether those that must hold did."""

    checks: tuple[SelfTestCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed that the scorer relies on."""
        return all(check.passed for check in self.checks if check.required)


def run_self_test(
    engine: Engine[CausalModel], *, quick: bool = False, told: Callable[[str], None] | None = None
) -> SelfTestReport:
    """Runs every check; takes a few dozen forward passes.

    Args:
        engine: The model.
        quick: Looks at the layout in use alone, and at one expert beside others of every kind.
        told: Is given a line before each check.
    """
    tell = told or (lambda _: None)
    layouts = ("queries", "experts") if engine.reuse_cache and not quick else (engine.layout,)
    checks = []
    for layout in layouts:
        tell(f"scoring labels: comparing with a plain forward pass, layout {layout}")
        checks.append(_equals_plain(engine, layout))
    for layout in layouts:
        tell(f"scoring labels: putting other experts beside one, layout {layout}")
        checks.append(_isolated(engine, layout, quick=quick))
    tell("scoring labels: asking questions beside each other")
    checks += [_same_whatever_is_asked_beside(engine), _finite(engine)]
    return SelfTestReport(tuple(checks))


def plain_scores(engine: Engine[CausalModel], task: Task, context: Context, query: Query) -> tuple[FloatArray, float]:
    """The slow, obvious version: one forward pass for each label, all logits, no cache, no batch.

    Returns:
        Log-probabilities of the labels, shape (labels,), by the same rule as the scorer's; and the largest logit that
        they rest on.
    """
    writer = PromptWriter(engine.model.tokenizer, task, chat=engine.chat)
    prefix, suffix = writer.prefix(context), writer.suffix(query)
    if prefix is None or suffix is None:
        return np.full(len(task.labels), np.nan), 0.0
    tree = LabelTree(task.labels, writer.label_paths(), writer.eos_tokens(), restricted=engine.restricted)
    scores, largest = np.zeros(len(task.labels)), 0.0
    with engine.model.no_gradient():
        for number, probe in enumerate(tree.probes):
            ids = torch.tensor([[*prefix, *suffix, *probe.path]], device=engine.model.device)
            logits = engine.model.plain_logits(ids)[0]
            largest = max(largest, float(logits.abs().max()))
            if not engine.restricted:
                logits = logits.log_softmax(dim=-1)
            at = [len(prefix) + len(suffix) - 1 + depth for depth, _ in probe.nodes]
            tree.read(number, np.asarray(logits[at][:, tree.tokens].double().cpu().numpy()), scores)
    return scores, largest


def _contexts() -> list[Context]:
    words = ["lamp", "river", "stone", "bread", "violin", "cloud", "garden", "ticket", "bridge", "winter"]
    return [[Example({"text": f"A {word} and {n} more of them."}, n % 4)] for n, word in enumerate(words)]


def _neighbours(count: int, seed: int) -> list[Context]:
    """Texts as long as the first of ``_contexts``, so that they share a batch with it."""
    words = ["oak", "tram", "salt", "kite", "moss", "drum", "wool", "fern", "coin", "lane", "soup"]
    return [
        [Example({"text": f"A {words[(3 * k + seed) % 11]} {k + seed} {words[(k * seed) % 11]}."}, k % 4)]
        for k in range(count)
    ]


def _scores(engine: Engine[CausalModel], contexts: Sequence[Context], layout: str) -> FloatArray:
    prepared = prepare(engine, TASK, contexts, layout)
    try:
        return prepared.score(QUERIES)
    finally:
        prepared.close()


def _equals_plain(engine: Engine[CausalModel], layout: str) -> SelfTestCheck:
    contexts = [[], *_contexts()[:2]]
    ours = _scores(engine, contexts, layout)
    plain = [[plain_scores(engine, TASK, context, query) for context in contexts] for query in QUERIES]
    gap = _gap(ours, np.asarray([[scores for scores, _ in row] for row in plain]))
    allowed = _allowed(engine, contexts[1], gap, max(logit for row in plain for _, logit in row))
    return SelfTestCheck(
        f"plain forward pass, layout {layout}",
        gap <= allowed,
        gap,
        None,
        f"Scores differ from the model's own uncached forward pass by {gap:.1e} nats at most; {allowed:.0e} allowed.",
        layout == engine.layout,
    )


def _allowed(engine: Engine[CausalModel], context: Context, gap: float, largest: float) -> float:
    """How far scores may be apart, in nats: each token of a label adds a difference of two logits."""
    writer = PromptWriter(engine.model.tokenizer, TASK, chat=engine.chat)
    path = max(writer.label_paths(), key=len)
    ids = [*(writer.prefix(context) or ()), *(writer.suffix(QUERIES[0]) or ()), *path]
    logits = 2 * (len(path) + 1)
    return logits * engine.model.allowed(torch.tensor([ids], device=engine.model.device), gap / logits, largest)


def _isolated(engine: Engine[CausalModel], layout: str, *, quick: bool = False) -> SelfTestCheck:
    gap, equal = 0.0, True
    short: Context = [Example({"text": "Tea."}, 0)]
    long: Context = [Example({"text": "The road went on and on. " * 12}, k % 4) for k in range(3)]
    full = [_neighbours(engine.rows - 1, seed) for seed in range(4)]
    few = full[0][:3]
    for target in (_contexts()[0],) if quick else (_contexts()[0], long):
        worlds: list[list[Context]] = [
            [target],
            [target, *full[1]],
            [target, *full[2]],
            [*full[3], target],
            [*few, target, short, [], long],
            [*full[1][:2], *[target] * 3],
        ]
        if quick:
            worlds = [worlds[0], worlds[4]]
        rows = [_scores(engine, world, layout)[:, world.index(target)] for world in worlds]
        gap = max([gap, *(_gap(rows[0], row) for row in rows[1:])])
        equal = equal and all(rows[0].tobytes() == row.tobytes() for row in rows[1:])
    wording = "An expert's scores are equal in every bit whatever the other experts hold."
    if layout == "experts":
        wording = (
            f"Seen at {engine.rows} rows, {len(TASK.labels)} labels and two lengths alone: no guarantee. " + wording
        )
    if not equal:
        wording = f"An expert's scores change by up to {gap:.1e} nats with what others hold: no formal guarantee."
    return SelfTestCheck(f"isolation, layout {layout}", equal, gap, equal, wording, layout == engine.layout)


def _same_whatever_is_asked_beside(engine: Engine[CausalModel]) -> SelfTestCheck:
    prepared = prepare(engine, TASK, _contexts()[:2], "queries")
    many = [*QUERIES, *({"text": f"Number {k} of the row of questions."} for k in range(2 * engine.rows))]
    forward = prepared.score(many)
    backward = prepared.score(many[::-1])[::-1]
    alone = np.concatenate([prepared.score([query]) for query in many[:4]])
    prepared.close()
    gap = max(_gap(forward, backward), _gap(forward[:4], alone))
    equal = forward.tobytes() == np.ascontiguousarray(backward).tobytes() and forward[:4].tobytes() == alone.tobytes()
    wording = "The number and order of questions change no bit."
    if not equal:
        wording = (
            f"The number and order of (public) questions change scores by up to {gap:.1e} nats; no privacy is lost."
        )
    context = _contexts()[0]
    allowed = _allowed(engine, context, gap, max(plain_scores(engine, TASK, context, q)[1] for q in QUERIES))
    return SelfTestCheck("questions beside each other", gap <= allowed, gap, equal, wording)


def _finite(engine: Engine[CausalModel]) -> SelfTestCheck:
    scores = _scores(engine, _contexts(), "queries")
    ok = bool(np.isfinite(scores).all() and (scores <= 1e-9).all())
    wording = "All scores of made-up texts are finite." if ok else "Scores of made-up texts are not finite numbers."
    return SelfTestCheck("finite numbers", ok, 0.0 if ok else float("inf"), None, wording)


def _gap(a: FloatArray, b: FloatArray) -> float:
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return float("inf")
    return float(np.nanmax(np.abs(a - b), initial=0.0))
