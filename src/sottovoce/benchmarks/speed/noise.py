"""Milliseconds a draw: our exact samplers beside OpenDP's, at one law and one price, on one core.

    sotto bench run noise [--out FILE.json]

Selections in four ways at up to 260,000 candidates: the exponential mechanism here and as OpenDP's noisy max with
Gumbel noise; permute-and-flip here and as OpenDP's noisy max with exponential noise, which has the same law. Then
single integers and vectors of discrete Laplace and Gaussian noise. Each figure is the time of a whole call, as a user
would make it: data in, answer out, randomness from the operating system. The two sides alternate, call by call, so that
a busy machine slows both. Tables that our side keeps are built before; what that takes is a line of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import numpy as np

from sottovoce.benchmarks.harness.hardware import describe
from sottovoce.errors import MissingExtraError, ParameterError
from sottovoce.files.outputs import unused, write_new
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.mechanisms.samplers.discrete_gaussian import sample_discrete_gaussian
from sottovoce.mechanisms.samplers.discrete_laplace import sample_discrete_laplace
from sottovoce.mechanisms.samplers.integer_weights import rate_per_step, weight_table
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SystemRandomness

CANDIDATES = (4, 1_000, 151_936, 260_000)
GRIDS: dict[str, tuple[int, int, float]] = {
    "default grid: 25 experts, clip 3, step 2^-10, epsilon 1": (25 * 3 * 1024, 2 * 3 * 1024, 1.0),
    "wide range: 255 experts, width 10, step 2^-10, epsilon 0.05": (255 * 10 * 1024, 2 * 10 * 1024, 0.05),
}
"""Name to range of the scores in grid steps, their sensitivity, and epsilon of a draw."""

SCALE = 2048
VECTOR = 1_000
Call = Callable[[], object]
Release = Callable[[object], object]
Row = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and writes one JSON file if asked."""
    parser = argparse.ArgumentParser(prog="sotto bench run noise", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=unused, help="JSON file to write")
    parser.add_argument("--repeats", type=int, default=31, help="draws of each kind")
    parser.add_argument("--candidates", type=int, nargs="+", default=list(CANDIDATES))
    args = parser.parse_args(argv)
    if args.repeats < 2 or min(args.candidates) < 1:
        raise ParameterError("repeats, candidates", (args.repeats, args.candidates), "2 or more, and 1 or more each")
    theirs = _OpenDP()
    with one_core() as core:
        report: Row = {
            "machine": {**describe(), "cores_used": 1, "pinned": core is not None, "opendp": theirs.version},
            "settings": {"repeats": args.repeats, "candidates": args.candidates},
            "rows": [*_selections(theirs, args), *_integers(theirs, args.repeats)],
        }
    print(as_text(report["rows"]))
    if args.out:
        write_new(args.out, json.dumps(report, indent=1) + "\n")
    return 0


