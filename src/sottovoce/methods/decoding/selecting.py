"""Decoders whose every token is one selection: a rule for rows, a mechanism, and where there is one a public prior.

Guarantee   That of the mechanism at the sensitivity of the rule (its width times the change).
Sources     specification T1, 5.1, 5.8, 5.10, 5.11.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import Candidates, Rule
from sottovoce.experts.label_scores import FloatArray
from sottovoce.experts.token_scores import scores_of, summed
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan, TokenSampler
from sottovoce.models.stepper import Step
from sottovoce.privacy.aggregates import Scores
from sottovoce.randomness import Randomness


class SelectingDecoder(Decoder):
    """A decoder whose every token is one selection from a sum over experts, with or without a public prior."""

    top_k: int | None

    @property
    @abstractmethod
    def rule(self) -> Rule:
        """What a row becomes before it is summed."""

    @property
    def margin(self) -> float | None:
        """Nats below the k-th public logit that are candidates as well."""
        return None

    def mechanism(self, plan: DecodingPlan) -> SelectionMechanism:
        """What chooses; the exponential mechanism at the plan's eta."""
        if plan.eta is None:
            raise AssertionError("a bounded-range selection has an eta")
        return Exponential(plan.eta)

    @final
    def mechanisms(self, plan: DecodingPlan) -> Sequence[SelectionMechanism]:
        return [self.mechanism(plan)]

    def log_prior(self, public: Candidates) -> FloatArray | None:
        """Public log-weights of the candidates: free (specification T1)."""
        return None

    def subsample(self, plan: DecodingPlan, step: Step, randomness: Randomness) -> Step:
        """The step with the experts that have a say in this token; all of them, unless a method draws some."""
        return step

    def scores(self, plan: DecodingPlan, step: Step, public: Candidates) -> Scores:
        """The sum over the step's experts with the bound on its change. It reads the blocks."""
        (sums,) = summed(step.blocks, public, [self.rule])
        return scores_of(sums, self.rule, plan.setting.change, plan.setting.adjacency)

    def start(
        self,
        plan: DecodingPlan,
        randomness: Randomness,
        *,
        eos_tokens: Sequence[int],
        forbidden_tokens: Sequence[int] = (),
    ) -> TokenSampler:
        return SelectingSampler(plan, randomness, eos_tokens, forbidden_tokens)


@final
class SelectingSampler(TokenSampler):
    """Chooses each token by one selection."""

    _plan: DecodingPlan

    def __init__(
        self, plan: DecodingPlan, randomness: Randomness, eos_tokens: Sequence[int], forbidden_tokens: Sequence[int]
    ) -> None:
        super().__init__(plan, randomness, eos_tokens, forbidden_tokens)
        if not isinstance(plan.decoder, SelectingDecoder):
            raise ParameterError("plan", plan.decoder.name, "one of a method that selects every token")
        self._decoder = plan.decoder
        (self._mechanism,) = plan.decoder.mechanisms(plan)

    def _public_rule(self) -> tuple[int | None, float | None]:
        return self._decoder.top_k, self._decoder.margin

    def _draw(self, step: Step, public: Candidates) -> int:
        step = self._decoder.subsample(self._plan, step, self._randomness)
        scores, prior = self._decoder.scores(self._plan, step, public), self._decoder.log_prior(public)
        if prior is None:
            return public.token(self._mechanism.select(scores, self._randomness))
        return public.token(exponential(self._mechanism).select(scores, self._randomness, prior))

    def _law(self, step: Step, public: Candidates) -> FloatArray:
        if self._decoder.subsample(self._plan, step, self._randomness) is not step:
            raise ParameterError(
                "law", self._decoder.name, "asked where no sample is drawn: here it is a mixture of many"
            )
        scores, prior = self._decoder.scores(self._plan, step, public), self._decoder.log_prior(public)
        law = self._mechanism.law(scores) if prior is None else exponential(self._mechanism).law(scores, prior)
        return np.array([float(p) for p in law])


def exponential(mechanism: SelectionMechanism) -> Exponential:
    """The mechanism, which must be the one that takes a prior."""
    if not isinstance(mechanism, Exponential):
        raise AssertionError("only the exponential mechanism takes a prior")
    return mechanism
