"""What mechanisms are given while a text is drawn, in neighbouring worlds that have the same releases.

Guarantee   Between these worlds no mechanism is given something that moves by more than it was told, in whole numbers;
            what it is told is the same; and of the same releases, answers and own coins the text is the same and ends
            at the same token, also where a grammar forbids the end and experts are sure of it.
Assumes     Noise comes from registered mechanisms. Worlds in which a decoder throws other coins of its own are left
            out, and counted.
Sources     specification 1.5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, final

from sottovoce.methods.decoding.decoder import DecodingPlan
from sottovoce.models.stepper import Step
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.draw_tape import Teller, is_noted
from sottovoce.testing.drawn_texts import DrawnText, StepOf, drawn_on_tape
from sottovoce.testing.replays import OTHERWISE, Ways, far_apart, same_draws, seen, teller
from sottovoce.testing.report import ContractError, Report
from sottovoce.testing.text_worlds import DataSet, Scene

GONE: Final = "nobody"
"""In place of an expert: there is one fewer."""
UNNOTED: Final = (
    "it states no law, and {} is no registered mechanism, so that nothing shows what it draws from. Register it with "
    "sottovoce.mechanisms.base.register, or state a law"
)


ENDLESS: Final = tuple(range(worlds.TOKENS - 1))
"""The tokens that a grammar leaves which forbids the end."""


class _Beside(NamedTuple):
    """What stays as it is while one expert says this or that.

    Attributes:
        words: In words.
        names: What the expert may say.
        step: The scores of a token by these experts.
        rest: What the other experts say.
        allowed: The only tokens that a text may have; ``None`` for all.
        tokens: Tokens that there are, the end among them.
    """

    words: str
    names: Sequence[str]
    step: Callable[[Sequence[str]], Step]
    rest: Sequence[str]
    allowed: Sequence[int] | None = None
    tokens: int = worlds.TOKENS

    def step_of(self, name: str) -> StepOf:
        """The step of the other experts and one that says ``name``, or of them alone where it is gone."""
        experts = [*self.rest, name] if name != GONE else list(self.rest)
        return lambda _: self.step(experts)


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
        looked = [self._beside(*row) for row in rows] + [self._beside_many(rest) for rest in worlds.WIDE_RESTS]
        if self._plan.setting.tokens > 1:
            looked += self._endless()
        drawn = sum([self._neighbours(beside, seed) for seed, beside in enumerate(looked)])
        if not drawn:
            problem = "it states no law, and its texts draw from no registered mechanism"
            raise ContractError("drive", self._subject, problem, self._setting)
        if every:
            self._alike()

    def check_ends(self) -> None:
        """Of the same releases a text ends at the same token, whatever experts say. For decoders with a law, too.

        Raises:
            ContractError: It does not.
        """
        for seed, beside in enumerate(self._endless()):
            first, *others = beside.names
            drawn = self._drawn(beside, first, seed, first)
            for name in others:
                world = f"{first} and {name} {beside.words}"
                self._same_end(drawn, self._drawn(beside, name, seed, world, teller(drawn.tape, [])), world)
            self._report.kept("post-processing", len(others), "pairs of worlds whose texts end at the same token")

    def _beside(
        self,
        public: Sequence[float],
        rest: Sequence[str],
        text: int,
        names: Sequence[str] = tuple(worlds.SAYINGS),
        allowed: Sequence[int] | None = None,
    ) -> _Beside:
        """Other experts and a public row."""
        words = f"with {tuple(rest)} beside {tuple(public)}, text {text} ({self._setting})"

        def step(experts: Sequence[str]) -> Step:
            return worlds.step_beside(public, experts, text)

        return _Beside(words, self._names(names), step, rest, allowed)

    def _beside_many(self, rest: Sequence[str]) -> _Beside:
        """Many tokens that move at once."""
        words = f"with {tuple(rest)} beside a flat public row of {worlds.WIDE + 1} tokens ({self._setting})"
        return _Beside(words, self._names(tuple(worlds.WIDE_SAYINGS)), worlds.wide_step, rest, tokens=worlds.WIDE + 1)

    def _endless(self) -> Iterator[_Beside]:
        """Worlds in which a text has its full length, unless its sampler ends it: experts are sure of the end there."""
        for public in (worlds.PUBLIC, worlds.PUBLIC_ROWS[0]):
            for rest in ((), ("X",), (worlds.ENDS, worlds.ENDS)):
                yield self._beside(public, rest, 0, ("X", "E", "N", worlds.ENDS), ENDLESS)

    def _names(self, names: Sequence[str]) -> Sequence[str]:
        """What one expert may say, or that it is not there."""
        gone = self._adjacency is Adjacency.ADD_REMOVE and self._plan.setting.change is not SWAP
        return [*names, *([GONE] if gone else [])]

    def _neighbours(self, beside: _Beside, seed: int) -> int:
        """Texts by experts of which one says this or that; how many draws were compared."""
        names, drawn, ways = beside.names, 0, Ways()
        drops = [(one, null) for null in ("N", GONE) for one in names if one not in ("N", GONE)]
        swaps = list(itertools.combinations(names, 2))
        pairs = swaps if self._plan.setting.change is SWAP else drops
        for way in ways:
            first = self._drawn(beside, names[0], seed, f"{names[0]} {beside.words}", way.teller)
            again = {
                name: again
                for name in names
                if (again := self._again(first, beside, name, seed, f"{names[0]} and {name} {beside.words}"))
            }
            ways.saw(way, [first.tape, *(each.tape for each in again.values())])
            near = [(one, other) for one, other in pairs if one in again and other in again]
            for one, other in near:
                if problem := far_apart(again[one].tape, again[other].tape, self._adjacency):
                    raise ContractError("sensitivity", self._subject, problem, f"{one} and {other} {beside.words}")
            self._report.kept("sensitivity", len(near), "pairs of worlds whose draws move by no more than is told")
            drawn += len(first.tape.draws)
        return drawn

    def _again(self, first: DrawnText, beside: _Beside, name: str, seed: int, world: str) -> DrawnText | None:
        """The same releases in another world; ``None`` where other coins are thrown there."""
        lost: list[int] = []
        again = self._drawn(beside, name, seed, world, teller(first.tape, lost))
        self._same_end(first, again, world)
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

    def _same_end(self, first: DrawnText, again: DrawnText, world: str) -> None:
        """A text that begins as another one does, of the same releases and coins, has its length."""
        shorter, longer = sorted((first, again), key=lambda drawn: len(drawn.tokens))
        length, of_tape = len(shorter.tokens), len(shorter.tape.trace)
        same = shorter.tokens == longer.tokens[:length] and shorter.tape.trace == longer.tape.trace[:of_tape]
        if len(longer.tokens) > length and same and shorter.coins == longer.coins[: len(shorter.coins)]:
            ends = f"after {length} and after {len(longer.tokens)} tokens"
            problem = f"of the same releases a text ends {ends}: where it ends follows something private without noise"
            contract = "drive" if shorter.coins else "post-processing"
            raise ContractError(contract, self._subject, problem, world)

    def _alike(self) -> None:
        """Data sets that must be drawn from alike: in another order, with a prompt that failed for a null expert."""
        for contract, problem, data, other in worlds.alike(self._adjacency):
            pair = f"{worlds.shown(data)} and {worlds.shown(other)} ({self._setting})"
            first = self._of_records(data, pair)
            again = self._of_records(other, pair, first)
            if again.coins != first.coins or (first.coins and contract != "failures"):
                self._note("experts in another order or number, where it throws coins of its own")
                continue
            if _given(again) != _given(first) or again.tokens != first.tokens:
                raise ContractError(contract, self._subject, problem, pair)
            self._report.kept(contract, 1, "pairs of data sets that are drawn from alike")

    def _of_records(self, data: DataSet, world: str, first: DrawnText | None = None) -> DrawnText:
        scene = Scene(data, self._adjacency, self._plan.setting.tokens)
        told = None if first is None else teller(first.tape, [])
        return drawn_on_tape(
            self._plan, lambda text: scene.step(0, text), self._subject, world, 0, told=told, contract="failures"
        )

    def _drawn(
        self,
        beside: _Beside,
        name: str,
        seed: int,
        world: str,
        told: Teller | None = None,
    ) -> DrawnText:
        return drawn_on_tape(
            self._plan,
            beside.step_of(name),
            self._subject,
            world,
            seed,
            allowed=beside.allowed,
            told=told,
            contract="draws",
            words=beside.tokens,
        )

    def _note(self, what: str) -> None:
        self._report.not_compared(f"{self._subject}: {what}, under {self._adjacency.value}")


def _given(drawn: DrawnText) -> Sequence[Any]:
    """All that mechanisms were given."""
    return [*map(seen, drawn.tape.draws)]
