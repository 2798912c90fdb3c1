"""The literature's methods, one file each, named as in the papers."""

from sottovoce.methods.answering.answerer import make_answerer, registered_answerers
from sottovoce.methods.base import Method, Price, make_method, registered_methods
from sottovoce.methods.pbs import PbS
from sottovoce.methods.poe import PoE
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.methods.references import FullContext, Hard, Soft, ZeroShot
from sottovoce.methods.rnm import RNM

__all__ = [
    "RNM",
    "FullContext",
    "Hard",
    "Method",
    "PbS",
    "PoE",
    "Price",
    "PriorPoE",
    "Soft",
    "ZeroShot",
    "make_answerer",
    "make_method",
    "registered_answerers",
    "registered_methods",
]
