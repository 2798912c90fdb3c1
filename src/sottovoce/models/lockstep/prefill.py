"""Prompts that a language model has read: a prefix once, then each prompt's own part, one prompt at a time.

Isolation   Every own part is read by itself, batch size 1. A slot that is empty or cannot be read holds zeros.
            Shapes follow the public prompt where every slot is empty; let experts have its ``before`` and ``after``.
Failures    A prompt on which the model fails is a null expert, as one that cannot be read. Behind it the model must
            still read the public prefix, and behind the last prompt in the same bits, whether or not one failed: else
            the failure is everybody's.
Memory      Sizes follow from public numbers alone: groups, slots, room for the private part, length of public parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.failures import OwnFailure
from sottovoce.models.huggingface.causal_model import quiet
from sottovoce.models.huggingface.prompts import Tokens
from sottovoce.models.lockstep.attention import Family, LayerPair
from sottovoce.models.lockstep.decoding import GroupRead, LockstepDecoding
from sottovoce.models.lockstep.memory import StoppedError, sealed
from sottovoce.models.lockstep.prompts import NOT_KEPT_APART, PromptTokens, TokensOf
from sottovoce.models.lockstep.workspace import Workspace
from sottovoce.models.stepper import Group
from sottovoce.records.sealed import Opaque

TryShapes = Callable[[Iterable[tuple[GroupRead, int]], int], None]
Prefix = tuple[Sequence[LayerPair], Tensor]
"""Keys and values of a prefix, and the hidden state at its end."""


@final
@dataclass(frozen=True, repr=False)
class _Plan(Opaque):
    """A group's prompts as tokens, and the prefix of its experts.

    Attributes:
        public: The public prompt.
        experts: One an expert; ``None`` for an empty slot.
        prefix: What the experts' prompts begin with; what the public one does where every slot is empty.
        places: Places that are kept for experts: whole panels.
    """

    public: PromptTokens
    experts: Sequence[PromptTokens | None]
    prefix: Tokens
    places: int

    @property
    def prefixes(self) -> tuple[Tokens, Tokens]:
        """Of the public prompt, and of the experts."""
        return self.public.prefix, self.prefix

    @property
    def tail(self) -> int:
        """Most tokens behind a private part; public, since an empty slot has no say."""
        return max(len(prompt.suffix) for prompt in (self.public, *self.experts) if prompt is not None)


@final
class LockstepPrompts(Opaque):
    """Groups of prompts, as keys and values.

    Args:
        workspace: Whose model reads them.
        groups: As given.
        max_private_tokens: Room for the private part.
        tokens: Most tokens of a text.
        tokens_of: Turns prompts into tokens.
        try_shapes: Called with groups, the texts in a panel of each, and the tokens of a text, before texts of that
            shape are written.

    Raises:
        ModelError: They do not fit.
    """

    def __init__(
        self,
        workspace: Workspace,
        groups: Sequence[Group],
        max_private_tokens: int,
        tokens: int,
        tokens_of: TokensOf,
        try_shapes: TryShapes | None = None,
    ) -> None:
        self._workspace, self._model, self._tokens, self._tokens_of = workspace, workspace.engine, tokens, tokens_of
        self._try_shapes, self._bytes, self._closed = try_shapes, 0, False
        plans = [self._plan(group, max_private_tokens) for group in groups]
        rooms = [max_private_tokens + plan.tail for plan in plans]
        self._refuse_long(plans, rooms)
        prefixes = list(dict.fromkeys(prefix for plan in plans for prefix in plan.prefixes))
        positions = sum(len(prefix) for prefix in prefixes)
        positions += sum((1 + plan.places) * room for plan, room in zip(plans, rooms, strict=True))
        one_text = max((1 + plan.places for plan in plans), default=0) * tokens
        self._workspace.memory.require(self._model.bytes_of(positions + one_text))
        self._bytes = self._workspace.memory.take(self._model.bytes_of(positions))
        self.groups: list[GroupRead] = []
        self._decodings: list[LockstepDecoding] = []
        try:
            # Warnings can tell sizes of private texts too; a step's sizes are public.
            with quiet(), sealed(), self._model.no_gradient():
                read = {prefix: self._model.read(prefix) for prefix in prefixes}
                self.groups = [self._group(plan, room, read) for plan, room in zip(plans, rooms, strict=True)]
                for prefix, (_, end) in read.items():
                    if not torch.equal(self._model.read(prefix)[1], end):
                        raise StoppedError("The model does not read public text as it did before.")
        except BaseException:
            self.close()
            raise

    def write(self, groups: Sequence[int], tokens: int) -> LockstepDecoding:
        """Opens texts side by side; see ``ReadPrompts``.

        Raises:
            ModelError: These prompts were closed, or the texts do not fit into the memory that may be used.
        """
        with self._workspace.lock:
            if self._closed:
                raise ModelError("These prompts were closed; read them again.")
            if isinstance(tokens, bool) or not 1 <= tokens <= self._tokens:
                raise ParameterError("tokens", tokens, f"between 1 and {self._tokens}, for which the prompts were read")
            if not groups or not all(0 <= group < len(self.groups) for group in groups):
                raise ParameterError("groups", list(groups), f"numbers from 0 to {len(self.groups) - 1}, at least one")
            most = self._workspace.panel_rows
            counted = Counter(groups)
            panels = {(group, texts) for group, n in counted.items() for texts in (min(n, most), n % most) if texts}
            if self._try_shapes is not None:
                self._try_shapes(((self.groups[group], texts) for group, texts in sorted(panels)), tokens)
            with sealed(), self._model.no_gradient():
                decoding = LockstepDecoding(self._workspace, [self.groups[group] for group in groups], tokens)
            self._decodings.append(decoding)
            return decoding

    def close(self) -> None:
        """Forgets everything, and closes the texts."""
        with self._workspace.lock:
            for decoding in self._decodings:
                decoding.close()
            self._decodings.clear()
            self._workspace.memory.give(self._bytes)
            self._bytes, self._closed, self.groups = 0, True, []

    def _plan(self, group: Group, max_private_tokens: int) -> _Plan:
        public = self._tokens_of(group.public, max_private_tokens)
        experts = [self._tokens_of(prompt, max_private_tokens) if prompt else None for prompt in group.experts]
        if public.private is None:
            raise ModelError(NOT_KEPT_APART)
        for name in ("prefix", "suffix"):
            texts = {getattr(expert, name) for expert in experts if expert is not None}
            if len(texts) > 1:
                raise ParameterError(name, f"{len(texts)} texts", "one text for all experts of a group")
        prefix = next((expert.prefix for expert in experts if expert is not None), public.prefix)
        places = len(experts) + -len(experts) % self._workspace.panel_rows
        return _Plan(public, experts, prefix, places)

    def _refuse_long(self, plans: Sequence[_Plan], rooms: Sequence[int]) -> None:
        longest = [max(len(prefix) for prefix in plan.prefixes) + room for plan, room in zip(plans, rooms, strict=True)]
        need, limit = max(longest, default=0) + self._tokens, self._model.model.limit
        if limit is not None and need > limit:
            raise ModelError(
                f"The prompts and a text of {self._tokens} tokens need {need} positions and the model has {limit}. "
                "Lower max_private_tokens or tokens, or shorten the public text."
            )

    def _group(self, plan: _Plan, room: int, read: Mapping[Tokens, Prefix]) -> GroupRead:
        model, count = self._model, len(plan.experts)
        last = torch.zeros(1 + count, model.width, dtype=model.model.dtype, device=model.model.device)
        public, experts = (
            self._family(read[plan.public.prefix], 1, room),
            self._family(read[plan.prefix], plan.places, room),
        )
        if not self._fill(public, 0, plan.public.own, read[plan.public.prefix], last[0]):
            raise ModelError(NOT_KEPT_APART)
        null = []
        for number, expert in enumerate(plan.experts):
            own = None if expert is None else expert.own
            if not self._reads(experts, number, own, plan.prefix, read[plan.prefix], last[1 + number]):
                null.append(number)
        return GroupRead(public, experts, last, null)

    def _reads(
        self, family: Family, place: int, own: Tokens | None, prefix: Tokens, kept: Prefix, last: Tensor
    ) -> bool:
        """``_fill`` for an expert: whether the model fails on its prompt follows from that prompt, and makes it null.

        Raises:
            ModelError: The device ran out of memory, or the model does not read public text any more as it did.
        """
        with OwnFailure():
            return self._fill(family, place, own, kept, last)
        last.zero_()
        for pair in family.own:
            for tensor in pair:
                tensor[place] = 0
        if not torch.isfinite(self._model.read(prefix)[1]).all():
            raise StoppedError("The model does not read public text any more as it did before it failed.")
        return False

    def _family(self, prefix: Prefix, places: int, room: int) -> Family:
        lengths = torch.zeros(places, dtype=torch.long, device=self._model.model.device)
        return Family(prefix[0], self._model.empty((places,), room), lengths)

    def _fill(self, family: Family, place: int, own: Tokens | None, prefix: Prefix, last: Tensor) -> bool:
        """Reads a prompt into its place; says whether it can be read."""
        if own is None or max(own, default=0) >= self._model.model.words:
            return False
        last[:] = self._model.read_behind(prefix[0], own, family.own, place) if own else prefix[1]
        family.lengths[place] = len(own)
        return True
