"""From result files to one report: a page that needs nothing else, Markdown, and every figure as PNG and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sottovoce.benchmarks.harness.experiment import Result
from sottovoce.benchmarks.harness.results import ReportSection
from sottovoce.benchmarks.harness.runner import MODULES, load_experiment
from sottovoce.benchmarks.reporting.plots import OPENINGS, draw_all, names_of
from sottovoce.benchmarks.reporting.report import write_markdown, write_report
from sottovoce.errors import InputError
from sottovoce.files.outputs import begins_as, refuse_existing, refuse_protected

POETRY = (
    "Every released answer counts with its exact probability under the method's law; spreads are standard errors over "
    "seeds, that is over draws of records, questions and made-up names.",
    "All methods of a table have the same epsilon and adjacency. Under replace-one a selection has half the exponent "
    "of add-remove with one record an expert. delta is 1e-5 for votes with Gaussian noise and for PbS, else 0.",
    "Zero-shot reads no record and is free. Full context, soft sum and hard votes have no guarantee.",
)
PRISM = (
    "Private records are turned into synthetic ones once, at the stated epsilon and delta of the whole file; what is "
    "done with the file afterwards is free. Spreads are standard errors over seeds, that is over draws of records, "
    "questions, made-up names and noise; intervals of counts are Clopper-Pearson at 95 %.",
    "Public texts are written by the same model from its public prompt alone: synthesis is worth what it adds to "
    "them. Real demonstrations and the undefended model have no guarantee.",
    "Unless a model is named, texts are written by the embedded language model, a stand-in of 15 million parameters "
    "that says little of how a method does on a real model.",
)
PAY_ONCE = (
    "One budget for a data set, and what it is worth: how many right answers, by which method. Methods that pay once "
    "and answer any number of questions stand beside those that pay for every answer, at the same total price.",
    "Zero-shot reads no record and is free. Full context and logistic regression have no privacy. Every answer of a "
    "per-answer method counts with its exact probability; a fit is drawn once a seed. Spreads are standard errors over "
    "seeds, that is over draws of records, questions, made-up names and noise.",
)
CONTEXTLEAK = (
    "What answers give away of the records behind them: attacks with canaries, lower bounds at 95 %, exact leakage "
    "from closed forms, and the proof of each method beside them. Expert outputs of both data sets are computed once "
    "and only the noise is drawn again, except where a method samples records.",
    "A bound below the proof proves nothing by itself: it says what these attacks find. The exact leakage is that of "
    "one pair of data sets and one question. The proof covers every pair, every question and every attacker.",
    "Zero-shot reads no record and is free. Full context and the defences L0 to L3 have no privacy. Class means pay "
    "once for any number of answers. Spreads are standard errors over draws of records and questions.",
)
FAMILIES: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "prism": ("Private synthetic examples, measured", PRISM),
    "frontier": ("Pay once, measured", PAY_ONCE),
    "contextleak": ("What answers give away, measured", CONTEXTLEAK),
    "": ("Private PoEtry, measured", POETRY),
}
"""Title and introduction of a report, by how the names of its experiments begin."""


def family_of(shown: Sequence[ReportSection]) -> tuple[str, list[str]]:
    """Title and introduction for experiments of one paper or of several."""
    families = list(dict.fromkeys(next(f for f in FAMILIES if section.experiment.startswith(f)) for section in shown))
    title = FAMILIES[families[0]][0] if len(families) == 1 else "All experiments, measured"
    return title, [line for family in families for line in FAMILIES[family][1]]


def sections(folder: Path) -> list[ReportSection]:
    """What the result files of a folder show, in the order of ``sotto bench list``.

    Raises:
        InputError: There is none.
    """
    results = []
    for file in sorted(folder.glob("*.json")):
        try:
            result = Result.read(file)
        except InputError:
            continue
        if result.experiment in MODULES:
            results.append(result)
    if not results:
        raise InputError(f"There are no results in {str(folder)!r}. Run 'sotto bench run poetry' or 'prism' first.")
    order = list(MODULES)
    results.sort(key=lambda result: (order.index(result.experiment), result.settings.model))
    return [load_experiment(result.experiment).section(result) for result in results]


def collect(folder: Path, out: Path, *, figures: Path | None = None, markdown: Path | None = None) -> list[Path]:
    """Writes the report.

    Args:
        folder: Of the result files.
        out: The page to write.
        figures: Folder for PNG and SVG files.
        markdown: A Markdown page to write, which links the PNG files.

    Returns:
        What was written.

    Raises:
        InputError: There are no results, or something that is no report is in a report's place.
        MissingExtraError: matplotlib is not installed.
    """
    shown: Sequence[ReportSection] = sections(folder)
    title, introduction = family_of(shown)
    written = [out]
    drawn = [name for section in shown for figure in section.figures for name in names_of(figure, section.experiment)]
    files = [(out, "html"), *([(markdown, "md")] if markdown else [])]
    files += [(figures / name, name.rpartition(".")[2]) for name in drawn] if figures else []
    for file, kind in files:
        refuse_protected(file)
        refuse_existing(file, begins_as(OPENINGS[kind]))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_report(shown, out, title=title, introduction=introduction)
    if figures:
        written += draw_all(shown, figures)
    if markdown:
        written.append(markdown)
        write_markdown(shown, markdown, title=title, introduction=introduction, figures=figures or out.parent)
    return written
