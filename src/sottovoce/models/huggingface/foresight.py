"""What running a model will take, from its weights and one short pass over public tokens."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, final

import torch

from sottovoce.models.huggingface.causal_model import CausalModel, quiet
from sottovoce.models.huggingface.prefix_cache import size_of

TOKENS: Final = 64
"""Of the pass that is timed: about as many as the rows of a step."""


@final
@dataclass(frozen=True)
class Foresight:
    """Sizes and speed of a model here.

    Attributes:
        weights: Bytes of its weights.
        bytes_a_token: Of keys and values that are kept for a token of a prompt.
        seconds_a_token: Of a pass over some 64 tokens, by the clock.
    """

    weights: int
    bytes_a_token: int
    seconds_a_token: float


def foresee(model: CausalModel) -> Foresight:
    """Times the better of two passes over made-up tokens; nothing private is read."""
    ids = torch.tensor([model.made_up(min(TOKENS, model.limit or TOKENS))], device=model.device)
    seconds, cache = [], model.new_cache()
    with model.no_gradient(), quiet():
        for _ in range(2):
            started, cache = time.perf_counter(), model.new_cache()
            float(model.features(ids, cache=cache).flatten()[0])  # waits for a device that is behind
            seconds.append(time.perf_counter() - started)
    weights = {weight.data_ptr(): weight.nbytes for weight in model.model.parameters()}
    return Foresight(sum(weights.values()), size_of(cache) // ids.shape[1], min(seconds) / ids.shape[1])
