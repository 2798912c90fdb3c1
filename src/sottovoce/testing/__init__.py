"""Contracts of methods, decoders, answerers, fitters and mechanisms, for one's own too; see docs/testing.md.

Example:
    >>> from sottovoce.methods.rnm import RNM
    >>> check_method(RNM("permute_and_flip")).passed
    True

``python -m sottovoce.testing`` puts everything that is registered through them.
"""

from sottovoce.testing.answerers import check_answerer
from sottovoce.testing.decoders import check_decoder
from sottovoce.testing.fitters import check_fitter
from sottovoce.testing.mechanisms import check_mechanism
from sottovoce.testing.methods import check_method
from sottovoce.testing.registries import Enrolled, entries, examine, registries, unknown_registries
from sottovoce.testing.report import Check, ContractError, Effort, Report

__all__ = [
    "Check",
    "ContractError",
    "Effort",
    "Enrolled",
    "Report",
    "check_answerer",
    "check_decoder",
    "check_fitter",
    "check_mechanism",
    "check_method",
    "entries",
    "examine",
    "registries",
    "unknown_registries",
]
