"""One text under way: what chooses its tokens, the grammar that it keeps to, and when it is over.

Guarantee   A grammar narrows the candidates of a step by the tokens chosen before and by nothing else, and a text that
            cannot go on ends. Both follow from released tokens and public facts, and cost nothing (5.11). Whatever the
            chosen tokens lead to (no candidate, a grammar that breaks off, a tokenizer that cannot read them) is the
            end of the text and no error: a failure that could be seen would tell of a draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from sottovoce.methods.decoding.sampler import TokenSampler
from sottovoce.models.failures import is_models
from sottovoce.models.stepper import Step
from sottovoce.records.sealed import Opaque

if TYPE_CHECKING:
    from sottovoce.models.grammar import Matcher


@final
class Text(Opaque):
    """A text of which some tokens are chosen.

    Args:
        chooser: Chooses its tokens, privately.
        ended: Whether tokens are a whole text, by a public rule.
        matcher: The grammar's state, fresh; ``None`` for no grammar.

    Attributes:
        tokens: So far.
    """

    def __init__(
        self, chooser: TokenSampler, ended: Callable[[list[int]], bool], matcher: Matcher | None = None
    ) -> None:
        self._chooser, self._ended, self._matcher = chooser, ended, matcher
        self.tokens: list[int] = []

    def next(self, step: Step) -> int | None:
        """Chooses a token; gives the one to go on with, or ``None`` where the text is over.

        Where the grammar allows no token that the public prompt can score, none is chosen, no block is read, and the
        text is over, unfinished.
        """
        try:
            allowed = None if self._matcher is None else self._matcher.allowed().to(step.public.device)
        except BaseException as error:  # of the grammar's library, over tokens that were drawn
            if not is_models(error):
                raise
            return None
        token = self._chooser.next(step, allowed)
        if token is None:
            return None
        self.tokens.append(token)
        return None if self._chooser.over or self._is_over(token) else token

    def _is_over(self, token: int) -> bool:
        """Whether a token ends the text, by the grammar or by what is written so far."""
        try:
            if self._matcher is not None:
                self._matcher.accept(token)
                if self._matcher.over:
                    return True
            return self._ended(self.tokens)
        except BaseException as error:  # of the grammar or the tokenizer, over tokens that were drawn
            if not is_models(error):
                raise
            return True
