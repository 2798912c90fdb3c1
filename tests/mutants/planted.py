"""The planted bugs: each a small edit that would pass as working code and break the guarantee or a price."""

from __future__ import annotations

import importlib
import pkgutil

from mutants import bugs
from mutants.bugs.experts import PARTITION
from mutants.mutant import Mutant

__all__ = ["MUTANTS", "PARTITION", "Mutant"]

MUTANTS: list[Mutant] = [
    mutant
    for module in pkgutil.iter_modules(bugs.__path__, f"{bugs.__name__}.")
    for mutant in importlib.import_module(module.name).MUTANTS
]
"""Of every file of the folder; no list is edited."""
