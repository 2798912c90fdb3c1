"""A decoder's first token among many candidates, of which many move at once.

Among three candidates no move of scores has a norm above its range, so that a norm that is taken from the range shows
among many alone.

Guarantee   Between these worlds scores move by no more than is stated, laws of a first token are within the event, or
            mechanisms are given nothing that moves by more than they were told.
Assumes     The public row is flat, and one other expert speaks, or none.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import numpy as np

from sottovoce.experts.clipping import require_torch
from sottovoce.mechanisms.base import log_law
from sottovoce.methods.decoding.decoder import DecodingPlan
from sottovoce.methods.decoding.selecting import SelectingDecoder
from sottovoce.models.stepper import Step
from sottovoce.privacy.unit import SWAP
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.claims import Claim, excess
from sottovoce.testing.drawn_texts import drawn_on_tape
from sottovoce.testing.label_worlds import long_rows, seeded
from sottovoce.testing.public_rows import PublicRow
from sottovoce.testing.replays import far_apart, same_draws, teller
from sottovoce.testing.report import ContractError, Report, must_not_raise

CANDIDATES: Final = 100
"""Tokens of a step, the end and a control token among them."""
NAMES: Final = ("the first half", "the last half", "every second", "every third", "none", "nothing")
"""The tokens of which an expert is sure: one that says nothing is null."""
ROWS: Final[Mapping[str, Sequence[float]]] = dict(zip(NAMES, long_rows(CANDIDATES), strict=True))
BESIDE: Final[Sequence[tuple[str, ...]]] = ((), ("the first half",))


@final
class WideSteps:
    """First tokens under one plan.

    Args:
        plan: Of texts of one token.
        subject: The decoder with its options, for an error.
        setting: The plan in words.
        report: To be filled.
    """

    def __init__(self, plan: DecodingPlan, subject: str, setting: str, report: Report) -> None:
        self._plan, self._subject, self._report = plan, subject, report
        self._row = f"a flat row of {CANDIDATES} tokens ({setting})"
        swaps = itertools.combinations(NAMES, 2)
        self._pairs = list(swaps if plan.setting.change is SWAP else ((name, NAMES[-1]) for name in NAMES[:-1]))

    def check(self, claim: Claim | None) -> None:
        """Scores where the decoder selects, else the laws of its first token, else what mechanisms are given.

        Args:
            claim: What the plan promises, where the law of a token is known.

        Raises:
            ContractError: Neighbours are further apart than is stated.
        """
        decoder = self._plan.decoder
        for rest in BESIDE:
            if isinstance(decoder, SelectingDecoder):
                self._scores(decoder, rest)
            elif claim is not None:
                self._laws(claim, rest)
            else:
                self._draws(rest)

    def _step(self, names: Sequence[str]) -> Step:
        tensor = require_torch().tensor
        rows = [ROWS[name] for name in names]
        return Step(0, tensor([0.0] * CANDIDATES), iter([tensor(rows)] if rows else []))

    def _scores(self, decoder: SelectingDecoder, rest: Sequence[str]) -> None:
        public = worlds.chooser_of(self._plan, seeded(0))._candidates(self._step(()), None)
        if public is None:
            return
        with must_not_raise(PublicRow.CONTRACT, self._subject, "scores", f"{rest} beside {self._row}"):
            said = {name: decoder.scores(self._plan, self._step((*rest, name)), public) for name in NAMES}
        PublicRow(self._subject, self._report, self._row).look(str(rest), said, self._pairs, NAMES[-1])

    def _laws(self, claim: Claim, rest: Sequence[str]) -> None:
        laws = []
        for name in NAMES:
            with must_not_raise(PublicRow.CONTRACT, self._subject, "a token", f"{(*rest, name)} beside {self._row}"):
                chooser, names = worlds.chooser_of(self._plan, seeded(0)), (*rest, name)
                laws.append(log_law(worlds.law_of_token(self._plan, chooser, lambda names=names: self._step(names))))  # type: ignore[misc]
        places = [(NAMES.index(one), NAMES.index(other)) for one, other in self._pairs]
        if breach := excess(claim, np.array(laws), places):
            problem = f"its event {claim.words} does not hold: {breach.words}"
            world = f"{NAMES[breach.first]} and {NAMES[breach.second]} with {rest} beside {self._row}"
            raise ContractError(PublicRow.CONTRACT, self._subject, problem, world)
        self._report.kept(PublicRow.CONTRACT, len(places), "pairs of neighbours beside other public rows")

    def _draws(self, rest: Sequence[str]) -> None:
        tapes = dict[str, Any]()
        for name in NAMES:
            first, lost = next(iter(tapes.values()), None), list[int]()
            drawn = drawn_on_tape(
                self._plan,
                lambda _, names=(*rest, name): self._step(names),  # type: ignore[misc]
                self._subject,
                f"{(*rest, name)} beside {self._row}",
                0,
                told=first and teller(first.tape, lost),
                contract="draws",
            )
            alike = first is None or (drawn.coins == first.coins and not lost and same_draws(first.tape, drawn.tape))
            tapes |= {name: drawn} if alike else {}
        near = [(one, other) for one, other in self._pairs if one in tapes and other in tapes]
        for one, other in near:
            if problem := far_apart(tapes[one].tape, tapes[other].tape, self._plan.setting.adjacency):
                world = f"{one} and {other} with {rest} beside {self._row}"
                raise ContractError("sensitivity", self._subject, problem, world)
        self._report.kept("sensitivity", len(near), "pairs of worlds whose draws move by no more than is told")
