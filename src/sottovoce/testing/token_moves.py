"""What mechanisms are given while a text is drawn, in neighbouring worlds that have the same releases.

Guarantee   Between these worlds no mechanism is given something that moves by more than it was told, in whole numbers;
            what it is told is the same; and of the same releases, answers and own coins the text is the same.
Assumes     Noise comes from registered mechanisms. Worlds in which a decoder throws other coins of its own are left
            out, and counted.
Sources     specification 1.5.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, final

from sottovoce.methods.decoding.decoder import DecodingPlan
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.draw_tape import is_noted
from sottovoce.testing.drawn_texts import DrawnText, StepOf, drawn_on_tape
from sottovoce.testing.replays import OTHERWISE, far_apart, same_draws, seen, teller
from sottovoce.testing.report import ContractError, Report
from sottovoce.testing.text_worlds import DataSet, Scene

GONE: Final = "nobody"
"""In place of an expert: there is one fewer."""
UNNOTED: Final = (
    "it states no law, and {} is no registered mechanism, so that nothing shows what it draws from. Register it with "
    "sottovoce.mechanisms.base.register, or state a law"
)


@final
class Moves:
    """The draws of texts under one plan.

    Args:
        plan: What is charged.
        subject: The decoder with its options, for an error.
        setting: The plan in words.
        report: To be filled.
    """

    def __init__(self, plan: DecodingPlan, subject: str, setting: str, report: Report) -> None:
        self._plan, self._subject, self._setting, self._report = plan, subject, setting, report
        self._adjacency = plan.setting.adjacency

    def check(self, *, every: bool) -> None:
        """Neighbours, and data sets that must be drawn from alike.

        Args:
            every: Whether all public rows and other experts are tried, or few of them.

        Raises:
            ContractError: A mechanism is told less than what it is given moves by, something private reaches the text
                without noise, or nothing that is noted is drawn.
        """
        if strange := [each for each in self._plan.decoder.mechanisms(self._plan) if not is_noted(each)]:
            raise ContractError("drive", self._subject, UNNOTED.format(type(strange[0]).__name__), self._setting)
        rows: list[tuple[Sequence[float], Sequence[str], int]]
        rows = [(worlds.PUBLIC, rest, 0) for rest in worlds.BACKGROUNDS] + [(worlds.PUBLIC, worlds.CROWD, 0)]
        if every:
            rows += [(public, rest, 0) for public in worlds.PUBLIC_ROWS for rest in worlds.BACKGROUNDS[1:3]]
            rows += [(worlds.PUBLIC, worlds.BACKGROUNDS[1], text) for text in worlds.LATER_TEXTS]
        drawn = sum([self._neighbours(*row, seed) for seed, row in enumerate(rows)])
        if not drawn:
            problem = "it states no law, and its texts draw from no registered mechanism"
            raise ContractError("drive", self._subject, problem, self._setting)
        if every:
            self._alike()

    def _neighbours(self, public: Sequence[float], rest: Sequence[str], text: int, seed: int) -> int:
        """Texts by experts of which one says this or that; how many draws were compared."""
        names = [*worlds.SAYINGS, *([GONE] if self._adjacency is Adjacency.ADD_REMOVE else [])]
        beside = f"with {tuple(rest)} beside {tuple(public)}, text {text} ({self._setting})"

        def step_of(name: str) -> StepOf:
            experts = [*rest, name] if name != GONE else list(rest)
            return lambda _: worlds.step_beside(public, experts, text)

        first = self._drawn(step_of(names[0]), seed, f"{names[0]} {beside}")
        again = {
            name: again
            for name in names
            if (again := self._again(first, step_of(name), seed, f"{names[0]} and {name} {beside}"))
        }
        drops = [(one, null) for null in ("N", GONE) for one in names if one not in ("N", GONE)]
        swaps = list(itertools.combinations(names, 2))
        pairs = swaps if self._adjacency is Adjacency.REPLACE_ONE else drops
        near = [(one, other) for one, other in pairs if one in again and other in again]
        for one, other in near:
            if problem := far_apart(again[one].tape, again[other].tape, self._adjacency):
                raise ContractError("sensitivity", self._subject, problem, f"{one} and {other} {beside}")
        self._report.kept("sensitivity", len(near), "pairs of worlds whose draws move by no more than is told")
        return len(first.tape.draws)

    def _again(self, first: DrawnText, step_of: StepOf, seed: int, world: str) -> DrawnText | None:
        """The same releases in another world; ``None`` where other coins are thrown there."""
        lost: list[int] = []
        again = self._drawn(step_of, seed, world, first, lost)
        if again.coins != first.coins:
            self._note("worlds in which it throws other coins of its own")
            return None
        if lost or not same_draws(first.tape, again.tape):
            raise ContractError("asks", self._subject, OTHERWISE, world)
        if again.tokens != first.tokens:
            problem = (
                "of the same releases it writes two texts: something private reaches it by no registered mechanism"
            )
            raise ContractError("drive" if first.coins else "post-processing", self._subject, problem, world)
        return again

    def _alike(self) -> None:
        """Data sets that must be drawn from alike: in another order, with a prompt that failed for a null expert."""
        for contract, problem, data, other in worlds.alike(self._adjacency):
            pair = f"{worlds.shown(data)} and {worlds.shown(other)} ({self._setting})"
            first = self._drawn(self._of_records(data), 0, pair, contract="failures")
            again = self._drawn(self._of_records(other), 0, pair, first, [], contract="failures")
            if again.coins != first.coins or (first.coins and contract != "failures"):
                self._note("experts in another order or number, where it throws coins of its own")
                continue
            if _given(again) != _given(first) or again.tokens != first.tokens:
                raise ContractError(contract, self._subject, problem, pair)
            self._report.kept(contract, 1, "pairs of data sets that are drawn from alike")

    def _of_records(self, data: DataSet) -> StepOf:
        scene = Scene(data, self._adjacency, self._plan.setting.tokens)
        return lambda text: scene.step(0, text)

    def _drawn(
        self,
        step_of: StepOf,
        seed: int,
        world: str,
        first: DrawnText | None = None,
        lost: list[int] | None = None,
        *,
        contract: str = "draws",
    ) -> DrawnText:
        told = None if first is None else teller(first.tape, [] if lost is None else lost)
        return drawn_on_tape(self._plan, step_of, self._subject, world, seed, told=told, contract=contract)

    def _note(self, what: str) -> None:
        self._report.not_compared(f"{self._subject}: {what}, under {self._adjacency.value}")


def _given(drawn: DrawnText) -> Sequence[Any]:
    """All that mechanisms were given."""
    return [*map(seen, drawn.tape.draws)]
