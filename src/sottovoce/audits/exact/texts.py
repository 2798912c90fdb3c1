"""The exact law of one token for concrete experts, and the worst pair among given rows.

Guarantee   Laws are the decoders' own, over every coin where experts are drawn. The event is that of one token.
Assumes     Rows come from public or synthetic records. Batches do not follow private labels here.
Sources     specification 10.7, 5.9 to 5.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np

from sottovoce.audits.exact.labels import LabelWorld, Worst, worst_of
from sottovoce.audits.exact.pair import Pair
from sottovoce.audits.roc import FloatArray
from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import require_torch
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan, TokenSampler
from sottovoce.methods.decoding.selecting import SelectingDecoder
from sottovoce.models.stepper import Group, Prompt, Step, Stepper
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import Opaque
from sottovoce.testing.text_worlds import law_of_token

_SIDE_BY_SIDE: Final = 64
"""Texts that are read together."""
_MOST_BEGINNINGS: Final = 2000


@final
@dataclass(frozen=True, eq=False)
class TokenWorld:
    """The logits of the next token by every expert.

    Attributes:
        rows: Shape (experts, vocabulary); a row of NaN is a null expert.
        public: The public prompt's logits, shape (vocabulary,).
    """

    rows: FloatArray = field(repr=False)
    public: FloatArray = field(repr=False)

    def of(self, experts: Sequence[int | None]) -> TokenWorld:
        """With these experts alone, in this order; ``None`` is a null expert."""
        null = np.full(self.rows.shape[1], np.nan)
        rows = [null if expert is None else self.rows[expert] for expert in experts]
        return TokenWorld(np.array(rows).reshape(len(rows), self.rows.shape[1]), self.public)

    def step(self) -> Step:
        """As a decoder reads them."""
        tensor = require_torch().tensor
        blocks = [tensor(self.rows, dtype=require_torch().float32)] if len(self.rows) else []
        return Step(0, tensor(self.public, dtype=require_torch().float32), iter(blocks))


def token_plan(decoder: Decoder, price: Price, experts: int, adjacency: Adjacency, tokens: int = 1) -> DecodingPlan:
    """The plan of a text of so many tokens, from so many experts of one unit each.

    Raises:
        ParameterError: No parameter meets the price.
    """
    change = change_type(Assignment.OWN_SLOT, adjacency)
    return decoder.plan(price, tokens=tokens, experts=experts, adjacency=adjacency, change=change)


def token_pair(plan: DecodingPlan, first: TokenWorld, second: TokenWorld) -> Pair:
    """The exact laws of a decoder's token in two worlds.

    Raises:
        ParameterError: The decoder states no law of its first token.
    """
    return Pair.of(_law(plan, first)[0], _law(plan, second)[0])


def worst_token_pair(
    decoder: Decoder, world: TokenWorld, price: Price, adjacency: Adjacency, pool: FloatArray | None = None
) -> Worst:
    """Searches every single change of a world for the largest loss, and holds every pair against the event charged.

    Args:
        decoder: The method; open parameters are set by the price.
        world: The experts; as many as there are is the public divisor.
        price: Of one token.
        adjacency: The relation.
        pool: Rows that may replace one; by default the rows that there are.

    Raises:
        ParameterError: The decoder states no law, or no parameter meets the price.
    """
    plan = token_plan(decoder, price, len(world.rows), adjacency)
    own, event = _law(plan, world)[0], plan.event
    changed = LabelWorld(world.rows, world.public).neighbours(adjacency, pool)
    pairs = ((words, Pair.of(own, _law(plan, TokenWorld(other.rows, other.public))[0])) for words, other in changed)
    return worst_of(pairs, event, adjacency, price.delta)


def why_no_law(decoder: type[Decoder]) -> str | None:
    """Why a decoder's token has no exact law here, found by asking for one; ``None`` where it has one."""
    world = TokenWorld(np.array([[2.0, 0.0, -1.0], [0.0, 1.0, -1.0]]), np.zeros(3))
    try:
        made = decoder()
        _law(token_plan(made, Price(2.0, 1e-3), 2, Adjacency.ADD_REMOVE), world)
    except (ParameterError, TypeError) as error:
        return str(error)
    return None


Tokens = tuple[int, ...]


