"""Prompts that a language model has read: a prefix once, then each prompt's own part, one prompt at a time.

Isolation   Every own part is read by itself, batch size 1. A slot that is empty or cannot be read holds zeros.
            Shapes follow the public prompt where every slot is empty; let experts have its ``before`` and ``after``.
Memory      Sizes follow from public numbers alone: groups, slots, room for the private part, length of public parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models._hf_lockstep_attention import Family, LayerPair
from sottovoce.models._hf_lockstep_cache import sealed
from sottovoce.models._hf_lockstep_decoding import GroupRead, LockstepDecoding
from sottovoce.models._hf_lockstep_prompts import NOT_KEPT_APART, PromptTokens, TokensOf
from sottovoce.models._hf_model import quiet
from sottovoce.models._hf_prompts import Tokens
from sottovoce.models.stepping import Group
from sottovoce.records import Opaque

if TYPE_CHECKING:
    from sottovoce.models.hf_stepper import TransformersStepper


@final
@dataclass(frozen=True, repr=False)
class _Plan(Opaque):
    """A group's prompts as tokens, and the prefixes of its families."""

    prompts: Sequence[PromptTokens | None]
    prefixes: Sequence[Tokens]

    @property
    def rows(self) -> list[range]:
        """Prompts of each family."""
        count = len(self.prompts)
        return [range(count)] if len(self.prefixes) == 1 else [range(1), range(1, count)]


@final
class LockstepPrompts(Opaque):
    """Groups of prompts, as keys and values.

    Args:
        stepper: Whose model reads them.
        groups: As given.
        inside_tokens: Room for the private part.
        tokens: Most tokens of a text.
        tokens_of: Turns prompts into tokens.

    Raises:
        ModelError: They do not fit.
    """

    def __init__(
        self,
        stepper: TransformersStepper,
        groups: Sequence[Group],
        inside_tokens: int,
        tokens: int,
        tokens_of: TokensOf,
    ) -> None:
        self._stepper, self._model, self._tokens, self._tokens_of = stepper, stepper.engine, tokens, tokens_of
        self._bytes, self._closed = 0, False
        plans = [self._plan(group, inside_tokens) for group in groups]
        rooms = [inside_tokens + _tail(plan) for plan in plans]
        self._refuse_long(plans, rooms)
        prefixes = list(dict.fromkeys(prefix for plan in plans for prefix in plan.prefixes))
        positions = sum(len(prefix) for prefix in prefixes)
        positions += sum(len(plan.prompts) * room for plan, room in zip(plans, rooms, strict=True))
        one_text = max((len(plan.prompts) for plan in plans), default=0) * tokens
        self._stepper.memory.require(self._model.bytes_of(positions + one_text))
        self._bytes = self._stepper.memory.take(self._model.bytes_of(positions))
        self.groups: list[GroupRead] = []
        self._decodings: list[LockstepDecoding] = []
        try:
            # Warnings can tell sizes of private texts too; a step's sizes are public.
            with quiet(), sealed(), self._model.no_gradient():
                read = {prefix: self._model.read(prefix) for prefix in prefixes}
                self.groups = [self._group(plan, room, read) for plan, room in zip(plans, rooms, strict=True)]
        except BaseException:
            self.close()
            raise

    def write(self, groups: Sequence[int], tokens: int) -> LockstepDecoding:
        """Opens texts side by side; see ``ReadPrompts``.

        Raises:
            ModelError: These prompts were closed, or the texts do not fit into the memory that may be used.
        """
        with self._stepper.lock:
            if self._closed:
                raise ModelError("These prompts were closed; read them again.")
            if isinstance(tokens, bool) or not 1 <= tokens <= self._tokens:
                raise ParameterError("tokens", tokens, f"between 1 and {self._tokens}, for which the prompts were read")
            if not groups or not all(0 <= group < len(self.groups) for group in groups):
                raise ParameterError("groups", list(groups), f"numbers from 0 to {len(self.groups) - 1}, at least one")
            with sealed(), self._model.no_gradient():
                decoding = LockstepDecoding(self._stepper, [self.groups[group] for group in groups], tokens)
            self._decodings.append(decoding)
            return decoding

    def close(self) -> None:
        """Forgets everything, and closes the texts."""
        with self._stepper.lock:
            for decoding in self._decodings:
                decoding.close()
            self._decodings.clear()
            self._stepper.memory.give(self._bytes)
            self._bytes, self._closed, self.groups = 0, True, []

    def _plan(self, group: Group, inside_tokens: int) -> _Plan:
        given = (group.public, *group.experts)
        prompts = [self._tokens_of(prompt, inside_tokens) if prompt else None for prompt in given]
        public, *experts = prompts
        if public is None or public.inside is None:
            raise ModelError(NOT_KEPT_APART)
        for name in ("before", "after"):
            found = {getattr(expert, name) for expert in experts if expert is not None}
            if len(found) > 1:
                raise ParameterError(name, f"{len(found)} texts", "one text for all experts of a group")
        prefixes = dict.fromkeys(prompt.before for prompt in prompts if prompt is not None)
        return _Plan(prompts, list(prefixes))

    def _refuse_long(self, plans: Sequence[_Plan], rooms: Sequence[int]) -> None:
        longest = [max(len(prefix) for prefix in plan.prefixes) + room for plan, room in zip(plans, rooms, strict=True)]
        need, limit = max(longest, default=0) + self._tokens, self._model.model.limit
        if limit is not None and need > limit:
            raise ModelError(
                f"The prompts and a text of {self._tokens} tokens need {need} positions and the model has {limit}. "
                "Lower inside_tokens or tokens, or shorten the public text."
            )

    def _group(self, plan: _Plan, room: int, read: dict[Tokens, tuple[list[LayerPair], Tensor]]) -> GroupRead:
        model, prompts = self._model, plan.prompts
        last = torch.zeros(len(prompts), model.width, dtype=model.model.dtype, device=model.model.device)
        null = set(range(len(prompts)))
        families = []
        for prefix, rows in zip(plan.prefixes, plan.rows, strict=True):
            pairs, end = read[prefix]
            own = model.empty((len(rows),), room)
            lengths = torch.zeros(len(rows), dtype=torch.long, device=model.model.device)
            for row, number in enumerate(rows):
                prompt = prompts[number]
                ids = None if prompt is None else prompt.own
                if ids is None or max(ids, default=0) >= model.model.words:
                    continue
                last[number] = model.read_behind(pairs, ids, own, row) if ids else end
                lengths[row] = len(ids)
                null.discard(number)
            families.append(Family(pairs, own, lengths))
        return GroupRead(families, plan.rows, last, sorted(null))


def _tail(plan: _Plan) -> int:
    """Most tokens behind a private part; public, since an empty slot has no say."""
    return max(len(prompt.after) for prompt in plan.prompts if prompt is not None)
