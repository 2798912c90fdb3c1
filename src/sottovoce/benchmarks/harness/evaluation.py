"""How often each method is right on one episode, with the methods' own scores and laws.

Every released answer counts with its exact probability under the method's law, so that no noise of drawing is added to
that of records and questions. For prediction by subsampling the prompts are drawn (by a seed), and the argmax of the
noisy mean has its law by quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sottovoce.benchmarks.harness.datasets import Episode
from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import ExpertOutputs, normalized, sanitized
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.samplers.integer_weights import rate_per_step
from sottovoce.methods.base import Price, Selecting
from sottovoce.methods.pbs import PbS
from sottovoce.methods.poe import PoE
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.methods.rnm import RNM
from sottovoce.models.base import FloatArray, LabelScorer
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import DROP, SWAP, Adjacency, ChangeType

DELTA: Final = 1e-5
"""Of one answer, for the methods that have one."""

POE, PRIOR_POE, PBS = "PoE", "prior x PoE", "PbS"
VOTES, VOTES_PF, VOTES_GAUSSIAN = "votes, exponential", "votes, permute-and-flip", "votes, Gaussian (as published)"
ZERO_SHOT, FULL, SOFT, HARD = "zero-shot", "full context", "soft sum", "hard votes"
REFERENCES: Final = (ZERO_SHOT, FULL, SOFT, HARD)

SELECTING: Final[Mapping[str, Selecting]] = {
    POE: PoE(),
    PRIOR_POE: PriorPoE(),
    VOTES: RNM(),
    VOTES_PF: RNM("permute_and_flip"),
    VOTES_GAUSSIAN: RNM("gaussian"),
}
"""The methods that choose from the scores of fixed experts."""

SPEND_DELTA: Final = (VOTES_GAUSSIAN, PBS)
"""The methods whose answers also spend ``DELTA``; the others have none."""

Laws = NDArray[np.float64]
"""Probability of each label, shape (questions, labels)."""


@final
@dataclass(frozen=True)
class Answers:
    """What the experts of one episode said.

    Attributes:
        said: Log-probabilities of the labels, shape (questions, experts, labels).
        public: The same without any record, shape (questions, labels).
        change: What one change of the records does to the experts.
        adjacency: The relation it is for.
    """

    said: FloatArray
    public: FloatArray
    change: ChangeType
    adjacency: Adjacency

    def outputs(self) -> list[ExpertOutputs]:
        """One for each question, as a session makes them."""
        return [
            ExpertOutputs(rows, self.change, self.adjacency, public)
            for rows, public in zip(self.said, self.public, strict=True)
        ]


def laws(method: Selecting, outputs: Sequence[ExpertOutputs], price: Price) -> Laws:
    """The method's law for every question."""
    return np.array([[float(p) for p in method.law(output, price)] for output in outputs])


@final
class QuickLaws:
    """The laws of one method on the same questions at many prices: its own scores once, then whole arrays.

    Equal to ``laws`` up to 1e-9 (a test asks); an answer's law takes microseconds instead of a fraction of a
    millisecond. A public prior is rounded to whole grid steps, as the mechanism does: at a small clip a step is coarse.
    Mechanisms without an array form are asked one question at a time.

    Args:
        method: The method.
        outputs: One for each question.
    """

    def __init__(self, method: Selecting, outputs: Sequence[ExpertOutputs]) -> None:
        self._method, self._outputs = method, outputs
        scores = [method.scores(output) for output in outputs]
        self._utilities = np.array([score.values for score in scores], dtype=np.float64)
        self._sensitivity = scores[0].sensitivity
        priors = [method.log_prior(output) for output in outputs]
        self._prior = None if priors[0] is None else np.array(priors)

    def at(self, price: Price) -> Laws:
        """The law for every question."""
        mechanism = self._method.mechanism(price)
        rate = float(rate_per_step(exact(price.epsilon), self._sensitivity))
        if isinstance(mechanism, Exponential):
            steps = 0.0
            if self._prior is not None:
                steps = np.rint((self._prior - self._prior.max(axis=1, keepdims=True)) / rate)
            return selection_law(self._utilities + steps, rate, "exponential")
        if isinstance(mechanism, PermuteAndFlip) and self._prior is None:
            return selection_law(self._utilities, rate, "permute-and-flip")
        return laws(self._method, self._outputs, price)


