"""Trains the embedded language model and writes its folder.

    OMP_NUM_THREADS=1 python scripts/train_language_model.py --minutes 60 --work FOLDER [--data FOLDER] [--out FOLDER]

The learning rate follows the clock: a short warm-up, a plateau, and a linear way down over the last part, so that
training ends when it should on any machine. Every few minutes the loss on held-out rows is measured and everything is
written to the work folder; the same command goes on from there after a cut. Training stops early when the held-out loss
has not fallen for a while, and the weights with the smallest held-out loss are the ones that are kept.

With ``--start`` training goes on from the weights and the tokenizer of a finished model, with fresh optimizers, instead
of the encoder's: so the model that ships came to know news and questions. Look-ups then come no more often at first.

Matrices of the layers are trained by Muon, vectors and embeddings by Adam. Sources: Jordan et al. (2024, Muon);
Wang et al. (2020, arXiv:2002.10957) for the encoder that training starts from.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import language_model_rows as rows
import language_model_tokenizer as pieces
import torch
from language_model_episodes import EARLY, KINDS, episode
from language_model_heads import look_for_what_followed
from language_model_network import Encoded, Stream, batch, encode, go_on_from, losses, network, save, warm_start
from tokenizers import Tokenizer

from sottovoce.models.embedded.sentence_encoder import encoder_folder

TOKENS = 10_000
HEADS = (3, 5, 10)
"""Heads of the second layer that are given up for looking back."""
PATIENCE = 4


@dataclass
class Progress:
    """How far training is, as the work folder keeps it.

    Attributes:
        seconds: Time spent in steps and checks, over all runs.
        step: Steps taken.
        tokens: Places read.
        buffer: Number of the buffer that was being read.
        best: Smallest held-out loss so far.
        stale: Checks since then.
        log: One entry a check.
    """

    seconds: float = 0.0
    step: int = 0
    tokens: int = 0
    buffer: int = 0
    best: float = float("inf")
    stale: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)


def prepare(data: Path, work: Path, encoder: Path, start: Path | None) -> tuple[rows.Pool, rows.Pool, Tokenizer]:
    """Reads rows, makes the tokenizer, or takes that of a finished model, and finds like texts.

    The slow parts are kept in the work folder.
    """
    pool, held_out = rows.load(data, "train"), rows.load(data, "held out", made=40)
    kept = work / "prepared.json"
    if not kept.exists() and start:
        known = Tokenizer.from_file(str(start / "tokenizer.json")).get_vocab()
        tokens = dict(sorted(known.items(), key=lambda one: one[1]))
        kept.write_text(json.dumps({"tokens": tokens, "likes": rows.neighbours(pool)}), "utf-8")
    elif not kept.exists():
        source = Tokenizer.from_file(str(encoder / "tokenizer.json"))
        source.no_truncation()
        rng = random.Random("tokenizer")
        drawn = ("".join(part.text for part in episode(pool, rng)) for _ in range(4_000))
        natural = [
            text for name in ("dbpedia", "films", "medical") for texts in pool.texts[name].values() for text in texts
        ]
        tokens = pieces.vocabulary([*natural, *drawn], source, TOKENS)
        kept.write_text(json.dumps({"tokens": tokens, "likes": rows.neighbours(pool)}), "utf-8")
    found = json.loads(kept.read_text("utf-8"))
    pool.likes = found["likes"]
    return pool, held_out, pieces.build(found["tokens"])


def held_out_episodes(pool: rows.Pool, tokenizer: Tokenizer, each: int = 32) -> list[Encoded]:
    """The same episodes of every kind at every check."""
    rng, end = random.Random("held out"), tokenizer.get_vocab()[pieces.END]
    return [encode(tokenizer, end, kind(pool, rng), kind.__name__) for kind in KINDS for _ in range(each)]


@torch.no_grad()
def check(net: Any, episodes: Sequence[Encoded], pad: int) -> dict[str, float]:
    """Loss by kind and in all, each kind with its share of the training mixture."""
    net.eval()
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    ordered = sorted(episodes, key=lambda one: (one.kind, len(one.ids)))
    for kind, some in itertools.groupby(ordered, key=lambda one: one.kind):
        for group in _eights(list(some)):
            loss, weight = losses(net, *batch(group, pad), half=True)
            sums[kind][0] += float((loss * weight).sum())
            sums[kind][1] += float(weight.sum())
    net.train()
    found = {kind: total / weight for kind, (total, weight) in sums.items()}
    share = {kind.__name__: part for kind, part in KINDS.items()}
    found["all"] = sum(found[kind] * share[kind] for kind in share) / sum(share.values())
    return {kind: round(value, 4) for kind, value in found.items()}


def _eights(episodes: Sequence[Encoded]) -> list[Sequence[Encoded]]:
    return [episodes[first : first + 8] for first in range(0, len(episodes), 8)]


def optimizers(net: Any, matrix_rate: float, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, Adam for the rest."""
    named = list(net.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "embeddings" not in name]
    others = [p for name, p in named if p.ndim != 2 or "embeddings" in name]
    return [
        torch.optim.Muon(matrices, lr=matrix_rate, momentum=0.95, weight_decay=0.01, adjust_lr_fn="original"),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.97), weight_decay=0.0, fused=True),
    ]


