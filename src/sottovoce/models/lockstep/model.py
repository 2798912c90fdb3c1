"""What the lockstep engine asks of a language model: read a prefix, read behind it, run rows of one token, give logits.

The model's own layers do all of it. Only hidden states of last positions go through the output head. The head is the
model's own, found by trying: what gives the model's logits on ordinary tokens, before matrices are packed, is it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, cast, final

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from sottovoce.errors import ModelError
from sottovoce.models.huggingface.causal_model import TRIED, CausalModel, quiet
from sottovoce.models.lockstep.attention import LayerPair, NothingKept, Panel, lockstep
from sottovoce.models.lockstep.memory import behind, pairs_of
from sottovoce.models.lockstep.packed import MOST_BYTES, PackedMatrices

Head = Callable[[Tensor], Tensor]
"""Hidden states of shape (rows, width) to float32 logits of shape (rows, vocabulary)."""

MIXTURE: Final = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts")
"""Names under which configurations give the number of experts of a mixture."""


@final
class LockstepModel:
    """A causal language model, one token a row at a time.

    Args:
        model: The model.
        packed_bytes: Most bytes of packed matrices; see ``PackedMatrices``.

    Attributes:
        head: The output head.
        packed: How many matrices are packed.
        vocabulary: Width of the logits.
        width: Width of a hidden state.
        idle: A token for texts that stand still; not the one for padding, at which some models warn.
        mixes: Whether the layers are a mixture of experts, where rows of a batch may change each other.

    Raises:
        ModelError: The model's head was not found, or it cannot run at all.
    """

    def __init__(self, model: CausalModel, packed_bytes: int = MOST_BYTES) -> None:
        self.model = model
        self._config = model.model.config
        self._packed = PackedMatrices.of(model.model, packed_bytes)
        self.packed = self._packed.count
        self.mixes = _mixes(self._config)
        self.idle = (model.pad + 1) % model.words
        try:
            with quiet(), self.no_gradient():
                ids = self._ids([model.made_up(TRIED)])
                truth = model.plain_logits(ids)[0]
                cache = DynamicCache()
                states = self._unpacked(ids, cache)[0]
                self.vocabulary, self.width = int(truth.shape[-1]), int(states.shape[-1])
                self._shapes = [(keys.shape[0], keys.shape[2], values.shape[2]) for keys, values in pairs_of(cache, 0)]
                self.head = self._find_head(ids, states, truth)
        except ModelError:
            raise
        except Exception:
            raise ModelError("The model was loaded but could not run a short text with a cache.") from None

    def no_gradient(self) -> AbstractContextManager[None]:
        """Inference mode."""
        return self.model.no_gradient()

    def bytes_of(self, positions: int) -> int:
        """Size of keys and values of so many positions, in all layers."""
        size = torch.empty(0, dtype=self.model.dtype).element_size()
        return positions * size * sum(heads * (of_key + of_value) for heads, of_key, of_value in self._shapes)

    def empty(self, lead: Sequence[int], room: int) -> list[LayerPair]:
        """Zeros for keys and values, each of shape (*lead, key heads, room, width of a head)."""

        def zeros(heads: int, width: int) -> Tensor:
            return torch.zeros((*lead, heads, room, width), dtype=self.model.dtype, device=self.model.device)

        return [(zeros(heads, key), zeros(heads, value)) for heads, key, value in self._shapes]

    def read(self, prefix: Sequence[int]) -> tuple[list[LayerPair], Tensor]:
        """Keys and values of a prefix, and the hidden state at its end, shape (width,)."""
        cache = DynamicCache()
        states = self._body(self._ids([list(prefix)]), cache)
        return [(keys.contiguous(), values.contiguous()) for keys, values in pairs_of(cache, 0)], states[0, -1]

    def read_behind(
        self, prefix: Sequence[LayerPair], ids: Sequence[int], own: Sequence[LayerPair], row: int
    ) -> Tensor:
        """Reads one prompt behind its prefix, alone, into a row; returns the hidden state at its end."""
        cache, start = behind(prefix), prefix[0][0].shape[1]
        positions = torch.arange(start, start + len(ids), device=self.model.device)[None]
        states = self._body(self._ids([list(ids)]), cache, positions)
        for (keys, values), (new_keys, new_values) in zip(own, pairs_of(cache, start), strict=True):
            keys[row, :, : len(ids)], values[row, :, : len(ids)] = new_keys, new_values
        return states[0, -1]

    def step(self, ids: Tensor, panels: Sequence[Panel], positions: Tensor, rows: int) -> Tensor:
        """One token in each row, at these positions, in a pass of so many rows; shape (len(ids), width).

        Rows that fill up the pass hold an idle token alone: nothing of any prompt.
        """
        padded, at = filled(ids, rows, self.idle), filled(positions, rows)
        with lockstep(self._config, panels):
            return self._body(padded[:, None], NothingKept(), at[:, None])[: len(ids), 0]

    def logits(self, states: Tensor, rows: int) -> Tensor:
        """Logits behind these hidden states, in a product of so many rows; shape (len(states), vocabulary)."""
        return self.head(filled(states, rows))[: len(states)]

    def plain(self, ids: Sequence[int]) -> Tensor:
        """Logits behind these tokens by the model's own forward pass, without cache or batch: the slow, obvious way."""
        return self.model.plain_logits(self._ids([list(ids)]))[0, -1]

    def _ids(self, rows: list[list[int]]) -> Tensor:
        return torch.tensor(rows, device=self.model.device)

    def _body(self, ids: Tensor, cache: Any, positions: Tensor | None = None) -> Tensor:
        with self._packed():
            return self._unpacked(ids, cache, positions)

    def _unpacked(self, ids: Tensor, cache: Any, positions: Tensor | None = None) -> Tensor:
        inputs: dict[str, Any] = {"input_ids": ids, "past_key_values": cache, "use_cache": True}
        if positions is not None:
            inputs["position_ids"] = positions
        return cast(Tensor, self.model.body(**inputs).last_hidden_state)

    def _called(self, module: Any) -> Head:
        def head(states: Tensor) -> Tensor:
            with self._packed():
                return cast(Tensor, module(states).float())

        return head

    def _find_head(self, ids: Tensor, states: Tensor, truth: Tensor) -> Head:
        # Families whose head is more than a matrix keep it under one of these names; others scale or cap logits.
        modules = [self.model.model.get_output_embeddings()]
        modules += [getattr(self.model.model, name, None) for name in ("cls", "lm_head", "predictions")]
        heads: list[tuple[Head, Head]] = [
            (module, self._called(module)) for module in modules if isinstance(module, torch.nn.Module)
        ]
        heads += [] if self.model.head_note else [(self.model.whole_head, self.model.whole_head)]
        for unpacked, head in heads:
            logits = unpacked(states).float()
            if logits.shape == truth.shape:
                difference = float((logits - truth).abs().max())
                if difference <= self.model.allowed(ids, difference, float(truth.abs().max())):
                    return head
        raise ModelError("The model's output head is of a kind that is not known here, so it cannot write in lockstep.")


def filled(rows: Tensor, count: int, value: int = 0) -> Tensor:
    """As many rows as asked, those that are missing filled with one value."""
    short = count - len(rows)
    return torch.cat([rows, rows.new_full((short, *rows.shape[1:]), value)]) if short else rows


def _mixes(config: Any) -> bool:
    text = config.get_text_config(decoder=True)
    counts = [getattr(text, name, None) for name in MIXTURE]
    return any(isinstance(count, int) and count > 1 for count in counts)