def pbs_laws(method: PbS, said: FloatArray, price: Price, adjacency: Adjacency) -> Laws:
    """The law of prediction by subsampling, given its prompts.

    Args:
        said: Log-probabilities by every prompt, shape (questions, subsamples, labels).

    The mean of k vectors has independent noise of deviation s on each label; label y wins with probability
    E[product over j of Phi(Z + (m_y - m_j) / s)] for a standard normal Z, by Gauss-Hermite quadrature of 61 nodes.
    """
    if said.shape[1] != method.subsamples:
        raise ParameterError("said", f"{said.shape[1]} prompts a question", f"{method.subsamples} of them")
    shares = np.stack([np.nan_to_num(np.exp(normalized(sanitized(rows), "labels"))) for rows in said])
    mean = shares.mean(axis=1)
    deviation = method.noise_multiplier(price, adjacency) * math.sqrt(2 / method.subsamples)
    ahead = (mean[:, :, None] - mean[:, None, :]) / deviation
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    law = np.zeros_like(mean)
    for node, weight in zip(nodes, weights / math.sqrt(2 * math.pi), strict=True):
        below = ndtr(node + ahead)
        # A label's comparison with itself is left out.
        law += weight * below.prod(axis=2) / ndtr(node)
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def best_laws(scores: FloatArray) -> Laws:
    """The law of the argmax: equally good labels share the credit, all of them where a prompt could not be read."""
    scores = np.where(np.isnan(scores), -np.inf, scores)
    best = scores == scores.max(axis=-1, keepdims=True)
    return np.asarray(best / best.sum(axis=-1, keepdims=True))


def right(law: Laws, truth: NDArray[np.intp]) -> float:
    """Expected percentage of right answers."""
    return 100 * float(law[np.arange(len(truth)), truth].mean())


def grouped(records: int, group: int, adjacency: Adjacency, seed: int) -> list[list[int]]:
    """Which records share an expert, and in which order.

    Where the number of records is public they are dealt out in their (already random) order, ``group`` each. Under
    add-remove every record draws one of ceil(records / group) slots, and a slot keeps at most ``group``.
    """
    if group == 1:
        return [[index] for index in range(records)]
    if adjacency.size_is_public:
        return [list(range(start, min(start + group, records))) for start in range(0, records, group)]
    slots: list[list[int]] = [[] for _ in range(-(-records // group))]
    for index, slot in enumerate(np.random.default_rng(7000 + seed).integers(len(slots), size=records)):
        slots[slot].append(index)
    return [slot[:group] for slot in slots]


def change_of(group: int, adjacency: Adjacency) -> ChangeType:
    """Table 2.2: a drop for one record an expert under add-remove, else a swap."""
    return DROP if group == 1 and adjacency is Adjacency.ADD_REMOVE else SWAP


def ask(scorer: LabelScorer, episode: Episode, groups: Sequence[Sequence[int]]) -> FloatArray:
    """Log-probabilities by experts that hold these records, shape (questions, experts, labels); empty ones are null."""
    scores = np.full((len(episode.questions), len(groups), len(episode.task.labels)), np.nan)
    occupied = [index for index, group in enumerate(groups) if group]
    if occupied:
        contexts = [[episode.records[record] for record in groups[index]] for index in occupied]
        prepared = scorer.prepare(episode.task, contexts)
        scores[:, occupied] = prepared.score(episode.questions)
        prepared.close()
    return scores


def ask_public(scorer: LabelScorer, episode: Episode) -> FloatArray:
    """Log-probabilities without any record, shape (questions, labels)."""
    prepared = scorer.prepare(episode.task, [()])
    return np.asarray(prepared.score(episode.questions)[:, 0])


def ask_samples(scorer: LabelScorer, episode: Episode, records: int, method: PbS, seed: int) -> FloatArray:
    """Log-probabilities by prompts of fresh Poisson samples, shape (questions, subsamples, labels)."""
    rng = np.random.default_rng(90_000 + seed)
    scores = np.empty((len(episode.questions), method.subsamples, len(episode.task.labels)))
    for row, question in zip(scores, episode.questions, strict=True):
        coins = rng.random((method.subsamples, records)) < method.sampling_probability
        samples = [np.flatnonzero(sample).tolist() for sample in coins]
        prepared = scorer.prepare(episode.task, [[episode.records[i] for i in sample] for sample in samples])
        row[...] = prepared.score([question])[0]
        prepared.close()
    return scores


def selection_law(utilities: FloatArray, rate: float, mechanism: str) -> FloatArray:
    """Probability of each candidate, exactly, up to rounding.

    Args:
        utilities: Shape (questions, candidates).
        rate: Nats for each unit of utility.
        mechanism: ``exponential``: weights exp(rate u). ``permute-and-flip``: candidates in random order, each taken
            with probability exp(rate (u - max u)); its law is p_y times the integral over t in [0, 1] of the product of
            1 - t p_j over the others, a polynomial that Gauss-Legendre quadrature integrates exactly.
    """
    p: FloatArray = np.exp(rate * (utilities - utilities.max(axis=-1, keepdims=True)))
    if mechanism == "exponential":
        return np.asarray(p / p.sum(axis=-1, keepdims=True), dtype=np.float64)
    candidates = p.shape[-1]
    nodes, weights = np.polynomial.legendre.leggauss(candidates // 2 + 1)
    law: FloatArray = np.zeros_like(p)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        for y in range(candidates):
            law[:, y] += weight * p[:, y] * np.delete(1 - node * p, y, axis=-1).prod(axis=-1)
    return law
