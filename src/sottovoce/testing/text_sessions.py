"""What ``Synthesizer`` does with a decoder: texts follow the law at the plan that is charged; none is drawn twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any, Final

from sottovoce.errors import InputError, SottoError
from sottovoce.methods.decoding.decoder import Decoder
from sottovoce.models.fake import FakeStepper
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.synthesis.config import SynthesisConfig
from sottovoce.synthesis.synthesizer import Synthesizer
from sottovoce.testing import text_worlds as worlds
from sottovoce.testing.draws import departs
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.report import ContractError, Report, must_not_raise
from sottovoce.testing.text_worlds import LABELS, DataSet, Scene

DATA: Final[DataSet] = (("X", LABELS[0]), ("X", LABELS[0]), ("E", LABELS[1]))
TEXTS: Final = 30


def writes(decoder: Decoder, subject: str, report: Report, *, exact: bool, every: bool) -> None:
    """Texts of a run follow the law at its plan, and a run that is repeated draws nothing again.

    Args:
        decoder: What writes them.
        subject: The decoder with its options.
        report: To be filled.
        exact: Whether the law of a token is known.
        every: Whether runs are made under every adjacency, or under the first that is accepted.
    """
    for adjacency in Adjacency:
        try:
            writer = _writer(decoder, adjacency)
        except InputError:
            continue
        world = f"{worlds.shown(DATA)} ({adjacency.value})"
        run_state = writer.new_run_state()
        with must_not_raise("session", subject, "a run", world):
            rounds = list(writer.rounds(run_state=run_state))
        for batch, label in enumerate(LABELS if exact else ()):
            drawn: list[Hashable] = [
                _token(row) for finished in rounds for row in finished.rows if row["label"] == label
            ]
            drawn += [(worlds.TOKENS - 1,)] * (TEXTS - len(drawn))
            law = worlds.law_of_text(writer.plan, Scene(DATA, adjacency, 1), batch)
            assert law is not None, "no token is given"
            if problem := departs(law, Counter(drawn)):
                problem = f"texts of a run for {label!r} do not follow their law: {problem}"
                raise ContractError("session", subject, problem, world)
            report.kept("session", TEXTS, "texts of a run that follow the law")
        try:
            again = [row for finished in writer.rounds(run_state=run_state) for row in finished.rows]
        except SottoError:
            again = []
        if again and again != [row for finished in rounds for row in finished.rows]:
            raise ContractError("retries", subject, "a run that was repeated left other texts", world)
        report.kept("retries", 1, "runs whose repetition leaves no other text")
        if not every:
            return


def _token(row: Any) -> tuple[int, ...]:
    return (worlds.PIECES.index(row["text"].strip() + " "),)


def _writer(decoder: Decoder, adjacency: Adjacency) -> Synthesizer:
    return Synthesizer(
        worlds.records_of(DATA),
        worlds.WRITING,
        SynthesisConfig(per_label=TEXTS, tokens=1, experts=2),
        epsilon=60.0,
        delta=1e-3,
        method=decoder,
        model=FakeStepper(worlds.logits, pieces=worlds.PIECES),
        adjacency=adjacency,
        budget=Budget(1000.0, 0.5, failure_delta=0.45),
        ledger=":memory:",
        randomness=seeded(31),
    )
