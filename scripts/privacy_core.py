"""Measures the privacy core and writes docs/results/privacy-core.md and .json: prices, speed, and what it survives.

python scripts/privacy_core.py                       prices and speed, about a minute
python scripts/privacy_core.py --survival --races 5  also crashes, tampering, fuzz, torn writes and races
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from sottovoce.benchmarks.harness.hardware import describe  # noqa: E402
from sottovoce.explain import Setting, explain  # noqa: E402
from sottovoce.privacy.accounting.accountant import RdpAccountant, accumulate  # noqa: E402
from sottovoce.privacy.accounting.calibration import calibrate  # noqa: E402
from sottovoce.privacy.events import BoundedRange, PureDP, ZCDpEvent  # noqa: E402
from sottovoce.privacy.unit import Adjacency  # noqa: E402

RESULTS = ROOT / "docs" / "results"
COMPOSITIONS = ((0.1, 100), (0.5, 10), (0.3, 50), (0.05, 400))
PRISM = ((255, 1.02), (380, 1.02), (15, 1.02), (255, 0.131))
POE = ((4, 32), (8, 64), (8, 128))


def priced(method: str, options: dict[str, object], **setting: object) -> dict[str, object]:
    """What ``sotto account`` says."""
    return explain(method, {name: str(value) for name, value in options.items()}, Setting(**setting)).as_dict()


def prices() -> dict[str, object]:
    """The specification's tables, as the accountant has them."""
    composition = [
        {"eta": eta, "steps": steps, **priced("exponential", {"eta": eta, "steps": steps}, delta=1e-5)["add-remove"]}
        for eta, steps in COMPOSITIONS
    ]
    prism = [
        priced("prism", {"clip": 10, "batch": batch, "tokens": 100, "temperature": temperature}, delta=1e-5)
        for batch, temperature in PRISM
    ]
    poe = [
        {
            "epsilon": epsilon,
            "tokens": tokens,
            "basic": epsilon / tokens,
            **{name: _eta(epsilon, tokens, bounds) for name, bounds in (("RDP", ("RDP",)), ("best", ()))},
        }
        for epsilon, tokens in POE
    ]
    return {"composition": composition, "prism": prism, "poe": poe}


def _eta(epsilon: float, tokens: int, bounds: tuple[str, ...]) -> float:
    return calibrate(BoundedRange, epsilon, 1e-6, Adjacency.REPLACE_ONE, tokens, bounds=bounds).parameter


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def speed() -> dict[str, float]:
    """Seconds to price long histories."""
    kinds = [BoundedRange(0.01), BoundedRange(0.02), PureDP(0.01), ZCDpEvent(1e-6), BoundedRange(0.05)]
    many = [kinds[i % len(kinds)] for i in range(1_000_000)]
    return {
        "10,000 equal selections": timed(
            lambda: RdpAccountant(Adjacency.REPLACE_ONE).compose(BoundedRange(0.01), 10_000).report(1e-6)
        ),
        "1,000,000 events of five kinds": timed(lambda: accumulate(many, Adjacency.REPLACE_ONE).report(1e-6)),
    }


def survival(races: int) -> dict[str, object]:
    """Runs the full counts of tests/survival and says what was done; any failure is an AssertionError."""
    import pytest
    from privacy.postgres import Server  # noqa: F401  (imported so that its absence shows here)

    from survival import test_arithmetic, test_copies, test_crashes, test_races, test_tampering
    from survival.crashes import POINTS, Notes, release

    told: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = str(folder / "tickets.db")
        release(path, Notes(folder / "first"), "first")
        for point in POINTS:
            test_crashes.survive(point, path, Notes(folder / "notes"), times=50)
        told["kills"] = {"points": len(POINTS), "times each": 50, "uncovered": 0, "charged twice": 0}
        history = test_tampering.rows_of(test_tampering.eventful(str(folder / "tampered.db")))
        changed, missed = test_tampering.undetected(history, 130_000, seed=2)
        told["tampering"] = {"changes": changed, "undetected": len(missed)}
        files = folder / "files"
        files.mkdir()
        told["flipped bits of the file"] = test_tampering.damaged_files(files, 3_000, seed=5)
        counts = [
            test_arithmetic.spends(budget, 34_000, seed) for budget in test_arithmetic.BUDGETS for seed in range(10)
        ]
        names = ("admitted", "refused for want of budget", "refused as no price")
        told["fuzzed spends"] = {n: sum(c[i] for c in counts) for i, n in enumerate(names)}
        torn = folder / "torn"
        torn.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            told["torn writes"] = test_copies.torn(torn, patch, 1_000, 5)
        seconds = []
        for time_ in range(races):
            start = time.perf_counter()
            test_races.assert_exactly(str(folder / f"race{time_}.db"), admits=10_000, processes=64, tries=1_000)
            seconds.append(round(time.perf_counter() - start, 1))
            print(f"race {time_ + 1}: exactly 10,000 admitted, {seconds[-1]} s", flush=True)
        told["races on SQLite"] = {"runs": races, "processes": 64, "tries each": 1_000, "admitted": 10_000}
        told["races on SQLite"]["seconds"] = seconds
    random.seed()
    return told


