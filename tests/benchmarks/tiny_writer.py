"""A model that writes what it is told, letter by letter, and an experiment's pieces measured without a runner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sottovoce.benchmarks.harness.experiment import Bench, Cell, Experiment, Key, Result, Settings
from sottovoce.models.fake import FakeStepper
from sottovoce.models.stepper import Prompt

LETTERS = ("\n", *map(chr, range(0x20, 0x7F)))
SURE = 20.0
MACHINE = {"packages": {}, "processor": "none", "cores": 1, "system": "none", "python": "3", "commit": "none"}


def writer(said: Callable[[Prompt], str], *, other: float = 0.0) -> FakeStepper:
    """Goes on with the text that a prompt calls for, then ends; a slip does not put it off."""

    def function(prompt: Prompt, text: tuple[int, ...]) -> list[float]:
        wanted = said(prompt)
        logits = [other] * (len(LETTERS) + 2)
        logits[LETTERS.index(wanted[len(text)]) if len(text) < len(wanted) else len(LETTERS)] = SURE
        return logits

    return FakeStepper(function, pieces=LETTERS, rows=8)


def measured(experiment: Experiment, settings: Settings, data: Path) -> Result:
    """All pieces, one after another."""
    bench = Bench(settings, scorer=None, data=data)
    found: dict[Key, list[float]] = {}
    for piece in experiment.pieces(settings):
        for key, value in experiment.measure(bench, piece):
            found.setdefault(key, []).append(value)
    cells = [Cell(key, tuple(values)) for key, values in found.items()]
    return Result(experiment.name, settings, cells, MACHINE, 1.0, {"asked": 0, "found": 0})
