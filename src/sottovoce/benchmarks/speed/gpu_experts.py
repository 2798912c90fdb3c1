"""How fast one accelerator reads experts and scores labels, with random weights in the shape of Qwen3-4B.

The model is made on the device itself, and goes through ``hf:``'s own scorer. Measured for contexts of about 100 and
660 tokens, 25 and 100 experts, in both layouts:

* ``prefill``: experts' contexts read and kept. In both layouts that is one expert at a time, batch size 1;
* ``scoring``: labels scored behind kept contexts, in layout ``queries`` (one expert at a time, a row a question) and
  ``experts`` (a row an expert, one question at a time), always with the scorer's constant number of rows.

Operations are counted from the shapes of every forward pass that ran, rows of padding included:
2 x weights x tokens, and 4 x layers x heads x width of a head for every position that a token attends to. Weights are
those of the layers; the embedding is looked up, and a few rows of the output head are left out. Speed does not depend
on what weights say; what the self-test finds can, and holds for this model on this machine.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.benchmarks.speed.hf_cache import words
from sottovoce.files.outputs import unused, write_new
from sottovoce.models.base import Context, FloatArray
from sottovoce.tasks import Example, Query, Task, load_task

if TYPE_CHECKING:
    from sottovoce.models.huggingface.label_scorer import TransformersScorer

SHAPES: Final[dict[str, dict[str, int]]] = {
    "qwen3-4b": {
        "hidden_size": 2560,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 9728,
        "vocab_size": 151_936,
    },
    "small": {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 128,
        "vocab_size": 8192,
    },
}
"""Sizes as in a model's configuration; embeddings are tied."""

PEAKS: Final = (("H100", "PCIe", 756.0), ("H100", "HBM3", 989.0), ("H200", "", 989.0), ("A100", "", 312.0))
"""Two parts of a device's name, and the data sheet's dense bfloat16 teraflops. Slices (MIG) and NVL are not known."""

LAYOUTS: Final = ("queries", "experts")
TICKET_TOKENS: Final = 80
WORDS: Final = 8192


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints one JSON text, and writes it where ``--out`` says; ends with 2 where there is no accelerator."""
    parser = argparse.ArgumentParser(prog="sotto bench run gpu-experts", description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", choices=list(SHAPES), default="qwen3-4b", help="small runs on a processor")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:i")
    parser.add_argument("--dtype", default="auto", help="auto (bfloat16 on CUDA), bfloat16, float32, float16")
    parser.add_argument("--contexts", type=int, nargs="+", default=[100, 660], help="tokens of an expert's context")
    parser.add_argument("--experts", type=int, nargs="+", default=[25, 100])
    parser.add_argument("--questions", type=int, nargs="+", default=[1, 32], help="questions scored in one call")
    parser.add_argument("--question-tokens", type=int, default=24)
    parser.add_argument("--rows", type=int, help="rows of every scoring pass [32 on CUDA, 4 on a processor]")
    parser.add_argument("--cache-gib", type=float, default=16.0, help="for keys and values of contexts")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of a processor")
    parser.add_argument("--out", type=unused, help="JSON file to write")
    args = parser.parse_args(None if argv is None else list(argv))
    import torch

    if args.shape != "small" and (args.device == "cpu" or not torch.cuda.is_available()):
        parser.error(
            f"the shape {args.shape} is only measured on a CUDA device, and there is none here or --device leaves it "
            "aside. To try the measurement on a processor, use --shape small."
        )
    threads = torch.get_num_threads()
    torch.set_num_threads(args.threads)
    try:
        report = measure(args)
    finally:
        torch.set_num_threads(threads)
    text = json.dumps(report, indent=2, allow_nan=False)
    if args.out:
        write_new(args.out, text + "\n")
    print(text)
    return 0


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Everything there is to measure, as JSON."""
    from sottovoce.models.huggingface.label_scorer import TransformersScorer

    started = time.perf_counter()
    made = random_model(SHAPES[args.shape], device=args.device, dtype=args.dtype)
    scorer = TransformersScorer(
        f"random {args.shape}", loaded=made, rows=args.rows, cache_bytes=int(args.cache_gib * 2**30)
    )
    ready = time.perf_counter() - started
    peak = _peak(scorer)
    report: dict[str, Any] = {
        "machine": describe(),
        "device": _device(scorer),
        "settings": {**vars(args), "out": args.out and args.out.name, "rows": scorer.rows},
        "model": {**SHAPES[args.shape], **_sizes(scorer), "seconds_to_make": ready},
        "peak": peak,
        "self_test": _self_test(scorer),
        "cases": [],
    }
    for tokens in args.contexts:
        for experts in args.experts:
            case = _case(scorer, tokens, experts, args, peak["teraflops"])
            report["cases"].append(case)
            print(_summary(case), file=sys.stderr)
    return report


