"""What audits find: known-broken mechanisms and their sound twins, bounds of one run, runs needed, exact leakage.

    sotto bench run audit-power [--audits 100] [--out FILE.json] [--page FILE.md]

``flags``: every mechanism of ``sottovoce.audits.broken`` audited many times, flawed and sound, each time with fresh
runs, a threshold chosen on one half of them and the claim's own curve tested on the other at 99 %. ``one_run``: three
lower bounds on epsilon from the same right guesses, at mu .5, 1,000 canaries, delta 1e-5, where the attack does as well
as Gaussian noise allows. ``coverage``: how often those bounds exceed the truth when canaries are independent, and when
the release ties them to each other within its claim. ``runs``: how many runs of each world catch a release that leaks
too much. ``exact``: the largest loss over all single changes of a small world, for every method with an exact law.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from sottovoce.audits.bounds import epsilon_of_one_run
from sottovoce.audits.broken import known_mechanisms, p_value
from sottovoce.audits.exact.coverage import coverage
from sottovoce.audits.exact.labels import LabelWorld, worst_label_pair
from sottovoce.audits.exact.texts import TokenWorld, worst_token_pair
from sottovoce.audits.one_run import (
    curve_refuted,
    epsilon_of_gaussian_run,
    epsilon_of_gaussian_trials,
    independent_p_value,
)
from sottovoce.audits.power import MOST_RUNS, POWERS, forecast
from sottovoce.audits.tradeoff import TradeOff
from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.errors import ParameterError
from sottovoce.files.outputs import unused, write_new
from sottovoce.methods.base import Price, make_method
from sottovoce.methods.decoding.decoder import make_decoder
from sottovoce.methods.pbs import sampled_event
from sottovoce.privacy.accounting.gaussian_dp import epsilon_of_mu
from sottovoce.privacy.events import BoundedRange, DpEvent, GaussianDpEvent, PureDP, ZCDpEvent
from sottovoce.privacy.events import describe as named
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import Adjacency

ALPHA: Final = 0.01
MU, CANARIES, DELTA = 0.5, 1000, 1e-5
GUESSES: Final = (20, 50, 100, 200, 500, 1000)
EPSILONS: Final = (1.0, 2.0, 4.0, 8.0)
CLAIMS: Final[tuple[tuple[DpEvent, float], ...]] = (
    (BoundedRange(1.0), 0.0),
    (BoundedRange(4.0), 0.0),
    (PureDP(1.0), 0.0),
    (GaussianDpEvent(2.0), DELTA),
    (ZCDpEvent(0.125), DELTA),
    (sampled_event(0.04, 100, 2.0, Adjacency.ADD_REMOVE), DELTA),
)
"""The last two are those of noisy votes and of prediction by subsampling: no release is on their curves."""
TIED: Final = (0.2, 0.88)
"""How often a release leaks about all canaries together, and how often its answer about each is right then."""
LABEL_ROWS: Final = np.array([[0.0, -50.0, -50.0], [-50.0, 0.0, -50.0], [0.0, -1.0, -9.0], [-0.3, -1.5, -4.0]])
LABEL_PUBLIC: Final = np.array([-0.1, -3.0, -3.5])
TOKEN_ROWS: Final = np.array([[60.0, 0.0, 0.0, 1.0], [0.0, 60.0, 0.0, 1.0], [0.0, 0.0, 2.0, 1.0], [1.0, 0.5, 0.0, 0.0]])
TOKEN_PUBLIC: Final = np.array([0.5, 0.0, -1.0, 0.2])
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints tables, and writes a JSON file and a page if asked."""
    parser = argparse.ArgumentParser(prog="sotto bench run audit-power", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=unused, help="JSON file to write")
    parser.add_argument("--page", type=unused, help="Markdown page to write")
    parser.add_argument("--audits", type=int, default=100, help="audits of each mechanism, flawed and sound")
    args = parser.parse_args(argv)
    if args.audits < 1:
        raise ParameterError("--audits", args.audits, "1 or more")
    started = time.perf_counter()
    report: Row = {
        "machine": describe(),
        "settings": {"audits": args.audits, "alpha": ALPHA},
        "flags": [*flags(args.audits)],
        "one_run": [*one_run()],
        "coverage": [*covered(10 * args.audits)],
        "runs": [*runs()],
        "exact": [*exact()],
        "without": [{"name": row.name, "kind": row.kind, "reason": row.reason} for row in coverage() if row.reason],
    }
    report["seconds"] = round(time.perf_counter() - started, 1)
    text = page(report)
    print(text)
    if args.out:
        write_new(args.out, json.dumps(report, indent=1) + "\n")
    if args.page:
        write_new(args.page, text)
    return 0


