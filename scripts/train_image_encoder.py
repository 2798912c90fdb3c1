"""Trains the image encoder (``sottovoce.models.embedded.image_encoder``) and fits the numbers of its head.

    python scripts/train_image_encoder.py --out src/sottovoce/data/embedded_image/encoder.safetensors [--data FOLDER]

Episodes: each image of a batch must find another one of its character among images of all the other characters. Half
of the characters are drawn ones, turned and mirrored in eight ways, half are made of random strokes. The head's numbers
are then fitted on validation characters by two losses: the answer after all examples in one context, and the answer
that is released, the clipped and summed log-probabilities of experts of one to four examples. Unseen characters are
read at the end, for the accuracies in the card. Same seed, machine and versions: same file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import shlex
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _drawings import RULE, distorted, groups_of, made_up, read, split_of, turned
from torch import Tensor, nn
from torch.nn import functional as F

from sottovoce.models.embedded.image_encoder import BLOCKS, NUMBERS, SIDE, PixelArray, save_weights

CHANNELS, DIMENSION = 64, 64
START = {
    "scale": 10.0, "threshold": 0.3, "charge": 0.3, "steepness": 8.0, "sharpness": 3.0, "growth": 0.3,
}  # fmt: skip
CLIP, LABELS, WAYS = 2.3, 5, 8
EPSILON = 1e-5
EPISODES, EPISODES_ON_THE_WAY = 2000, 500


class Network(nn.Module):
    """Four blocks of convolution, normalisation, ramp and pooling, and a normalised linear layer."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [1, *[CHANNELS] * BLOCKS]
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.BatchNorm2d(CHANNELS, eps=EPSILON) for _ in range(BLOCKS))
        self.linear = nn.Linear(CHANNELS * (SIDE >> BLOCKS) ** 2, DIMENSION, bias=False)
        self.last = nn.BatchNorm1d(DIMENSION, eps=EPSILON, affine=False)
        self.heat = nn.Parameter(torch.tensor(math.log(12.0)))

    def forward(self, ink: Tensor) -> Tensor:
        """Unit vectors, shape (images, dimension), of ink of shape (images, 1, side, side)."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            ink = F.max_pool2d(norm(convolution(ink)).relu(), 2)
        return F.normalize(self.last(self.linear(ink.permute(0, 2, 3, 1).flatten(1))), dim=1)

    def folded(self) -> list[tuple[PixelArray, PixelArray]]:
        """The layers as the encoder wants them, with the normalisation worked in."""
        parts = {name: part.detach() for name, part in self.state_dict().items()}
        layers = []
        for block in range(BLOCKS):
            gain = parts[f"norms.{block}.weight"] / (parts[f"norms.{block}.running_var"] + EPSILON).sqrt()
            kernel = (parts[f"convolutions.{block}.weight"] * gain[:, None, None, None]).flatten(1).T
            layers.append((kernel, parts[f"norms.{block}.bias"] - parts[f"norms.{block}.running_mean"] * gain))
        gain = 1 / (parts["last.running_var"] + EPSILON).sqrt()
        layers.append(((parts["linear.weight"] * gain[:, None]).T, -parts["last.running_mean"] * gain))
        return [(matrix.numpy(), bias.numpy()) for matrix, bias in layers]


class Batches:
    """Draws batches of several images of several characters."""

    def __init__(self, drawn: list[Tensor], strokes: list[Tensor], seed: int) -> None:
        self.drawn, self.strokes = drawn, strokes
        self.rng = np.random.default_rng(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, characters: int, images: int) -> tuple[Tensor, Tensor]:
        """Distorted ink and the character of each image."""
        real = min(characters // 2, len(self.drawn))
        chosen = [
            turned(self.drawn[index], int(self.rng.integers(WAYS)))
            for index in self.rng.permutation(len(self.drawn))[:real]
        ]
        chosen += [
            turned(self.strokes[index], int(self.rng.integers(WAYS)))
            for index in self.rng.permutation(len(self.strokes))[: characters - real]
        ]
        picked = torch.cat([some[self.rng.permutation(len(some))[:images].copy()] for some in chosen])
        return distorted(picked, self.generator), torch.arange(len(chosen)).repeat_interleave(images)


def episode_loss(vectors: Tensor, owners: Tensor, heat: Tensor) -> Tensor:
    """Cross-entropy, in nats, of choosing another image of the same character rather than one of another."""
    near = vectors @ vectors.T * heat
    same = owners[:, None] == owners
    others = near.masked_fill(same, -math.inf).logsumexp(1, keepdim=True)
    pairs = same & ~torch.eye(len(owners), dtype=torch.bool)
    return F.softplus(others - near)[pairs].mean()


def train(
    batches: Batches, steps: int, characters: int, validation: list[Tensor], episodes: int
) -> tuple[Network, list[dict[str, float]]]:
    """Trains by AdamW; returns the network, ready for use, and its progress."""
    network = Network().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-3)
    pace = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 100) * (1 + math.cos(math.pi * step / steps)) / 2
    )
    progress, smooth = [], math.nan
    for step in range(1, steps + 1):
        ink, owners = batches.draw(characters, 4)
        loss = episode_loss(network(ink.contiguous(memory_format=torch.channels_last)), owners, network.heat.exp())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        pace.step()
        smooth = loss.item() if math.isnan(smooth) else 0.98 * smooth + 0.02 * loss.item()
        if step % max(1, steps // 10) == 0:
            network.eval()
            found = one_shot(embedded(network, validation), episodes, np.random.default_rng(0))
            progress.append(
                {"step": step, "training_loss": round(smooth, 4), "validation_accuracy": round(100 * found[0], 2)}
            )
            print(progress[-1], flush=True)
            network.train()
    return network.eval(), progress


def embedded(network: Network, images: list[Tensor]) -> list[Tensor]:
    """Unit vectors of undistorted images, character by character."""
    with torch.inference_mode():
        return [network(F.avg_pool2d(some[:, None].float() / 255, 2)) for some in images]


def one_shot(vectors: list[Tensor], episodes: int, rng: np.random.Generator, shots: int = 1) -> tuple[float, float]:
    """Accuracy and its standard error over episodes of 5 characters, with ``shots`` examples and 3 questions each."""
    rates = []
    for _ in range(episodes):
        picks = [
            vectors[c][rng.permutation(len(vectors[c]))[: shots + 3].copy()]
            for c in rng.permutation(len(vectors))[:LABELS]
        ]
        shown = F.normalize(torch.stack([some[:shots].mean(0) for some in picks]), dim=1)
        asked = torch.stack([some[shots:] for some in picks])
        best = (asked @ shown.T).argmax(-1)
        rates.append((best == torch.arange(len(picks))[:, None]).float().mean().item())
    return float(np.mean(rates)), float(np.std(rates, ddof=1) / episodes**0.5)


class TorchHead(nn.Module):
    """The formula of ``sottovoce.models.embedded.image_scorer``, differentiable."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.ParameterDict({name: nn.Parameter(torch.tensor(START[name])) for name in NUMBERS})

    def forward(self, near: Tensor, owners: Tensor) -> Tensor:
        """Log-probabilities (questions, experts, labels).

        Args:
            near: Similarities, shape (questions, experts, shots).
            owners: Labels of the examples, shape (experts, shots).
        """
        v = self.values
        ramp = F.softplus(v["steepness"] * (near - v["threshold"])) / v["steepness"]
        evidence = v["scale"] * (ramp - v["charge"])
        own = F.one_hot(owners, LABELS).to(near.dtype)
        weight = (v["sharpness"] * evidence / 6).clamp(max=20).exp()
        total = torch.einsum("qes,esl->qel", weight, own)
        mean = torch.einsum("qes,esl->qel", weight * evidence, own) / total.clamp(min=1e-9)
        return F.log_softmax(mean * (1 + v["growth"] * own.sum(1).clamp(min=1).log()), dim=-1)


