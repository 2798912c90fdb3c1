"""Contracts that every method, decoder and mechanism keeps, to be put to one's own: see docs/testing.md.

    from sottovoce.testing import check_method
    check_method(MyMethod)

``python -m sottovoce.testing`` puts everything that is registered through them.
"""

from sottovoce.testing.decoders import check_decoder
from sottovoce.testing.methods import check_method
from sottovoce.testing.report import Check, ContractError, Effort, Report

__all__ = ["Check", "ContractError", "Effort", "Report", "check_decoder", "check_method"]
