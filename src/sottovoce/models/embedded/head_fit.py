"""Fits the six numbers of a head on labelled public texts, for any sentence encoder.

Random episodes are drawn: a corpus, some of its labels under their own or made-up names, some examples and questions.
Two losses are summed: the cross-entropy of the answer, mostly after one example; and the cross-entropy of what is
really released at epsilon 1, the clipped and summed log-probabilities of one-example experts. The second keeps small
likings from adding up over the experts. Same seed, machine and versions: same head.

Everything that it reads is public. Nothing private has a part in it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from typing import Any, Final, Protocol, final

import numpy as np
import torch
from numpy.random import default_rng
from torch import Tensor
from torch.nn import functional as F

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.embedded import made_up
from sottovoce.models.embedded.episodes import FEWEST, Episode, Episodes, Material
from sottovoce.models.embedded.head import Head
from sottovoce.models.embedded.label_scorer import MOST_EXPONENT, STEEPNESS, TEMPLATES
from sottovoce.models.embedded.sentence_encoder import Encoder

CLIP, ADDED_CLIP, EPSILON = 3.0, 1.0, 1.0
START: Final[Mapping[str, tuple[float, ...]]] = {"name": (12.0, 0.1), "example": (8.0, 0.1, 0.1), "sharpness": (5.0,)}
HELD_OUT_SHARE: Final = 5
"""One row in so many is held out, to say what a head does on rows that it was not fitted on."""
STRINGS: Final = 400
FEWEST_WORDS: Final = 6
"""Different words that public texts have at least, for made-up names and strings."""


@final
@dataclass(frozen=True)
class Corpus:
    """Public texts with labels.

    Attributes:
        name: For reports.
        label_names: What the labels are called.
        texts: The rows.
        labels: For each row an index into ``label_names``.
    """

    name: str
    label_names: Sequence[str]
    texts: Sequence[str]
    labels: Sequence[int]


class Embed(Protocol):
    """What embeds public texts."""

    def __call__(self, what: str, texts: list[str]) -> Tensor:
        """Unit vectors, shape (texts, dimension), float32.

        Args:
            what: The texts in words, for progress.
            texts: The texts.
        """


@final
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
        self.sharpness = torch.nn.Parameter(torch.tensor(START["sharpness"][0]))

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


def corpora_of(rows: Mapping[str, Sequence[tuple[str, str]]]) -> tuple[list[Corpus], list[Corpus]]:
    """Labelled public texts as corpora: what is fitted on, and every fifth row, which is held out.

    Args:
        rows: Texts and the names of their labels, by the name of their source.

    Raises:
        ParameterError: A source has fewer than two labels with five rows to be fitted on.
    """
    fitted, held_out = [], []
    for name, pairs in rows.items():
        names = sorted({label for _, label in pairs})
        parts = []
        for held in (False, True):
            part = [pair for place, pair in enumerate(pairs) if (place % HELD_OUT_SHARE == HELD_OUT_SHARE - 1) is held]
            parts.append(Corpus(name, names, [text for text, _ in part], [names.index(label) for _, label in part]))
        counts = np.bincount(parts[0].labels, minlength=len(names)) if names else np.zeros(1)
        if (counts >= FEWEST).sum() < 2:
            limit = f"two labels or more with {FEWEST} rows each beside one row in {HELD_OUT_SHARE} that is held out"
            raise ParameterError("public examples", name, limit)
        fitted.append(parts[0])
        held_out.append(parts[1])
    return fitted, held_out


def material_of(
    fitted: Sequence[Corpus], held_out: Sequence[Corpus], embed: Embed, seed: int, words: Sequence[str] = ()
) -> Material:
    """Embeds corpora, and made-up names and strings.

    Args:
        fitted: Rows to be fitted on.
        held_out: Others of the same corpora.
        embed: The encoder.
        seed: Of what is made up.
        words: Ordinary words for it; by default those of the texts.

    Raises:
        ParameterError: The texts have too few words.
    """
    words = list(words) or made_up.vocabulary([text for corpus in fitted for text in corpus.texts])
    if len(words) < FEWEST_WORDS:
        raise ParameterError("public examples", f"{len(words)} words", f"{FEWEST_WORDS} different words or more")
    parts: tuple[dict[str, list[Tensor]], dict[str, list[Tensor]]] = ({}, {})
    names = {}
    for corpora, into, what in ((fitted, parts[0], "train"), (held_out, parts[1], "test")):
        for corpus in corpora:
            vectors, labels = embed(f"{corpus.name}, {what}", list(corpus.texts)), torch.tensor(corpus.labels)
            into[corpus.name] = [vectors[labels == label] for label in range(len(corpus.label_names))]
    for corpus in fitted:
        names[corpus.name] = name_vectors(embed, f"{corpus.name}, labels", corpus.label_names)
    rng = random.Random(seed)
    invented = name_vectors(embed, "made-up names", made_up.names(rng, words))
    strings = (
        embed("hexadecimal strings", made_up.hexes(rng, STRINGS)),
        embed("word strings", made_up.word_salads(rng, words, STRINGS)),
    )
    return Material(*parts, names, invented, strings)


def name_vectors(embed: Embed, what: str, names: Sequence[str]) -> Tensor:
    """One unit vector a name, the mean over the templates."""
    filled = [template.format(name) for name in names for template in TEMPLATES]
    return unit(embed(what, filled).reshape(len(names), len(TEMPLATES), -1).mean(1))


def means(material: Material, corpora: Sequence[str]) -> tuple[Tensor, Tensor]:
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


def fit(
    material: Material, corpora: Sequence[str], steps: int, seed: int, on_step: Callable[[], None] = lambda: None
) -> TorchHead:
    """Fits the six numbers by Adam on ``steps`` batches of episodes."""
    head = TorchHead(*means(material, corpora))
    episodes = Episodes(material, material.train, corpora, default_rng(seed))
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
        on_step()
    return head


def held_out_losses(head: TorchHead, material: Material, corpus: str, seed: int) -> dict[str, float]:
    """Losses on held-out rows of one corpus, natural and made-up names, in nats."""
    losses = {}
    with torch.no_grad():
        for kind, chance in (("own names", 0.0), ("made-up names", 1.0)):
            episodes = Episodes(material, material.held_out, [corpus], default_rng(seed + 1))
            one = [answer_loss(head, episodes.draw(shots=1, made_up=chance, strings=0)).item() for _ in range(30)]
            many = [release_loss(head, episodes.draw(shots=8, made_up=chance, strings=0)).item() for _ in range(30)]
            losses[f"{kind}, one example"] = round(float(np.mean(one)), 3)
            losses[f"{kind}, eight experts released"] = round(float(np.mean(many)), 3)
    return losses


@final
@dataclass(frozen=True, eq=False)
class FittedHead:
    """A head, and what there is to say of it.

    Attributes:
        head: The numbers and means.
        losses: By source and kind of task, on rows that were held out: the loss of the numbers that a fit begins with,
            and of those that it ended with, in nats. A source with too few held-out rows has none.
        story: What the ``.json`` beside the head says: the sources with their rows and hashes, the losses, versions.
    """

    head: Head
    losses: Sequence[tuple[str, str, float, float]]
    story: Mapping[str, Any]


def fitted_head(
    encoder: Encoder,
    rows: Mapping[str, Sequence[tuple[str, str]]],
    *,
    steps: int = 1000,
    seed: int = 0,
    on_text: Callable[[str], None] = lambda what: None,
    on_step: Callable[[int], None] = lambda done: None,
) -> FittedHead:
    """Fits a head for an encoder.

    Args:
        encoder: The encoder.
        rows: Public texts and the names of their labels, by the name of their source.
        steps: Batches of random tasks.
        seed: Of the tasks and of what is made up.
        on_text: Told what is embedded next.
        on_step: Told how many batches are done.

    Raises:
        ParameterError: A source has too few rows or labels, or all of them too few words.
        ModelError: The encoder cannot run, or gives numbers that are not finite for a text.
    """

    def embed(what: str, texts: list[str]) -> Tensor:
        on_text(what)
        vectors = encoder.encode(texts)
        if not np.isfinite(vectors).all():
            raise ModelError(f"The encoder gave numbers that are not finite for a text of {what}. Check its weights.")
        return torch.from_numpy(vectors)

    parts = corpora_of(rows)
    material, names = material_of(*parts, embed, seed), [corpus.name for corpus in parts[0]]
    start = TorchHead(*means(material, names))
    done = count(1)
    with _one_thread():
        made = fit(material, names, steps, seed, lambda: on_step(next(done)))
        losses = []
        for name in names:
            if sum(len(group) >= FEWEST for group in material.held_out[name]) >= 2:
                before, after = (held_out_losses(head, material, name, seed) for head in (start, made))
                losses += [(name, kind, before[kind], after[kind]) for kind in after]
    story = {
        "what": "six numbers and two mean vectors of a head",
        "command": "sotto models fit-head",
        "date": datetime.date.today().isoformat(),
        "seed": seed,
        "steps": steps,
        "versions": {name: version(name) for name in ("torch", "transformers", "numpy")},
        "fitted_on": {name: {"rows": len(pairs), "sha256": _hash(pairs)} for name, pairs in rows.items()},
        "held_out_losses_nats": [
            {"source": name, "task": kind, "unfitted": before, "fitted": after} for name, kind, before, after in losses
        ],
    }
    return FittedHead(made.frozen(encoder.digest), losses, story)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small products are slower on several threads than on one, and differ in their bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _hash(pairs: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(list(pairs)).encode()).hexdigest()