def fit_head(vectors: list[list[Tensor]], steps: int, seed: int) -> tuple[dict[str, float], dict[str, float]]:
    """Fits the head's numbers on episodes of five characters.

    Args:
        vectors: For each of the eight ways to turn a character the embeddings of every character's images.
        steps: Batches.
        seed: Of the episodes.

    Returns:
        The numbers, and the mean losses of the last tenth of the steps.
    """
    head, rng = TorchHead(), np.random.default_rng(seed)
    optimizer = torch.optim.Adam(head.parameters(), lr=3e-2)
    pace = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.02, 1 - step / steps))
    seen: list[tuple[float, float]] = []
    for _ in range(steps):
        losses = torch.stack([torch.stack(_losses(head, vectors, rng)) for _ in range(8)]).mean(0)
        optimizer.zero_grad()
        losses.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        pace.step()
        seen.append((losses[0].item(), losses[1].item()))
    answer, release = np.mean(seen[-max(1, steps // 10) :], axis=0)
    numbers = {name: head.values[name].item() for name in NUMBERS}
    return numbers, {"answer": round(float(answer), 4), "release": round(float(release), 4)}


def _losses(head: TorchHead, vectors: list[list[Tensor]], rng: np.random.Generator) -> list[Tensor]:
    count, size, epsilon = int(rng.choice([4, 8, 20])), int(rng.choice([1, 2, 4])), float(rng.choice([1.0, 2.0, 4.0]))
    turnings = vectors[rng.integers(len(vectors))]
    characters = [turnings[index] for index in rng.permutation(len(turnings))[:LABELS]]
    orders = [rng.permutation(len(some)) for some in characters]
    owners = rng.integers(LABELS, size=count)
    places = [int((owners[:index] == owner).sum()) for index, owner in enumerate(owners)]
    shown = torch.stack(
        [characters[o][orders[o][p % (len(orders[o]) - 2)]] for o, p in zip(owners, places, strict=True)]
    )
    asked = torch.stack([characters[label][orders[label][-1 - turn]] for label in range(LABELS) for turn in range(2)])
    truth = torch.arange(LABELS).repeat_interleave(2)
    near, labels = asked @ shown.T, torch.from_numpy(owners)
    some = int(rng.integers(1, count + 1))
    answer = F.nll_loss(head(near[:, None, :some], labels[None, :some])[:, 0], truth)
    alone = head(near.view(len(asked), -1, size), labels.view(-1, size))
    return [answer, F.cross_entropy(alone.clamp(min=-CLIP).sum(1) * epsilon / CLIP, truth)]


def accuracies(vectors: list[Tensor], episodes: int, seed: int) -> dict[str, dict[str, float]]:
    """Five-way accuracies in percent with 95 % intervals over episodes."""
    found = {}
    for shots in (1, 5):
        mean, error = one_shot(vectors, episodes, np.random.default_rng(seed), shots)
        ends = {"percent": mean, "low": mean - 1.96 * error, "high": mean + 1.96 * error}
        found[f"5-way {shots}-shot"] = {name: round(100 * value, 2) for name, value in ends.items()}
    return found


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="Trains the image encoder and fits its head.")
    options.add_argument("--out", type=Path, required=True, help="file to write, ending in .safetensors")
    options.add_argument(
        "--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data" / "omniglot"
    )
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--characters", type=int, default=64, help="characters a batch, four images each")
    options.add_argument("--strokes", type=int, default=3000, help="characters made of random strokes")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    return options


def main(argv: list[str] | None = None) -> int:
    """Reads the arguments, trains, fits, measures, writes. Returns 2 where the data is absent."""
    arguments = parser().parse_args(argv)
    if not (arguments.data / "train.jsonl.gz").is_file():
        print(f"There are no drawings in {str(arguments.data)!r}. Name their folder with --data.", file=sys.stderr)
        return 2
    episodes, on_the_way, head_steps = EPISODES, EPISODES_ON_THE_WAY, 600
    if arguments.quick:
        arguments.steps, arguments.characters, arguments.strokes = 10, 12, 12
        episodes, on_the_way, head_steps = 50, 10, 5
    start = time.perf_counter()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    torch.use_deterministic_algorithms(True)
    groups = groups_of(arguments.data)
    split = split_of(groups)
    known = read(arguments.data, split["training"] + split["validation"])
    drawn, validation = known.all_of(split["training"]), known.all_of(split["validation"])
    batches = Batches(drawn, made_up(arguments.strokes, 12, arguments.seed), arguments.seed)
    network, progress = train(batches, arguments.steps, arguments.characters, validation, on_the_way)
    ways = [embedded(network, [turned(some, way) for some in validation]) for way in range(WAYS)]
    numbers, losses = fit_head(ways, head_steps, arguments.seed)
    print(numbers, losses)
    unseen = read(arguments.data, split["unseen"]).all_of(split["unseen"])
    measured = {
        name: accuracies(embedded(network, images), episodes, arguments.seed)
        for name, images in (("validation", validation), ("unseen", unseen))
    }
    print(measured)
    card = {
        "what": "a convolutional encoder of drawings and the numbers of its head",
        "script": "scripts/train_image_encoder.py",
        "command": shlex.join(["python", "scripts/train_image_encoder.py", *_told(arguments)]),
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.perf_counter() - start),
        "versions": {name: version(name) for name in ("torch", "numpy", "pillow")},
        "data": _source(arguments.data),
        "split_rule": RULE,
        "characters": split,
        "parameters": sum(part.size for layer in network.folded() for part in layer),
        "progress": progress,
        "head_losses_nats": losses,
        "accuracies": measured,
    }
    save_weights(network.folded(), numbers, arguments.out, card)
    print(f"{arguments.out.name}: {arguments.out.stat().st_size} bytes, {time.perf_counter() - start:.0f} s")
    return 0


def _told(arguments: argparse.Namespace) -> Iterator[str]:
    """The options that shape the result, without any folder's name."""
    if arguments.quick:
        yield "--quick"
    for name in ("steps", "characters", "strokes", "seed", "threads"):
        yield from (f"--{name}", str(getattr(arguments, name)))


def _source(data: Path) -> dict[str, Any]:
    try:
        story = json.loads((data / "card.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: story[name] for name in ("name", "licence", "sources", "splits") if name in story}


if __name__ == "__main__":
    sys.exit(main())
