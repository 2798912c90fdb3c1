r"""The tables behind ``sotto plan`` and ``--method auto``, from results of the frontier.

    python -m sottovoce.benchmarks.studies.plan_tables docs/results/frontier.json \
        docs/results/frontier-further-sets.json --instead docs/results/frontier-kept-back.json \
        --out src/sottovoce/data/plan/frontier.json

The second result is of ``sotto bench run frontier --tasks medical-questions film-genres wanted-genres --seeds 3``, the
third of the sets that are kept back, with more seeds.

Of every cell mean and standard error over seeds are kept. A set is for advice on any data, or for checks of that advice
alone (``KEPT``). Either kind has sets that methods were tuned on, where they look better, and others.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sottovoce.errors import InputError
from sottovoce.files.outputs import write_new
from sottovoce.planner.frontier import KEPT_BACK, NO_PRIVACY, PER_ANSWER, TABLE, ZERO_SHOT
from sottovoce.planner.spending import price_of_one
from sottovoce.privacy.events import BoundedRange

NAME: Final = "plan-tables"
FORMAT: Final = 1
KEPT: Final = ("dbpedia", "sarcasm", "trec")
"""No advice is made from these: every third set of texts by its name, from the second one on."""
FEWEST_SEEDS: Final = 2
PICTURES: Final = ("pseudonames", "photographs")
PICTURE_MODEL: Final = "embedded-image"
KEYS: Final = (
    "t set, n names, m method, o pool, a adjacency, r records, p which list of prices; v a row a number of records: "
    "mean and standard error over seeds of every price in turn, in tenths of a percent, null where nothing was measured"
)
MOST_BYTES: Final = 200_000


def tables(frontiers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the planner reads, from one or more results of the frontier, each with sets of its own.

    Raises:
        InputError: Two results have the same set or different deltas, or one has too few seeds.
    """
    sets: dict[str, Any] = {}
    floors: list[dict[str, Any]] = []
    series: list[dict[str, Any]] = []
    deltas = {float(frontier["delta"]) for frontier in frontiers}
    if len(deltas) != 1:
        raise InputError(f"The results were measured at deltas {sorted(deltas)}. Give those of one delta.")
    (delta,) = deltas
    for frontier in frontiers:
        settings = frontier["settings"]
        if settings["seeds"] < FEWEST_SEEDS:
            raise InputError(f"A result has {settings['seeds']} seeds; a standard error needs {FEWEST_SEEDS} or more.")
        for task, labels in frontier["labels"].items():
            if task in sets:
                raise InputError(f"The set {task!r} is in two of the results. Give each set once.")
            model = PICTURE_MODEL if task in PICTURES else settings["model"]
            use = KEPT_BACK if task in KEPT else TABLE
            about = {"seeds": settings["seeds"], "queries": settings["queries"]}
            sets[task] = {"labels": labels, "model": model, "use": use, **about}
        epsilons = [float(epsilon) for epsilon in settings["epsilons"]]
        lines = frontier["lines"]
        floors += [
            {"t": line["t"], "n": line["n"], "v": _cell(line["v"][0])} for line in lines if line["m"] == ZERO_SHOT
        ]
        series += [_unpriced(line) for line in lines if line["m"] in NO_PRIVACY]
        series += [
            _paid_once(line, epsilons) for line in lines if line["m"] not in (ZERO_SHOT, *NO_PRIVACY, *PER_ANSWER)
        ]
        series += _paid_each([line for line in lines if line["m"] in PER_ANSWER], epsilons, delta)
    prices = [list(axis) for axis in dict.fromkeys(tuple(line["p"]) for line in series)]
    series = [{**line, "p": prices.index(line["p"]), "v": [_flat(row) for row in line["v"]]} for line in series]
    machines = [run["machine"] for frontier in frontiers for run in frontier["runs"]]
    commits = [machine["commit"] for machine in machines if machine.get("commit")]
    head = {
        "benchmark": NAME, "format": FORMAT, "keys": KEYS, "delta": delta,
        "commits": list(dict.fromkeys(commits)), "sets": sets, "prices": prices,
    }  # fmt: skip
    return {**head, "floors": floors, "series": series}


