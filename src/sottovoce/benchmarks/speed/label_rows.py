"""Label scoring of an ``hf:`` model by the shape of its passes, beside a plain pass over the same number of tokens.

    sotto bench run label-rows --model hf:FILE.gguf --out FILE.json

A shape is a number of rows, or a number of tokens that rows make up, and the step to which lengths are padded. For
questions of four lengths, one and many at a time, each shape is timed in turn, so that a busy machine slows all of them
alike; the least processor time of the repeats counts. Tokens are those of the questions, without padding: what a plain
pass is compared with.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sottovoce.benchmarks.harness.checkpoint import CHECKPOINT, installed_checkpoint
from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.data.bundled import ticket_queries
from sottovoce.files.outputs import unused, write_new
from sottovoce.tasks import Example, load_task

SHAPES: Final[tuple[dict[str, Any], ...]] = (
    {"rows": 4, "length_step": 8, "pass_tokens": None},
    {"rows": 1, "length_step": 1, "pass_tokens": None},
    {"rows": 8, "length_step": 4, "pass_tokens": 32},
    {"rows": 12, "length_step": 4, "pass_tokens": 48},
    {"rows": 16, "length_step": 4, "pass_tokens": 64},
)
WORDS: Final = (2, 8, 20, 60)
"""Words of a question."""
PLAIN: Final = (64, 128, 256)
"""Tokens of plain passes; the fastest counts."""


def main(argv: Sequence[str] | None = None) -> int:
    """Times every shape, prints a table and writes one JSON file."""
    parser = argparse.ArgumentParser(prog="label-rows", description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default=CHECKPOINT, help="hf:NAME_OR_PATH")
    parser.add_argument("--out", type=unused, help="JSON file to write")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--questions", type=int, nargs="+", default=[1, 30], help="questions at a time")
    arguments = parser.parse_args(argv)
    import torch

    from sottovoce.models.huggingface.label_scorer import TransformersScorer

    torch.set_num_threads(1)
    spec = installed_checkpoint() if arguments.model == CHECKPOINT else arguments.model
    scorer = TransformersScorer(spec.removeprefix("hf:"), device="cpu")
    plain = max(_plain(scorer, length) for length in PLAIN for _ in range(1 + arguments.repeats))
    cells = []
    for words in WORDS:
        for count in arguments.questions:
            for cell in _timed(scorer, words, count, arguments.repeats):
                cell["share_of_plain"] = round(cell["tokens_a_second"] / plain, 3)
                cells.append(cell)
                print(json.dumps(cell), flush=True)
    report = {
        "benchmark": "label-rows", "model": arguments.model, "clock": "processor seconds, one thread",
        "plain_tokens_a_second": round(plain, 1), "machine": describe(), "cells": cells,
    }  # fmt: skip
    if arguments.out:
        write_new(Path(arguments.out), json.dumps(report, indent=1) + "\n")
    return 0


def _plain(scorer: Any, length: int) -> float:
    """Tokens a processor second of one pass over made-up tokens."""
    import torch

    ids = torch.tensor([scorer.model.made_up(min(length, scorer.model.limit or length))])
    with scorer.model.no_gradient():
        started = time.process_time()
        scorer.model.features(ids, cache=scorer.model.new_cache())
        return ids.shape[1] / (time.process_time() - started)


def _timed(scorer: Any, words: int, count: int, repeats: int) -> list[dict[str, Any]]:
    from sottovoce.models.huggingface.contexts import prepare
    from sottovoce.models.huggingface.prompts import PromptWriter

    task, rows = load_task("tickets"), list(ticket_queries())
    queries = [{"text": " ".join(str(row.values["text"]).split()[:words])} for row in rows[:count]]
    example = Example({"text": str(rows[-1].values["text"])}, 0)
    engines = [replace(scorer.engine, **shape) for shape in SHAPES]
    prepared = [prepare(engine, task, [[example]], "queries") for engine in engines]
    writer = PromptWriter(scorer.model.tokenizer, task)
    tokens = sum(len(writer.suffix(query) or ()) for query in queries)
    least = [float("inf")] * len(SHAPES)
    for _ in range(repeats):
        for at, contexts in enumerate(prepared):
            started = time.process_time()
            contexts.score(queries)
            least[at] = min(least[at], time.process_time() - started)
    for contexts in prepared:
        contexts.close()
    return [
        {
            "tokens_a_question": round(tokens / count, 1), "questions": count, **shape,
            "seconds_a_question_and_expert": round(seconds / count, 4), "tokens_a_second": round(tokens / seconds, 1),
        }
        for shape, seconds in zip(SHAPES, least, strict=True)
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
