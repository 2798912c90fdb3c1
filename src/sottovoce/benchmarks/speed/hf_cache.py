"""How many answers a second: prefixes kept, against prefixes read again, against one pass for every label.

Three ways to the same scores, with one model of about 10 million random weights (speed does not depend on what the
weights say) and made-up tickets:

* ``cached``: each expert's demonstrations are read once, in the time that is measured, then reused by every question;
* ``uncached``: the same code, batches and restricted output head, but demonstrations are read with every question;
* ``label_by_label``: the usual pattern elsewhere: for every label of every prompt one forward pass over prompt and
  label, with logits of the whole vocabulary at every position.

An answer is one question put to one expert and scored for all labels. The slower ways run on a stated part of the
questions; the ways alternate, so that a busy machine slows all of them alike, and processor time is given beside the
time on the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.files.outputs import unused, write_new
from sottovoce.models.base import Context, FloatArray
from sottovoce.tasks import Example, Query, Task, load_task

EXPERTS, QUERIES, ROWS = 25, 200, 4
CASES: dict[str, tuple[int, int]] = {
    "one ticket (about 100 tokens), short question": (1, 24),
    "one ticket (about 100 tokens), question as long as a ticket": (1, 80),
    "several tickets (about 660 tokens), short question": (8, 24),
    "several tickets (about 660 tokens), question as long as a ticket": (8, 80),
}
"""Name of a case to demonstrations of each expert and tokens of a question."""

TICKET_TOKENS = 76


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the cases and writes one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=unused, required=True, help="JSON file to write")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queries", type=int, default=QUERIES, help="questions of the cached way")
    parser.add_argument("--uncached-queries", type=int, default=2 * ROWS, help="of the uncached way: full batches")
    parser.add_argument("--label-by-label-queries", type=int, default=1)
    parser.add_argument("--experts", type=int, default=EXPERTS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cases", type=int, nargs="*", default=list(range(len(CASES))), help="numbers of cases")
    args = parser.parse_args(argv)
    import torch

    torch.set_num_threads(args.threads)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    report: dict[str, Any] = {"machine": _machine(args.threads), "settings": {**vars(args), "out": args.out.name}}
    with tempfile.TemporaryDirectory() as folder:
        report["model"] = build_model(Path(folder))
        report["cases"] = []
        for name in [list(CASES)[number] for number in args.cases]:
            report["cases"].append(_case(name, folder, args))
            begun = len(report["cases"]) > 1  # what was there before is never replaced, what this run wrote is
            write_new(args.out, json.dumps(report, indent=2) + "\n", replaces=(lambda _: True) if begun else None)
    print(json.dumps(report, indent=2))
    return 0


def build_model(folder: Path) -> dict[str, Any]:
    """Saves a random model and a tokenizer trained on made-up words; returns their sizes."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=8192,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    task = load_task("tickets")
    public = [f"{task.instruction}\n\nTicket: x\nTeam: {label}\n\n" for label in task.labels] * 50
    inner.train_from_iterator([*public, " ".join(words()), " ".join(words())], trainer)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|endoftext|>", pad_token="<|endoftext|>", model_max_length=4096
    ).save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=256,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=8,
        intermediate_size=704,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    size = sum(weight.numel() for weight in model.parameters())
    return {
        "shape": "Llama",
        "parameters": size,
        "layers": 8,
        "width": 256,
        "vocabulary": 8192,
        "words_of_tokenizer": len(inner.get_vocab()),
    }


def words() -> list[str]:
    """Some thousand made-up words."""
    source = random.Random(7)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ai", "on", "er")]
    return ["".join(source.choices(syllables, k=source.choice((1, 2, 2, 3)))) for _ in range(12_000)]


def _case(name: str, folder: str, args: argparse.Namespace) -> dict[str, Any]:
    from sottovoce.models.huggingface.label_scorer import TransformersScorer

    shots, question_tokens = CASES[name]
    task = load_task("tickets")
    kept = TransformersScorer(folder, device="cpu", dtype="float32", rows=ROWS, layout="queries")
    again = TransformersScorer(folder, device="cpu", dtype="float32", rows=ROWS, layout="queries", reuse_cache=False)
    source, vocabulary = random.Random(1), words()

    def ticket(tokens: int) -> str:
        chosen: list[str] = []
        while len(kept.model.tokenizer.encode(" ".join(chosen))) < tokens:
            chosen.append(source.choice(vocabulary))
        return " ".join(chosen)

    contexts = [
        [Example({"text": ticket(TICKET_TOKENS)}, source.randrange(len(task.labels))) for _ in range(shots)]
        for _ in range(args.experts)
    ]
    queries = [{"text": ticket(question_tokens)} for _ in range(args.queries)]
    part = _full_batches(kept, task, queries, args.uncached_queries)
    few = part[: args.label_by_label_queries]
    ways: dict[str, tuple[Callable[[], FloatArray], int]] = {
        "cached": (lambda: _score(kept, task, contexts, queries), len(queries)),
        "uncached": (lambda: _score(again, task, contexts, part), len(part)),
        "label_by_label": (lambda: _label_by_label(again, task, contexts, few), len(few)),
    }
    largest = _largest_difference(kept, again, task, contexts, few)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    cpu_seconds: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(args.repeats):
        for way, (run, _count) in ways.items():
            start, cpu_start = time.perf_counter(), time.process_time()
            run()
            seconds[way].append(time.perf_counter() - start)
            cpu_seconds[way].append(time.process_time() - cpu_start)
    answers = {way: count * len(contexts) for way, (_run, count) in ways.items()}
    rates = {way: [answers[way] / second for second in seconds[way]] for way in ways}
    cpu_rates = {way: [answers[way] / second for second in cpu_seconds[way]] for way in ways}
    return {
        "case": name,
        "prefix_tokens": _spread(_lengths(kept, task, contexts)),
        "question_tokens": _spread(_question_lengths(kept, task, queries)),
        "labels": len(task.labels),
        "experts": len(contexts),
        "questions": {way: count for way, (_run, count) in ways.items()},
        "seconds": seconds,
        "processor_seconds": cpu_seconds,
        "answers_per_second": {way: _spread(rate) for way, rate in rates.items()},
        "cached_over_uncached": _ratios(rates, "uncached"),
        "cached_over_label_by_label": _ratios(rates, "label_by_label"),
        "cached_over_uncached_by_processor_time": _ratios(cpu_rates, "uncached"),
        "cached_over_label_by_label_by_processor_time": _ratios(cpu_rates, "label_by_label"),
        "largest_difference_of_scores": largest,
    }


