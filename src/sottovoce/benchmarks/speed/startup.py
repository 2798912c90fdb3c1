"""Processor seconds of commands from their start to their end, and texts a processor second of the built-in encoder.

    sotto bench run startup [--out FILE.json]

Every command runs in a process of its own, on the bundled tickets, with a store of its own; the figure is the median of
its runs, user and system time. ``first ask`` embeds all tickets, ``second ask`` finds their embeddings. As after an
installation, compiled modules are kept, whatever PYTHONDONTWRITEBYTECODE says. ``encoder`` loads the encoder and embeds
bundled tickets, in one process: seconds until it is loaded, imports included, and texts a second after that. Other work
on the machine slows all of this by up to twofold.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.data.bundled import tickets_file
from sottovoce.errors import ModelError, ParameterError
from sottovoce.files.outputs import unused, write_new

TEXTS: Final = 200
QUESTION: Final = "My card was charged twice."
Row = dict[str, Any]


def commands(ledger: str) -> dict[str, list[str]]:
    """What is typed, by name, in the order of a first use; a ``second`` command needs what the first left."""
    ask = ["ask", QUESTION, "--private", str(tickets_file("private.jsonl")), "--task", "tickets", "--epsilon", "0.01"]
    return {
        "help": ["--help"],
        "methods": ["methods"],
        "plan": ["plan", "--records", "400", "--questions", "100", "--task", "tickets"],
        "first ask": [*ask, "--ledger", ledger],
        "second ask": [*ask, "--ledger", ledger],
        "ledger show": ["ledger", "show", ledger],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and writes one JSON file if asked."""
    parser = argparse.ArgumentParser(prog="sotto bench run startup", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=unused, help="JSON file to write")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each command")
    parser.add_argument("--texts", type=int, default=TEXTS, help="for the encoder")
    args = parser.parse_args(argv)
    if args.repeats < 1:
        raise ParameterError("--repeats", args.repeats, "1 or more")
    if not 1 <= args.texts <= 440:
        raise ParameterError("--texts", args.texts, "from 1 to 440, the number of bundled tickets")
    with tempfile.TemporaryDirectory() as folder:
        report: Row = {
            "machine": describe(),
            "settings": {"repeats": args.repeats, "texts": args.texts},
            "commands": _commands(Path(folder), args.repeats),
            "encoder": _encoder(Path(folder), args.texts),
        }
    print(as_text(report))
    if args.out:
        write_new(args.out, json.dumps(report, indent=1) + "\n")
    return 0


def as_text(report: Row) -> str:
    """The figures as a plain table."""
    lines = [f"{'command':<14} {'processor seconds':>18}"]
    lines += [f"{name:<14} {row['processor_seconds']:>18.2f}" for name, row in report["commands"].items()]
    encoder = report["encoder"]
    return "\n".join(
        [
            *lines,
            f"encoder: loaded in {encoder['load_seconds']} s, {encoder['texts_a_second']} texts a processor second",
        ]
    )


def _commands(folder: Path, repeats: int) -> Row:
    typed = commands(str(folder / "ledger.db"))
    _run(folder, typed["help"])  # compiles what is not compiled yet
    rows = {}
    for name, words in typed.items():
        seconds = [_run(folder, words) for _ in range(1 if name.startswith("first") else repeats)]
        rows[name] = {
            "processor_seconds": round(statistics.median(seconds), 3),
            "least": round(min(seconds), 3),
            "most": round(max(seconds), 3),
        }
    return rows


def _run(folder: Path, words: Sequence[str]) -> float:
    """The processor seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = _process(folder, "from sottovoce.cli import main; main()", *words)
    if done.returncode:
        raise ModelError(f"The command {words[0]!r} ended with exit code {done.returncode}.")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _encoder(folder: Path, texts: int) -> Row:
    """What ``measure`` prints in a process of its own."""
    done = _process(folder, _MEASURE, str(tickets_file("private.jsonl")), str(texts))
    if done.returncode:
        raise ModelError("The encoder could not be measured.")
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def _process(folder: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**environment, "SOTTOVOCE_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"},
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


_MEASURE: Final = """
import json, sys, time
from sottovoce.models.embedded.sentence_encoder import SentenceEncoder
encoder = SentenceEncoder()
encoder.load()
loaded = time.process_time()
with open(sys.argv[1], encoding="utf-8") as file:
    texts = [json.loads(line)["text"] for line in file][: int(sys.argv[2])]
encoder.encode(texts[:1])
begun = time.process_time()
encoder.encode(texts)
rate = len(texts) / (time.process_time() - begun)
print(json.dumps({"load_seconds": round(loaded, 2), "texts_a_second": round(rate, 1)}))
"""
"""Runs with the standard library's clock alone, so that nothing is imported before the encoder is."""
