"""Planted in the games of audits: claims of another adjacency, samples drawn once, choices that see too much."""

from __future__ import annotations

from mutants.mutant import Mutant

PLAY = ("tests/audits/game/test_play.py",)

MUTANTS = [
    Mutant(
        "any-adjacency",
        "a canary that is added is compared with the claim of replace-one",
        "audits/game/play.py",
        "        if insertion.adjacency is not claim.adjacency:\n",
        "        if insertion.adjacency is None:\n",
        PLAY,
    ),
    Mutant(
        "one-sample-for-all",
        "samples of records are drawn once, so that all answers of a data set share them",
        "audits/game/games.py",
        "        if game.repetition is Repetition.NOISE:\n            self._outputs",
        "        if game.repetition is not None:\n            self._outputs",
        PLAY,
    ),
    Mutant(
        "an-order-for-each-world",
        "both data sets share units out in an order of their own, so that every expert differs",
        "audits/game/games.py",
        "together=together, order=game.order",
        "together=together, order=None",
        PLAY,
    ),
    Mutant(
        "training-on-what-chooses",
        "detectors learn from the answers that choose among them",
        "audits/game/play.py",
        "answers[: runs.training] for answers in sides",
        "answers[:] for answers in sides",
        PLAY,
    ),
    Mutant(
        "every-attack-at-the-whole-level",
        "the largest of several bounds is stated as if there were one",
        "audits/game/play.py",
        "adjusted, level = holm(p_values), level_of_each(alpha, attacks)",
        "adjusted, level = holm(p_values), alpha",
        PLAY,
    ),
]