def page(found: dict[str, object]) -> str:
    """The figures as a page."""
    lines = [
        "# The privacy core in figures",
        "",
        "Written by `python scripts/privacy_core.py`; the numbers are in `privacy-core.json`. Prices are what",
        "`sotto account` prints.",
        "",
        "## Composition of bounded-range steps, epsilon at delta 1e-5",
        "",
        "| eta, steps | basic | advanced | zCDP short form | zCDP, eta^2/8 | zCDP | RDP | optimal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["prices"]["composition"]:
        b, t = row["bounds"], row["textbook"]
        figures = (
            t["basic"],
            t["advanced"],
            t["zCDP short form"],
            t["zCDP by squares"],
            b["zCDP"],
            b["RDP"],
            b["optimal"],
        )
        lines.append(f"| {row['eta']:g}, {row['steps']} | " + " | ".join(f"{x:.4g}" for x in figures) + " |")
    lines += [
        "",
        "## PRISM, clip 10, 100 tokens, delta 1e-5",
        "",
        "| batch, temperature | eta | the paper's | add-remove RDP / best | replace-one RDP / best |",
        "|---|---|---|---|---|",
    ]
    for row in found["prices"]["prism"]:
        p, ar, ro = row["parameters"], row["add-remove"], row["replace-one"]
        lines.append(
            f"| {p['batch']:g}, {p['temperature']:g} | {ar['eta']:.6f} | {row['paper_epsilon']:.4f} | "
            f"{ar['bounds']['RDP']:.4f} / {ar['epsilon']:.4f} | {ro['bounds']['RDP']:.4f} / {ro['epsilon']:.4f} |"
        )
    lines += [
        "",
        "## PoE over many tokens: the eta of one token that (epsilon, 1e-6) allows",
        "",
        "| epsilon, tokens | basic | by RDP | by the best bound |",
        "|---|---|---|---|",
    ]
    for row in found["prices"]["poe"]:
        lines.append(
            f"| {row['epsilon']}, {row['tokens']} | {row['basic']:.5f} | {row['RDP']:.5f} | {row['best']:.5f} |"
        )
    lines += ["", "## Seconds to price", ""]
    lines += [f"- {what}: {seconds:.3g}" for what, seconds in found["speed"].items()]
    lines += ["", "## Drawing (one core, median and quartiles in ms; `sotto bench run noise`)", ""]
    lines += [
        "| what | candidates | case | ours | OpenDP |",
        "|---|---|---|---|---|",
        *(
            f"| {row['what']} | {row['size']:,} | {row['case']} | {_ms(row['ours'])} | {_ms(row.get('opendp'))} |"
            for row in json.loads((RESULTS / "noise.json").read_text("utf-8"))["rows"]
        ),
    ]
    if "survival" in found:
        lines += ["", "## What it survived", ""]
        lines += [f"- **{what}**: {_told(figures)}" for what, figures in found["survival"].items()]
    lines += ["", f"Machine: {found['machine']['processor']}, {found['machine']['cores']} cores.", ""]
    return "\n".join(lines)


def _ms(row: dict[str, float] | None) -> str:
    return f"{row['median']:.3g} ({row['lower']:.3g} to {row['upper']:.3g})" if row else "–"


def _told(figures: dict[str, object]) -> str:
    return ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in figures.items()
    )


def main() -> None:
    """Measures, and writes both files; keeps an earlier survival run that is not repeated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--survival", action="store_true")
    parser.add_argument("--races", type=int, default=5)
    arguments = parser.parse_args()
    kept = RESULTS / "privacy-core.json"
    earlier = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    found: dict[str, object] = {"machine": describe(), "prices": prices(), "speed": speed()}
    if arguments.survival:
        found["survival"] = survival(arguments.races)
    elif "survival" in earlier:
        found["survival"] = earlier["survival"]
    kept.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    (RESULTS / "privacy-core.md").write_text(page(found), "utf-8")


if __name__ == "__main__":
    main()