def without(frontier: Mapping[str, Any], sets: Collection[str]) -> dict[str, Any]:
    """A result of the frontier without some of its sets."""
    labels = {task: labels for task, labels in frontier["labels"].items() if task not in sets}
    return {**frontier, "labels": labels, "lines": [line for line in frontier["lines"] if line["t"] not in sets]}


def _unpriced(line: Mapping[str, Any]) -> dict[str, Any]:
    return {**_place(line), "r": line["r"], "p": [], "v": [[_cell(values)] for values in line["v"]]}


def _paid_once(line: Mapping[str, Any], epsilons: Sequence[float]) -> dict[str, Any]:
    cells = [[_cell(values) for values in row] for row in line["v"]]
    return {**_place(line), "o": line["o"], "a": line["a"], "r": line["r"], "p": epsilons, "v": cells}


def _paid_each(lines: Iterable[Mapping[str, Any]], epsilons: Sequence[float], delta: float) -> list[dict[str, Any]]:
    """One series a method and set over the price of an answer, from lines by the number of questions."""
    joined: dict[tuple[str, ...], dict[int, dict[float, Any]]] = {}
    for line in lines:
        by_records = joined.setdefault((line["t"], line["n"], line["m"], line["a"]), {})
        for records, row in zip(line["r"], line["v"], strict=True):
            for epsilon, values in zip(epsilons, row, strict=True):
                price = price_of_one(epsilon, delta, int(line["o"]), BoundedRange)
                if values is not None and price is not None:
                    by_records.setdefault(records, {})[price] = _cell(values)
    found = []
    for (task, names, method, adjacency), by_records in joined.items():
        prices = sorted({price for row in by_records.values() for price in row})
        counts = sorted(by_records)
        cells = [[by_records[count].get(price) for price in prices] for count in counts]
        place = {"t": task, "n": names, "m": method, "a": adjacency}
        found.append({**place, "r": counts, "p": prices, "v": cells})
    return found


def _place(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in ("t", "n", "m")}


def _cell(values: Sequence[float] | None) -> list[int] | None:
    """Mean and standard error over seeds, in tenths of a point."""
    if values is None:
        return None
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return [round(10 * float(np.mean(values))), round(10 * error)]


def _flat(row: Sequence[list[int] | None]) -> list[int | None]:
    missing: list[int | None] = [None, None]
    return [number for cell in row for number in (cell or missing)]


def as_text(content: Mapping[str, Any]) -> str:
    """The file, a line a series."""
    text = json.dumps({**content, "floors": [], "series": []}, indent=1)
    for name in ("floors", "series"):
        lines = ",\n".join(json.dumps(line, separators=(",", ":"), allow_nan=False) for line in content[name])
        text = text.replace(f'"{name}": []', f'"{name}": [\n{lines}\n]', 1)
    return text + "\n"


def _is_tables(file: Path) -> bool:
    try:
        return bool(json.loads(file.read_text("utf-8")).get("benchmark") == NAME)
    except (OSError, ValueError, AttributeError):
        return False


def main(argv: Sequence[str]) -> None:
    """Writes the packaged file."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.benchmarks.studies.plan_tables")
    parser.add_argument("frontiers", type=Path, nargs="+", help="compact files, as 'frontier_page' writes them")
    parser.add_argument(
        "--instead", type=Path, nargs="+", default=[], help="of these, sets count in place of the others'"
    )
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(list(argv))
    first, last = ([json.loads(file.read_text("utf-8")) for file in files] for files in (args.frontiers, args.instead))
    replaced = {task for frontier in last for task in frontier["labels"]}
    text = as_text(tables([*(without(frontier, replaced) for frontier in first), *last]))
    if len(text) > MOST_BYTES:
        raise InputError(f"The tables have {len(text)} bytes; at most {MOST_BYTES} are packaged. Nothing was written.")
    write_new(args.out, text, replaces=_is_tables)
    print(f"Written: {args.out}, {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
