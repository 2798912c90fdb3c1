"""How far the planner's advice is behind the best method on sets that it was not made from, told from chance.

    python -m sottovoce.benchmarks.studies.plan_regret docs/results/frontier.json \
        --instead docs/results/frontier-kept-back.json

Three figures for each set, in points behind the best way of a cell:

*As measured*: the best way is chosen by the figures that it is reported with. The best of many noisy figures is too
high, so that good advice looks worse than it is.

*Split halves*: the best way is chosen on half of the seeds, and it and the advice are compared on the other half; the
mean over random halves. What is chosen by half of the seeds may not be the best, so that bad advice looks a little
better.

*Ceiling*: the first figure for a rule that may look at half of the seeds of the very cell, told on the other half. No
advice from other sets can be expected to do better than that.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from sottovoce.benchmarks.studies.plan_tables import KEPT, without
from sottovoce.models.base import FloatArray
from sottovoce.planner.frontier import NO_POOL, NO_PRIVACY, PER_ANSWER, ZERO_SHOT
from sottovoce.planner.guide import EACH, FREE, ONCE, Asked, make_guide
from sottovoce.privacy.unit import Adjacency

CLOSE: Final = 2.0
"""Points behind the best that advice is asked to stay within."""
SPLITS: Final = 20
QUESTIONS: Final = (1, 10, 100, 1000)


@final
@dataclass(frozen=True)
class Advised:
    """One cell: what was advised, and every way's percent right.

    Attributes:
        name: Of the set.
        asked: Public numbers.
        place: Of the advised way among all.
        right: Shape (ways, seeds).
    """

    name: str
    asked: Asked
    place: int
    right: FloatArray


@final
@dataclass(frozen=True)
class Behind:
    """Of some cells: the share within two points and the mean, as measured and by split halves, and the ceiling."""

    cells: int
    close: float
    mean: float
    split_close: float
    split_mean: float
    ceiling: float


def behind(cells: Sequence[Advised], *, splits: int = SPLITS, seed: int = 0) -> Behind:
    """Compares advice with the best way, as measured and by split halves."""
    rng = np.random.default_rng(seed)
    plain, split, ceiling = [], [], []
    for cell in cells:
        mean = cell.right.mean(axis=1)
        plain.append(float(mean.max() - mean[cell.place]))
        seeds = cell.right.shape[1]
        apart = []
        for _ in range(splits):
            order = rng.permutation(seeds)
            halves = order[: seeds // 2], order[seeds // 2 :]
            for chosen_on, told_on in (halves, halves[::-1]):
                best = int(cell.right[:, chosen_on].mean(axis=1).argmax())
                told = cell.right[:, told_on].mean(axis=1)
                apart.append(float(told[best] - told[cell.place]))
                ceiling.append(float(told.max() - told[best]))
        split.append(float(np.mean(apart)))

    def close(points: Sequence[float]) -> float:
        return float(np.mean(np.array(points) <= CLOSE))

    return Behind(len(cells), close(plain), float(np.mean(plain)), close(split), float(np.mean(split)), close(ceiling))


def advised_cells(frontiers: Sequence[Mapping[str, Any]], sets: Sequence[str] = KEPT) -> Iterator[Advised]:
    """Every cell of sets that are kept back, with the packaged advice."""
    for frontier in frontiers:
        epsilons = frontier["settings"]["epsilons"]
        values = dict(_values(frontier["lines"], epsilons))
        kinds = dict.fromkeys((line["t"], line["n"]) for line in frontier["lines"] if line["t"] in sets)
        for task, names in kinds:
            places = [place[2:] for place in values if place[:2] == (task, names) and place[4] and place[2] == "choice"]
            for _, pool, relation, records, epsilon in dict.fromkeys(places):
                for questions in QUESTIONS:
                    asked = Asked(
                        records, frontier["labels"][task], questions, epsilon, frontier["delta"],
                        Adjacency.parse(relation), names, pool,
                    )  # fmt: skip
                    yield _advised(task, asked, values)


def _values(lines: Sequence[Mapping[str, Any]], epsilons: Sequence[float]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for line in lines:
        head = line["t"], line["n"], line["m"], line.get("o", ""), line.get("a", "")
        for records, found in zip(line["r"], line["v"], strict=True):
            if "a" not in line:
                yield (*head, records, 0.0), found
                continue
            for epsilon, by_seed in zip(epsilons, found, strict=True):
                if by_seed is not None:
                    yield (*head, records, epsilon), by_seed


def _advised(task: str, asked: Asked, values: Mapping[tuple[Any, ...], Any]) -> Advised:
    head, at = (task, asked.names), (asked.adjacency.value, asked.records, asked.epsilon)
    ways: dict[tuple[str, str], Any] = {(ZERO_SHOT, FREE): values[(*head, ZERO_SHOT, "", "", 0, 0.0)]}
    for place, by_seed in values.items():
        if place[:2] != head or place[4:] != at or place[2] in (ZERO_SHOT, *NO_PRIVACY):
            continue
        if place[2] in PER_ANSWER:
            if place[3] == str(asked.questions):
                ways[PER_ANSWER[place[2]], EACH] = by_seed
        elif place[3] in (asked.pool, NO_POOL):
            ways[place[2], ONCE] = by_seed
    advised = make_guide(asked).advised
    fewest = min(len(by_seed) for by_seed in ways.values())
    right = np.array([by_seed[:fewest] for by_seed in ways.values()], dtype=np.float64)
    return Advised(task, asked, list(ways).index((advised.method, advised.paid)), right)


def as_table(cells: Sequence[Advised]) -> str:
    """A row a set, and one for all of them."""
    groups = {name: [cell for cell in cells if cell.name == name] for name in dict.fromkeys(c.name for c in cells)}
    head = "| set | cells | within 2, as measured | behind | within 2, split halves | behind | ceiling |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    for name, own in {**groups, "all": list(cells)}.items():
        b = behind(own)
        rows.append(
            f"| {name} | {b.cells:,} | {b.close:.1%} | {b.mean:.2f} | {b.split_close:.1%} | {b.split_mean:.2f} | "
            f"{b.ceiling:.1%} |"
        )
    return "\n".join(rows)


def main(argv: Sequence[str]) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.benchmarks.studies.plan_regret")
    parser.add_argument("frontiers", type=Path, nargs="+", help="compact files, as 'frontier.page' writes them")
    parser.add_argument("--instead", type=Path, nargs="+", default=[], help="of these, sets count in place of others'")
    args = parser.parse_args(list(argv))
    first, last = ([json.loads(file.read_text("utf-8")) for file in files] for files in (args.frontiers, args.instead))
    replaced = {task for frontier in last for task in frontier["labels"]}
    print(as_table(list(advised_cells([*(without(frontier, replaced) for frontier in first), *last]))))


if __name__ == "__main__":
    main(sys.argv[1:])
