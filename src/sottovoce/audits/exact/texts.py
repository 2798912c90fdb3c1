"""The exact law of one token for concrete experts, and the worst pair among given rows.

Guarantee   Laws are the decoders' own, over every coin where experts are drawn. The event is that of one token.
Assumes     Rows come from public or synthetic records. Batches do not follow private labels here.
Sources     specification 10.7, 5.9 to 5.11.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import numpy as np

from sottovoce.audits.exact.labels import LabelWorld, Worst, worst_of
from sottovoce.audits.exact.pair import Pair
from sottovoce.audits.roc import FloatArray
from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import require_torch
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan
from sottovoce.models.stepper import Step
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.testing.text_worlds import law_of_token


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

    def step(self) -> Step:
        """As a decoder reads them."""
        tensor = require_torch().tensor
        blocks = [tensor(self.rows, dtype=require_torch().float32)] if len(self.rows) else []
        return Step(0, tensor(self.public, dtype=require_torch().float32), iter(blocks))


def token_plan(decoder: Decoder, price: Price, experts: int, adjacency: Adjacency) -> DecodingPlan:
    """The plan of texts of one token, from so many experts of one unit each.

    Raises:
        ParameterError: No parameter meets the price.
    """
    change = change_type(Assignment.OWN_SLOT, adjacency)
    return decoder.plan(price, tokens=1, experts=experts, adjacency=adjacency, change=change)


def token_pair(plan: DecodingPlan, first: TokenWorld, second: TokenWorld) -> Pair:
    """The exact laws of a decoder's token in two worlds.

    Raises:
        ParameterError: The decoder states no law of its first token.
    """
    return Pair.of(_law(plan, first), _law(plan, second))


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
    own, event = _law(plan, world), plan.event
    changed = LabelWorld(world.rows, world.public).neighbours(adjacency, pool)
    pairs = ((words, Pair.of(own, _law(plan, TokenWorld(other.rows, other.public)))) for words, other in changed)
    return worst_of(pairs, event, adjacency)


def why_no_law(decoder: type[Decoder]) -> str | None:
    """Why a decoder's token has no exact law here, found by asking for one; ``None`` where it has one."""
    world = TokenWorld(np.array([[2.0, 0.0, -1.0], [0.0, 1.0, -1.0]]), np.zeros(3))
    try:
        made = decoder()
        _law(token_plan(made, Price(2.0, 1e-3), 2, Adjacency.ADD_REMOVE), world)
    except (ParameterError, TypeError) as error:
        return str(error)
    return None


def _law(plan: DecodingPlan, world: TokenWorld) -> FloatArray:
    chooser = plan.decoder.start(plan, SeededRandomness(0), eos_tokens=(), forbidden_tokens=())
    try:
        law = law_of_token(plan, chooser, world.step)
    except AssertionError as error:
        raise ParameterError("method", plan.decoder.name, f"one with an exact law: {error}") from None
    return np.asarray(law / law.sum())
