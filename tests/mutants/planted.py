"""The planted bugs: each a small edit that would pass as working code and break the guarantee or a price."""

from __future__ import annotations

from mutants import (
    in_accounting,
    in_clustering,
    in_contracts,
    in_decoding,
    in_experts,
    in_explanations,
    in_failures,
    in_first_budgets,
    in_isolation,
    in_known_records,
    in_ledger,
    in_ledger_files,
    in_mechanisms,
    in_one_draw,
    in_outputs,
    in_prices,
    in_statements,
)
from mutants.in_experts import PARTITION
from mutants.mutant import Mutant

__all__ = ["MUTANTS", "PARTITION", "Mutant"]

MUTANTS = [
    *in_experts.MUTANTS,
    *in_mechanisms.MUTANTS,
    *in_clustering.MUTANTS,
    *in_accounting.MUTANTS,
    *in_explanations.MUTANTS,
    *in_ledger.MUTANTS,
    *in_ledger_files.MUTANTS,
    *in_decoding.MUTANTS,
    *in_statements.MUTANTS,
    *in_known_records.MUTANTS,
    *in_first_budgets.MUTANTS,
    *in_one_draw.MUTANTS,
    *in_isolation.MUTANTS,
    *in_failures.MUTANTS,
    *in_outputs.MUTANTS,
    *in_prices.MUTANTS,
    *in_contracts.MUTANTS,
]
