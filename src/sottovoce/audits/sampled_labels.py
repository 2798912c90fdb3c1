"""What the label of prediction by subsampling tells at least: a release that exists, for power and ceilings.

An answer releases the label with the larger sum of noisy predictions of samples; the predictions stay sealed. Here two
data sets and a model are taken on which that label tells much of one record, and its chances of error are worked out.

Guarantee   The errors are those of ``PbS.choose`` on two data sets that exist, up to the rounding of its noise. What is
            said of an attack on them is no more than what that attack finds; another model may give away more.
Assumes     Two labels, and a model that answers for certain where the record is in the prompt.
Sources     specification 5.3, 10.1.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sottovoce.privacy.events import NoOpDpEvent, PureDP
from sottovoce.privacy.unit import Adjacency

_HALVINGS: Final = 60
_MARGIN: Final = 1 + 1e-9
"""For sums of floats: errors are rounded up."""


def label_of_samples(rate: float, noise_multiplier: float, samples: int, adjacency: Adjacency) -> PureDP | NoOpDpEvent:
    """The label of so many samples on two such data sets, as a randomised response.

    With the record in its sample, the model is sure of one label. Under replace-one it is sure of the other label of
    the record that takes its place, and of neither without both. Under another relation it leans to the other label
    without the record, so far that both errors are equally likely.

    Args:
        rate: Chance of a record to be in a sample.
        noise_multiplier: Deviation of the noise over the square root of 2, by which one prediction can move.
        samples: Predictions that are added up.
        adjacency: The relation.

    Returns:
        An event of the epsilon that both errors say; none where a label tells nothing.

    Example:
        >>> round(label_of_samples(0.04, 2.0, 100, Adjacency.REPLACE_ONE).epsilon, 4)
        0.1594
    """
    from scipy.stats import binom, norm

    taken = np.arange(samples + 1)
    chances = binom.pmf(taken, samples, rate)
    deviation = 2 * noise_multiplier * math.sqrt(samples)

    def missed(lean: float) -> float:
        """How often the sum is on the other side although the record is there."""
        return float(chances @ norm.cdf(-((samples - taken) * lean + taken) / deviation))

    def mistaken(lean: float) -> float:
        """How often it is on the record's side although it is not there."""
        return float(norm.cdf(samples * lean / deviation))

    if adjacency is Adjacency.REPLACE_ONE:
        error = missed(0.0)
    else:
        low, high = -1.0, 0.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if mistaken(middle) > missed(middle) else (middle, high)
        error = max(missed(low), mistaken(low))
    error = min(0.5, error * _MARGIN)
    return PureDP(math.log((1 - error) / error)) if error < 0.5 else NoOpDpEvent()
