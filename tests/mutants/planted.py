"""The planted bugs: each a small edit that would pass as working code and break the guarantee or a price."""

from __future__ import annotations

from mutants.bugs import (
    accounting,
    clustering,
    contracts,
    decoding,
    experts,
    explanations,
    isolation,
    known_records,
    ledger,
    ledger_files,
    mechanisms,
    one_draw,
    outputs,
    prices,
    statements,
)
from mutants.bugs.experts import PARTITION
from mutants.mutant import Mutant

__all__ = ["MUTANTS", "PARTITION", "Mutant"]

MUTANTS = [
    *experts.MUTANTS,
    *mechanisms.MUTANTS,
    *clustering.MUTANTS,
    *accounting.MUTANTS,
    *explanations.MUTANTS,
    *ledger.MUTANTS,
    *ledger_files.MUTANTS,
    *decoding.MUTANTS,
    *statements.MUTANTS,
    *known_records.MUTANTS,
    *one_draw.MUTANTS,
    *isolation.MUTANTS,
    *outputs.MUTANTS,
    *prices.MUTANTS,
    *contracts.MUTANTS,
]
