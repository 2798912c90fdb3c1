"""What a text at its longest draws, against what its batch is charged and what its chooser says it spent.

Every release of a registered mechanism is noted while a text is forced to its full length. So the charge is compared
with draws, and not with what the decoder says of its own steps.

Guarantee   The draws of a text that may depend on experts cost no more than the batch is charged for it, in zCDP, and
            no more than ``TokenSampler.spent``. A draw from values that come up as well where every expert is null
            depends on no expert, and is not counted.
Assumes     Noise comes from registered mechanisms. A text that draws otherwise shows in its law alone.
Sources     specification 6.2, 6.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sottovoce.methods.decoding.decoder import DecodingPlan
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import Scores
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.draw_tape import Tape, WrongDrawError, running
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.report import ContractError, must_not_raise

SPEAKING: Final = (("X", "X"), ("U", "U"))
"""Experts of the texts: sharp ones, and ones that say what the model says without records."""
SEEDS: Final = 4
"""Short texts that are drawn for each of them: what follows tests between tokens differs from text to text."""
SLACK: Final = 1e-9
"""Rounding of figures in floating point, relative."""


def price_of_drawn_texts(plan: DecodingPlan, subject: str, world: str, *, texts: int = SEEDS) -> int:
    """Compares texts of the longest length with their charge.

    Args:
        plan: What is charged.
        subject: The decoder with its options, for an error.
        world: The plan in words.
        texts: Texts drawn for each of ``SPEAKING``.

    Returns:
        How many texts were compared; 0 where the charge is one point of a profile.

    Raises:
        ContractError: A text draws more than its batch is charged for it, or more than it says that it spent.
    """
    if not plan.decoder.refundable:  # the charge is amplified, and so is no sum of what is drawn
        return 0
    without = {_values(draw.aggregate) for draw in _drawn(plan, subject, world, ("N", "N"), 0)[1].draws} - {None}
    compared = 0
    for names in SPEAKING:
        for seed in range(texts):
            chooser, tape = _drawn(plan, subject, world, names, seed)
            events = [d.mechanism.event for d in tape.draws if _values(d.aggregate) not in without]
            events += [other.event for other in tape.others]
            cost = sum(cost_of(event).rho for event in events)
            charged, stated = cost_of(plan.event).rho / plan.setting.texts, cost_of(chooser.spent).rho
            drew = f"{len(events)} draws of a text of {chooser.length} tokens cost {cost:.6g} in rho"
            if cost > charged * (1 + SLACK):
                problem = f"{drew}, and its event {plan.event} pays {charged:.6g} for each text"
                raise ContractError("price", subject, problem, world)
            if cost > stated * (1 + SLACK):
                problem = f"{drew}, and it says that it spent {stated:.6g}: more is given back"
                raise ContractError("price", subject, problem, world)
            if stated > charged * (1 + SLACK):
                problem = f"it says that a text spent {stated:.6g} in rho, and {charged:.6g} is charged for it"
                raise ContractError("price", subject, problem, world)
            compared += 1
    return compared


def _drawn(plan: DecodingPlan, subject: str, world: str, names: Sequence[str], seed: int) -> tuple[Any, Tape]:
    """A text that does not end before its plan does, and what was drawn for it."""
    source = seeded(seed)
    tape, chooser = Tape(source), worlds.chooser_of(plan, source)
    with must_not_raise("price", subject, "a text", world), running(tape):
        try:
            while not chooser.over:
                chooser.next(worlds.step_beside(worlds.PUBLIC, names), range(worlds.TOKENS - 1))
        except WrongDrawError as wrong:
            raise ContractError("sampler", subject, str(wrong), world) from None
    return chooser, tape


def _values(aggregate: Any) -> tuple[int, ...] | None:
    """What a mechanism was given, without what all scores have in common: no selection sees that."""
    if not hasattr(aggregate, "values"):
        return None
    values: list[int] = aggregate.values.tolist()
    common = min(values) if isinstance(aggregate, Scores) else 0
    return tuple(value - common for value in values)
