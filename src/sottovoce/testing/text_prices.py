"""What a text draws, against what its batch is charged and what its chooser says it spent.

Every release of a registered mechanism is noted: while a text is forced to its full length, and while it may end. So
the charge is compared with draws, and not with what the decoder says of its own steps.

Guarantee   The draws of a text that depend on experts cost no more than the batch is charged for it, in zCDP, and no
            more than ``TokenSampler.spent``. A text that draws more is written again with other experts and the same
            releases: a draw that is then made from the same numbers follows what was released, and is not counted.
Assumes     Noise comes from registered mechanisms. A text that draws otherwise shows in its law alone. A run of
            threshold tests always counts.
Sources     specification 6.2, 6.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice, product
from typing import Any, Final, NamedTuple

from sottovoce.methods.decoding.decoder import DecodingPlan
from sottovoce.models.stepper import Step
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.draw_losses import event_of
from sottovoce.testing.draw_tape import Draw, Tape, Teller
from sottovoce.testing.drawn_texts import DrawnText, drawn_on_tape
from sottovoce.testing.replays import FORCED, Way, Ways, answered, is_asked, seen, teller
from sottovoce.testing.report import ContractError, must_not_raise


class Text(NamedTuple):
    """A text that is drawn.

    Attributes:
        experts: What they say.
        public: What the model says without records.
        allowed: The only tokens that it may have; ``None`` for all, the end among them.
    """

    experts: Sequence[str]
    public: Sequence[float] = worlds.PUBLIC
    allowed: Sequence[int] | None = range(worlds.TOKENS - 1)


TEXTS: Final = (
    Text(("X", "X")),
    Text(("U", "U")),
    Text(("X", "X"), allowed=None),
    Text((worlds.ENDS, worlds.ENDS), worlds.PUBLIC_ROWS[0], None),
)
"""Two that do not end before their plan does, by sharp experts and by ones that say what the model alone does; and two
that may end, the second by experts that want it at once."""
OTHERS: Final[tuple[tuple[str, ...], ...]] = (("N", "N"), ("X", "X"), ("Y", "Y"), ("X", "Y"), ("X", "N"))
"""Experts with which a text is written again: such that agree, that differ, and of which one is null. Where their
number is private, none as well.
"""
SEEDS: Final = 4
"""Short texts that are drawn of each of the first two: what follows tests between tokens differs from text to text."""
COINS: Final = 8
"""Seeds that answers are told at, of a decoder that throws coins of its own: it may ask behind some of them alone."""
SHORT: Final = 3
"""Tokens of a text of which every answer is told, and not all alike alone."""
SLACK: Final = 1e-9
"""Rounding of figures in floating point, relative."""


def price_of_drawn_texts(plan: DecodingPlan, subject: str, world: str, *, texts: int = SEEDS) -> int:
    """Compares texts with their charge.

    Args:
        plan: What is charged.
        subject: The decoder with its options, for an error.
        world: The plan in words.
        texts: Texts drawn of each of ``TEXTS``; half as many, but one at least, of those that may end.

    Returns:
        How many texts were compared; 0 where the charge is one point of a profile.

    Raises:
        ContractError: A text draws more than its batch is charged for it, or more than it says that it spent.
    """
    if not plan.decoder.refundable:  # the charge is amplified, and so is no sum of what is drawn
        return 0
    compared, charged = 0, cost_of(plan.event).rho / plan.setting.texts
    for text in TEXTS:
        for seed, told, drawn in _runs(plan, texts if text.allowed else max(1, texts // 2)):
            drawn.append(_drawn(plan, subject, world, text, seed, told))
            chooser, tape = drawn[0].chooser, drawn[0].tape
            with must_not_raise("price", subject, "what a text spent", world):
                stated = cost_of(chooser.spent).rho
            cost = _cost(tape, tape.draws)
            draws = tape.draws
            if cost > min(charged, stated) * (1 + SLACK):
                draws = _private(plan, subject, world, text, seed, tape)
                cost = _cost(tape, draws)
            number = len(tape.others) + sum(draw.test is None for draw in draws)
            drew = f"{number} draws of a text of {chooser.length} tokens cost {cost:.6g} in rho"
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


def _runs(plan: DecodingPlan, texts: int) -> Iterator[tuple[int, Teller | None, list[DrawnText]]]:
    """Texts of one kind: as they are drawn; and where tests or sets are asked, with all of them answered alike, each
    kind alike, and in short texts in every way.

    Yields:
        A seed, what is told, and where the text goes.
    """
    coins, told_at = False, 0
    for seed in count():
        if seed >= (max(texts, COINS) if coins else texts):
            return
        yield seed, None, (drawn := list[DrawnText]())
        (text,) = drawn
        coins |= bool(text.coins)
        if (told_at and not coins) or not (text.tape.others or any(map(is_asked, text.tape.draws))):
            continue
        told_at += 1
        kinds, ways = set[bool](), Ways()
        for alike, answer in product((True, False), repeat=2):
            if alike or len(kinds) > 1:
                yield seed, _answering(tests=answer, sets=answer == alike), (drawn := list[DrawnText]())
                kinds |= {draw.test is None for draw in drawn[0].tape.draws if is_asked(draw)}
                coins |= bool(drawn[0].coins)
        if plan.setting.tokens <= SHORT and told_at <= 2:
            ways.saw(Way(), [text.tape])
            for way in islice(ways, 1, None):
                yield seed, way.teller, (drawn := list[DrawnText]())
                ways.saw(way, [drawn[0].tape])
                coins |= bool(drawn[0].coins)


def _answering(*, tests: bool, sets: bool) -> Teller:
    """Tests that all have one answer, and sets: what is drawn behind one that seldom comes is paid for as well."""
    left = [FORCED]

    def told(_: int, draw: Draw) -> Any:
        if not is_asked(draw) or not left[0]:
            return NotImplemented
        left[0] -= 1
        return answered(draw, tests if draw.test is not None else sets)

    return told


def _cost(tape: Tape, draws: Sequence[Draw]) -> float:
    """In rho, with all that was drawn from no aggregate."""
    drew = (event_of(draw) for draw in draws if draw.test is None)
    return sum(cost_of(event).rho for event in (*drew, *(mechanism.event for mechanism in tape.others)))


def _private(plan: DecodingPlan, subject: str, world: str, text: Text, seed: int, first: Tape) -> list[Draw]:
    """The draws of a text that depend on its experts otherwise than by what was released before."""
    private: set[int] = set()
    others = OTHERS if plan.setting.adjacency.size_is_public else (*OTHERS, ())
    for experts in (experts for experts in others if experts != text.experts):
        lost: list[int] = []
        told, again = teller(first, lost), text._replace(experts=experts)
        tape = _drawn(plan, subject, world, again, seed, told).tape
        same = len(tape.draws) if not lost else lost[0]
        private |= set(range(same, len(first.draws)))
        private |= {
            at
            for at, (one, other) in enumerate(zip(first.draws[:same], tape.draws, strict=False))
            if seen(one) != seen(other)
        }
    return [first.draws[at] for at in sorted(private)]


def _drawn(
    plan: DecodingPlan,
    subject: str,
    world: str,
    text: Text,
    seed: int,
    told: Teller | None = None,
) -> DrawnText:
    """A text, and what was drawn for it."""

    def step(_: Sequence[int]) -> Step:
        return worlds.step_beside(text.public, text.experts)

    return drawn_on_tape(plan, step, subject, world, seed, allowed=text.allowed, told=told)
