"""The frontier as it is shown: tables, and one figure.

    python -m sottovoce.benchmarks.frontier.page --results FOLDER --out docs/results

writes ``frontier.json``, the page ``pay-once.md`` made from that file alone, and in ``pay-once`` its figures and the
same page as HTML. With ``--again FOLDER`` in place of ``--results`` lines of runs of some methods alone (``sotto bench
run frontier --methods ...``) take the place of those that the file has.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from sottovoce.benchmarks.frontier.kept import (
    BUNDLED,
    DELTA,
    INK,
    NAME,
    NO_POOL,
    PER_ANSWER_NAMES,
    POOLS,
    QUESTIONS,
    REGRESSION,
    REPORTED,
    SOURCE,
    TITLE,
    Frontier,
    as_text,
    compact,
    lead_of,
    renewed,
)
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN
from sottovoce.benchmarks.harness.experiment import Cell, Key, Result
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.reporting.collect import family_of
from sottovoce.benchmarks.reporting.plots import OPENINGS, draw_all
from sottovoce.benchmarks.reporting.report import write_markdown, write_report
from sottovoce.errors import InputError
from sottovoce.files.outputs import begins_as, refuse_existing, write_new
from sottovoce.planner.frontier import KEPT_BACK, TABLE, packaged_tables

SHOWN_EPSILON, SHOWN_RECORDS, SHOWN_ADJACENCY = 4.0, 240, "replace-one"
"""What the figure and the shorter tables show."""
BEST_ANSWER, PAID_ONCE, NO_PROTECTION = "best method that pays for every answer", "pay once", "no protection"


def section(result: Result) -> ReportSection:
    """Tables and figures of a run."""
    return section_of(Frontier(compact([result])))


def section_of(frontier: Frontier, others: Sequence[Frontier] = ()) -> ReportSection:
    """Tables and figures of a compact file.

    Args:
        frontier: What is shown.
        others: Files of further sets, or of more seeds, of which what was measured again is shown, too.
    """
    tables = [*_before_and_now([frontier, *others]), _by_questions(frontier), _by_pool(frontier)]
    tables += [_written(frontier)] if frontier.writing else []
    for adjacency in frontier.adjacencies:
        tables += [_by_records(frontier, adjacency, epsilon) for epsilon in frontier.epsilons]
    figures = [figure for names in (OWN, UNKNOWN) if (figure := _figure(frontier, names))]
    return ReportSection(NAME, TITLE, SOURCE, list(_reading(frontier)), tables, figures, _about(frontier))


ANY_POOL: Final = (BUNDLED, NO_POOL)
"""What is shown where a table has one column a method: what a user has who brings no texts."""


def _by_records(frontier: Frontier, adjacency: str, epsilon: float) -> Table:
    columns = (
        "task", "label names", "records", e.ZERO_SHOT, "best per answer, 100 questions", f"{INK} (quoted)",
        *frontier.fitters, e.FULL, REGRESSION,
    )  # fmt: skip
    rows = []
    for kind in frontier.kinds:
        for records in frontier.records:
            last = [frontier.cell(kind, reference, records) for reference in (e.FULL, REGRESSION)]
            if not any(last):
                continue
            cells = [
                frontier.cell(kind, e.ZERO_SHOT),
                frontier.best(kind, PER_ANSWER_NAMES, ["100"], records, adjacency, epsilon),
                frontier.cell(kind, INK, records, "", adjacency, epsilon),
                *(frontier.best(kind, [name], ANY_POOL, records, adjacency, epsilon) for name in frontier.fitters),
                *last,
            ]
            rows.append((*kind, str(records), *(str(cell or "") for cell in cells)))
    note = (
        f"Percent right, mean and standard error over seeds; total epsilon {epsilon:g} at delta {DELTA:g}, "
        f"{adjacency}. Methods that pay once answer any number of questions; the pool is the bundled one, none for "
        "pictures. The best per-answer method of each cell is chosen by its own figure, which flatters it. "
        "InvisibleInk is quoted from other runs with the best number of demonstrations. The last two columns have no "
        "privacy."
    )
    return Table(f"Total epsilon {epsilon:g}, {adjacency}", columns, rows, note)


def _by_questions(frontier: Frontier) -> Table:
    adjacency, epsilon = _shown(frontier)
    columns = (
        "task", "label names", "records", e.ZERO_SHOT, *(f"per answer, {q:,}" for q in QUESTIONS),
        "pay once, any number", "method", e.FULL, REGRESSION,
    )  # fmt: skip
    rows = []
    for kind in frontier.kinds:
        for records in frontier.records:
            each = [frontier.best(kind, PER_ANSWER_NAMES, [str(q)], records, adjacency, epsilon) for q in QUESTIONS]
            once = frontier.best(kind, frontier.fitters, ANY_POOL, records, adjacency, epsilon)
            last = [frontier.cell(kind, reference, records) for reference in (e.FULL, REGRESSION)]
            if any(last):
                texts = [str(cell or "") for cell in (frontier.cell(kind, e.ZERO_SHOT), *each, once)]
                method = once.key.method if once else ""
                rows.append((*kind, str(records), *texts, method, *(str(cell or "") for cell in last)))
    note = (
        f"Total epsilon {epsilon:g} at delta {DELTA:g}, {adjacency}. Every column has the best method of its kind in "
        "each cell, chosen by its own figure. Bundled pool, none for pictures."
    )
    return Table("By the number of questions", columns, rows, note)


def _by_pool(frontier: Frontier) -> Table:
    adjacency, epsilon = _shown(frontier)
    with_pools = [
        (name, pool)
        for name in frontier.fitters
        for pool in POOLS
        if any(line["m"] == name and line.get("o") == pool for line in frontier.content["lines"])
    ]
    columns = ("task", "label names", "records", e.ZERO_SHOT, *(f"{name}, {pool}" for name, pool in with_pools))
    rows = []
    for kind in frontier.kinds:
        for records in frontier.records:
            cells = [frontier.cell(kind, name, records, pool, adjacency, epsilon) for name, pool in with_pools]
            if any(cells):
                row = [str(cell or "") for cell in (frontier.cell(kind, e.ZERO_SHOT), *cells)]
                rows.append((*kind, str(records), *row))
    note = f"Total epsilon {epsilon:g} at delta {DELTA:g}, {adjacency}: what the public texts do."
    return Table("By the kind of pool", columns, rows, note)


def _written(frontier: Frontier) -> Table:
    """Methods that have a model write, in the cells where they were measured, beside others on the same seeds."""
    beside = [name for name in frontier.fitters if name in ("choice", "class-means")]
    columns = (
        "task", "label names", "records", "total epsilon", "adjacency", "pool", "seeds", e.ZERO_SHOT, *beside,
        *frontier.writing,
    )  # fmt: skip
    rows = []
    for line in frontier.content["lines"]:
        if line["m"] not in frontier.writing:
            continue
        kind, pool, adjacency = (line["t"], line["n"]), line["o"], line["a"]
        for records in line["r"]:
            for epsilon in frontier.epsilons:
                place = (records, pool, adjacency, epsilon)
                found = frontier.cell(kind, line["m"], *place)
                if found is None:
                    continue
                seeds = len(found.values)
                cells = [frontier.cell(kind, e.ZERO_SHOT)]
                cells += [frontier.cell(kind, name, *place) for name in (*beside, *frontier.writing)]
                texts = [str(replace(cell, values=cell.values[:seeds])) if cell else "" for cell in cells]
                rows.append((*kind, str(records), f"{epsilon:g}", adjacency, pool, str(seeds), *texts))
    runs = [run for run in frontier.content["runs"] if {*run.get("methods", ())} & {*frontier.writing}]
    writers = dict.fromkeys(str(run.get("writer", "embedded")) for run in runs)
    note = (
        f"Percent right at delta {DELTA:g}, on the same seeds. These fits are slow, so that only these cells were "
        f"measured. Model that writes (--writer): {', '.join(writers)}."
    )
    return Table("Where a model writes", columns, rows, note)


def _before_and_now(frontiers: Sequence[Frontier]) -> list[Table]:
    """What was measured again after a change, beside zero-shot, and what stood there before."""
    measured: dict[tuple[str, str], tuple[Mapping[str, float], Mapping[str, float]]] = {}
    for frontier in sorted(frontiers, key=lambda frontier: int(frontier.content["settings"]["seeds"])):
        for run in frontier.content["runs"]:
            for task, methods in run.get("before", {}).items():
                for name, before in methods.items():
                    now = frontier.beside(task, name)
                    if before and now:
                        measured[name, task] = before, now
    if not measured:
        return []
    sets = packaged_tables().sets
    uses = {task: sets[task].use if task in sets else TABLE for _, task in measured}
    rows = []
    for name in dict.fromkeys(name for name, _ in measured):
        for use, said in ((TABLE, "advice"), (KEPT_BACK, "kept back")):
            found = {task: measured[other, task] for other, task in measured if other == name and uses[task] == use}
            for task, (old, new) in found.items():
                rows.append((name, task, said, f"{new['seeds']:g}", *_change(old, new)))
            if len(found) > 1:
                sums = [_sum([part[place] for part in found.values()]) for place in (0, 1)]
                rows.append((name, f"all {len(found)}", said, "", *_change(*sums)))
    columns = (
        "method", "set", "used for", "seeds", "cells", "lead, before", "lead, now", "below, before", "below, now",
        "worst, before", "worst, now",
    )  # fmt: skip
    note = (
        "Own label names. Cells: every pool, adjacency, number of records and total epsilon. Lead: mean points over "
        "zero-shot. Below: cells more than one point below zero-shot, by their means over seeds. Worst: the least "
        "lead. Advice: sets that sotto plan reads. Kept back: sets for checks of it alone."
    )
    return [Table("Beside zero-shot, before a change and now", columns, rows, note)]


def _change(before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[str]:
    yield f"{now['cells']:g}"
    for name, form in (("lead", "+.1f"), ("below", "g"), ("worst", "+.1f")):
        yield from (f"{found[name]:{form}}" for found in (before, now))


def _sum(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    cells = sum(part["cells"] for part in parts)
    return {
        "cells": cells, "lead": sum(part["lead"] * part["cells"] for part in parts) / cells,
        "below": sum(part["below"] for part in parts), "worst": min(part["worst"] for part in parts),
    }  # fmt: skip


def _shown(frontier: Frontier) -> tuple[str, float]:
    adjacency = SHOWN_ADJACENCY if SHOWN_ADJACENCY in frontier.adjacencies else frontier.adjacencies[0]
    return adjacency, SHOWN_EPSILON if SHOWN_EPSILON in frontier.epsilons else frontier.epsilons[0]


def _figure(frontier: Frontier, names: str) -> Figure | None:
    """Accuracy over the number of questions: a mean over the reported sets that were measured."""
    adjacency, epsilon = _shown(frontier)
    records = SHOWN_RECORDS if SHOWN_RECORDS in frontier.records else frontier.records[-1]
    kinds = [kind for kind in frontier.kinds if kind[0] in REPORTED and kind[1] == names]
    kinds = kinds or [kind for kind in frontier.kinds if kind[1] == names]
    once = [frontier.best(kind, frontier.fitters, ANY_POOL, records, adjacency, epsilon) for kind in kinds]
    if not kinds or None in once:
        return None
    ends = (float(QUESTIONS[0]), float(QUESTIONS[-1]))
    each = [
        _mean([frontier.best(kind, PER_ANSWER_NAMES, [str(q)], records, adjacency, epsilon) for kind in kinds])
        for q in QUESTIONS
    ]
    lines = [
        _line_at(e.ZERO_SHOT, ends, [_mean([frontier.cell(kind, e.ZERO_SHOT) for kind in kinds])] * 2, reference=True),
        _line_at(BEST_ANSWER, [float(q) for q in QUESTIONS], each),
        _line_at(PAID_ONCE, ends, [_mean(once)] * 2),
        _line_at(
            NO_PROTECTION, ends, [_mean([frontier.cell(kind, REGRESSION, records) for kind in kinds])] * 2,
            reference=True,
        ),
    ]  # fmt: skip
    tasks = ", ".join(task for task, _ in kinds)
    return Figure(
        f"questions-{'own' if names == OWN else 'made-up'}",
        f"{records} records, epsilon {epsilon:g} in all, {names} label names",
        "questions asked of one budget (pay once: any number)",
        "right answers, percent",
        lines,
        log_x=True,
        note=f"Mean over {tasks}, {adjacency}, delta {DELTA:g}; two standard errors. No protection: logistic "
        "regression on the same embeddings. Each private line has the best method of its kind in each set.",
    )


def _mean(cells: Sequence[Cell | None]) -> Cell | None:
    """The mean over worlds, seed by seed; ``None`` where one is missing."""
    found = [cell.values for cell in cells if cell]
    if len(found) < len(cells):
        return None
    seeds = min(map(len, found))
    return Cell(Key("", "", ""), tuple(np.mean([values[:seeds] for values in found], axis=0).tolist()))


def _line_at(name: str, x: Sequence[float], cells: Sequence[Cell | None], *, reference: bool = False) -> Series:
    measured = [(at, cell) for at, cell in zip(x, cells, strict=True) if cell]
    means = [cell.mean for _, cell in measured]
    errors = [0.0 if math.isnan(cell.standard_error) else 2 * cell.standard_error for _, cell in measured]
    low = [mean - error for mean, error in zip(means, errors, strict=True)]
    high = [mean + error for mean, error in zip(means, errors, strict=True)]
    return Series(name, [at for at, _ in measured], means, low, high, reference=reference)


def _reading(frontier: Frontier) -> Iterator[str]:
    """What was found, in sentences made from the figures."""
    yield from _again(frontier)
    adjacency, epsilon = _shown(frontier)
    measured, ahead, below, worst = 0, 0, 0, math.inf
    for kind in frontier.kinds:
        floor = frontier.cell(kind, e.ZERO_SHOT)
        for records in frontier.records:
            once = frontier.best(kind, frontier.fitters, ANY_POOL, records, adjacency, epsilon)
            each = frontier.best(kind, PER_ANSWER_NAMES, ["100"], records, adjacency, epsilon)
            if once and each and floor:
                measured += 1
                ahead += once.mean >= each.mean
                lead = lead_of(once, floor)
                below += lead < -1
                worst = min(worst, lead)
    yield (
        f"At epsilon {epsilon:g} in all, {adjacency}, the best method that pays once is as good as the best per-answer "
        f"method at 100 questions, or better, in {ahead} of {measured} cells, and answers any number of questions."
    )
    if measured:
        yield f"It is more than one point below zero-shot in {below} of them; the worst cell is {worst:+.1f} points."
    for name in frontier.fitters:
        gaps = [
            (lead_of(cell, floor), kind, records)
            for kind in frontier.kinds
            for records in frontier.records
            if (cell := frontier.best(kind, [name], ANY_POOL, records, adjacency, epsilon))
            and (floor := frontier.cell(kind, e.ZERO_SHOT))
        ]
        if gaps:
            gap, kind, records = min(gaps)
            yield (
                f"{name}: {np.mean([gap for gap, *_ in gaps]):+.1f} points to zero-shot on average; worst "
                f"{gap:+.1f} ({kind[0]}, {kind[1]} names, {records} records)."
            )


def _about(frontier: Frontier) -> list[tuple[str, str]]:
    content = frontier.content
    settings, machine = content["settings"], content["runs"][0]["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine.get("packages", {}).items() if version)
    return [
        ("Protocol", f"{settings['seeds']} seeds x {settings['queries']} questions; standard errors over seeds"),
        ("Total budget", f"delta {DELTA:g}; per answer the better of a zCDP ledger and a sum of epsilons"),
        ("Development sets", ", ".join(task for task in settings["tasks"] if task not in REPORTED)),
        ("Shortcuts", str(content.get("shortcuts", ""))),
        ("Machine", f"{machine.get('processor')}, {machine.get('cores')} cores, Python {machine.get('python')}"),
        ("Packages", packages),
        ("Commit", str(machine.get("commit"))),
        *([("Changed since", str(content["since"]))] if "since" in content else []),
        ("Time", f"{sum(run['seconds'] for run in content['runs']):.0f} s"),
        ("Command", f"sotto bench run {NAME} --seeds {settings['seeds']} --queries {settings['queries']}"),
    ]


def _again(frontier: Frontier) -> Iterator[str]:
    """Which methods were measured again after a change, and where."""
    seeds: dict[tuple[str, str], dict[str, int]] = {}
    for run in frontier.content["runs"]:
        for method in (name for name in run.get("methods", ()) if name in frontier.fitters):
            of_task = dict.fromkeys(run["tasks"], int(run["seeds"]))
            seeds.setdefault((method, " and ".join(run["names"])), {}).update(of_task)
    alike: dict[tuple[str, tuple[tuple[str, int], ...]], list[str]] = {}
    for (method, names), counts in seeds.items():
        alike.setdefault((names, tuple(sorted(counts.items()))), []).append(method)
    usual = int(frontier.content["settings"]["seeds"])
    for (names, tasks), methods in alike.items():
        on = ", ".join(f"{task} ({count} seeds)" if count < usual else task for task, count in tasks)
        left = [task for task, kind in frontier.kinds if kind in names and task not in dict(tasks)]
        rest = f"; on {', '.join(dict.fromkeys(left))} their figures are of before" if left else ""
        yield f"Measured again: {' and '.join(methods)}, changed since, under {names} label names on {on}{rest}."


def main(argv: Sequence[str]) -> None:
    """Writes the compact file, the page and its figures from the result of a run."""
    parser = argparse.ArgumentParser(prog="python -m sottovoce.benchmarks.frontier.page")
    parser.add_argument("--results", type=Path, help="folder with frontier*.json, in subfolders too")
    parser.add_argument(
        "--again", type=Path, help="folder with frontier*.json of '--methods': their lines take the others' place"
    )
    parser.add_argument("--file", type=Path, help="with --again: the compact file, where it is another than the page's")
    parser.add_argument("--out", type=Path, required=True, help="folder; without --results its own file is shown again")
    args = parser.parse_args(list(argv))
    file, page, figures = args.out / f"{NAME}.json", args.out / "pay-once.md", args.out / "pay-once"
    if args.results:
        grid = compact([Result.read(found) for found in sorted(args.results.rglob(f"{NAME}*.json"))])
        file.parent.mkdir(parents=True, exist_ok=True)
        write_new(file, as_text(grid), replaces=_is_compact)
    if args.again:
        again = [Result.read(found) for found in sorted(args.again.rglob(f"{NAME}*.json"))]
        one = args.file or file
        write_new(one, as_text(renewed(Frontier.read(one).content, again)), replaces=_is_compact)
    others = [Frontier.read(other) for other in sorted(args.out.glob(f"{NAME}-*.json"))]
    shown = [section_of(Frontier.read(file), others)]
    refuse_existing(page, begins_as(OPENINGS["md"]))
    draw_all(shown, figures)
    title, introduction = family_of(shown)
    write_markdown(shown, page, title=title, introduction=introduction, figures=figures)
    write_report(shown, figures / "report.html", title=title, introduction=introduction)
    print(f"Written: {file}, {file.stat().st_size / 1000:.0f} kB, and {page}")


def _is_compact(file: Path) -> bool:
    try:
        Frontier.read(file)
    except InputError:
        return False
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
