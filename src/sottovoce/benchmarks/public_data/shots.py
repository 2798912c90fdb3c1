"""Long answers by the number of private pairs that an expert sees, at one price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from sottovoce.benchmarks.harness.experiment import (
    Bench,
    Cell,
    Experiment,
    Key,
    Measurements,
    Piece,
    Result,
    Settings,
)
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.public_data.episode import ADJACENCY, Episode, cannot
from sottovoce.benchmarks.public_data.scoring import (
    MAIN,
    SCORES,
    cell_of,
    difference,
    estimate,
    measured_with,
    scored,
    shown,
    verdict,
)
from sottovoce.benchmarks.public_data.table import FULL, PRIVATE, SIZE, ZERO, episode_of, sized
from sottovoce.benchmarks.public_data.worlds import IN, Pair
from sottovoce.methods.answering.answerer import make_answerer


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Scores of one world and one seed, for every number of pairs; the number of experts stays."""
    settings = bench.settings
    size = sized(settings, SIZE)
    for shots in settings.shots:
        episode = episode_of(bench, piece, replace(size, shots=shots, context=shots))
        asked = episode.questions(settings.queries)
        episode.ask([question for question, _ in asked])
        if shots == settings.shots[0]:
            answers = [episode.answer(make_answerer(ZERO), question, "", None) for question, _ in asked]
            yield from scored(Key(piece.task, piece.names, ZERO), answers, asked, episode.embedder)
        for key, answers in episode.writer.together(partial(_answers, episode, asked, settings.epsilons)):
            yield from scored(replace(key, option=f"k {shots}"), answers, asked, episode.embedder)


def _answers(episode: Episode, asked: Sequence[Pair], epsilons: Sequence[float]) -> list[tuple[Key, list[str]]]:
    key = Key(episode.world.name, "own", FULL)
    found = [(key, [episode.answer(make_answerer(FULL), question, "", None) for question, _ in asked])]
    for epsilon in epsilons:
        for name, method in PRIVATE.items():
            if not any(cannot(method, episode, question, IN, epsilon) for question, _ in asked):
                its = replace(
                    key, method=name, records=episode.size.records, adjacency=ADJACENCY.value, epsilon=epsilon
                )
                found.append((its, [episode.answer(method, question, IN, epsilon) for question, _ in asked]))
    return found


def section(result: Result) -> ReportSection:
    """A table and a figure by world."""
    tables, figures, reading = [], [], []
    for task in result.settings.tasks:
        keys = dict.fromkeys(replace(c.key, quantity=MAIN) for c in result.cells if c.key.task == task)
        rows = [
            [
                key.method,
                "-" if key.epsilon is None else f"{key.epsilon:g}",
                key.option,
                *(shown(_cell(result, key, q)) for q in SCORES),
            ]
            for key in keys
        ]
        tables.append(
            Table(f"Scores of answers, {task}", ("method", "epsilon", "pairs an expert", *SCORES), rows, NOTE)
        )
        for epsilon in result.settings.epsilons:
            lines = [_line(result, task, name, epsilon) for name in PRIVATE] + [_line(result, task, FULL, None)]
            title = f"{task}, epsilon {epsilon:g}"
            figures.append(Figure(f"shots-{task}-{epsilon:g}", title, "pairs an expert", "ROUGE-L", lines, log_x=True))
            first, last = result.settings.shots[0], result.settings.shots[-1]
            for name in PRIVATE:
                gap = difference(
                    *(cell_of(result, task, name, epsilon=epsilon, option=f"k {k}") for k in (last, first))
                )
                line = verdict(f"Are {last} pairs an expert better than {first} for {name}?", gap)
                reading.append(f"{task}, epsilon {epsilon:g}: {line}")
    return ReportSection(
        EXPERIMENT.name, EXPERIMENT.title, EXPERIMENT.source, reading, tables, figures, measured_with(result)
    )


def _cell(result: Result, key: Key, quantity: str) -> Cell | None:
    return next((cell for cell in result.cells if cell.key == replace(key, quantity=quantity)), None)


def _line(result: Result, task: str, method: str, epsilon: float | None) -> Series:
    found = {k: cell_of(result, task, method, epsilon=epsilon, option=f"k {k}") for k in result.settings.shots}
    places = [k for k, cell in found.items() if cell]
    spans = [estimate(found[k]) for k in places]
    return Series(
        method,
        [float(k) for k in places],
        [cell.mean for cell in found.values() if cell],
        [span.low for span in spans if span],
        [span.high for span in spans if span],
        reference=method == FULL,
    )


NOTE: Final = (
    "0 to 100, mean and 95 % interval over seeds. Full context has as many private pairs in its one prompt, and no "
    "guarantee. Public pairs of the same source."
)

EXPERIMENT = Experiment(
    name="answers-shots",
    title="How many private pairs should an expert see?",
    source="Public-data-assisted ICL, its number of demonstrations",
    settings=Settings(
        model="embedded", writer="embedded-lm", seeds=8, queries=1, tasks=("medquad",), names=("own",),
        records=(1000,), experts=(40,), shots=(1, 2, 4), epsilons=(3.0,), adjacencies=(ADJACENCY.value,),
    ),
    measure=measure,
    section=section,
)  # fmt: skip
