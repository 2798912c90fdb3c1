"""sottovoce: answers from private in-context examples that provably do not give them away.

Every public name is listed here by hand and loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sottovoce.deprecated import find_moved, old_arguments, warn

find_moved()

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sottovoce import errors, methods
    from sottovoce.answering.session import PrivateAnswers
    from sottovoce.experts.partition import Partition
    from sottovoce.fitting.fit import fit
    from sottovoce.fitting.fitted import Fitted
    from sottovoce.models.registry import load_scorer
    from sottovoce.planner.advise import make_plan
    from sottovoce.privacy.accounting.accountant import RdpAccountant
    from sottovoce.privacy.ledger.budget import Budget
    from sottovoce.privacy.ledger.ledger import Ledger
    from sottovoce.privacy.unit import Adjacency
    from sottovoce.records.readers import read_private, read_public
    from sottovoce.records.sealed import PrivateRecords, PublicRecords
    from sottovoce.release import Release
    from sottovoce.session import PrivateICL
    from sottovoce.sklearn.classifier import PrivateICLClassifier
    from sottovoce.synthesis.config import SynthesisConfig
    from sottovoce.synthesis.synthesizer import Synthesizer
    from sottovoce.tasks import AnswerTask, Task, load_answer_task, load_task

__all__ = [
    "Adjacency",
    "AnswerTask",
    "Budget",
    "Fitted",
    "Ledger",
    "Partition",
    "PrivateAnswers",
    "PrivateICL",
    "PrivateICLClassifier",
    "PrivateRecords",
    "PublicRecords",
    "RdpAccountant",
    "Release",
    "SynthesisConfig",
    "Synthesizer",
    "Task",
    "errors",
    "fit",
    "load_answer_task",
    "load_scorer",
    "load_task",
    "make_plan",
    "methods",
    "read_private",
    "read_public",
]

if find_spec("sklearn") is None:  # then the class cannot be made, and a list of names must not fail
    __all__.remove("PrivateICLClassifier")

_HOMES = {
    "Adjacency": "privacy.unit",
    "AnswerTask": "tasks",
    "Budget": "privacy.ledger.budget",
    "Fitted": "fitting.fitted",
    "Ledger": "privacy.ledger.ledger",
    "Partition": "experts.partition",
    "SynthesisConfig": "synthesis.config",
    "PrivateAnswers": "answering.session",
    "PrivateICL": "session",
    "PrivateICLClassifier": "sklearn.classifier",
    "PrivateRecords": "records.sealed",
    "PublicRecords": "records.sealed",
    "RdpAccountant": "privacy.accounting.accountant",
    "Release": "release",
    "Synthesizer": "synthesis.synthesizer",
    "Task": "tasks",
    "fit": "fitting.fit",
    "load_answer_task": "tasks",
    "load_scorer": "models.registry",
    "load_task": "tasks",
    "make_plan": "planner.advise",
    "read_private": "records.readers",
    "read_public": "records.readers",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in {"errors", "methods"}:
        return import_module(f"sottovoce.{name}")
    if name == "Order":
        warn("sottovoce.Order", "sottovoce.SynthesisConfig")
        return old_arguments(inside_tokens="max_private_tokens")(__getattr__("SynthesisConfig"))
    if name in _HOMES:
        return getattr(import_module(f"sottovoce.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sottovoce' has no attribute {name!r}")