def flags(audits: int) -> Iterator[Row]:
    """How many audits refute each claim, of the flawed release and of the sound one."""
    for name, mechanism in known_mechanisms().items():
        counts = {
            kind: sum(
                p_value(mechanism, np.random.default_rng([seed, flawed]), flawed=flawed) <= ALPHA
                for seed in range(audits)
            )
            for kind, flawed in (("flagged", True), ("false_alarms", False))
        }
        yield {
            "name": name,
            "flaw": mechanism.flaw,
            "claim": named(mechanism.event),
            "adjacency": mechanism.adjacency.value,
            "runs": mechanism.runs,
            **counts,
        }


def one_run() -> Iterator[Row]:
    """Three bounds from as many right guesses as Gaussian noise allows on average."""
    curve = TradeOff.of_mu(MU)
    for guesses in GUESSES:
        share = float(curve.confident(np.array(guesses / CANARIES)))
        correct = round(guesses * share)
        yield {
            "guesses": guesses,
            "correct": correct,
            "pair": epsilon_of_one_run(CANARIES, guesses, correct, DELTA),
            "curve": epsilon_of_gaussian_run(CANARIES, guesses, correct, DELTA),
            "independent": epsilon_of_gaussian_trials(CANARIES, guesses, correct, DELTA),
            "truth": epsilon_of_mu(MU, DELTA),
        }


def covered(runs: int) -> Iterator[Row]:
    """How often each test refutes a true curve at 5 %, of 100 guesses and of all."""
    gaussian, tied = TradeOff.of_mu(MU), _tied()
    cases: tuple[tuple[str, TradeOff, Callable[[np.random.Generator, int], int], int], ...] = (
        ("independent canaries, Gaussian noise", gaussian, _gaussian_guesses, 100),
        ("canaries tied together within the claim", tied, _tied_guesses, CANARIES),
    )
    for name, curve, draw, guesses in cases:
        drawn = [draw(np.random.default_rng([seed, 7]), guesses) for seed in range(runs)]
        tests: dict[str, Callable[[int], bool]] = {
            "curve": lambda v, c=curve, r=guesses: curve_refuted(CANARIES, r, v, c),  # type: ignore[misc]
            "independent": lambda v, c=curve, r=guesses: independent_p_value(CANARIES, r, v, c) <= 0.05,  # type: ignore[misc]
        }
        refuted = {test: {v: check(v) for v in set(drawn)} for test, check in tests.items()}
        shares = {test: sum(known[v] for v in drawn) / runs for test, known in refuted.items()}
        yield {"release": name, "runs": runs, "guesses": guesses, **shares}


def runs() -> Iterator[Row]:
    """Runs of each world with which rates catch a leak, at 95 %."""
    for event, delta in CLAIMS:
        for row in forecast(event, Adjacency.ADD_REMOVE, 100, 100, delta):
            yield {"claim": named(event), "delta": delta, **row.as_dict()}


def exact() -> Iterator[Row]:
    """The largest loss over all single changes of a small world."""
    with_law = [row for row in coverage() if row.reason is None and row.kind in ("label", "token")]
    for row in with_law:
        for adjacency in Adjacency:
            for epsilon in EPSILONS:
                price = Price(epsilon, 1e-6)
                if row.kind == "label":
                    world = LabelWorld(LABEL_ROWS, LABEL_PUBLIC)
                    worst = worst_label_pair(make_method(row.name), world, price, adjacency)
                else:
                    tokens = TokenWorld(TOKEN_ROWS, TOKEN_PUBLIC)
                    worst = worst_token_pair(make_decoder(row.name), tokens, price, adjacency)
                yield {
                    "name": row.name,
                    "kind": row.kind,
                    "adjacency": adjacency.value,
                    "epsilon": epsilon,
                    "max_loss": worst.pair.max_loss,
                    "total_variation": worst.pair.total_variation,
                    "tried": worst.tried,
                    "excess": worst.excess,
                }