def random_model(shape: dict[str, int], *, device: str = "auto", dtype: str = "auto") -> tuple[Any, Any]:
    """A tokenizer trained on made-up words and a Qwen3 of this shape, its weights drawn on the device in its dtype.

    Args:
        shape: Sizes as in ``SHAPES``.
        device: ``auto`` (CUDA where there is one), or a device of torch.
        dtype: ``auto`` (bfloat16 on CUDA, else float32), or a dtype of torch.
    """
    import torch
    import transformers

    place = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    kind = (torch.bfloat16 if place.type == "cuda" else torch.float32) if dtype == "auto" else getattr(torch, dtype)
    config = transformers.Qwen3Config(
        **shape,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    with place:
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=kind, attn_implementation="sdpa")
    return trained_tokenizer([" ".join(_vocabulary())] * 2), model


def trained_tokenizer(texts: Iterable[str], size: int = WORDS) -> Any:
    """A byte-level tokenizer of at most ``size`` tokens, trained on these texts and the prompts of tickets."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    task = load_task("tickets")
    public = [f"{task.instruction}\n\nTicket: x\nTeam: {label}\n\n" for label in task.labels] * 50
    inner.train_from_iterator([*public, *texts], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|endoftext|>", pad_token="<|endoftext|>", model_max_length=1 << 20
    )


@final
class OperationCount:
    """Counts the floating-point operations of every forward pass while it is entered, from shapes alone.

    Attributes:
        operations: Counted so far.
        rows: Run so far, those left over included.
        tokens: Run so far, padding included.
    """

    def __init__(self, scorer: TransformersScorer) -> None:
        self._body = scorer.model.body
        config = scorer.model.model.config
        self._weights = _sizes(scorer)["weights_of_layers"]
        self._attention = 4 * config.num_hidden_layers * config.num_attention_heads * config.head_dim
        self.operations = self.rows = self.tokens = 0

    def __enter__(self) -> OperationCount:
        self._hook = self._body.register_forward_pre_hook(self._note, with_kwargs=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()

    def _note(self, _body: Any, _args: Any, named: dict[str, Any]) -> None:
        rows, length = named["input_ids"].shape
        cache = named.get("past_key_values")
        before = 0 if cache is None else int(cache.get_seq_length())
        attended = rows * (length * before + length * (length + 1) // 2)
        self.rows += rows
        self.tokens += rows * length
        self.operations += 2 * self._weights * rows * length + self._attention * attended


def known_peak(device: str, dtype: str) -> float | None:
    """The data sheet's teraflops of a device by its name, for half precision; ``None`` where it is not known.

    Sources: NVIDIA's data sheets of H100, H200 and A100, dense figures.

    Example:
        >>> known_peak("NVIDIA H100 80GB HBM3", "bfloat16")
        989.0
    """
    if dtype == "float32" or "MIG" in device or "NVL" in device:
        return None
    return next((peak for family, kind, peak in PEAKS if family in device and kind in device), None)


def _case(
    scorer: TransformersScorer, tokens: int, experts: int, args: argparse.Namespace, peak: float
) -> dict[str, Any]:
    task = load_task("tickets")
    source = random.Random(tokens * 1000 + experts)
    contexts, lengths = _contexts(scorer, task, source, tokens, experts)
    most = max(args.questions)
    queries = [{"text": _ticket(scorer, source, args.question_tokens)} for _ in range(most)]
    _reset_memory(scorer)
    layouts: dict[str, Any] = {}
    last: dict[str, FloatArray] = {}
    for layout in LAYOUTS:
        layouts[layout] = {"prefill": _Rate(experts), "scoring": {n: _Rate(experts * n) for n in args.questions}}
        last[layout] = _once(scorer, task, contexts, queries, layout, layouts[layout], counted=True)
    for repeat in range(args.repeats):
        for layout in LAYOUTS if repeat % 2 == 0 else LAYOUTS[::-1]:
            _once(scorer, task, contexts, queries, layout, layouts[layout], counted=False)
    return {
        "context_tokens": _spread(lengths),
        "question_tokens": _spread(_question_lengths(scorer, task, queries)),
        "experts": experts,
        "labels": len(task.labels),
        "finite": bool(all(np.isfinite(scores).all() for scores in last.values())),
        "layouts_differ_by": float(np.abs(last["queries"] - last["experts"]).max()),
        "peak_memory_gib": _memory(scorer),
        "layouts": {
            layout: {
                "prefill": rates["prefill"].summary("experts_per_second", peak),
                "scoring": [
                    {"questions": n, **rate.summary("answers_per_second", peak)} for n, rate in rates["scoring"].items()
                ],
            }
            for layout, rates in layouts.items()
        },
    }


def _once(
    scorer: TransformersScorer,
    task: Task,
    contexts: Sequence[Context],
    queries: Sequence[Query],
    layout: str,
    rates: dict[str, Any],
    *,
    counted: bool,
) -> FloatArray:
    """Reads and scores once: counted, which also warms up, or timed. Returns the last scores."""

    def run(rate: _Rate, work: Callable[[], Any]) -> Any:
        if not counted:
            return rate.time(scorer, work)
        with OperationCount(scorer) as count:
            done = work()
        rate.operations, rate.rows, rate.tokens = count.operations, count.rows, count.tokens
        return done

    prepared = run(rates["prefill"], lambda: scorer.prepare_in(task, contexts, layout))
    try:
        for number, rate in rates["scoring"].items():
            scores: FloatArray = run(rate, lambda number=number: prepared.score(queries[:number]))  # type: ignore[misc]
    finally:
        prepared.close()
    return scores


@final
class _Rate:
    """Times of one kind of work, and what it computes.

    Attributes:
        things: Experts or answers that one run makes.
    """

    def __init__(self, things: int) -> None:
        self.things, self.operations, self.rows, self.tokens = things, 0, 0, 0
        self.seconds: list[float] = []

    def time(self, scorer: TransformersScorer, work: Callable[[], Any]) -> Any:
        """Does the work and waits until the device has done it too."""
        _wait(scorer)
        started = time.perf_counter()
        done = work()
        _wait(scorer)
        self.seconds.append(time.perf_counter() - started)
        return done

    def summary(self, name: str, peak: float) -> dict[str, Any]:
        """Rates as least, median and most over repeats."""
        teraflops = [self.operations / second / 1e12 for second in self.seconds]
        return {
            "seconds": self.seconds,
            name: _spread([self.things / second for second in self.seconds]),
            "rows_run": self.rows,
            "tokens_run": self.tokens,
            "tokens_per_second": _spread([self.tokens / second for second in self.seconds]),
            "operations": self.operations,
            "teraflops": _spread(teraflops),
            "share_of_peak": _spread([rate / peak for rate in teraflops]),
        }


def _contexts(
    scorer: TransformersScorer, task: Task, source: random.Random, tokens: int, experts: int
) -> tuple[list[Context], list[int]]:
    """Contexts of about so many tokens, several tickets each where they are long, and their true lengths."""
    from sottovoce.models.huggingface.prompts import PromptWriter

    writer = PromptWriter(scorer.model.tokenizer, task)
    shots = max(1, round(tokens / TICKET_TOKENS))
    frame = _length(writer.prefix([Example({"text": "x"}, 0)] * shots)) / shots - 1
    each = max(1, round(tokens / shots - frame))
    contexts: list[Context] = [
        [Example({"text": _ticket(scorer, source, each)}, source.randrange(len(task.labels))) for _ in range(shots)]
        for _ in range(experts)
    ]
    return contexts, [_length(writer.prefix(context)) for context in contexts]


@lru_cache(maxsize=1)
def _vocabulary() -> list[str]:
    return words()


def _ticket(scorer: TransformersScorer, source: random.Random, tokens: int) -> str:
    """Made-up words of about so many tokens; in a byte-level tokenizer the tokens of words add up."""
    chosen, count, vocabulary = list[str](), 0, _vocabulary()
    while count < tokens:
        chosen.append(source.choice(vocabulary))
        count += len(scorer.model.tokenizer.encode(" " + chosen[-1]))
    return " ".join(chosen)


def _question_lengths(scorer: TransformersScorer, task: Task, queries: Sequence[Query]) -> list[int]:
    from sottovoce.models.huggingface.prompts import PromptWriter

    writer = PromptWriter(scorer.model.tokenizer, task)
    return [_length(writer.suffix(query)) for query in queries]


def _length(tokens: tuple[int, ...] | None) -> int:
    assert tokens is not None
    return len(tokens)


def _sizes(scorer: TransformersScorer) -> dict[str, int]:
    """Parameters in all, and of the layers alone: what every token is multiplied with."""
    model = scorer.model
    looked_up = model.model.get_input_embeddings().weight.numel()
    return {
        "parameters": sum(weight.numel() for weight in model.model.parameters()),
        "weights_of_layers": sum(weight.numel() for weight in model.body.parameters()) - looked_up,
    }


def _device(scorer: TransformersScorer) -> dict[str, Any]:
    import torch

    device: dict[str, Any] = {
        "kind": scorer.model.device.type,
        "dtype": str(scorer.model.dtype).removeprefix("torch."),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }
    if not scorer.on_cuda:
        return {**device, "name": "processor", "threads": torch.get_num_threads(), "memory_gib": None}
    about = torch.cuda.get_device_properties(scorer.model.device)
    return {**device, "name": about.name, "memory_gib": about.total_memory / 2**30}


def _peak(scorer: TransformersScorer) -> dict[str, Any]:
    """The data sheet's peak where the device is known; a large product, measured, in any case."""
    import torch

    size = 8192 if scorer.on_cuda else 512
    with torch.inference_mode():
        matrix = torch.randn(size, size, device=scorer.model.device, dtype=scorer.model.dtype)
        best = _Rate(1)
        for _ in range(10):
            best.time(scorer, lambda: matrix @ matrix)
    measured = 2 * size**3 / min(best.seconds) / 1e12
    sheet = known_peak(_device(scorer)["name"], _device(scorer)["dtype"])
    return {
        "teraflops": sheet or measured,
        "from": "data sheet, dense" if sheet else f"measured: best of 10 products of {size} x {size} matrices",
        "measured_by_product": measured,
    }


