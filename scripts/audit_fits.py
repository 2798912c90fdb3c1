"""Audits what fits release, on made-up canaries, and writes what was found.

    python scripts/audit_fits.py --out docs/results/audit-fits.json --page docs/results/audit-fits.md [--seeds 5]

For every fitter and relation: the 95 % lower bound on epsilon of the fit as it is, and how often the same audit refutes
the claim of a fit that has less noise than it claims.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sottovoce.audits.fits import AuditedFit, LabelAttack, TextAttack, VectorAttack, audit_fit, with_fitter
from sottovoce.methods.base import Price
from sottovoce.methods.choice import Choice
from sottovoce.methods.class_means import ClassMeans
from sottovoce.methods.dp_logistic import DpLogistic
from sottovoce.methods.label_public import LabelPublic
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness

PRICE = Price(4.0, 1e-6)


@dataclass(frozen=True)
class Case:
    """One audit: an attack at a price, how often it runs, and how much of its noise a broken fit has."""

    attack: Any
    parameter: str
    runs: int
    guesses: int
    factor: float

    def broken(self) -> Any:
        """The same attack on a fit with less noise than it claims."""
        value = getattr(self.attack.plan.fitter, self.parameter)
        return with_fitter(self.attack, **{self.parameter: value * self.factor})


def cases(price: Price = PRICE) -> Iterator[Case]:
    """Every audit; the numbers of runs and guesses were chosen on other seeds than those that are reported."""
    for adjacency in Adjacency:
        yield Case(VectorAttack.on(ClassMeans(), price, adjacency), "sigma", 200, 800, 0.5)
        yield Case(VectorAttack.on(DpLogistic(), price, adjacency, margin=True), "sigma", 30, 240, 0.25)
        choice = TextAttack.on(Choice(k=1), price, adjacency)
        swaps = adjacency is Adjacency.REPLACE_ONE
        yield Case(choice, "rate", 300, 300 * choice.drawn, 3.0 if swaps else 2.0)
        label = LabelAttack.on(LabelPublic(texts=1), price, adjacency)
        yield Case(label, "rate", 4000, 4000 if swaps else 600, 3.0 if swaps else 2.0)


def measure(case: Case, seeds: range, told: Callable[[str], None]) -> dict[str, Any]:
    """Both audits over seeds."""
    found: dict[str, list[AuditedFit]] = {"as it is": [], "with less noise": []}
    started = time.perf_counter()
    for which, attack in (("as it is", case.attack), ("with less noise", case.broken())):
        for seed in seeds:
            draws, noise = np.random.default_rng(seed), SeededRandomness(seed)
            found[which].append(audit_fit(attack, case.runs, draws, noise, guesses=case.guesses))
    sound, broken = found.values()
    result = {
        **{name: getattr(sound[0], name) for name in ("method", "adjacency", "epsilon", "delta", "runs", "canaries")},
        "guesses": case.guesses,
        "seeds": len(seeds),
        "right": float(np.mean([one.correct / one.guesses for one in sound])),
        "lower_bound_mean": float(np.mean([one.lower_bound for one in sound])),
        "lower_bound_most": max(one.lower_bound for one in sound),
        "refuted": sum(one.refuted for one in sound),
        "broken": f"{case.parameter} times {case.factor:g}",
        "broken_lower_bound_mean": float(np.mean([one.lower_bound for one in broken])),
        "broken_refuted": sum(one.refuted for one in broken),
        "seconds_an_audit": round((time.perf_counter() - started) / 2 / len(seeds), 2),
    }
    told(json.dumps(result))
    return result


def page(results: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    seeds = results[0]["seeds"]
    lines = [
        "# What fits release, audited",
        "",
        "Written by `python scripts/audit_fits.py`; the numbers are in `audit-fits.json`, the method in "
        "`sottovoce.audits.fits` and [specification](../specification.md) 10.5.",
        "",
        "Canaries are made-up records, each private or not by a coin of its own (`replace-one`: one of two records; "
        "`zero-out`: a record or a blank one). The attack sees the released support alone and guesses on the canaries "
        f"that it is surest of. Each row is {seeds} audits with other seeds; a bound is the 95 % lower bound on "
        "epsilon of one audit. The last two columns are the same audit of a fit with less noise than it claims.",
        "",
        "A bound below the claim proves nothing: it says what these attacks find. Of a sound fit at most one audit in "
        "twenty may refute its claim, and only where the attack attains the claim.",
        "",
        "| method | adjacency | claimed epsilon | canaries | guesses | right | bound, mean | bound, most "
        "| claim refuted | broken fit | broken fit, bound, mean | broken fit, refuted |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for r in results:
        lines.append(
            f"| {r['method']} | {r['adjacency']} | {r['epsilon']:g} | {r['canaries']:,} | {r['guesses']:,} "
            f"| {100 * r['right']:.1f} % | {r['lower_bound_mean']:.2f} | {r['lower_bound_most']:.2f} "
            f"| {r['refuted']} of {r['seeds']} | {r['broken']} | {r['broken_lower_bound_mean']:.2f} "
            f"| {r['broken_refuted']} of {r['seeds']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Reads the arguments, measures, writes."""
    parser = argparse.ArgumentParser(description="Audits what fits release.")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--page", type=Path, required=True, help="Markdown file to write")
    parser.add_argument("--seeds", type=int, default=5, help="audits of each kind")
    parser.add_argument("--first-seed", type=int, default=1000)
    arguments = parser.parse_args()
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    results = [measure(case, seeds, lambda line: print(line, flush=True)) for case in cases()]
    arguments.out.write_text(json.dumps({"audits": results}, indent=1) + "\n", "utf-8")
    arguments.page.write_text(page(results), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
