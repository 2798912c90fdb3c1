"""What an experiment is: settings, pieces that can be done one after another, cells of a result, and a result file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from sottovoce.benchmarks.harness.datasets import DATASETS, OWN, UNKNOWN, Dataset, default_data, read_world
from sottovoce.benchmarks.harness.results import ReportSection
from sottovoce.benchmarks.harness.score_cache import StoredScorer
from sottovoce.errors import InputError, ParameterError
from sottovoce.files.outputs import write_new
from sottovoce.privacy.unit import Adjacency

BOTH: Final = (Adjacency.ADD_REMOVE.value, Adjacency.REPLACE_ONE.value)


@final
@dataclass(frozen=True)
class Settings:
    """What can be chosen when an experiment is run; an experiment has its own defaults.

    Attributes:
        model: As behind ``--model``.
        seeds: Draws of records, questions and names.
        queries: Questions a seed.
        tasks: Worlds.
        names: ``own``, ``made up``, or both.
        records: Numbers of private records.
        groups: Records an expert.
        epsilons: Of one answer.
        adjacencies: What one change is.
        clips: For experiments that vary it.
        shots: Demonstrations in a prompt, for experiments that vary it.
        writer: Model that writes texts, as behind ``--model``; empty for ``model``.
        experts: Numbers of experts that write an answer, for experiments on long answers.
        draws: How often the noise of an answer is drawn, for experiments that draw it more than once.
        methods: Which methods, for experiments that can measure some alone; ``all`` for every one of them.
    """

    model: str = "embedded"
    seeds: int = 25
    queries: int = 100
    tasks: tuple[str, ...] = ("agnews",)
    names: tuple[str, ...] = (OWN, UNKNOWN)
    records: tuple[int, ...] = (25,)
    groups: tuple[int, ...] = (1,)
    epsilons: tuple[float, ...] = (1.0, 4.0)
    adjacencies: tuple[str, ...] = BOTH
    clips: tuple[float, ...] = ()
    shots: tuple[int, ...] = ()
    writer: str = ""
    experts: tuple[int, ...] = ()
    draws: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()

    def changed(self, **given: Any) -> Settings:
        """With the values that are not ``None`` put in.

        Raises:
            ParameterError: The experiment does not vary such a thing, or a value is out of range.
        """
        given = {n: tuple(dict.fromkeys(v)) if isinstance(v, list | tuple) else v for n, v in given.items()}
        given = {name: value for name, value in given.items() if value is not None}
        for name, known in (
            ("tasks", tuple(dict.fromkeys((*DATASETS, *self.tasks)))),
            ("adjacencies", BOTH),
            ("names", (OWN, UNKNOWN)),
        ):
            if unknown := [choice for choice in given.get(name, ()) if choice not in known]:
                raise ParameterError(name, unknown[0], f"one of {', '.join(known)}")
        for name, value in given.items():
            if name not in ("model", "writer", "seeds", "queries") and getattr(self, name) == ():
                raise ParameterError(name, value, "left out: this experiment has no such setting")
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int | float) and not (math.isfinite(number) and number > 0):
                    raise ParameterError(name, number, "above 0")
        return replace(self, **given)


@final
@dataclass(frozen=True)
class Piece:
    """A part of an experiment that is done, and kept, by itself: one world, one kind of names, one seed."""

    task: str
    names: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task}, {self.names}, seed {self.seed}"


@final
@dataclass(frozen=True)
class Key:
    """What one number is about.

    Attributes:
        task: The world.
        names: Kind of label names.
        method: A name of ``evaluation``.
        quantity: What is measured; percentages of right answers unless said otherwise.
        records: Number of private records, 0 where none is read.
        group: Records an expert.
        adjacency: For released answers.
        epsilon: Of one answer, for released answers.
        option: A further setting, such as ``clip 2.3``.
    """

    task: str
    names: str
    method: str
    quantity: str = "right"
    records: int = 0
    group: int = 1
    adjacency: str | None = None
    epsilon: float | None = None
    option: str = ""


@final
@dataclass(frozen=True)
class Cell:
    """One number of a result, over seeds.

    Attributes:
        key: What it is about.
        values: By seed.
    """

    key: Key
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def standard_error(self) -> float:
        """Of the mean, over seeds; NaN for one seed."""
        count = len(self.values)
        return float(np.std(self.values, ddof=1) / math.sqrt(count)) if count > 1 else math.nan

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.standard_error:.1f}" if len(self.values) > 1 else f"{self.mean:.1f}"


@final
@dataclass(frozen=True)
class Result:
    """All that one run of an experiment found.

    Attributes:
        experiment: Name.
        settings: What was chosen.
        cells: In order.
        machine: Description, versions, commit.
        seconds: Time on the clock, over all runs that it was done in, and over processes side by side.
        scores: Pairs of prompt and question that the model was asked, and that were known.
        extra: What an experiment keeps besides, such as curves.
    """

    experiment: str
    settings: Settings
    cells: Sequence[Cell]
    machine: dict[str, Any]
    seconds: float
    scores: dict[str, int]
    extra: dict[str, Any] = field(default_factory=dict)

    def cell(self, **key: Any) -> Cell | None:
        """The cell with this key; fields that are not named have their defaults."""
        return self._index().get(Key(**key))

    def _index(self) -> dict[Key, Cell]:
        by_key = getattr(self, "_by_key", None)
        if by_key is None:
            by_key = {cell.key: cell for cell in self.cells}
            object.__setattr__(self, "_by_key", by_key)
        return by_key

    def write(self, file: Path, *, replaces: str | None = None) -> None:
        """Writes one JSON file: a cell a line, and of what else was measured an entry a line.

        Args:
            file: Where to. An earlier result of the experiment with the same settings is replaced.
            replaces: The hash of a result with other settings that is replaced, too.

        Raises:
            InputError: Something else is there, or it cannot be written.
        """
        entries = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("cells", "extra")}
        short = [
            {
                **_short(c.key),
                "mean": _finite(c.mean, 4),
                "se": _finite(c.standard_error, 4),
                "values": [_finite(value) for value in c.values],
            }
            for c in self.cells
        ]
        head = json.dumps({**entries, "settings": asdict(self.settings)}, indent=1, allow_nan=False).removesuffix("\n}")
        extra = ",\n".join(f"{json.dumps(name)}: {_by_lines(value)}" for name, value in self.extra.items())
        text = f'{head},\n "cells": {_by_lines(short)},\n "extra": {{{extra}}}\n}}'
        file.parent.mkdir(parents=True, exist_ok=True)

        def is_old(there: Path) -> bool:
            return is_result_of(there, self.experiment, self.settings) or hash_of_result(there) == (replaces or "")

        write_new(file, text + "\n", replaces=is_old)

    @staticmethod
    def read(file: Path) -> Result:
        """Reads a result file.

        Raises:
            InputError: It is none.
        """
        try:
            content = json.loads(file.read_text("utf-8"))
            chosen: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in content["settings"].items()}
            settings = Settings(**chosen)
            known = {f.name for f in fields(Key)}
            cells = [
                Cell(
                    Key(**{k: v for k, v in cell.items() if k in known}),
                    tuple(math.nan if v is None else v for v in cell["values"]),
                )
                for cell in content["cells"]
            ]
            return Result(**{**content, "settings": settings, "cells": cells})
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(f"{file.name} is not a result of 'sotto bench run'.") from None


def is_result_of(file: Path, experiment: str, settings: Settings | None = None) -> bool:
    """Whether a file is an earlier result of this experiment; with these settings, where some are named."""
    try:
        result = Result.read(file)
    except InputError:
        return False
    return result.experiment == experiment and settings in (None, result.settings)


def hash_of_result(file: Path) -> str | None:
    """The hash of a result file as it is now; ``None`` where none can be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def _short(key: Key) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    return {f.name: getattr(key, f.name) for f in fields(key) if getattr(key, f.name) != f.default}


