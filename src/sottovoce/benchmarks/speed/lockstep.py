"""How fast prompts go in lockstep: this library beside loops that anybody could write, with the same random weights.

In one run, on one machine, with the same model, prompts and number of tokens:

* ``ours``: prompts read once, scores clipped and summed on the integer grid, tokens drawn by the exact sampler;
* ``plain``: one padded batch of all prompts and texts, the library's own growing cache, clipped means of floats, and a
  draw from a float softmax;
* ``recompute``: the plain loop without a cache, every prompt read again for every token;
* ``invink``: the package of that name, in a Python of its own that ``--invink`` names, else left out.

Speed does not depend on what weights say. Times of reading prompts and of writing tokens are told apart; a token of
each text counts once, however many prompts vote on it. Bytes that a step must move are counted from shapes: weights
once, keys and values of every kept position once; beside them stands what a plain copy reaches on the same device.

On an accelerator: ``--shape qwen3-0.6b --experts 64 256`` and ``--shape qwen3-4b --experts 64 --cache-gib 60``.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.benchmarks.speed.gpu_experts import trained_tokenizer
from sottovoce.benchmarks.speed.hf_cache import words
from sottovoce.benchmarks.speed.lockstep_peers import invink, plain_loop
from sottovoce.experts.clipping import ClippedDifferences
from sottovoce.experts.token_scores import candidates_of, log_prior_of, scores_of, summed
from sottovoce.files.outputs import unused, write_new
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.models.stepper import Group, Prompt
from sottovoce.privacy.unit import DROP, Adjacency
from sottovoce.randomness import SystemRandomness

if TYPE_CHECKING:
    from sottovoce.models.lockstep.stepper import TransformersStepper

_LLAMA: Final = {"kind": "llama", "vocab_size": 32_000}
SHAPES: Final[dict[str, dict[str, Any]]] = {
    "11m": _LLAMA
    | {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4}
    | {"head_dim": 64, "intermediate_size": 688},
    "135m": {"kind": "llama", "vocab_size": 49_152}
    | {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
    | {"head_dim": 64, "intermediate_size": 1536},
    "qwen3-0.6b": {"kind": "qwen3", "vocab_size": 151_936}
    | {"hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8}
    | {"head_dim": 128, "intermediate_size": 3072},
    "qwen3-4b": {"kind": "qwen3", "vocab_size": 151_936}
    | {"hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8}
    | {"head_dim": 128, "intermediate_size": 9728},
    "small": _LLAMA
    | {"vocab_size": 9000, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    | {"num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 64},
}
"""Sizes as in a model's configuration; embeddings are tied."""

CLIP: Final = 1.0
EPSILON: Final = 0.25

BANDWIDTHS: Final = (("H100", "HBM3", 3350.0), ("H100", "PCIe", 2000.0), ("H200", "", 4800.0), ("A100", "80GB", 2039.0))
"""Two parts of a device's name, and the data sheet's gigabytes a second. Slices (MIG) and NVL are not known."""

WORDS: Final = 8192
CLOCKS: Final = ("clock", "processor")
"""Seconds that went by, and those that this process was computing; on a busy machine the latter mean more."""

Seconds = tuple[float, float]
"""By both clocks."""
Times = dict[str, list[Seconds]]
"""Of ``read`` and ``write``, for each repeat."""


