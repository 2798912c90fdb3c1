"""Planted in the private choice of demonstrations: what a unit adds, what a change moves, what is said of a label."""

from __future__ import annotations

from mutants.mutant import Mutant

CHOICE = ("tests/methods/test_choice.py",)

MUTANTS = [
    Mutant(
        "choice-swap-as-drop",
        "a swapped unit is taken to move the likenesses by one unit's range",
        "experts/unit_sums.py",
        "return LIMIT * change.widths\n\n    def add_up",
        "return LIMIT * change.rows\n\n    def add_up",
        CHOICE,
    ),
    Mutant(
        "choice-likeness-not-clipped",
        "a record far beyond the ceiling counts for more than one",
        "experts/unit_sums.py",
        "np.clip(near, 0.0, 1.0))",
        "near)",
        CHOICE,
    ),
    Mutant(
        "choice-likeness-not-a-number",
        "a likeness that is no number becomes the smallest integer",
        "experts/unit_sums.py",
        "np.where(np.isnan(near), 0.0, np.clip(near, 0.0, 1.0))",
        "np.clip(near, 0.0, 1.0)",
        CHOICE,
    ),
    Mutant(
        "choice-records-not-shared",
        "every record of a unit counts in full",
        "experts/unit_sums.py",
        "total[label] += self.steps_of(vector) // share",
        "total[label] += self.steps_of(vector)",
        CHOICE,
    ),
    Mutant(
        "choice-turns-as-one",
        "k texts a label are charged as one",
        "methods/choice.py",
        "return SelfComposedDpEvent(self.turn(setting.change), self.k)",
        "return self.turn(setting.change)",
        CHOICE,
    ),
    Mutant(
        "choice-rounding-not-paid-for",
        "the weights of every label are rounded, and the price is that of one label",
        "methods/choice.py",
        "- setting.labels * ROUNDING",
        "",
        CHOICE,
    ),
    Mutant(
        "choice-empty-label-left-out",
        "a label without a record draws nothing, which tells that it has none",
        "methods/choice.py",
        "randomness) for scores in _scores(sums, rule, setting))",
        "randomness) for scores in _scores(sums, rule, setting) if scores.values.any())",
        CHOICE,
    ),
    Mutant(
        "choice-empty-label-refused",
        "a label without a record is refused",
        "methods/choice.py",
        "one = Exponential(self._weight(setting))\n        return tuple",
        "one = Exponential(self._weight(setting))\n"
        "        if not sums.reshape(setting.labels, -1).any(axis=1).all():\n"
        '            raise ParameterError("records", "a label without any", "at least one for each label")\n'
        "        return tuple",
        CHOICE,
    ),
    Mutant(
        "choice-flat-label-not-drawn",
        "a label whose likenesses are all the same takes the first candidates",
        "methods/choice.py",
        "return tuple(select_in_turn(one, self.k, scores, randomness) for",
        "return tuple(select_in_turn(one, self.k, scores, randomness)\n"
        "                     if np.ptp(scores.values) else tuple(range(self.k)) for",
        CHOICE,
    ),
]
