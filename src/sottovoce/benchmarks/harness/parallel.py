"""Pieces of an experiment in several processes, each with a model of its own; a piece's numbers do not depend on that.

Every process opens the model and the kept scores once. Not for experiments that measure time.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, final

from sottovoce.benchmarks.harness.experiment import Bench, Key, Measure, Piece


@final
@dataclass(frozen=True)
class Done:
    """A piece that was measured.

    Attributes:
        piece: Which.
        numbers: What its experiment yielded.
        seconds: Time on the clock.
        asked: Pairs of prompt and question that the model was asked.
        found: Pairs that were known.
    """

    piece: Piece
    numbers: Sequence[tuple[Key, float]]
    seconds: float
    asked: int
    found: int


def measured(measure: Measure, bench: Bench, piece: Piece) -> Done:
    """Measures one piece."""
    started, asked_before, found_before = time.perf_counter(), bench.scorer.asked, bench.scorer.found
    numbers = list(measure(bench, piece))
    spent = time.perf_counter() - started
    return Done(piece, numbers, spent, bench.scorer.asked - asked_before, bench.scorer.found - found_before)


def run_in_parallel(
    measure: Measure, open_bench: Callable[[], Bench], pieces: Sequence[Piece], jobs: int
) -> Iterator[Done]:
    """Measures pieces in processes of their own, and gives each as soon as it is done.

    Args:
        measure: A function of a module, which a new process can import.
        open_bench: Opens everything anew; can be pickled.
        pieces: In order.
        jobs: Processes at once. The processor's cores are shared out among them.

    Raises:
        SottoError: What a piece raised; pieces that were not begun by then are left out.
    """
    context = multiprocessing.get_context("spawn")
    threads = max(1, (os.cpu_count() or 1) // jobs)
    with ProcessPoolExecutor(jobs, context, _begin, (measure, open_bench, threads)) as pool:
        waiting = [pool.submit(_measure_piece, piece) for piece in pieces]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()


_OWN: dict[str, Any] = {}
"""What this process measures with."""


def _begin(measure: Measure, open_bench: Callable[[], Bench], threads: int) -> None:
    import torch

    torch.set_num_threads(threads)
    _OWN.update(measure=measure, bench=open_bench())


def _measure_piece(piece: Piece) -> Done:
    return measured(_OWN["measure"], _OWN["bench"], piece)