@final
@dataclass(frozen=True)
class Case:
    """What is asked of every way.

    Attributes:
        experts: Prompts beside the public one.
        shared: Tokens that all prompts begin with.
        own: Tokens behind them, at most.
        texts: Texts side by side.
        tokens: Tokens of each text.
    """

    experts: int
    shared: int
    own: int
    texts: int
    tokens: int


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints one JSON text, and writes it where ``--out`` says."""
    parser = argparse.ArgumentParser(prog="sotto bench run lockstep", description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", choices=list(SHAPES), default="11m", help="of the model, its weights random")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:i")
    parser.add_argument("--dtype", default="auto", help="auto (bfloat16 on CUDA, else float32), bfloat16, float32")
    parser.add_argument("--experts", type=int, nargs="+", default=[8, 32], help="prompts beside the public one")
    parser.add_argument("--prompt-tokens", type=int, default=660)
    parser.add_argument("--shared", type=int, nargs="+", default=[0, 400], help="tokens that all prompts begin with")
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 4], help="texts side by side")
    parser.add_argument("--tokens", type=int, default=64, help="of each text")
    parser.add_argument("--recompute-tokens", type=int, default=2, help="timed for the slow way; 0 for none")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of a processor")
    parser.add_argument(
        "--rows", type=int, help="of every pass over experts; by default the engine's, 64 or 256 on CUDA"
    )
    parser.add_argument("--cache-gib", type=float, default=16.0, help="for keys and values")
    parser.add_argument("--invink", type=Path, help="a Python 3.12 in whose environment invink is installed")
    parser.add_argument("--out", type=unused, help="JSON file to write")
    args = parser.parse_args(None if argv is None else list(argv))
    import torch

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
    from sottovoce.models.lockstep.stepper import TransformersStepper

    made = random_model(args.shape, device=args.device, dtype=args.dtype)
    stepper = TransformersStepper(
        f"random {args.shape}", loaded=made, layout="rows", cache_bytes=int(args.cache_gib * 2**30), rows=args.rows
    )
    tested = stepper.self_test()
    report: dict[str, Any] = {
        "machine": describe(),
        "device": {**_device(stepper), "rows_of_a_pass": stepper.rows},
        "settings": {**vars(args), "out": args.out and args.out.name, "invink": bool(args.invink)},
        "model": {**SHAPES[args.shape], "parameters": sum(p.numel() for p in made[1].parameters())},
        "isolation": stepper.isolation.value,
        "largest_difference_from_plain_logits": tested.largest_difference,
        "copy_gigabytes_per_second": copy_speed(stepper),
        "cases": [],
    }
    for experts in args.experts:
        for shared in args.shared:
            for texts in args.texts:
                case = Case(experts, shared, args.prompt_tokens - shared, texts, args.tokens)
                report["cases"].append(_measured(stepper, case, args, report["copy_gigabytes_per_second"]))
                print(_summary(report["cases"][-1]), file=sys.stderr)
    return report


def random_model(shape: str, *, device: str = "auto", dtype: str = "auto") -> tuple[Any, Any]:
    """A tokenizer trained on made-up words, and a model of this shape with its weights drawn on the device."""
    import torch
    import transformers

    place = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    kind = (torch.bfloat16 if place.type == "cuda" else torch.float32) if dtype == "auto" else getattr(torch, dtype)
    sizes = dict(SHAPES[shape])
    make = {"llama": transformers.LlamaConfig, "qwen3": transformers.Qwen3Config}[sizes.pop("kind")]
    config = make(
        **sizes, max_position_embeddings=8192, tie_word_embeddings=True, pad_token_id=0, bos_token_id=0, eos_token_id=0
    )
    torch.manual_seed(0)
    with place:
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=kind, attn_implementation="sdpa")
    return trained_tokenizer([" ".join(words())] * 2, WORDS), model


def made_prompts(stepper: TransformersStepper, case: Case) -> Group:
    """Prompts of made-up words, between nine tenths of the length that is asked for and all of it."""
    source, vocabulary = random.Random(case.experts * 1000 + case.shared), words()

    def text(tokens: int) -> str:
        # In a byte-level tokenizer the tokens of words add up; what is too much is cut.
        chosen: list[str] = []
        while len(stepper.encode(" ".join(chosen))) < tokens:
            chosen += source.choices(vocabulary, k=1 + tokens // 8)
        return stepper.decode(stepper.encode(" ".join(chosen))[:tokens])

    before = text(case.shared) if case.shared else ""
    after = "\n\nText:"
    room = case.own - len(stepper.encode(after))
    lengths = [room, *(source.randint(room * 9 // 10, room) for _ in range(case.experts))]
    public, *experts = (Prompt(before, text(length), after) for length in lengths)
    return Group(public, experts)


@final
class Ours:
    """This library's way, end to end: exact integer sums and draws."""

    def __init__(self, stepper: TransformersStepper, group: Group, case: Case) -> None:
        self._stepper, self._group, self._case = stepper, group, case
        self._rule, self._mechanism = ClippedDifferences(CLIP), Exponential(EPSILON)
        self._randomness = SystemRandomness()

    def read(self) -> None:
        """Reads the prompts and opens the texts."""
        self._prompts = self._stepper.read([self._group], max_private_tokens=self._case.own, tokens=self._case.tokens)
        self._decoding = self._prompts.write([0] * self._case.texts, self._case.tokens)

    def write(self) -> None:
        """Writes all tokens."""
        tokens: dict[int, int | None] = dict.fromkeys(range(self._case.texts))
        for _ in range(self._case.tokens):
            tokens = {step.text: self._drawn(step.public, step.blocks) for step in self._decoding.step(tokens)}

    def close(self) -> None:
        """Frees the prompts."""
        self._prompts.close()

    def _drawn(self, public: Any, blocks: Any) -> int:
        candidates = candidates_of(public)
        if candidates is None:
            raise AssertionError("made-up scores are finite")
        [sums] = summed(blocks, candidates, [self._rule])
        scores = scores_of(sums, self._rule, DROP, Adjacency.ADD_REMOVE)
        prior = log_prior_of(candidates, 1.0)
        return candidates.token(self._mechanism.select(scores, self._randomness, prior))


