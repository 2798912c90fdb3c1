"""Gives the decoder heads that look for what followed the present token before: copying need not be found first.

One head of the encoder's first layer looks at the token before, under a causal mask too. So each place of the next
layer knows, besides its own token, something of the one before it. From that a head is set up by regression: its
queries foretell the present token, its keys the token before theirs, and they meet where both are the same. Its values
carry the token there, which is what followed. Olsson et al. (2022, arXiv:2209.11895) call such heads induction heads.
Training goes on from there and may change all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

SHARPNESS = 3.0
GAIN = 0.3


def regress(features: Tensor, targets: Tensor, ridge: float = 1e-2) -> tuple[Tensor, Tensor]:
    """Weights and bias of the ridge regression of targets on features."""
    mean, middle = features.mean(0), targets.mean(0)
    x, y = features - mean, targets - middle
    gram = x.T @ x / len(x)
    weight = torch.linalg.solve(gram + ridge * gram.diagonal().mean() * torch.eye(len(gram)), x.T @ y / len(x)).T
    return weight, middle - weight @ mean


@torch.no_grad()
def look_for_what_followed(net: Any, rows: Sequence[Sequence[int]], layer: int, heads: Sequence[int]) -> list[float]:
    """Sets up heads of a layer.

    Args:
        net: A ``BertLMHeadModel`` that was warm-started.
        rows: Tokens of sample texts.
        layer: Number of the layer, at least 1.
        heads: Which of its heads are given up.

    Returns:
        For each head the share of the variance of its targets that the keys explain.
    """
    size = net.config.hidden_size // net.config.num_attention_heads
    words = net.bert.embeddings.word_embeddings.weight
    now, own, before = [], [], []
    for row in rows:
        ids = torch.tensor([row])
        hidden = net.bert(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states[layer][0]
        now.append(hidden[1:])
        own.append(words[ids[0, 1:]])
        before.append(words[ids[0, :-1]])
    features, present, previous = torch.cat(now), torch.cat(own), torch.cat(before)
    covariance = torch.cov(words.T)
    values, vectors = torch.linalg.eigh(covariance)
    whiten = vectors * values.clamp(min=1e-3 * float(values.max())).rsqrt()
    weight, bias = regress(features, (previous - words.mean(0)) @ whiten)
    guessed = features @ weight.T + bias
    # The directions of the token before that this layer knows best.
    _, _, directions = torch.linalg.svd(guessed - guessed.mean(0), full_matrices=False)
    attention, known = net.bert.encoder.layer[layer].attention, []
    mix = torch.linalg.qr(torch.randn(size * len(heads), size * len(heads)))[0]
    best = mix @ directions[: size * len(heads)]
    for number, head in enumerate(heads):
        project = whiten @ best[number * size : (number + 1) * size].T
        query, query_bias = regress(features, (present - words.mean(0)) @ project)
        target = (previous - words.mean(0)) @ project
        key, key_bias = regress(features, target)
        found = features @ key.T + key_bias
        known.append(float(1 - (found - target).var(0).sum() / target.var(0).sum()))
        place = slice(head * size, (head + 1) * size)
        part = attention.self
        part.query.weight[place], part.query.bias[place] = SHARPNESS * query, SHARPNESS * query_bias
        part.key.weight[place], part.key.bias[place] = key, key_bias
        part.value.weight[place], part.value.bias[place] = query, query_bias
        back, _ = regress((present - words.mean(0)) @ project, present - words.mean(0))
        attention.output.dense.weight[:, place] = GAIN * back
    return known