def _score(scorer: Any, task: Task, contexts: Sequence[Context], queries: Sequence[Query]) -> FloatArray:
    prepared = scorer.prepare(task, contexts)
    scores: FloatArray = prepared.score(queries)
    prepared.close()
    return scores


def _label_by_label(scorer: Any, task: Task, contexts: Sequence[Context], queries: Sequence[Query]) -> FloatArray:
    """Every label of every prompt in its own row, in batches of the same number of rows, whole logits.

    Returns:
        Log-probability of each label's text among all texts, shape (queries, contexts, labels).
    """
    import torch

    from sottovoce.models.huggingface.prompts import PromptWriter

    writer = PromptWriter(scorer.model.tokenizer, task)
    labels = writer.label_paths()
    prompts = [(*_known(writer.prefix(c)), *_known(writer.suffix(q))) for q in queries for c in contexts]
    rows = [(prompt, label) for prompt in prompts for label in labels]
    scores = []
    with torch.inference_mode():
        for start in range(0, len(rows), ROWS):
            batch = rows[start : start + ROWS]
            length = max(len(prompt) + len(label) for prompt, label in batch)
            ids = torch.tensor([[*p, *y, *[0] * (length - len(p) - len(y))] for p, y in batch])
            logits = scorer.model.model(input_ids=ids, use_cache=False).logits.log_softmax(dim=-1)
            for row, (prompt, label) in enumerate(batch):
                at = torch.arange(len(prompt) - 1, len(prompt) + len(label) - 1)
                scores.append(float(logits[row, at, torch.tensor(label)].sum()))
    return np.asarray(scores).reshape(len(queries), len(contexts), len(labels))


def _largest_difference(
    kept: Any, again: Any, task: Task, contexts: Sequence[Context], queries: Sequence[Query]
) -> dict[str, float]:
    """Warms up, and shows that the ways agree: whole probabilities, renormalised, where each label is one token."""
    a, b = _score(kept, task, contexts, queries), _score(again, task, contexts, queries)
    c = _label_by_label(again, task, contexts, queries)
    c = c - np.logaddexp.reduce(c, axis=-1, keepdims=True)
    return {"uncached": float(np.abs(a - b).max()), "label_by_label": float(np.abs(a - c).max())}


def _full_batches(scorer: Any, task: Task, queries: Sequence[Query], count: int) -> list[Query]:
    """Questions of one length, so that the slower way loses nothing to rows left over."""
    buckets = [-(-length // 8) for length in _question_lengths(scorer, task, queries)]
    common = Counter(buckets).most_common(1)[0][0]
    return [query for query, bucket in zip(queries, buckets, strict=True) if bucket == common][:count]


def _lengths(scorer: Any, task: Task, contexts: Sequence[Context]) -> list[int]:
    from sottovoce.models.huggingface.prompts import PromptWriter

    writer = PromptWriter(scorer.model.tokenizer, task)
    return [len(_known(writer.prefix(context))) for context in contexts]


def _question_lengths(scorer: Any, task: Task, queries: Sequence[Query]) -> list[int]:
    from sottovoce.models.huggingface.prompts import PromptWriter

    writer = PromptWriter(scorer.model.tokenizer, task)
    return [len(_known(writer.suffix(query))) for query in queries]


def _known(tokens: tuple[int, ...] | None) -> tuple[int, ...]:
    assert tokens is not None
    return tokens


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"least": min(values), "median": statistics.median(values), "most": max(values)}


def _ratios(rates: dict[str, list[float]], way: str) -> dict[str, float]:
    """How many times faster the cached way was, repeat by repeat."""
    return _spread([fast / slow for fast, slow in zip(rates["cached"], rates[way], strict=True)])


def _machine(threads: int) -> dict[str, Any]:
    import torch
    import transformers

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": threads,
        "load_average_at_start": load,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": "float32",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    raise SystemExit(main())
