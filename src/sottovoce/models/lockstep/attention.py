"""Attention of one new token a row over what its prompt and its text have kept, without copying any of it.

The model's own layers run; only the step from queries, keys and values to a weighted mean is done here, in three
regions: a prefix that many prompts share, the prompt's own tokens, and the text's own tokens. Scores of all three go
through one softmax. Regions are padded to public lengths, and places without a token are masked.

Isolation   Every product has a shape of public numbers alone: a panel has the same number of places for prompts whether
            or not a prompt stands in each. Which kernel multiplies follows from the shape, and another one rounds in
            another way, so a shape that followed from the number of prompts would show it in everybody's last bits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, final

import torch
import transformers
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from sottovoce.records.sealed import Opaque

NAME: Final = "sottovoce_lockstep"
"""Under this name the model library finds this attention."""

LayerPair = tuple[Tensor, Tensor]
"""Keys and values of one layer."""

_UNKNOWN: Final = ("s_aux", "position_bias", "indices", "cu_seq_lens_q")
"""What other kinds of attention are given; here it would be left out without a word."""


@final
@dataclass(frozen=True, repr=False)
class Family(Opaque):
    """Prompts with one prefix in common, after the model has read them. Private, but for the prefix and all shapes.

    Attributes:
        prefix: Keys and values of the prefix by layer, shape (key heads, prefix tokens, width of a head).
        own: Those of each prompt behind it, shape (prompts, key heads, room, width of a head), zero where there is no
            token.
        lengths: Tokens of each prompt behind the prefix, shape (prompts,).
    """

    prefix: Sequence[LayerPair]
    own: Sequence[LayerPair]
    lengths: Tensor

    @property
    def shared(self) -> int:
        """Tokens of the prefix."""
        return int(self.prefix[0][0].shape[1])

    @property
    def room(self) -> int:
        """Places of a prompt behind the prefix."""
        return int(self.own[0][0].shape[2])


@final
@dataclass(repr=False)
class Panel(Opaque):
    """Rows of a forward pass: some prompts of a family, each with some texts. The texts of a prompt lie side by side.

    Attributes:
        family: The prompts.
        prompts: The panel's places: as many in every panel of a decoding, taken or not.
        count: Prompts that stand there, in the first places. The others are computed as prompts without a token.
        kept: The texts' own keys and values by layer, shape (prompts, texts, key heads, room, width of a head).
        places: For each text, the place of its new token, shape (texts,).
    """

    family: Family
    prompts: slice
    count: int
    kept: Sequence[LayerPair]
    places: list[int]
    _masks: dict[int | None, tuple[int, Tensor]] = field(default_factory=dict)

    @property
    def texts(self) -> int:
        """Texts of each prompt."""
        return len(self.places)

    @property
    def slots(self) -> int:
        """Places for prompts."""
        return int(self.prompts.stop) - int(self.prompts.start)

    @property
    def rows(self) -> int:
        """Rows of the pass that it takes."""
        return self.count * self.texts

    def move(self, places: Sequence[int]) -> Tensor:
        """Sets where the texts' new tokens go; returns their positions, shape (rows,)."""
        self.places = list(places)
        self._masks.clear()
        lengths = self.family.lengths[self.prompts][: self.count]
        new = torch.tensor(self.places, device=lengths.device)
        return (self.family.shared + lengths[:, None] + new).flatten()

    def mask(self, window: int | None) -> tuple[int, Tensor]:
        """What is added to scores from a column on: 0 where there is a token, minus infinity elsewhere.

        Returns:
            The column, and the mask of shape (prompts, 1, texts, 1, columns from there on).
        """
        if window not in self._masks:
            self._masks[window] = self._mask(window)
        return self._masks[window]

    def _mask(self, window: int | None) -> tuple[int, Tensor]:
        lengths = self.family.lengths[self.prompts, None]
        device, shared, room = lengths.device, self.family.shared, self.family.room
        new = torch.tensor(self.places, device=device)
        own, text = torch.arange(room, device=device), torch.arange(self.kept[0][0].shape[3], device=device)
        visible = torch.cat(
            [
                (own < lengths)[:, None, :].expand(-1, len(new), -1),
                (text <= new[:, None]).expand(len(lengths), -1, -1),
            ],
            dim=2,
        )
        start = shared
        if window is not None:
            before = torch.arange(shared, device=device).expand(len(lengths), -1)
            at = torch.cat([before, (shared + own).expand(len(lengths), -1), shared + lengths + text], dim=1)
            near = (shared + lengths + new)[:, :, None] - at[:, None, :] < window
            visible = torch.cat([near[:, :, :shared], near[:, :, shared:] & visible], dim=2)
            start = 0
        mask = torch.zeros(visible.shape, dtype=torch.float32, device=device).masked_fill_(~visible, -torch.inf)
        return start, mask[:, None, :, None, :]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, rule: Rule) -> Tensor:
        """Writes the new keys and values in place, and returns the weighted means of values.

        Args:
            layer: Number of the layer.
            query: Shape (rows, heads, width of a head).
            key: Shape (rows, key heads, width of a head).
            value: Likewise.
            rule: How scores are made.

        Returns:
            Shape (rows, heads, width of a value).
        """
        count, texts, heads = self.slots, self.texts, key.shape[1]
        query, key, value = (self._in_all_slots(rows) for rows in (query, key, value))
        kept_keys, kept_values = (kept[self.prompts] for kept in self.kept[layer])
        self._write(kept_keys, key)
        self._write(kept_values, value)
        own_keys, own_values = (kept[self.prompts] for kept in self.family.own[layer])
        shared_keys, shared_values = self.family.prefix[layer]
        shared, room = self.family.shared, self.family.room
        wide = query.view(count, texts, heads, -1, query.shape[-1]).transpose(1, 2)  # prompt, key head, text, its heads
        share = wide.shape[3]
        flat = wide.reshape(count, heads, texts * share, -1) * rule.scaling
        by_head = flat.transpose(0, 1).reshape(heads, count * texts * share, -1)
        by_text = flat.view(count, heads, texts, share, -1).transpose(1, 2)

        of_shared = (by_head @ shared_keys.mT).view(heads, count, texts * share, shared).transpose(0, 1)
        of_text = (by_text @ kept_keys.mT).transpose(1, 2).flatten(2, 3)
        scores = torch.cat([of_shared, flat @ own_keys.mT, of_text], dim=-1)
        weights = self._softmax(scores, share, rule).to(value.dtype)

        mean = weights[..., shared : shared + room] @ own_values
        of_shared = weights[..., :shared].transpose(0, 1).reshape(heads, -1, shared) @ shared_values
        mean += of_shared.view(heads, count, texts * share, -1).transpose(0, 1)
        weights = weights[..., shared + room :].view(count, heads, texts, share, -1).transpose(1, 2)
        mean += (weights @ kept_values).transpose(1, 2).flatten(2, 3)
        mean = mean.view(count, heads, texts, share, -1).transpose(1, 2).reshape(count * texts, heads * share, -1)
        return mean[: self.rows]

    def _in_all_slots(self, rows: Tensor) -> Tensor:
        """Zeros behind the rows, for the places where no prompt stands."""
        return torch.nn.functional.pad(rows, (0, 0, 0, 0, 0, self.slots * self.texts - self.rows))

    def _write(self, kept: Tensor, new: Tensor) -> None:
        new = new.view(self.slots, self.texts, *new.shape[1:])
        if len(set(self.places)) == 1:
            kept[:, :, :, self.places[0]] = new
        else:
            for text, place in enumerate(self.places):
                kept[:, text, :, place] = new[:, text]

    def _softmax(self, scores: Tensor, share: int, rule: Rule) -> Tensor:
        scores = scores.float()
        if rule.cap is not None:
            scores = rule.cap * torch.tanh(scores / rule.cap)
        start, mask = self.mask(rule.window)
        scores.view(*scores.shape[:2], self.texts, share, -1)[..., start:] += mask
        return scores.softmax(dim=-1)


