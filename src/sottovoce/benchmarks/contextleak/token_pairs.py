"""The worst pair of a small world for the first token of every method that writes token by token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sottovoce.audits.exact.labels import LabelWorld
from sottovoce.audits.exact.texts import TokenWorld, token_pair, token_plan
from sottovoce.benchmarks.contextleak.pairs import WorstPair, worst
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.studies.audit_power import TOKEN_PUBLIC, TOKEN_ROWS
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import make_decoder
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness

WORLD: Final = TokenWorld(TOKEN_ROWS, TOKEN_PUBLIC)


def token_pairs(name: str) -> Callable[[float, Adjacency, Randomness], WorstPair]:
    """Of one token by a registered decoder, from four experts."""

    def pairs(epsilon: float, adjacency: Adjacency, randomness: Randomness) -> WorstPair:
        plan = token_plan(make_decoder(name), Price(epsilon, e.DELTA), len(TOKEN_ROWS), adjacency)
        neighbours = (
            (change, TokenWorld(other.rows, other.public))
            for change, other in LabelWorld(TOKEN_ROWS, TOKEN_PUBLIC).neighbours(adjacency)
        )
        change, other, leak = worst(neighbours, lambda other: token_pair(plan, WORLD, other), e.DELTA)
        losses = leak.losses

        def drawn(own: TokenWorld) -> Callable[[], float]:
            def draw() -> float:
                token = plan.decoder.start(plan, randomness, eos_tokens=(), forbidden_tokens=()).next(own.step())
                assert token is not None
                return float(losses[token])

            return draw

        return WorstPair(change, leak, e.DELTA, (drawn(WORLD), drawn(other)))

    return pairs