def _self_test(scorer: TransformersScorer) -> dict[str, Any]:
    started = time.perf_counter()
    report = scorer.self_test()
    checks = [
        {**asdict(c), "largest_difference": c.largest_difference if math.isfinite(c.largest_difference) else None}
        for c in report.checks
    ]
    return {
        "passed": report.passed,
        "isolation": scorer.isolation.name,
        "layouts_used": [scorer.layout],
        "seconds": time.perf_counter() - started,
        "checks": checks,
    }


def _wait(scorer: TransformersScorer) -> None:
    import torch

    if scorer.on_cuda:
        torch.cuda.synchronize(scorer.model.device)


def _reset_memory(scorer: TransformersScorer) -> None:
    import torch

    if scorer.on_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(scorer.model.device)


def _memory(scorer: TransformersScorer) -> float | None:
    """Most memory that tensors took since the reset, GiB; ``None`` on a processor."""
    import torch

    return torch.cuda.max_memory_allocated(scorer.model.device) / 2**30 if scorer.on_cuda else None


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"least": min(values), "median": statistics.median(values), "most": max(values)}


def _summary(case: dict[str, Any]) -> str:
    """One line a case, for whoever waits."""
    parts = []
    for layout, rates in case["layouts"].items():
        prefill = rates["prefill"]
        share = 100 * prefill["share_of_peak"]["median"]
        answers = ", ".join(
            f"{rate['answers_per_second']['median']:.0f} at {rate['questions']}" for rate in rates["scoring"]
        )
        parts.append(
            f"{layout}: {prefill['experts_per_second']['median']:.1f} experts/s read "
            f"({prefill['teraflops']['median']:.3g} TFLOP/s, {share:.1f} % of peak), "
            f"answers/s by questions a call: {answers}"
        )
    return f"{case['context_tokens']['median']:.0f} tokens, {case['experts']} experts. " + "; ".join(parts)


if __name__ == "__main__":
    raise SystemExit(main())