def _by_lines(value: Any) -> str:
    """JSON without blanks, a list an item a line."""

    def compact(item: Any) -> str:
        return json.dumps(item, separators=(",", ":"), allow_nan=False)

    return "[\n" + ",\n".join(map(compact, value)) + "\n]" if isinstance(value, list) and value else compact(value)


def _finite(value: float, digits: int = 0) -> float | None:
    """As JSON has it, to so many significant digits: ``None`` for a number that is not finite."""
    if not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}") if digits else value


Measurements = Iterable[tuple[Key, float]]
Measure = Callable[["Bench", Piece], Measurements]


@final
@dataclass(frozen=True)
class Bench:
    """What an experiment measures with.

    Attributes:
        settings: What was chosen.
        scorer: The model, its scores kept.
        data: Where the rows lie.
    """

    settings: Settings
    scorer: StoredScorer
    data: Path = field(default_factory=default_data)

    def world(self, name: str) -> Dataset:
        """Reads a world, once."""
        return read_world(self.data, name)

    @property
    def adjacencies(self) -> list[Adjacency]:
        return [Adjacency.parse(name) for name in self.settings.adjacencies]


@final
@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or a question of our own.

    Attributes:
        name: As behind ``sotto bench run``.
        title: What is asked.
        source: Which table or figure it answers to.
        settings: Its defaults.
        measure: The numbers of one piece.
        section: Tables, figures and the reading of a result.
        whole: What is worked out from all pieces together, kept as ``extra``; for experiments that need it.
        quick: Defaults of a small run, for ``--quick``; ``None`` where there is none.
    """

    name: str
    title: str
    source: str
    settings: Settings
    measure: Measure
    section: Callable[[Result], ReportSection]
    whole: Callable[[Bench, Sequence[Piece]], dict[str, Any]] | None = None
    quick: Settings | None = None

    def pieces(self, settings: Settings) -> list[Piece]:
        """Everything there is to do, seeds outermost, so that an interrupted run has a bit of everything."""
        return [
            Piece(task, names, seed)
            for seed in range(settings.seeds)
            for task in settings.tasks
            for names in (settings.names if task not in ALREADY_NAMED else settings.names[:1])
        ]


ALREADY_NAMED: Final = ("gsm8k", "pseudonames", "photographs")
"""Worlds with one kind of names: digits, and names that are made up to begin with."""


def about(result: Result) -> list[tuple[str, str]]:
    """What a reader needs to repeat it, for a section of a report."""
    s, machine = result.settings, result.machine
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    return [
        ("Model", s.model),
        ("Protocol", f"{s.seeds} seeds x {s.queries} questions; intervals are standard errors over seeds"),
        ("Command", _command(result)),
        (
            "Machine",
            f"{machine['processor']}, {machine['cores']} cores, {machine['system']}, Python {machine['python']}",
        ),
        ("Packages", packages),
        ("Commit", str(machine["commit"])),
        ("Time", f"{result.seconds:.0f} s"),
        (
            "Model asked",
            f"{result.scores['asked']:,} pairs of prompt and question; {result.scores['found']:,} were known",
        ),
    ]


def _command(result: Result) -> str:
    """With the settings that are often changed."""
    s = result.settings
    words = ["sotto bench run", result.experiment]
    words += [f"--model {s.model}"] if s.model != "embedded" else []
    words += [f"--writer {s.writer}"] if s.writer else []
    return " ".join([*words, f"--seeds {s.seeds}", f"--queries {s.queries}", "--tasks", *s.tasks])
