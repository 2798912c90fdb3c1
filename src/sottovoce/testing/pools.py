"""Few draws in each of many worlds, put together: does a sampler follow its law, whatever the world looks like?

In each world the law says how likely an event is; which event is chosen looks at the law alone. The number of hits in
all worlds has a Poisson-binomial law then. It is compared in all worlds together, and in those that have one or two
features in common, so that a sampler that goes wrong with three candidates or with long leads alone is noticed too.

Guarantee   A pool raises a false alarm with probability ``ALARM`` at most, all its comparisons taken together: each is
            exact, and they share the chance. Draws are seeded, so a pool that passed passes again.
Assumes     Draws of one source are independent.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.testing.draws import ALARM

FloatArray = NDArray[np.float64]

UNLIKELY: Final = 0.05
"""Outcomes below this are counted together."""
OPEN: Final = 0.9
"""Worlds in which the likeliest outcome is less likely than this show noise that is missing."""
PLAIN: Final = 5.0
"""Deviations below which no exact tail is worked out: it could not be below the level of a comparison, and where it
were, an alarm less would be raised."""

Features = Mapping[str, object]
"""What is public of a world, by name."""
Stratum = tuple[tuple[str, object], ...]


@final
@dataclass
class _Sum:
    """One event in the worlds of one stratum.

    Attributes:
        chances: Probability of a hit, by draw.
        hits: How often it came.
        worlds: By how much each world differs from its law, and its words.
    """

    chances: list[float] = field(default_factory=list)
    hits: int = 0
    worlds: list[tuple[float, str]] = field(default_factory=list)

    def deviations(self) -> float:
        """How far off the hits are, in standard deviations."""
        p = np.array(self.chances)
        return float((self.hits - p.sum()) / np.sqrt(max((p * (1 - p)).sum(), 1e-12)))

    def tail(self) -> float:
        """Probability of as many hits or more, or of as few or fewer: the smaller of both."""
        slack = [np.clip(np.array(self.chances) * (1 + sign * 1e-6) + sign * 1e-12, 0, 1) for sign in (1, -1)]
        return float(min(hits_law(slack[0])[self.hits :].sum(), hits_law(slack[1])[: self.hits + 1].sum()))


@final
class Pool:
    """Draws in many worlds, and what the laws of these worlds say of them."""

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[str, Stratum], _Sum] = defaultdict(_Sum)
        self._impossible = ""
        self.draws = 0

    def add(self, features: Features, law: Mapping[Any, float], drawn: Sequence[Hashable], world: str) -> None:
        """Draws of one world: how often the likeliest outcomes came, the second, and those that are unlikely.

        Args:
            features: What is public of the world.
            law: Probability of every outcome.
            drawn: What was drawn.
            world: The world in words.
        """
        self.draws += len(drawn)
        for outcome in drawn:
            if law.get(outcome, 0.0) <= 0 and not self._impossible:
                self._impossible = f"outcome {outcome!r} is impossible by its law and came ({world})"
        for event, outcomes in _events(law):
            hits = sum(outcome in outcomes for outcome in drawn)
            self.note(event, features, sum(law[outcome] for outcome in outcomes), hits, len(drawn), world)

    def note(self, event: str, features: Features, chance: float, hits: int, draws: int, world: str) -> None:
        """One event of one world, of which the law says how likely it is."""
        if not 0 < chance < 1:
            return
        items = sorted(features.items())
        for stratum in [(), *((item,) for item in items), *itertools.combinations(items, 2)]:
            total = self._sums[event, stratum]
            total.chances += [chance] * draws
            total.hits += hits
            total.worlds.append((abs(hits - draws * chance), world))

    def departs(self) -> tuple[str, str]:
        """What shows that the draws do not follow their laws, and the world that shows it best; empty where none."""
        if self._impossible:
            return self._impossible, ""
        level = ALARM / 2 / max(1, len(self._sums))
        deviations = {key: abs(total.deviations()) for key, total in self._sums.items()}
        furthest = sorted((key for key in deviations if deviations[key] >= PLAIN), key=lambda key: -deviations[key])
        departed = next((key for key in furthest if self._sums[key].tail() < level), None)
        if departed is None:
            return "", ""
        (event, stratum), total = departed, self._sums[departed]
        worlds = f"{len(total.worlds)} worlds"
        if stratum:
            worlds += " with " + ", ".join(f"{name} {value}" for name, value in stratum)
        problem = (
            f"{event} came {total.hits} times in {len(total.chances)} draws of {worlds}, where the law expects "
            f"about {int(sum(total.chances))}"
        )
        return problem, max(total.worlds, key=lambda world: world[0])[1]


def hits_law(chances: FloatArray) -> FloatArray:
    """The Poisson-binomial law: how many of independent draws hit, each with its own chance.

    Example:
        >>> hits_law(np.array([0.5, 0.25])).tolist()
        [0.375, 0.5, 0.125]
    """
    law = np.ones(1)
    for chance in chances:
        longer = np.append(law * (1 - chance), 0.0)
        longer[1:] += law * chance
        law = longer
    return law


def share_of(count: int) -> str:
    """How many there are, roughly: a feature."""
    return f"{count}" if count <= 1 else "2 or 3" if count <= 3 else "4 or more"


def lead_of(lead: float) -> str:
    """How long a lead is in units of its bound, roughly: a feature."""
    if lead < 1e-6:  # leads that are read off a law are not exact
        return "none"
    return "below 1" if lead < 1 else next(f"from {least}" for least in (10, 3, 2, 1) if lead >= least)


def _events(law: Mapping[Any, float]) -> Iterator[tuple[str, set[Any]]]:
    """Events that follow from a law alone."""
    ordered = sorted((outcome for outcome in law if law[outcome] > 0), key=lambda outcome: -law[outcome])
    best = {outcome for outcome in ordered if law[outcome] >= law[ordered[0]] * (1 - 1e-9)}
    first = next(outcome for outcome in law if outcome in best)
    yield "the likeliest outcome", {first}
    if 1 < len(best) < len(ordered):
        yield "one of the likeliest outcomes", best
    if len(ordered) > 2:
        yield "the second outcome", {next(outcome for outcome in ordered if outcome != first)}
    if rare := {outcome for outcome in ordered if law[outcome] < UNLIKELY}:
        yield "an unlikely outcome", rare
