"""What a vision-language model on this machine really does: exact cache, isolated rows, pictures that count."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

from sottovoce.models.base import Context, FloatArray
from sottovoce.models.huggingface.engine import Engine
from sottovoce.models.huggingface.label_tree import LabelTree
from sottovoce.models.huggingface.selftest import SelfTestCheck, SelfTestReport, _gap
from sottovoce.models.vision.contexts import prepare
from sottovoce.models.vision.prompts import VisionPromptWriter
from sottovoce.models.vision.vision_model import VisionModel
from sottovoce.tasks import Example, Query, Task

TASK = Task(
    labels=["dax", "blicket", "dax tree", "shously"],
    name="self-test",
    instruction="Name the last picture.",
    query="{image}\nName:",
    example="{image}\nName: {label}",
    image="image",
)


def made_up_picture(seed: int, size: tuple[int, int] = (72, 56)) -> str:
    """A picture of a disc on a coloured ground, as a PNG file in base64."""
    ground, disc = (tuple((seed * step + shift) % 256 for step in (37, 91, 53)) for shift in (20, 140))
    picture = Image.new("RGB", size, ground)
    ImageDraw.Draw(picture).ellipse((5 + seed % 7, 4, size[0] // 2, size[1] - 6), fill=disc)
    file = BytesIO()
    picture.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def run_self_test(engine: Engine[VisionModel]) -> SelfTestReport:
    """Runs every check; takes a few dozen forward passes."""
    return SelfTestReport((_equals_plain(engine), _isolated(engine), _same_questions(engine), _pictures_count(engine)))


def plain_scores(engine: Engine[VisionModel], task: Task, context: Context, query: Query) -> tuple[FloatArray, float]:
    """The slow, obvious version: one forward pass of the whole model for each label, all pictures at once, no cache.

    The model itself puts the pictures in their places and finds all positions.

    Returns:
        Log-probabilities of the labels, shape (labels,), by the same rule as the scorer's; and the largest logit that
        they rest on.
    """
    model = engine.model
    writer = VisionPromptWriter(model.tokenizer, model.template, model.placeholder, task)
    tree = LabelTree(task.labels, writer.label_paths(), writer.eos_tokens(), restricted=True)
    fields = [*(example.fields for example in context), query]
    scores, largest = np.zeros(len(task.labels)), 0.0
    with model.no_gradient():
        pixels = [model.pixels(each[task.image]) for each in fields]
        texts = [model.look(each).text for each in pixels]
        prefix = writer.prefix([example.label for example in context], fields[:-1], texts[:-1])
        suffix = writer.suffix(query, texts[-1])
        if prefix is None or suffix is None:
            return np.full(len(task.labels), np.nan), 0.0
        shown = {name: tensor.to(model.device) for name, tensor in model.family.join(pixels).items()}
        for number, probe in enumerate(tree.probes):
            logits = plain_logits(engine, (*prefix, *suffix, *probe.path), shown)
            largest = max(largest, float(logits.abs().max()))
            at = [len(prefix) + len(suffix) - 1 + depth for depth, _ in probe.nodes]
            tree.read(number, np.asarray(logits[at][:, tree.tokens].double().cpu().numpy()), scores)
    return scores, largest


def plain_logits(engine: Engine[VisionModel], ids: Sequence[int], shown: dict[str, Any]) -> torch.Tensor:
    """The model's own forward pass over tokens and pictures, float32, shape (tokens, words)."""
    model = engine.model
    tokens = torch.tensor([list(ids)], device=model.device)
    if "mm_token_type_ids" in inspect.signature(model.model.forward).parameters:
        shown = {**shown, "mm_token_type_ids": (tokens == model.image_token).int()}
    logits: torch.Tensor = model.model(
        input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False, **shown
    ).logits[0]
    return logits.float()


def _example(seed: int) -> Example:
    return Example({"image": made_up_picture(seed)}, seed % 4)


def _queries() -> list[Query]:
    return [{"image": made_up_picture(90)}, {"image": made_up_picture(91, (40, 88))}]


def _scores(engine: Engine[VisionModel], contexts: Sequence[Context], queries: Sequence[Query]) -> FloatArray:
    prepared = prepare(engine, TASK, contexts)
    try:
        return prepared.score(queries)
    finally:
        prepared.close()


def _equals_plain(engine: Engine[VisionModel]) -> SelfTestCheck:
    contexts: list[Context] = [[], [_example(1)], [_example(2), _example(3)]]
    queries = _queries()
    ours = _scores(engine, contexts, queries)
    plain = [[plain_scores(engine, TASK, context, query) for context in contexts] for query in queries]
    gap = _gap(ours, np.asarray([[scores for scores, _ in row] for row in plain]))
    # Logits carry a relative error, so large ones may differ by more; bfloat16 has 8 bits.
    largest = max(logit for row in plain for _, logit in row)
    allowed = (1e-4 if engine.model.dtype == torch.float32 else 5e-2) * max(1.0, 0.4 * largest)
    wording = f"Scores differ from the model's own uncached forward pass by {gap:.1e} nats; {allowed:.0e} allowed."
    return SelfTestCheck("plain forward pass", gap <= allowed, gap, None, wording)


def _isolated(engine: Engine[VisionModel]) -> SelfTestCheck:
    target: Context = [_example(1)]
    unreadable: Context = [Example({"image": "no picture"}, 0)]
    worlds: list[list[Context]] = [
        [target],
        [target, [_example(5)], []],
        [[_example(6), _example(7), _example(8)], unreadable, target],
    ]
    rows = [_scores(engine, world, _queries())[:, world.index(target)] for world in worlds]
    gap = max(_gap(rows[0], row) for row in rows[1:])
    equal = all(rows[0].tobytes() == row.tobytes() for row in rows[1:])
    wording = "An expert's scores are equal in every bit whatever the other experts hold."
    if not equal:
        wording = f"An expert's scores change by up to {gap:.1e} nats with what others hold: no formal guarantee."
    return SelfTestCheck("isolation", equal, gap, equal, wording)


def _same_questions(engine: Engine[VisionModel]) -> SelfTestCheck:
    queries, contexts = _queries(), [[_example(1)]]
    forward = _scores(engine, contexts, queries)
    backward = np.ascontiguousarray(_scores(engine, contexts, queries[::-1])[::-1])
    gap, equal = _gap(forward, backward), forward.tobytes() == backward.tobytes()
    wording = "The number and order of questions change no bit."
    if not equal:
        wording = f"The order of (public) questions changes scores by up to {gap:.1e} nats; no privacy is lost."
    return SelfTestCheck("questions beside each other", equal, gap, equal, wording)


def _pictures_count(engine: Engine[VisionModel]) -> SelfTestCheck:
    contexts: list[Context] = [[_example(1)], [Example({"image": made_up_picture(40)}, 1)]]
    scores = _scores(engine, contexts, _queries())
    moved = min(_gap(scores[0], scores[1]), _gap(scores[:, 0], scores[:, 1]))
    passed = bool(np.isfinite(scores).all()) and moved > 0
    wording = f"Another picture moves the scores by {moved:.1e} nats." if passed else "Pictures do not reach the model."
    return SelfTestCheck("pictures count", passed, 0.0, None, wording)