@final
class TextTree(Opaque):
    """The logits of every expert behind every beginning of a text that is asked for.

    Args:
        stepper: What writes.
        opening: Public begin of every prompt.
        shown: One text an expert, of made-up records.
        ending: Public end of every prompt.
        tokens: Most tokens of a text.
        longest: Room for an expert's text, in tokens.

    Raises:
        ModelError: The prompts do not fit into the model.
    """

    __slots__ = ("_known", "_read", "_tokens", "stepper")

    def __init__(
        self, stepper: Stepper, opening: str, shown: Sequence[str], ending: str, tokens: int, longest: int
    ) -> None:
        group = Group(Prompt(opening, "", ending), [Prompt(opening, text, ending) for text in shown])
        self.stepper, self._tokens = stepper, tokens
        self._read = stepper.read([group], max_private_tokens=longest, tokens=tokens)
        self._known: dict[Tokens, TokenWorld] = {}

    def at(self, beginnings: Sequence[Tokens]) -> list[TokenWorld]:
        """The worlds behind some beginnings of one length, read side by side."""
        unknown = [beginning for beginning in beginnings if beginning not in self._known]
        for start in range(0, len(unknown), _SIDE_BY_SIDE):
            chunk = unknown[start : start + _SIDE_BY_SIDE]
            decoding = self._read.write([0] * len(chunk), self._tokens)
            try:
                for length in range(len(chunk[0]) + 1):
                    tokens = {text: own[length - 1] if length else None for text, own in enumerate(chunk)}
                    for step in decoding.step(tokens):
                        rows = [np.array(block.cpu().numpy(), dtype=np.float64) for block in step.blocks]
                        if length == len(chunk[step.text]):
                            public = np.array(step.public.cpu().numpy(), dtype=np.float64)
                            self._known[chunk[step.text]] = TokenWorld(np.concatenate(rows), public)
            finally:
                decoding.close()
        return [self._known[beginning] for beginning in beginnings]

    def close(self) -> None:
        """Forgets logits and prompts."""
        self._known.clear()
        self._read.close()


def text_law(plan: DecodingPlan, tree: TextTree, experts: Sequence[int | None]) -> FloatArray:
    """Probability of every text of a tree, in an order that follows from public logits alone.

    Args:
        plan: Of the text.
        tree: Its logits.
        experts: Which of the tree's experts there are; ``None`` for a null expert.

    Raises:
        ParameterError: The decoder states no law of a text of so many tokens, or there are too many texts.
    """
    tokens, stepper = plan.setting.tokens, tree.stepper
    if tokens > 1 and not isinstance(plan.decoder, SelectingDecoder):
        limit = f"1 for the method {plan.decoder.name!r}: later tokens follow from draws that do not leave"
        raise ParameterError("--tokens", tokens, limit)
    over: list[FloatArray] = []
    waiting: list[tuple[Tokens, float]] = [((), 1.0)]
    for length in range(1, tokens + 1):
        following: list[tuple[Tokens, float]] = []
        for (beginning, mass), world in zip(waiting, tree.at([text for text, _ in waiting]), strict=True):
            ids, law = _candidate_law(plan, world.of(experts), stepper)
            ended = np.isin(ids, stepper.eos_tokens) | (length == tokens)
            over.append(mass * law[ended] if len(ids) else np.array([mass]))
            following += [
                ((*beginning, int(token)), mass * p) for token, p in zip(ids[~ended], law[~ended], strict=True)
            ]
        if length < tokens and len(following) > _MOST_BEGINNINGS:
            limit = f"1, or few candidates, such as -o top_k=6: there are {len(following):,} beginnings"
            raise ParameterError("--tokens", tokens, limit)
        waiting = following
    return np.concatenate(over)


def _candidate_law(plan: DecodingPlan, world: TokenWorld, stepper: Stepper) -> tuple[IntArray, FloatArray]:
    """The public candidates and the probability of each; none where the text ends for want of one."""
    law, chooser = _law(plan, world, stepper.eos_tokens, stepper.forbidden_tokens)
    public = chooser._candidates(world.step(), None)
    if public is None:
        return np.empty(0, dtype=np.int64), np.empty(0)
    ids = np.arange(law.size) if public.ids is None else np.asarray(public.ids.cpu().numpy())
    return ids, law[ids]


def _law(
    plan: DecodingPlan, world: TokenWorld, eos_tokens: Sequence[int] = (), forbidden_tokens: Sequence[int] = ()
) -> tuple[FloatArray, TokenSampler]:
    """Probabilities of the whole vocabulary, and the sampler that they were asked of."""
    chooser = plan.decoder.start(plan, SeededRandomness(0), eos_tokens=eos_tokens, forbidden_tokens=forbidden_tokens)
    try:
        law = law_of_token(plan, chooser, world.step)
    except AssertionError as error:
        raise ParameterError("method", plan.decoder.name, f"one with an exact law: {error}") from None
    return (np.asarray(law / law.sum()) if law.any() else law), chooser