@contextmanager
def one_core() -> Iterator[int | None]:
    """Keeps this process on one core, where the system can; yields which one."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield max(before)
    finally:
        os.sched_setaffinity(0, before)


def as_text(rows: Sequence[Row]) -> str:
    """The rows as a plain table; medians, least and most in milliseconds."""
    lines = [f"{'what':<31} {'size':>8}  {'case':<44} {'ours':>27} {'opendp':>27}"]
    for row in rows:
        ours, theirs = (_span(row[side]) if side in row else "-" for side in ("ours", "opendp"))
        lines.append(f"{row['what']:<31} {row['size']:>8,}  {row['case'][:44]:<44} {ours:>27} {theirs:>27}")
    return "\n".join([*lines, "milliseconds a call: median (least to most)"])


def _selections(theirs: _OpenDP, args: argparse.Namespace) -> Iterator[Row]:
    source, random = SystemRandomness(), np.random.default_rng(1)
    for case, (span, sensitivity, epsilon) in GRIDS.items():
        rate = rate_per_step(exact(epsilon), sensitivity)
        first = [_milliseconds(lambda rate=rate: weight_table.__wrapped__(rate)) for _ in range(5)]  # type: ignore[misc]
        yield {"what": "our tables, once a rate", "size": 1, "case": case, "ours": _spread(first)}
        for count in args.candidates:
            values = -random.integers(0, span, count)
            scores = Scores(values, sensitivity=sensitivity, adjacency=Adjacency.REPLACE_ONE)
            their_values, scale = values.astype(np.int32), sensitivity / epsilon
            for what, ours, noisy_max in (
                ("exponential = Gumbel noise", Exponential(epsilon), theirs.gumbel(scale)),
                ("permute-and-flip = exp. noise", PermuteAndFlip(epsilon), theirs.exponential(scale)),
            ):
                sides: dict[str, Call] = {
                    "ours": lambda m=ours, s=scores: m.select(s, source),  # type: ignore[misc]
                    "opendp": lambda m=noisy_max, v=their_values: m(v),  # type: ignore[misc]
                }
                yield {"what": what, "size": count, "case": case, **_alternate(sides, args.repeats)}


def _integers(theirs: _OpenDP, repeats: int) -> Iterator[Row]:
    source, scale = SystemRandomness(), Fraction(SCALE)
    samplers: dict[str, Call] = {
        "discrete Laplace": lambda: sample_discrete_laplace(scale, source),
        "discrete Gaussian": lambda: sample_discrete_gaussian(scale * scale, source),
    }
    for what, draw in samplers.items():
        for size, calls in ((1, 20 * repeats), (VECTOR, repeats)):
            release = theirs.vector(what, size)
            data = np.zeros(size, dtype=np.int32)
            sides: dict[str, Call] = {
                "ours": lambda n=size, sample=draw: [sample() for _ in range(n)],  # type: ignore[misc]
                "opendp": lambda m=release, v=data: m(v),  # type: ignore[misc]
            }
            yield {"what": what, "size": size, "case": f"scale {SCALE}", **_alternate(sides, calls)}


def _alternate(sides: dict[str, Call], repeats: int) -> Row:
    """Times the sides in turn, after one call each that does not count."""
    for call in sides.values():
        call()
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(repeats):
        for side, call in sides.items():
            times[side].append(_milliseconds(call))
    return {side: _spread(spent) for side, spent in times.items()}


def _milliseconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def _spread(times: Sequence[float]) -> dict[str, float]:
    lower, median, upper = statistics.quantiles(times, n=4)
    summary = {"least": min(times), "lower": lower, "median": median, "upper": upper, "most": max(times)}
    return {name: float(f"{value:.4g}") for name, value in summary.items()}


def _span(spread: dict[str, float]) -> str:
    return f"{spread['median']:.4g} ({spread['least']:.3g} to {spread['most']:.3g})"


class _OpenDP:
    """The same releases by OpenDP, which is a development requirement."""

    def __init__(self) -> None:
        try:
            import opendp.prelude as dp
        except ImportError:
            raise MissingExtraError("opendp", "dev") from None
        dp.enable_features("contrib")
        self.dp, self.version = dp, version("opendp")
        self.vectors = dp.vector_domain(dp.atom_domain(T=int))

    def gumbel(self, scale: float) -> Release:
        return self._noisy_max(self.dp.zero_concentrated_divergence(), scale)

    def exponential(self, scale: float) -> Release:
        return self._noisy_max(self.dp.max_divergence(), scale)

    def vector(self, what: str, size: int) -> Release:
        """Noise on a vector; on a single number it takes the first entry."""
        dp, laplace = self.dp, what == "discrete Laplace"
        make = dp.m.make_laplace if laplace else dp.m.make_gaussian
        if size > 1:
            metric = dp.l1_distance(T=int) if laplace else dp.l2_distance(T=float)
            vector: Release = make(self.vectors, metric, scale=float(SCALE))
            return vector
        metric = dp.absolute_distance(T=int if laplace else float)
        release = make(dp.atom_domain(T=int), metric, scale=float(SCALE))
        return lambda values: release(0)

    def _noisy_max(self, measure: object, scale: float) -> Release:
        metric = self.dp.linf_distance(T=int)
        release: Release = self.dp.m.make_noisy_max(self.vectors, metric, measure, scale=scale)
        return release


if __name__ == "__main__":
    raise SystemExit(main())
