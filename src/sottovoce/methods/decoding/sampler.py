"""From a step's scores to a token: one text, its candidates, its end, and what it has spent.

Guarantee   Candidates follow from public logits and public rules alone, and control tokens are never among them. The
            end of a text is a token like others, so that a realised length needs no further cover (5.10). A text also
            ends where its own tokens leave no public candidate, which follows from them alone.
Sources     specification 5.11 (candidates), 6.5 (what may be given back), 8 (length).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.clipping import Candidates
from sottovoce.experts.label_scores import FloatArray
from sottovoce.experts.token_scores import candidates_of, tensor_of
from sottovoce.methods.decoding.plan import BatchPlan
from sottovoce.models.stepper import Step
from sottovoce.privacy.events import DpEvent
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import Opaque

if TYPE_CHECKING:
    from torch import Tensor


class TokenSampler(Opaque, ABC):
    """Chooses the tokens of one text, one step after another.

    Args:
        plan: The plan that was charged.
        randomness: Source of noise.
        eos_tokens: Tokens that end the text.
        forbidden_tokens: Tokens that it may not hold.

    Attributes:
        over: Whether the text has ended, by its end token or by the plan's length. Public.
        length: Tokens chosen so far. Public.
    """

    def __init__(
        self, plan: BatchPlan, randomness: Randomness, eos_tokens: Sequence[int], forbidden_tokens: Sequence[int]
    ) -> None:
        self._plan, self._randomness = plan, randomness
        self._eos_tokens, self._forbidden_tokens = frozenset(eos_tokens), tuple(forbidden_tokens)
        self._forbidden_tensor: Any = None
        self.over, self.length = False, 0

    @final
    def next(self, step: Step, allowed: Sequence[int] | Tensor | None = None) -> int | None:
        """Chooses one token and reads the step's blocks, once.

        Where the public prompt leaves no candidate the text is over, and no block is read. Which tokens it has so far
        decides that, so it is no failure: one that can be seen would tell of a draw that is then made again.

        Args:
            step: The scores of this text.
            allowed: The only tokens that may be chosen, by a public rule such as a grammar; quickest as a tensor.

        Returns:
            The token; ``None`` where there was none to choose.

        Raises:
            ParameterError: The text is over.
        """
        if self.over:
            raise ParameterError("text", "over", "one that has not ended: its charge covers no further token")
        self.length += 1  # counted before anything is read, so that a failure in between is paid for
        self.over = self.length >= self._plan.setting.tokens
        public = self._candidates(step, allowed)
        token = None if public is None else self._draw(step, public)
        self.over = self.over or token is None or token in self._eos_tokens
        return token

    @property
    def spent(self) -> DpEvent:
        """What the text's executed steps cost, for the refund of those that its end made unnecessary (6.5).

        Raises:
            ParameterError: The text is not over: an interrupted text counts as spent in full. Or the plan was charged
                as a whole.
        """
        if not self._plan.decoder.refundable:
            raise ParameterError("spent", "a part", "the plan's event: an amplified plan is charged as a whole")
        if not self.over:
            raise ParameterError("text", "not over", "one that has ended: an interrupted text is spent in full")
        return self._plan.of_tokens(self._executed())

    def law(self, step: Step, allowed: Sequence[int] | Tensor | None = None) -> FloatArray:
        """Probability of each token of the vocabulary at this step, all 0 where the text ends here for want of one.

        For tests and audits only.

        Raises:
            NotImplementedError: The sampler states no law.
        """
        public = self._candidates(step, allowed)
        law = np.zeros(step.public.shape[0])
        if public is None:
            return law
        ids = range(len(public)) if public.ids is None else public.ids.tolist()
        law[list(ids)] = self._law(step, public)
        return law

    def law_of_first(self, step: Step) -> FloatArray | None:
        """Probability of each token as the first of a text, whatever is drawn on the way; ``None`` where it is unknown.

        For tests and audits only. A method that draws more than one selection for a token may state it.
        """
        return None

    def _executed(self) -> Sequence[int]:
        """Steps of each part so far."""
        return [self.length]

    def _candidates(self, step: Step, allowed: Sequence[int] | Tensor | None) -> Candidates | None:
        """From public logits and public rules alone."""
        if self._forbidden_tensor is None and self._forbidden_tokens:
            self._forbidden_tensor = tensor_of(self._forbidden_tokens, step.public)
        only = None if allowed is None else tensor_of(allowed, step.public)
        top_k, margin = self._public_rule()
        return candidates_of(
            step.public, top_k=top_k, margin=margin, forbidden_tokens=self._forbidden_tensor, allowed=only
        )

    @abstractmethod
    def _public_rule(self) -> tuple[int | None, float | None]:
        """Top k, and the margin below it."""

    @abstractmethod
    def _draw(self, step: Step, public: Candidates) -> int:
        """The token."""

    def _law(self, step: Step, public: Candidates) -> FloatArray:
        """Probability of each candidate. A sampler that draws more than one selection for a token need not state it."""
        raise NotImplementedError(f"{type(self).__name__} states no law of a token")

    def _public_face(self) -> str:
        return f"{self._plan.decoder.name}, {self.length} tokens"
