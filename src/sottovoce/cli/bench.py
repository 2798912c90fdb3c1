"""``sotto bench list|run|report``: experiments and speed measurements, each a module of ``sottovoce.benchmarks``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, put_text, say, table
from sottovoce.cli.outputs import NewFile

PAPER = {
    "poetry": "Private PoEtry: all of the following up to prior-poe, one after another",
    "poetry-table1": "Table 1: news topics, ontology classes, question types, by every method",
    "poetry-table2": "Table 2: first digit of a grade-school answer",
    "poetry-table3": "Table 3: pictures with made-up names",
    "poetry-table4": "Table 4: membership attack, on scores and on released answers",
    "poetry-soft-hard": "soft against hard predictions",
    "poetry-records": "accuracy by number of records, 1 to 64",
    "poetry-clip": "accuracy by clip",
    "poetry-groups": "accuracy by records an expert",
    "poetry-epsilon": "accuracy by epsilon, 0.25 to 8",
    "poetry-time": "time of an answer by method",
    "prior-choice": "prior x PoE: clip and weight, chosen on public tasks",
    "prior-poe": "prior x PoE on tasks that it never met, and on uneven labels",
    "plan-grid": "every method, group and clip at every price: what 'sotto plan' advises from; not part of poetry",
    "frontier": "pay once or pay an answer: every method at one total price, by the number of questions; --quick",
    "real-checkpoint": "a published checkpoint: the papers' claims, with and without calibration; fits beside",
    "checkpoint-fits": "a published checkpoint as embedder and as writer: class means, choice, evolve",
    "prism": "private synthetic examples: all of the following, one after another",
    "prism-kshot": "synthetic demonstrations by every decoding method: accuracy in context, 1 to 12 shots",
    "prism-records": "synthetic demonstrations by the number of private records",
    "prism-knobs": "one setting at a time: clip, temperature, candidates, length, records",
    "prism-slots": "slot filling from synthetic rows: movie genres and directors, exact match",
    "prism-structured": "JSON records of films: how many are valid, free and under a grammar",
    "prism-extraction": "attack: addresses in what was written, against the undefended model",
    "prism-membership": "attack: was this record the demonstration, or among those that wrote it?",
    "answers": "private long answers: all of the following, one after another",
    "answers-methods": "long answers by every method, price and source of public data; one private choice beside them",
    "answers-shots": "long answers by the private pairs that an expert sees",
    "answers-time": "time of a long answer by the number of experts, with kept answers and without",
    "answers-pools": "what public data has to be: wrong pairs, other sources, coresets",
    "answers-accounting": "the published accounting of samples and clusterings beside the right figure",
    "answers-repeat": "attack: does an answer repeat private pairs? full context, no noise, private methods",
    "answers-documents": "questions about receipts: quality and exact leakage of ESA by epsilon",
    "contextleak": "what answers give away: all of the following, one after another",
    "contextleak-methods": "every private method: measured lower bound and exact leakage against the proof; --quick",
    "contextleak-grid": "canaries by questions: no privacy, votes, PoE; --quick",
    "contextleak-defences": "prompt defences and a judge against injection, private methods beside; utility; --quick",
    "contextleak-utility": "leakage and utility by epsilon, examples an expert, number of experts; --quick",
    "contextleak-esa": "ESA by examples an expert, number of experts, reruns: exact leakage and quality; --quick",
    "contextleak-wordings": "a search over wordings of the attack, reported on a split of its own; --quick",
    "contextleak-copying": "a model that writes: is a canary or an address copied out of its prompt? L0 to L3; --quick",
    "contextleak-snapshots": "exact leakage beside an estimate from redrawn noise, and two published flaws; --quick",
}
"""Experiments with common options, resumable: those of papers, and our own upgrades."""

OTHERS = {
    "classification": (
        "studies.classification",
        "every method on public rows of a task, beside references without noise; no ledger is kept",
    ),
    "in-context": ("studies.in_context", "embedded model, real and made-up labels: does it use the examples?"),
    "clustering": (
        "studies.clustering",
        "private clustering of embeddings and mixtures: what it finds, in which coordinates",
    ),
    "audit-power": (
        "studies.audit_power",
        "audits on known-broken mechanisms and their sound twins; bounds, power and exact leakage; under five minutes",
    ),
    "noise": ("speed.noise", "samplers at up to 260,000 candidates, beside OpenDP's: milliseconds a draw"),
    "hf-cache": ("speed.hf_cache", "hf: models, prefixes kept against recomputed: answers a second"),
    "label-rows": ("speed.label_rows", "hf: models, labels by rows a pass, beside a plain pass: tokens a second"),
    "startup": ("speed.startup", "processor seconds of commands, start to end; texts a second of the encoder"),
    "fit-size": ("speed.fit_size", "fits of up to a million rows: peak memory; rows a second by one core, two, Ray"),
    "lockstep": ("speed.lockstep", "prompts that write in lockstep, beside plain loops: milliseconds a token"),
    "gpu-experts": (
        "speed.gpu_experts",
        "an accelerator: experts a second in the shape of Qwen3-4B, share of its peak",
    ),
}
"""Measurements with options of their own."""


def add_to(app: typer.Typer) -> None:
    """Adds the group."""
    group = typer.Typer(help="Experiments and speed measurements.", no_args_is_help=True)
    group.command("list")(list_experiments)
    group.command(
        "run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    )(run)
    group.command("report")(report)
    app.add_typer(group, name="bench")


def list_experiments(as_json: o.AsJson = False) -> None:
    """List the experiments."""
    others = {name: what for name, (_, what) in OTHERS.items()}
    if as_json:
        put({"papers": PAPER, "others": others})
        return
    table("Experiments of papers", ["name", "what it measures"], [[name, what] for name, what in PAPER.items()])
    table("Others", ["name", "what it measures"], [[name, what] for name, what in others.items()])


def run(context: typer.Context, name: Annotated[str, typer.Argument(help="A name from 'sotto bench list'.")]) -> None:
    """Run one experiment; further arguments are its own (add --help after its name).

    Experiments of a paper take --model, --seeds, --queries, --adjacency, --epsilon, --records, --tasks, --results and
    more. An interrupted one goes on where it stopped.
    """
    from importlib import import_module

    from sottovoce.errors import ParameterError
    from sottovoce.parameters import nearest
    from sottovoce.terminal import printable

    if name in ("--help", "-h"):
        for line in context.get_help().splitlines():
            put_text(line)
        return
    if unsafe := [word for word in context.args if printable(word) != word]:
        raise ParameterError("argument", unsafe[0], "without control characters")
    if name in PAPER:
        from sottovoce.benchmarks.harness.runner import main

        main(name, context.args)
    elif name in OTHERS:
        import_module(f"sottovoce.benchmarks.{OTHERS[name][0]}").main(context.args)
    else:
        known = [*PAPER, *OTHERS]
        raise ParameterError("experiment", name, f"one of {', '.join(known)}{nearest(name, known)}")


def report(
    results: Annotated[Path, typer.Option("--results", help="Folder of the result files.")] = Path("bench-results"),
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=NewFile(makes_folder=True), help="The page. Default: report.html beside the results."
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            parser=NewFile(makes_folder=True),
            help="Folder for PNG and SVG. Default: figures beside the results.",
        ),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", parser=NewFile(makes_folder=True), help="A Markdown page too.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Make one self-contained HTML page of all results, and every figure as PNG and SVG."""
    from sottovoce.benchmarks.reporting.collect import collect

    written = collect(
        results, out or results / "report.html", figures=figures or results / "figures", markdown=markdown
    )
    if as_json:
        put({"written": [str(file) for file in written]})
        return
    say(f"Written: {written[0]} and {len(written) - 1} other files")
