"""From result files to one report: a page that needs nothing else, Markdown, and every figure as PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sottovoce.benchmarks.exhibits import Exhibit
from sottovoce.benchmarks.experiment import Result
from sottovoce.benchmarks.plots import draw_all
from sottovoce.benchmarks.report import write_markdown, write_report
from sottovoce.benchmarks.runner import MODULES, load_experiment
from sottovoce.errors import InputError

INTRODUCTION = (
    "Every released answer counts with its exact probability under the method's law; spreads are standard errors over "
    "seeds, that is over draws of records, questions and made-up names.",
    "All methods of a table have the same epsilon and adjacency. Under replace-one a selection has half the exponent "
    "of add-remove with one record an expert. delta is 1e-5 for votes with Gaussian noise and for PbS, else 0.",
    "Zero-shot reads no record and is free. Full context, soft sum and hard votes have no guarantee.",
)


def exhibits(folder: Path) -> list[Exhibit]:
    """What the result files of a folder show, in the order of ``sotto bench list``.

    Raises:
        InputError: There is none.
    """
    found = []
    for file in sorted(folder.glob("*.json")):
        try:
            result = Result.read(file)
        except InputError:
            continue
        if result.experiment in MODULES:
            found.append(result)
    if not found:
        raise InputError(f"There are no results in {str(folder)!r}. Run 'sotto bench run poetry' first.")
    order = list(MODULES)
    found.sort(key=lambda result: (order.index(result.experiment), result.settings.model))
    return [load_experiment(result.experiment).exhibit(result) for result in found]


def gather(folder: Path, out: Path, *, figures: Path | None = None, markdown: Path | None = None) -> list[Path]:
    """Writes the report.

    Args:
        folder: Of the result files.
        out: The page to write.
        figures: Folder for PNG and SVG files.
        markdown: A Markdown page to write, which links the PNG files.

    Returns:
        What was written.

    Raises:
        InputError: There are no results.
        MissingExtraError: matplotlib is not installed.
    """
    shown: Sequence[Exhibit] = exhibits(folder)
    title = "Private PoEtry, measured"
    written = [out]
    out.parent.mkdir(parents=True, exist_ok=True)
    write_report(shown, out, title=title, introduction=INTRODUCTION)
    if figures:
        written += draw_all(shown, figures)
    if markdown:
        written.append(markdown)
        write_markdown(shown, markdown, title=title, introduction=INTRODUCTION, figures=figures or out.parent)
    return written
