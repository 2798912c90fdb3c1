"""The exact laws of single mechanisms for concrete scores: joint lists, noisy maxima, one-shot lists.

Guarantee   Laws are the mechanisms' own, which the contract tests compare with their draws.
Sources     specification 10.7, 5.2, 5.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sottovoce.audits.exact.pair import Pair
from sottovoce.errors import ParameterError
from sottovoce.mechanisms.base import Mechanism, SelectionMechanism
from sottovoce.privacy.aggregates import Scores


def mechanism_pair(mechanism: Mechanism, first: Scores, second: Scores) -> Pair:
    """The exact laws of what a mechanism chooses from two sums.

    Raises:
        ParameterError: The mechanism states no law over outcomes.

    Example:
        >>> from sottovoce.mechanisms.top_k import JointTopK
        >>> from sottovoce.privacy.unit import Adjacency
        >>> sums = [Scores(v, sensitivity=1, adjacency=Adjacency.ADD_REMOVE) for v in ([3, 2, 0, 1], [3, 2, 0, 0])]
        >>> round(mechanism_pair(JointTopK(epsilon=1.0, k=2), *sums).max_loss, 4)
        0.3124
    """
    if isinstance(mechanism, SelectionMechanism):
        return Pair(*(mechanism.log_law(scores) for scores in (first, second)))
    law: Callable[[Scores], Any] | None = getattr(mechanism, "law", None)
    if law is None or not callable(law):
        raise ParameterError("mechanism", type(mechanism).__name__, "one that states its law over outcomes")
    laws = [law(scores) for scores in (first, second)]
    if all(isinstance(stated, Mapping) for stated in laws):
        return Pair.of_tables(*laws)
    return Pair.of(*laws)
