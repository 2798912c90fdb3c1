"""Does an answer follow what was asked before: opposite worlds in both orders, beside public inputs that are new.

What is kept by what is public of a question, in an instance, a class, a module or a cache of a function, stays for the
rest of the process. Whatever is asked first stays then: every world beside that public input has one law, which
comparisons of worlds in one order find private. So one world is asked before the other beside one new public input, and
after it beside another one that is nearly equal.

Guarantee   What is kept of an earlier question and changes a law by more than a slack is found, wherever it is kept,
            if it is kept by anything that is new here: the public row, its size, or a setting. What a draw leaves for
            the next plan is found if it changes the plan or its charge.
Assumes     No two new inputs have a public threshold of the entry's own between them. What is kept for all questions,
            or by what is not new here, is found by ``asked_alone``; without it an answer that is kept for all worlds
            alike shows here, as opposite worlds have one law then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from sottovoce.testing.claims import Claim, FloatArray
from sottovoce.testing.draws import exceeds
from sottovoce.testing.fingerprints import attributes_of, fingerprint

DRAWS: Final = 80
"""Of an entry without a law: as few as tell sharp worlds apart."""
SAME: Final = 1e-12
"""Laws of opposite worlds that differ by less are one law."""

P = TypeVar("P")
Asked = FloatArray | list[Any]
"""What a question has: its law, sums without noise, or draws."""
Beside = tuple[P, P, float]
"""A new public input, one that is nearly equal, and how far answers may differ by that."""

KEEPS: Final = "the answer of a world follows what was asked before it: it keeps state between questions"
IGNORES: Final = (
    "no difference was found between the answers to opposite records, beside any public input that was new: it keeps "
    "state between questions and gives the first one's answer again, or reads no record and should say so. This alone "
    "is no proof: one that speaks only where more of its experts agree than here answers alike, too"
)
PLANS: Final = "its next plan or charge follows the records of an earlier draw: it keeps state between questions"
NOBODY: Final = (
    "what it says where no record says anything follows what was asked before, by the same draws: it keeps state "
    "between questions"
)
CROWD: Final = 40
"""By how much larger crowds are that are asked where smaller ones are answered alike: some mechanisms release nothing
unless hundreds agree."""


def follows_the_order(
    ask: Callable[[P, int], Asked], inputs: Sequence[Beside[P]], *others: Callable[[P, int], Asked]
) -> str:
    """What shows that answers follow what was asked before; empty where nothing does.

    Args:
        ask: The answer beside a public input in the first world (0) or in its opposite (1).
        inputs: Public inputs. Nothing was asked beside them before; beside one of them in copies of the process alone.
        others: The same of other opposite worlds, which are asked one after another where all answers were one: of
            more labels, since the best two of two are the same, and much larger ones. What was kept of the first ones
            then is found by ``asked_alone``.
    """
    problem = _found(ask, inputs)
    for other in others:
        problem = problem if problem != IGNORES else _found(other, inputs)
    return problem


def _found(ask: Callable[[P, int], Asked], inputs: Sequence[Beside[P]]) -> str:
    distinct = False
    for public, nearly, slack in inputs:
        first, second = ask(public, 0), ask(public, 1)
        second_again, first_again = ask(nearly, 1), ask(nearly, 0)
        if _differ(first, first_again, slack) or _differ(second, second_again, slack):
            return KEEPS
        distinct |= _are_two(first, second) or _are_two(first_again, second_again)
    return "" if distinct else IGNORES


def plans_alike(draw: Callable[[P], object], worlds: Sequence[P], plan: Callable[[], Any]) -> bool:
    """Whether a plan is the same whichever world was drawn from before it.

    Args:
        draw: Draws once in a world.
        worlds: They differ in what is said and in how many agree.
        plan: Everything that is charged or drawn by next, of an unchanged question.
    """
    plans = []
    for world in (*worlds, *reversed(worlds)):
        draw(world)
        plans.append(fingerprint(plan()))
    return all(each == plans[0] for each in plans)


def nobody_alike(draw: Callable[[P], object], worlds: Sequence[P], nobody: P) -> bool:
    """Whether a world in which nobody says anything is answered alike whatever was answered before it.

    There the last answer can be given once more, which is what was released before in every world that has records, and
    says in this one that there are none.

    Args:
        draw: Draws once in a world, of the same coins and noise each time; says what came of it.
        worlds: They have opposite answers.
        nobody: The world that has none.
    """
    found = [fingerprint(draw(nobody))]
    for world in worlds:
        draw(world)
        found.append(fingerprint(draw(nobody)))
    return all(each == found[0] for each in found)


def held_by(entry: object) -> str:
    """What an instance holds, to be compared."""
    return repr(sorted(attributes_of(entry), key=lambda item: item[0]))


def _are_two(one: Asked, other: Asked) -> bool:
    """Whether two answers differ at all; draws are of one source, so that any difference is one."""
    if isinstance(one, list) and isinstance(other, list):
        return Counter(one) != Counter(other)
    return _differ(one, other, SAME)


def _differ(one: Asked, other: Asked, slack: float) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        return bool(exceeds(Claim("the same draws", pure=0.0), list(one), list(other)))
    return one.shape != other.shape or bool(np.abs(one - other).max(initial=0.0) > slack)