@final
@dataclass(frozen=True)
class Rule:
    """How a layer makes scores: a factor, how far it looks back, and a soft cap."""

    scaling: float
    window: int | None = None
    cap: float | None = None


@final
class NothingKept(transformers.Cache):  # type: ignore[misc]
    """What the model's layers are given as a cache: it keeps nothing, since the attention here does."""

    def __init__(self) -> None:
        super().__init__(layers=[])

    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Hands on what is new."""
        return key_states, value_states

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Positions are always given."""
        return 0


_running = threading.local()


@contextmanager
def lockstep(config: Any, panels: Sequence[Panel]) -> Iterator[None]:
    """Within, the attention of models with this configuration is that of the panels, one behind the other."""
    before = config._attn_implementation
    config._attn_implementation = NAME
    _running.panels = panels
    try:
        yield
    finally:
        config._attn_implementation = before
        _running.panels = None


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    sliding_window: int | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """In the form that the model library calls: (rows, heads, 1, width) in, (rows, 1, heads, width) out."""
    if query.shape[2] != 1 or any(options.get(name) is not None for name in _UNKNOWN):
        raise NotImplementedError("This kind of attention is not known here.")
    query, key, value = query[:, :, 0], key[:, :, 0], value[:, :, 0]
    scaling = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    rule = Rule(scaling, sliding_window or getattr(module, "sliding_window", None), softcap)
    means, start = [], 0
    for panel in _running.panels:
        rows = slice(start, start + panel.rows)
        means.append(panel.attend(module.layer_idx, query[rows], key[rows], value[rows], rule))
        start = rows.stop
    if start < len(query):  # rows that fill up the pass
        means.append(means[0].new_zeros(len(query) - start, *means[0].shape[1:]))
    return (torch.cat(means) if len(means) > 1 else means[0])[:, None], None


ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)
