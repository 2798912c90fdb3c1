"""The embedded language model's network: the sentence encoder's layers under a causal mask, and batches for training.

The encoder is a BERT of 6 layers; the class ``BertLMHeadModel`` with ``is_decoder`` runs its weights as a causal
decoder with a cache of keys and values. Each token of the cut-down vocabulary begins with the vector of the
encoder's token it comes from. The output layer is tied to these vectors; the transform before it begins as an identity.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from language_model_episodes import Episode, episode
from language_model_rows import Pool
from language_model_tokenizer import END, PAD, origin, wrapped
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModel, BertConfig, BertLMHeadModel

POSITIONS = 512
LONGEST_EPISODE = 448
SHORT_ROWS = 200


def network(tokens: Mapping[str, int]) -> Any:
    """The decoder with random weights."""
    config = BertConfig(
        vocab_size=len(tokens), hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536,
        max_position_embeddings=POSITIONS, type_vocab_size=1, is_decoder=True,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        pad_token_id=tokens[PAD], eos_token_id=tokens[END], bos_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    return BertLMHeadModel(config)


@torch.no_grad()
def warm_start(net: Any, tokens: Mapping[str, int], encoder: Path) -> None:
    """Copies the encoder's weights into the decoder."""
    source = AutoModel.from_pretrained(encoder, local_files_only=True).state_dict()
    known = Tokenizer.from_file(str(encoder / "tokenizer.json")).get_vocab()
    own = net.bert.state_dict()
    words = source["embeddings.word_embeddings.weight"]
    for name, value in source.items():
        if name in own and own[name].shape == value.shape:
            own[name].copy_(value)
    own["embeddings.token_type_embeddings.weight"].copy_(source["embeddings.token_type_embeddings.weight"][:1])
    rows = [origin(token, known) for token in sorted(tokens, key=tokens.__getitem__)]
    mean = words.mean(dim=0)
    table = torch.stack([mean if row is None else words[row] for row in rows])
    own["embeddings.word_embeddings.weight"].copy_(table + 0.002 * torch.randn(table.shape))
    transform = net.cls.predictions.transform
    transform.dense.weight.copy_(torch.eye(384))
    transform.dense.bias.fill_(3.0)  # far from the bend of the activation, and constant: the norm takes it out again


def go_on_from(net: Any, folder: Path) -> None:
    """Puts the weights of a finished model into the decoder; the tied output layer follows its embeddings.

    Raises:
        ValueError: They are of another network.
    """
    from safetensors.torch import load_file

    state = load_file(folder / "model.safetensors")
    missing, unexpected = net.load_state_dict({name: value.float() for name, value in state.items()}, strict=False)
    if unexpected or any(not name.startswith("cls.predictions.decoder.") for name in missing):
        raise ValueError(f"The weights in {folder.name!r} are of another network: {[*missing, *unexpected][:4]}.")


@dataclass(frozen=True)
class Encoded:
    """An episode as tokens: what is read, what is to be foretold at each place, and how much that counts."""

    ids: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    kind: str = ""


def encode(tokenizer: Tokenizer, end: int, segments: Episode, kind: str = "") -> Encoded:
    """Turns an episode into tokens. The target of a place is the next token, or the end where a segment closes."""
    ids: list[int] = []
    weights: list[float] = []
    closing: list[tuple[int, float]] = []
    for segment in segments:
        own = tokenizer.encode(segment.text).ids
        ids += own
        weights += [0.0 if place < segment.skip else segment.weight for place in range(len(own))]
        if segment.closes:
            closing.append((len(ids) - 1, max(1.0, segment.weight / 2)))
    targets, counts = [*ids[1:], end], [*weights[1:], 0.0]
    for place, weight in closing:
        targets[place], counts[place] = end, weight
    most = LONGEST_EPISODE
    return Encoded(np.asarray(ids[:most]), np.asarray(targets[:most]), np.asarray(counts[:most]), kind)


Batch = tuple[Tensor, Tensor, Tensor]
"""Tokens, the targets of their places, and how much each place counts; each of shape (rows, length)."""


def batch(episodes: Sequence[Encoded], pad: int) -> Batch:
    """Pads episodes on the right, where a causal mask never looks."""
    length = max(len(one.ids) for one in episodes)
    ids = torch.full((len(episodes), length), pad)
    targets, weights = torch.zeros_like(ids), torch.zeros(ids.shape)
    for row, one in enumerate(episodes):
        ids[row, : len(one.ids)] = torch.from_numpy(one.ids)
        targets[row, : len(one.ids)] = torch.from_numpy(one.targets)
        weights[row, : len(one.ids)] = torch.from_numpy(one.weights)
    return ids, targets, weights


def losses(net: Any, ids: Tensor, targets: Tensor, weights: Tensor, *, half: bool) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the places that count, and their weights. The output layer is computed for these alone."""
    counted = weights > 0
    # On processors the fused attention of short rows has a slow backward pass: 0.7 against 0.55 s a batch, measured.
    net.config._attn_implementation = "eager" if ids.shape[1] < SHORT_ROWS else "sdpa"
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        hidden = net.bert(input_ids=ids, use_cache=False).last_hidden_state[counted]
        logits = net.cls(hidden)
    return torch.nn.functional.cross_entropy(logits.float(), targets[counted], reduction="none"), weights[counted]


class Stream:
    """Steps of training: a few batches of episodes of like length each, from buffers with seeds of their own."""

    def __init__(self, pool: Pool, tokenizer: Tokenizer, *, tokens: int, parts: int, buffer: int = 0) -> None:
        self._pool, self._tokenizer, self._tokens, self._parts = pool, tokenizer, tokens, parts
        known = tokenizer.get_vocab()
        self._pad, self._end = known[PAD], known[END]
        self.buffer = buffer

    def __iter__(self) -> Iterator[list[Batch]]:
        while True:
            rng = random.Random(f"buffer {self.buffer}")
            encoded = [encode(self._tokenizer, self._end, episode(self._pool, rng, self.buffer)) for _ in range(3_000)]
            encoded.sort(key=lambda one: len(one.ids))
            groups: list[list[Encoded]] = [[]]
            for one in encoded:
                if (len(groups[-1]) + 1) * len(one.ids) > self._tokens // self._parts and groups[-1]:
                    groups.append([])
                groups[-1].append(one)
            rng.shuffle(groups)
            for first in range(0, len(groups) - self._parts + 1, self._parts):
                yield [batch(group, self._pad) for group in groups[first : first + self._parts]]
            self.buffer += 1


def save(net: Any, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes a plain transformers folder: half-precision weights, tied ones once, and the tokenizer."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value for name, value in net.state_dict().items() if not name.startswith("cls.predictions.decoder.")}
    half = {name: value.detach().to(torch.float16).contiguous() for name, value in state.items()}
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
    net.config.architectures, net.config.dtype = ["BertLMHeadModel"], "float16"
    net.config.save_pretrained(folder)
    wrapped(tokenizer, POSITIONS).save_pretrained(folder)
