"""The one door by which benchmarks read rows: published or invented ones, never those that a ledger was opened for.

A benchmark has references without noise and a budget that nobody remembers. Rows of a data set that has a ledger would
be answered from for nothing, so they are refused here, whatever part they are to play.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from sottovoce.privacy.ledger.known_records import require_public
from sottovoce.records.readers import read_public
from sottovoce.records.sealed import PublicRecords


def public_records(file: Path) -> PublicRecords:
    """The rows of a file that somebody named, in any format that commands read.

    Raises:
        InputError: The file cannot be read, or most of its rows are somebody's private records.
        LedgerUnavailableError: The trusted store, which knows private records, cannot be used.
    """
    rows = read_public(file)
    require_public(rows, str(file))
    return rows


def benchmark_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of one compressed JSON Lines file of the benchmark data, as they are.

    Raises:
        FileNotFoundError: It is not there.
        InputError: Most of its rows are somebody's private records.
        LedgerUnavailableError: The trusted store, which knows private records, cannot be used.
    """
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    require_public(rows, str(file))
    return rows