def page(report: Row) -> str:
    """The figures as Markdown."""
    audits = report["settings"]["audits"]
    lines = [
        "# What audits find",
        "",
        "Written by `sotto bench run audit-power`; the numbers are in `audit-power.json`, the arguments in "
        "[audits](../proofs/audits.md) and [specification](../specification.md) 10.",
        "",
        "## Known-broken mechanisms",
        "",
        f"Each release is audited {audits} times as it is, and {audits} times as it should be: fresh runs with a fair "
        "coin each, a threshold chosen on half of them, the claim's own trade-off curve tested on the other half at "
        "99 %.",
        "",
        "| mechanism | what is wrong | claim | adjacency | runs | flagged | false alarms of its sound twin |",
        "|---|---|---|---|---:|---:|---:|",
        *(
            f"| {row['name']} | {row['flaw']} | `{_short(row['claim'])}` | {row['adjacency']} | {row['runs']:,} | "
            f"{row['flagged']} of {audits} | {row['false_alarms']} of {audits} |"
            for row in report["flags"]
        ),
        "",
        "## Many canaries and one run",
        "",
        f"95 % lower bounds on epsilon at delta {DELTA:g} from the same guesses: mu {MU:g}, {CANARIES:,} canaries, as "
        f"many right guesses as Gaussian noise allows on average. The truth is "
        f"{rounded_up(report['one_run'][0]['truth'])}. The second and third are statements about Gaussian noise; the "
        "third holds where every canary has a trial of its own.",
        "",
        "| guesses | right | (epsilon, delta) pair | trade-off curve | independent trials |",
        "|---:|---:|---:|---:|---:|",
        *(
            f"| {row['guesses']:,} | {row['correct']:,} | {row['pair']:.3f} | {row['curve']:.3f} | "
            f"{row['independent']:.3f} |"
            for row in report["one_run"]
        ),
        "",
        f"How often a true curve is refuted at 5 %. The tied release leaks about all canaries together in "
        f"{100 * TIED[0]:.0f} % of its runs, and says nothing in the others; its curve covers that. The test for "
        "independent trials does not hold for it.",
        "",
        "| release | runs | guesses | trade-off curve | independent trials |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {row['release']} | {row['runs']:,} | {row['guesses']:,} | {100 * row['curve']:.1f} % | "
            f"{100 * row['independent']:.1f} % |"
            for row in report["coverage"]
        ),
        "",
        "## Runs needed",
        "",
        "Runs of each world with which an audit by rates refutes the claim at 95 %, for a release that leaks more and "
        "the best threshold: exact binomial sums. The power is that of 100 runs of each world.",
        "",
        "| claim | leak | power of 100 | " + " | ".join(f"runs for {power:g}" for power in POWERS) + " |",
        "|---|---|---:|" + "---:|" * len(POWERS),
        *(
            f"| `{row['claim']}` | {row['leak']} | {row['power']:.2f} | "
            + " | ".join(f"{n:,}" if n else f"over {MOST_RUNS:,}" for n in row["runs"].values())
            + " |"
            for row in report["runs"]
        ),
        "",
        "## Exact leakage",
        "",
        "The largest privacy loss over every single change of four experts, from closed forms; the price of one label "
        f"or token is epsilon at delta 1e-6. {_verdict(report['exact'])} A pair loses less than epsilon where these "
        "experts cannot reach the width that is paid for, or where the price is that of a curve with a delta.",
        "",
        "| method | adjacency | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |",
        "|---|---|" + "---:|" * len(EPSILONS),
        *_exact_lines(report["exact"]),
        "",
        "Without an exact law: " + "; ".join(f"`{row['name']}` ({row['reason']})" for row in report["without"]) + ".",
        "",
    ]
    return "\n".join(lines)


def _verdict(rows: Sequence[Row]) -> str:
    broken = [f"{row['name']} under {row['adjacency']}: {row['excess']}" for row in rows if row["excess"]]
    return f"**Beyond the event: {'; '.join(broken)}.**" if broken else "No pair goes beyond its event."


def _short(text: str) -> str:
    """Long numbers to four digits."""
    return re.sub(r"\d+\.\d{5,}", lambda number: f"{float(number[0]):.4g}", text)


def _exact_lines(rows: Sequence[Row]) -> Iterator[str]:
    for name, adjacency in dict.fromkeys((row["name"], row["adjacency"]) for row in rows):
        own = [row for row in rows if (row["name"], row["adjacency"]) == (name, adjacency)]
        yield f"| {name} | {adjacency} | " + " | ".join(f"{row['max_loss']:.3f}" for row in own) + " |"


def _tied() -> TradeOff:
    """The curve of one canary of the tied release: with a known chance randomised response, else nothing."""
    often, right = TIED
    return TradeOff.of_points([(0.0, often * (2 * right - 1)), (float(np.log(right / (1 - right))), 0.0)])


def _tied_guesses(draws: np.random.Generator, guesses: int) -> int:
    often, right = TIED
    return int(draws.binomial(guesses, right if draws.random() < often else 0.5))


def _gaussian_guesses(draws: np.random.Generator, guesses: int) -> int:
    present = draws.random(CANARIES) < 0.5
    apart = MU * (present - 0.5) + draws.standard_normal(CANARIES)
    surest = np.abs(apart).argsort()[::-1][:guesses]
    return int(((apart > 0) == present)[surest].sum())
