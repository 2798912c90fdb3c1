"""Small worlds for decoding: experts' logits, neighbouring sets of experts, and exact laws of the next token."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan
from sottovoce.models.stepper import Step
from sottovoce.privacy.unit import DROP, SWAP, Adjacency, ChangeType
from sottovoce.randomness import SeededRandomness

ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
Rows = Sequence[Sequence[float]]


@dataclass(frozen=True)
class World:
    """A public row, the rows of experts that stay, and two rows of one expert."""

    public: Sequence[float]
    rest: Rows
    one: Sequence[float]
    other: Sequence[float]

    def neighbours(self, adjacency: Adjacency) -> tuple[Rows, Rows]:
        with_one = [*self.rest, self.one]
        return with_one, (list(self.rest) if adjacency is Adjacency.ADD_REMOVE else [*self.rest, self.other])


def change_of(adjacency: Adjacency) -> ChangeType:
    """One unit an expert: table 2.2, first row, written out by hand."""
    return DROP if adjacency is Adjacency.ADD_REMOVE else SWAP


def step_of(public: Sequence[float], rows: Rows, split: int = 3) -> Step:
    table = torch.tensor(rows, dtype=torch.float32).reshape(len(rows), len(public))
    return Step(0, torch.tensor(public, dtype=torch.float32), iter(table.split(split)) if len(rows) else iter(()))


def plan_of(decoder: Decoder, adjacency: Adjacency, experts: int = 3, tokens: int = 1) -> DecodingPlan:
    """The plan at the parameters that the decoder has."""
    return decoder.plan(None, tokens=tokens, experts=experts, adjacency=adjacency, change=change_of(adjacency))


def law_of(plan: DecodingPlan, public: Sequence[float], rows: Rows) -> np.ndarray:
    return plan.decoder.start(plan, SeededRandomness(0), eos_tokens=()).law(step_of(public, rows))


def losses_of(plan: DecodingPlan, world: World) -> np.ndarray:
    """Privacy losses of one token by outcome; infinite where an outcome is possible in one data set alone."""
    p, q = (law_of(plan, world.public, rows) for rows in world.neighbours(plan.setting.adjacency))
    either = (p > 0) | (q > 0)
    with np.errstate(divide="ignore"):
        return np.log(p[either]) - np.log(q[either])


def random_worlds(count: int, seed: int, most_experts: int = 5) -> Iterator[World]:
    """Rows of every kind: smooth ones, sharp ones, impossible tokens, broken ones, and the public row itself."""
    dice = np.random.default_rng(seed)
    for _ in range(count):
        tokens = int(dice.integers(2, 6))
        public = dice.normal(0, dice.choice([0.3, 2.0, 8.0]), tokens)
        rest = [_row(dice, public) for _ in range(dice.integers(0, most_experts))]
        yield World(public.tolist(), rest, _row(dice, public), _row(dice, public))


def _row(dice: np.random.Generator, public: np.ndarray) -> list[float]:
    tokens = len(public)
    match int(dice.integers(0, 7)):
        case 0:
            return [math.nan] * tokens
        case 1:
            return public.tolist()
        case 2:
            return (public + 60 * np.eye(tokens)[dice.integers(tokens)]).tolist()
        case 3:
            return (public - 60 * np.eye(tokens)[dice.integers(tokens)]).tolist()
        case 4:
            row = dice.normal(0, 3, tokens)
            row[dice.integers(tokens)] = dice.choice([-math.inf, math.nan, math.inf])
            return row.tolist()
    return (public + dice.normal(0, dice.choice([0.1, 2.0, 30.0]), tokens)).tolist()


def excess(plan: DecodingPlan, worlds: Iterable[World], *, range_too: bool = True) -> float:
    """By how much the stated loss of a token is exceeded in the worst world; at most 0 where it holds."""
    event = plan.token_event
    bound = getattr(event, "eta", None) or event.epsilon
    worst = -math.inf
    for world in worlds:
        found = losses_of(plan, world)
        worst = max(worst, float(np.abs(found).max()), float(np.ptp(found)) if range_too else -math.inf)
    return worst - bound


def renyi(p: np.ndarray, q: np.ndarray, alpha: float) -> float:
    with np.errstate(divide="ignore"):
        logs = alpha * np.log(p) + (1 - alpha) * np.log(q)
    return float(np.logaddexp.reduce(logs) / (alpha - 1))
