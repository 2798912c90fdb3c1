"""Private clustering replayed: the probability that the real code draws a given sequence, and what it then releases.

Selections and noise are taken over by a script. A first run with a seed writes the script down; a replay in another
world follows it and adds up log-probabilities under that world's own laws. Everything that a release tells beyond its
draws shows up as a difference between two replays of one script.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from sottovoce.mechanisms.clustering import private_clustering
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianVector, NoisyVector
from sottovoce.privacy.aggregates import Scores, VectorSum
from sottovoce.privacy.points import PrivatePoints
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness

RO, AR = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE


@dataclass
class Script:
    """What is to be drawn, one entry a draw, and what was seen on the way."""

    draws: list[Any] | None = None
    done: list[Any] = field(default_factory=list)
    log_probability: float = 0.0
    prices: list[tuple[str, float]] = field(default_factory=list)
    unscored_rho: float | None = None

    def next(self) -> Any:
        return None if self.draws is None else self.draws[len(self.done)]


def play(dpm: DPM, points: PrivatePoints, script: Script, monkeypatch, seed: int = 1, **public) -> str:
    """Runs the real code with the script's draws; returns the release as text."""
    source = SeededRandomness(seed)

    class Selecting:
        def __init__(self, epsilon: float) -> None:
            self.epsilon = epsilon

        def select(self, scores: Scores, randomness) -> int:
            wanted = script.next()
            chosen = Exponential(self.epsilon).select(scores, source) if wanted is None else wanted
            law = Exponential(self.epsilon).law(scores)[chosen]
            script.log_probability += math.log(law.numerator) - math.log(law.denominator)
            script.prices.append(("selection", self.epsilon / scores.sensitivity))
            script.done.append(chosen)
            return chosen

    class Adding:
        def __init__(self, rho: float) -> None:
            self.rho = rho

        def release(self, vector: VectorSum, randomness) -> NoisyVector:
            wanted = script.next()
            if wanted is None:
                wanted = GaussianVector(self.rho).release(vector, source).steps
            assert len(wanted) == vector.values.size
            if self.rho != script.unscored_rho:
                noise = np.array(wanted) - vector.values
                script.log_probability += log_gaussian(noise, float(GaussianVector(self.rho).noise_variance(vector)))
            script.prices.append(("noise", self.rho))
            script.done.append(tuple(wanted))
            return NoisyVector(tuple(wanted), vector.grid_step, 1)

    with monkeypatch.context() as patch:
        patch.setattr(private_clustering, "Exponential", Selecting)
        patch.setattr(private_clustering, "GaussianVector", Adding)
        return json.dumps(dpm.cluster(points, source, **public).to_json())


def log_gaussian(noise: np.ndarray, variance: float) -> float:
    """Log-probability of discrete Gaussian noise."""
    return float(-(noise.astype(float) ** 2).sum() / (2 * variance) - len(noise) * log_normaliser(variance))


@cache
def log_normaliser(variance: float) -> float:
    """By summation where the sum is short."""
    if variance >= 1e6:
        return 0.5 * math.log(2 * math.pi * variance)
    reach = np.arange(-int(12 * math.sqrt(variance)) - 20, int(12 * math.sqrt(variance)) + 21)
    return math.log(np.exp(-(reach**2) / (2 * variance)).sum())