def copy_speed(stepper: TransformersStepper) -> float:
    """Gigabytes a second that a plain copy moves, reading and writing, on the model's device."""
    import torch

    on_cuda = stepper.engine.model.device.type == "cuda"
    source = torch.ones((1 << 30 if on_cuda else 1 << 27) // 4, device=stepper.engine.model.device)
    target = torch.empty_like(source)
    seconds = min(_timed(stepper, lambda: target.copy_(source))[0] for _ in range(5))
    return 2 * source.nbytes / seconds / 1e9


def known_bandwidth(device: str) -> float | None:
    """The data sheet's gigabytes a second of a device by its name; ``None`` where it is not known.

    Example:
        >>> known_bandwidth("NVIDIA H100 80GB HBM3")
        3350.0
    """
    if "MIG" in device or "NVL" in device:
        return None
    return next((speed for family, kind, speed in BANDWIDTHS if family in device and kind in device), None)


def bytes_of_step(stepper: TransformersStepper, case: Case) -> int:
    """What a step of all texts must at least read: every weight once, and every kept position once."""
    positions = case.shared + (case.experts + 1) * (case.own + case.texts * case.tokens // 2)
    weights: int = sum(each.nbytes for each in stepper.engine.model.model.parameters())
    return weights + stepper.engine.bytes_of(positions)


def _measured(stepper: TransformersStepper, case: Case, args: argparse.Namespace, copied: float) -> dict[str, Any]:
    group = made_prompts(stepper, case)
    prompts = [stepper.parts.tokens(prompt, case.own) for prompt in (group.public, *group.experts) if prompt]
    ids = [[*prompt.prefix, *(prompt.own or ())] for prompt in prompts]
    model = stepper.engine.model
    ways: dict[str, tuple[Any, int]] = {"ours": (Ours(stepper, group, case), case.tokens)}
    ways["plain"] = plain_loop(model.model, ids, case.texts, case.tokens, CLIP, cached=True), case.tokens
    times: dict[str, Times] = {name: {"read": [], "write": []} for name in ways}
    for repeat in range(args.repeats + 1):
        for name in list(ways)[:: 1 if repeat % 2 else -1]:
            _run(stepper, ways[name][0], times[name], counted=repeat > 0)
    if args.recompute_tokens:
        slow = plain_loop(model.model, ids, case.texts, args.recompute_tokens, CLIP, cached=False)
        ways["recompute"], times["recompute"] = (slow, args.recompute_tokens), {"read": [], "write": []}
        for _ in range(min(args.repeats, 2)):
            _run(stepper, slow, times["recompute"], counted=True)
    rates = {name: _rates(times[name], case, ways[name][1]) for name in ways}
    parts = [
        (prompt.prefix, prompt.private_text + prompt.suffix) for prompt in (group.public, *group.experts) if prompt
    ]
    numbers = {"texts": case.texts, "tokens": case.tokens, "threads": args.threads, "repeats": args.repeats}
    package = invink(args.invink, (model.tokenizer, model.model), parts, numbers)
    # It writes one text after another, so what it takes for all of them counts as one step of each.
    rates["invink"] = package if "left_out" in package else _rates(package, case, case.tokens)
    needed = bytes_of_step(stepper, case)
    reached = needed / (rates["ours"]["clock"]["seconds_per_step"]["median"] * 1e9)
    return {
        "case": {**vars(case), "prompt_lengths": sorted(map(len, ids))},
        "ways": rates,
        "times_as_fast_as": {
            name: {
                "writing": _ratio(rates, name, "seconds_per_step"),
                "reading_and_writing": _ratio(rates, name, "seconds_in_all"),
            }
            for name in rates
            if name != "ours" and "left_out" not in rates[name]
        },
        "bytes_of_step": needed,
        "gigabytes_per_second": reached,
        "share_of_copy_speed": reached / copied,
    }


def _run(stepper: TransformersStepper, way: Any, times: Times, *, counted: bool) -> None:
    read = _timed(stepper, way.read)
    write = _timed(stepper, way.write)
    way.close()
    if counted:
        times["read"].append(read)
        times["write"].append(write)


def _timed(stepper: TransformersStepper, work: Callable[[], Any]) -> Seconds:
    _wait(stepper)
    started, busy = time.perf_counter(), time.process_time()
    work()
    _wait(stepper)
    return time.perf_counter() - started, time.process_time() - busy


def _wait(stepper: TransformersStepper) -> None:
    import torch

    if stepper.engine.model.device.type == "cuda":
        torch.cuda.synchronize(stepper.engine.model.device)


def _rates(times: Times, case: Case, tokens: int) -> dict[str, Any]:
    """By the clock and of the processor; a way that was timed for fewer tokens is scaled up."""
    rates: dict[str, Any] = {"tokens_timed": tokens}
    for kind, clock in enumerate(CLOCKS):
        reading = [read[kind] for read in times["read"]]
        steps = [write[kind] / tokens for write in times["write"]]
        whole = [read + step * case.tokens for read, step in zip(reading, steps, strict=True)]
        rates[clock] = {
            "seconds_reading": _spread(reading),
            "seconds_per_step": _spread(steps),
            "tokens_per_second": _spread([case.texts / step for step in steps]),
            "seconds_in_all": _spread(whole),
        }
    return rates


def _ratio(rates: dict[str, Any], name: str, what: str) -> dict[str, float]:
    return {clock: rates[name][clock][what]["median"] / rates["ours"][clock][what]["median"] for clock in CLOCKS}


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"least": min(values), "median": statistics.median(values), "most": max(values)}


def _device(stepper: TransformersStepper) -> dict[str, Any]:
    import torch

    model = stepper.engine.model
    name = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else "processor"
    return {
        "name": name,
        "data_sheet_gigabytes_per_second": known_bandwidth(name),
        "dtype": str(model.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
    }


def _summary(case: dict[str, Any]) -> str:
    settings, ways = case["case"], case["ways"]
    parts = []
    for name, way in ways.items():
        if "left_out" not in way:
            step, busy = (1e3 * way[clock]["seconds_per_step"]["median"] for clock in CLOCKS)
            reading = way["clock"]["seconds_reading"]["median"]
            parts.append(f"{name} {step:.1f} ms a step (processor {busy:.1f}), {reading:.2f} s to read")
    return f"{settings['experts']} experts, {settings['shared']} shared, {settings['texts']} texts: " + "; ".join(parts)
