"""Sources of chance for exact tests: answers that are written down, and every answer there is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction


class Script:
    """A source whose answers are written down."""

    secure = False

    def __init__(self, answers):
        self.answers = list(answers)

    def below(self, bound):
        answer = self.answers.pop(0)
        assert 0 <= answer < bound
        return answer


class _Path:
    """Follows a path of answers, then takes the first answer of every new question and notes how many there are."""

    secure = False

    def __init__(self, path, least):
        self.path, self.bounds, self.odds, self.least = path, [], Fraction(1), least

    def below(self, bound):
        step = len(self.bounds)
        if self.odds / bound < self.least:
            raise _Unlikely  # with all answers to this question
        self.bounds.append(bound)
        self.odds /= bound
        if step == len(self.path):
            self.path.append(0)
        return self.path[step]


class _Unlikely(Exception):
    """A branch that is not followed to its end."""


def exact_law(draw: Callable[..., Hashable], least: Fraction = Fraction(0)) -> dict[Hashable, Fraction]:
    """The law of ``draw(source)`` by walking every branch of answers; key ``None`` is for those below ``least``."""
    law: dict[Hashable, Fraction] = defaultdict(Fraction)
    path: list[int] = []
    while True:
        source = _Path(path, least)
        try:
            outcome = draw(source)
        except _Unlikely:
            outcome = None
        law[outcome] += source.odds
        path = path[: len(source.bounds)]
        bounds = source.bounds[: len(path)]
        while path and path[-1] + 1 == bounds[len(path) - 1]:
            path.pop()
        if not path:
            return dict(law)
        path[-1] += 1
