"""One audit from end to end: canaries, attacks, bounds, defences side by side, utility, and the report of it all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, final

from sottovoce.audits.bounds import ALPHA
from sottovoce.audits.game import canaries as c
from sottovoce.audits.game import questions as q
from sottovoce.audits.game.canaries import Canary, Insertion
from sottovoce.audits.game.defences import Defence
from sottovoce.audits.game.detectors import Detector
from sottovoce.audits.game.games import Game, LabelGame, Repetition
from sottovoce.audits.game.play import RELEASES, Claim, Played, Runs, play, require_adjacency
from sottovoce.audits.report import Report, could_not_run, of_play, percent
from sottovoce.errors import ModelError, ParameterError, SottoError
from sottovoce.intervals import Proportion, proportion
from sottovoce.models.base import LabelScorer, Writer
from sottovoce.randomness import Randomness
from sottovoce.records.sealed import RECORD_UNIT, UNIT_COLUMN, Row, is_missing
from sottovoce.tasks import Query, Task

RECORDS: Final = 4
"""Records that an attack plays with: the fewer, the more one of them weighs, and the proof covers any number."""
CERTIFYING: Final = {Repetition.NOISE: 5_000, Repetition.SAMPLES: 300, Repetition.ASKED: 40, Repetition.ONCE: 5_000}
"""Releases of each world that certify, unless another number is asked for."""
_COMPARED: Final = Runs(20, 40, 200)
_DETERMINISTIC: Final = "Its answers repeat themselves: a guess is always right, or always chance."


@final
@dataclass(frozen=True)
class Attacks:
    """What is played.

    Attributes:
        kinds: Kinds of canaries that are made up; ``None`` for every one, unless there are texts of the caller's own.
        texts: Canaries of the caller's own.
        insertions: How they come in; by default the one that tests the claim's adjacency.
        questions: Kinds of questions.
        wordings: Questions of the caller's own.
        records: How many records are played with, taken evenly from those that are given.
        certifying: Releases of each world that certify; by default as many as the game can afford.
    """

    kinds: Sequence[str] | None = None
    texts: Sequence[str] = ()
    insertions: Sequence[Insertion] = ()
    questions: Sequence[str] = tuple(q.KINDS)
    wordings: Sequence[str] = ()
    records: int = RECORDS
    certifying: int | None = None

    def runs(self, repetition: Repetition) -> Runs:
        """How many releases of each kind: a twentieth of the certifying ones train, a tenth choose."""
        certifying = RELEASES.read("runs", self.certifying or CERTIFYING[repetition])
        return Runs(max(2, certifying // 20), max(4, certifying // 10), certifying)


@final
@dataclass(frozen=True)
class Audit:
    """An audit of one game.

    Attributes:
        kind: Of the report.
        game: What is audited.
        rows: Made-up records, from which a few are taken.
        task: Labels and templates.
        claim: What is tested.
        attacks: What is played.
        randomness: Of canaries, and of which record is changed.
        detectors: Of answers.
        unit: The privacy unit; ``None`` as for a file.
        alpha: Chance of a false alarm.
        setting: Names to values, for the report.
        notes: For the report.
    """

    kind: str
    game: Game
    rows: Sequence[Row]
    task: Task
    claim: Claim
    attacks: Attacks
    randomness: Randomness
    detectors: Callable[[Canary], Sequence[Detector]]
    unit: str | None = None
    alpha: float = ALPHA
    setting: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def run(
        self,
        *,
        model: LabelScorer | Writer | None = None,
        defences: Sequence[Defence] = (),
        questions: Sequence[tuple[Query, int]] = (),
        shown: Callable[[str], None] = lambda what: None,
    ) -> Report:
        """Plays, compares and measures.

        Args:
            model: That heuristic defences use.
            defences: What the game is compared with.
            questions: Labelled ones, with the index of the label, on which utility is measured.
            shown: Told what is done next.

        Raises:
            InputError: Something that was asked for is not usable.

        Returns:
            A report. An audit that broke off, because a model failed, says so in it.
        """
        asked = q.make_questions(self.attacks.questions, self.attacks.wordings)
        insertions = self.attacks.insertions or Insertion.of(self.claim.adjacency)[-1:]
        require_adjacency(insertions, self.claim)
        few = spread(self.rows, self.attacks.records)
        rare, common = c.rare_and_common(few, self.task)
        made = c.make_canaries(self.attacks.kinds, self.attacks.texts, self.rows, self.task, self.randomness, rare)
        runs = self.attacks.runs(self.game.repetition)
        others: dict[str, Any] = {
            "setting": self._setting(few, made, insertions, asked, runs, rare, common),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "notes": [*self.notes, f"Releases: {self.game.repetition.value}."],
        }

        def played(game: Game, sizes: Runs, told: Callable[[str], None]) -> Played:
            return play(
                game,
                few,
                self.task,
                made,
                insertions,
                asked,
                self.detectors,
                self.claim,
                self.randomness,
                other=common,
                unit=unit_of(few, self.unit),
                runs=sizes,
                alpha=self.alpha,
                shown=told,
            )

        try:
            found = played(self.game, runs, shown)
            worth = None
            if questions and isinstance(self.game, LabelGame):
                shown("measuring what the answers are worth")
                worth = utility_of(self.game, self.rows, questions)
        except ModelError as error:
            return could_not_run(self.kind, self.game.name, str(error), **others)
        rows = [self._compared(found, self.game.name, "what is audited", worth)] if defences else []
        for defence in defences:
            shown(f"comparing with {defence.name}")
            rows.append(self._defended(defence, model, played, questions))
        told = worth and {
            "accuracy": worth.value,
            "low": worth.low,
            "high": worth.high,
            "questions": len(questions),
            "records": len(self.rows),
        }
        return of_play(self.kind, self.game.name, found, defences=rows, utility=told, **others)

    def _defended(
        self,
        defence: Defence,
        model: LabelScorer | Writer | None,
        played: Callable[[Game, Runs, Callable[[str], None]], Played],
        questions: Sequence[tuple[Query, int]],
    ) -> dict[str, Any]:
        """A row of the comparison; where a defence cannot run, why."""
        row: dict[str, Any] = {"name": defence.name, "summary": defence.summary}
        if model is None:
            raise ParameterError("defence", defence.name, "left out: it needs a model of its own")
        try:
            game = defence.build(model, self.task)
            found = played(game, _COMPARED, lambda what: None)
            worth = utility_of(game, self.rows, questions) if questions else None
        except SottoError as error:
            return {**row, "bound": None, "accuracy": None, "utility": None, "note": f"could not run: {error}"}
        return self._compared(found, defence.name, defence.summary, worth)

    def _compared(self, found: Played, name: str, summary: str, worth: Proportion | None) -> dict[str, Any]:
        best = max(found.certified, key=lambda attack: attack.accuracy)
        return {
            "name": name,
            "summary": summary,
            "bound": found.best.bound,
            "accuracy": best.accuracy,
            "utility": worth.value if worth else None,
        }

    def _setting(
        self,
        few: Sequence[Row],
        made: Sequence[Canary],
        insertions: Sequence[Insertion],
        asked: Sequence[q.Question],
        runs: Runs,
        rare: str,
        common: str,
    ) -> dict[str, Any]:
        return {
            **self.setting,
            "records played with": len(few),
            "records given": len(self.rows),
            "canaries": [canary.id for canary in made],
            "canary label": rare,
            "other label": common,
            "insertions": [f"{one.value}: {one.words} ({one.adjacency.value})" for one in insertions],
            "questions": [question.name for question in asked],
            "releases to train detectors": runs.training,
            "releases to choose": runs.choosing,
            "releases to certify": runs.certifying,
            "repetition": self.game.repetition.value,
            "confidence": f"{percent(1 - self.alpha)} over all attacks together (Holm)",
        }


def spread(rows: Sequence[Row], count: int) -> list[Row]:
    """So many rows, evenly spread.

    Raises:
        ParameterError: There are fewer, or none is asked for.

    Example:
        >>> [row.line for row in spread([Row(i, {}) for i in range(10)], 3)]
        [0, 3, 6]
    """
    if not 1 <= count <= len(rows):
        raise ParameterError("records", count, f"from 1 to {len(rows)}, the records that there are")
    return [rows[place * len(rows) // count] for place in range(count)]


def unit_of(rows: Sequence[Row], named: str | None) -> str:
    """The privacy unit of made-up records: as named, else the column ``group`` where every row has one."""
    if named is not None:
        return named
    return UNIT_COLUMN if all(not is_missing(row.values.get(UNIT_COLUMN)) for row in rows) else RECORD_UNIT


def utility_of(game: Game, rows: Sequence[Row], questions: Sequence[tuple[Query, int]]) -> Proportion:
    """The share of labelled questions that a game answers right, one release each.

    Args:
        game: A game of labels.
        rows: Records.
        questions: With the index of each one's label.
    """
    task: Task = getattr(game, "task")  # noqa: B009
    world = game.world(rows)
    try:
        answers = [world.releases(task.text_of(query), 1)[0] for query, _ in questions]
    finally:
        world.close()
    right = sum(answer == task.labels[label] for answer, (_, label) in zip(answers, questions, strict=True))
    return proportion(right, len(questions))