def resume(state: Path, net: Any, opts: Sequence[torch.optim.Optimizer], fresh: Progress) -> Progress:
    """Puts back what was kept, if anything was; the buffer that was being read then is not read again."""
    if not state.exists():
        return fresh
    kept = torch.load(state, weights_only=True)
    net.load_state_dict(kept["net"])
    for opt, own in zip(opts, kept["opts"], strict=True):
        opt.load_state_dict(own)
    return Progress(**{**kept["progress"], "buffer": kept["progress"]["buffer"] + 1})


def train(arguments: argparse.Namespace) -> Progress:
    """Runs until the clock, the steps or the held-out loss says stop; the best weights lie in ``work/best``."""
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    encoder = encoder_folder(None)
    start: Path | None = arguments.start
    pool, held_out, tokenizer = prepare(arguments.data, work, encoder, start)
    tokens = tokenizer.get_vocab()
    pad = tokens[pieces.PAD]
    torch.manual_seed(0)
    net = network(tokens)
    if start:
        go_on_from(net, start)
    else:
        warm_start(net, tokens, encoder)
        texts = [text for bank in pool.texts.values() for some in bank.values() for text in some]
        samples = [tokenizer.encode(text).ids[:120] for text in random.Random("heads").sample(texts, 600)]
        look_for_what_followed(net, samples, 1, HEADS)
    opts = optimizers(net, arguments.matrix_rate, arguments.rate)
    done = resume(work / "state.pt", net, opts, Progress(buffer=EARLY if start else 0))
    print(f"{sum(p.numel() for p in net.parameters()) / 1e6:.2f} M parameters, {len(tokens)} tokens", flush=True)
    episodes = held_out_episodes(held_out, tokenizer)
    stream = Stream(pool, tokenizer, tokens=arguments.batch, parts=arguments.parts, buffer=done.buffer)
    base = [[group["lr"] for group in opt.param_groups] for opt in opts]
    started, before, checked, recent = time.monotonic(), done.seconds, time.monotonic(), [0.0, 0.0]
    net.train()
    for parts in stream:
        done.seconds = before + time.monotonic() - started
        share = done.seconds / (60 * arguments.minutes)
        if share >= 1 or done.stale >= PATIENCE:
            break
        scale = min(1.0, (done.step + 1) / 60, (1 - share) / (1 - arguments.plateau))
        for opt, rates in zip(opts, base, strict=True):
            for group, rate in zip(opt.param_groups, rates, strict=True):
                group["lr"] = rate * max(scale, 0.01)
        total = sum(float(weights.sum()) for _, _, weights in parts)
        for ids, targets, weights in parts:
            loss, weight = losses(net, ids, targets, weights, half=True)
            part = (loss * weight).sum() / total
            part.backward()  # type: ignore[no-untyped-call]
            recent[0] += float(part.detach())
            done.tokens += ids.numel()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad(set_to_none=True)
        done.step, recent[1] = done.step + 1, recent[1] + 1
        if done.step % 25 == 0:
            speed = done.tokens / max(done.seconds, 1)
            print(
                f"step {done.step} {done.tokens / 1e6:.2f} M {speed:.0f}/s loss {recent[0] / recent[1]:.3f}", flush=True
            )
            recent = [0.0, 0.0]
        if time.monotonic() - checked > 60 * arguments.check_minutes:
            checked = time.monotonic()
            done.buffer = stream.buffer
            keep(net, opts, done, check(net, episodes, pad), tokenizer, work)
    keep(net, opts, done, check(net, episodes, pad), tokenizer, work)
    return done


def keep(
    net: Any, opts: Sequence[Any], done: Progress, found: dict[str, float], tokenizer: Tokenizer, work: Path
) -> None:
    """Notes a check, and writes the state and, if it is the best so far, the weights."""
    done.log.append({"minutes": round(done.seconds / 60, 1), "step": done.step, "tokens": done.tokens, **found})
    print("held out", done.log[-1], flush=True)
    done.stale = 0 if found["all"] < done.best else done.stale + 1
    if found["all"] < done.best:
        done.best = found["all"]
        save(net, tokenizer, work / "best")
    state = {"net": net.state_dict(), "opts": [opt.state_dict() for opt in opts], "progress": asdict(done)}
    torch.save(state, work / "state.tmp")
    (work / "state.tmp").replace(work / "state.pt")
    (work / "log.json").write_text(json.dumps(done.log, indent=1), "utf-8")


def main() -> None:
    """Reads the arguments, trains, and copies the best weights to where they belong."""
    parser = argparse.ArgumentParser(description="Trains the embedded language model.")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--data", type=Path, default=here.parent / "shared" / "data")
    parser.add_argument("--work", type=Path, required=True, help="folder for the state of the run")
    parser.add_argument("--out", type=Path, help="folder to write the finished model to")
    parser.add_argument("--start", type=Path, help="folder of a finished model to go on from; the encoder if left out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--plateau", type=float, default=0.4, help="share of the time before the rate goes down")
    parser.add_argument("--check-minutes", type=float, default=7)
    parser.add_argument("--batch", type=int, default=3072, help="tokens a step")
    parser.add_argument("--parts", type=int, default=2, help="batches a step")
    parser.add_argument("--matrix-rate", type=float, default=0.01)
    parser.add_argument("--rate", type=float, default=1e-3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    done = train(arguments)
    print(f"{done.step} steps, {done.tokens / 1e6:.2f} M tokens, {done.seconds / 60:.1f} min, best {done.best:.4f}")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        for file in (arguments.work / "best").iterdir():
            (arguments.out / file.name).write_bytes(file.read_bytes())


if __name__ == "__main__":
    main()
