"""A model that writes, with every record in its prompt: what a system without a proof does with records.

Guarantee   None: nothing stands between the records and the text. Records are made up.
Assumes     A writer whose isolation is by construction repeats itself: it is asked once, and its text is given as often
            as releases are wanted. Any other writer is asked for every release.
Sources     ContextLeak (arXiv 2512.16059), algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from sottovoce.audits.game.games import Repetition
from sottovoce.models.base import Isolation, Writer, WritingRequest
from sottovoce.records.sealed import Opaque, Row
from sottovoce.tasks import Task

NOTHING: Final = ""
"""What is released where the model failed on a request."""


@final
@dataclass(frozen=True)
class WriterGame:
    """Records as examples of a prompt, a question after them, and the text that the model writes.

    Attributes:
        writer: The model.
        task: Names the fields and labels: a record is an example whose output is its label.
        tokens: Most tokens of a text.
    """

    writer: Writer
    task: Task
    tokens: int = 40

    @property
    def name(self) -> str:
        """The model's, and how it is used."""
        return f"{self.writer.name}, all records in its prompt"

    @property
    def repetition(self) -> Repetition:
        """Once, where the writer repeats itself."""
        return Repetition.ONCE if self.writer.isolation is Isolation.BY_CONSTRUCTION else Repetition.ASKED

    def world(self, rows: Sequence[Row]) -> WriterWorld:
        """Puts the records into a prompt; nothing is written yet."""
        examples = [self.task.example_of(row, "records with a canary") for row in rows]
        return WriterWorld(
            self, [(self.task.text_of(example.fields), self.task.labels[example.label]) for example in examples]
        )


@final
class WriterWorld(Opaque):
    """Records in the prompt of a writer."""

    __slots__ = ("_game", "_shots", "_written")

    def __init__(self, game: WriterGame, shots: Sequence[tuple[str, str]]) -> None:
        self._game, self._shots = game, shots
        self._written: dict[str, str] = {}

    def releases(self, question: str, runs: int) -> list[str]:
        """Texts. One on which the model failed by itself is empty.

        Raises:
            ModelError: The model failed for a reason that is no prompt's own.
        """
        game = self._game
        request = WritingRequest(game.task.instruction, self._shots, question)
        if game.repetition is not Repetition.ONCE:
            return [text or NOTHING for text in game.writer.write([request] * runs, tokens=game.tokens)]
        if question not in self._written:
            (text,) = game.writer.write([request], tokens=game.tokens)
            self._written[question] = text or NOTHING
        return [self._written[question]] * runs

    def close(self) -> None:
        """Forgets records and texts."""
        self._shots = ()
        self._written.clear()
