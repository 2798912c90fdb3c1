"""Names that moved or changed: the old ones work for one version more, with a ``DeprecationWarning``.

Everything here goes with version 0.3.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from operator import attrgetter
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar, final

P = ParamSpec("P")
T = TypeVar("T")

PACKAGE: Final = "sottovoce"

MODULES: Final = {
    "bundled": "data.bundled",
    "cells": "records.cells",
    "certificate": "synthesis.certificate",
    "estimator": "sklearn.classifier",
    "estimator_data": "sklearn.inputs",
    "experts.lockstep": "experts.token_scores",
    "experts.lockstep_rules": "experts.clipping",
    "experts.outputs": "experts.label_scores",
    "experts.vectors": "experts.embeddings",
    "fingerprints": "records.fingerprints",
    "limits": "records.limits",
    "mechanisms.clustering_nodes": "mechanisms.clustering.tree",
    "mechanisms.clustering_points": "privacy.points",
    "mechanisms.clustering_price": "mechanisms.clustering.price",
    "mechanisms.clustering_projection": "mechanisms.clustering.projection",
    "mechanisms.clustering_release": "mechanisms.clustering.release",
    "mechanisms.clustering_split": "mechanisms.clustering.tree",
    "mechanisms.discrete_gaussian": "mechanisms.samplers.discrete_gaussian",
    "mechanisms.discrete_laplace": "mechanisms.samplers.discrete_laplace",
    "mechanisms.gaussian": "mechanisms.noisy_max",
    "mechanisms.gaussian_vector": "mechanisms.gaussian",
    "mechanisms.joint_top_k": "mechanisms.top_k",
    "mechanisms.laplace_noisy_max": "mechanisms.noisy_max",
    "mechanisms.one_shot_top_k": "mechanisms.top_k",
    "mechanisms.private_clustering": "mechanisms.clustering.private_clustering",
    "mechanisms.weights": "mechanisms.samplers.integer_weights",
    "methods.decoding_chooser": "methods.decoding.sampler",
    "methods.decoding_plan": "methods.decoding.plan",
    "methods.decoding_selection": "methods.decoding.selecting",
    "methods.decoding_text": "synthesis.text",
    "models.catalog": "models.registry",
    "models.embedded_image": "models.embedded.image_scorer",
    "models.embedded_language": "models.embedded.language_model",
    "models.embedding_cache": "models.embedded.embedding_cache",
    "models.encoder": "models.embedded.sentence_encoder",
    "models.fake_stepper": "models.fake",
    "models.head": "models.embedded.head",
    "models.hf_stepper": "models.lockstep.stepper",
    "models.image_encoder": "models.embedded.image_encoder",
    "models.stepping": "models.stepper",
    "models.transformers": "models.huggingface.label_scorer",
    "models.vectors": "models.features",
    "output_files": "files.outputs",
    "partial_file": "files.partial",
    "planner_data": "planner.measurements",
    "privacy.accountant": "privacy.accounting.accountant",
    "privacy.amplification": "privacy.accounting.amplification",
    "privacy.bounded_range": "privacy.accounting.bounded_range",
    "privacy.budget": "privacy.ledger.budget",
    "privacy.calibration": "privacy.accounting.calibration",
    "privacy.charges": "privacy.accounting.event_cost",
    "privacy.checked": "privacy.parameters",
    "privacy.filter": "privacy.ledger.filter",
    "privacy.gaussian_dp": "privacy.accounting.gaussian_dp",
    "privacy.groups": "privacy.accounting.groups",
    "privacy.histograms": "privacy.aggregates",
    "privacy.identity": "privacy.ledger.identity",
    "privacy.known_records": "privacy.ledger.known_records",
    "privacy.ledger_account": "privacy.ledger.account",
    "privacy.ledger_address": "privacy.ledger.location",
    "privacy.ledger_balance": "privacy.ledger.balance",
    "privacy.ledger_caps": "privacy.ledger.caps",
    "privacy.ledger_chain": "privacy.ledger.history",
    "privacy.ledger_database": "privacy.ledger.database",
    "privacy.ledger_events": "privacy.ledger.history",
    "privacy.ledger_export": "privacy.ledger.export",
    "privacy.ledger_file": "privacy.ledger.file",
    "privacy.ledger_mounts": "privacy.ledger.mounts",
    "privacy.ledger_opening": "privacy.ledger.opening",
    "privacy.ledger_recompute": "privacy.ledger.recompute",
    "privacy.ledger_refusal": "privacy.ledger.refusal",
    "privacy.ledger_registry": "privacy.ledger.registry",
    "privacy.ledger_schema": "privacy.ledger.schema",
    "privacy.ledger_secret": "privacy.ledger.secret",
    "privacy.ledger_server": "privacy.ledger.server",
    "privacy.ledger_verify": "privacy.ledger.verify",
    "privacy.losses": "privacy.accounting.loss_distribution",
    "privacy.optimal": "privacy.accounting.adaptive_composition",
    "privacy.plan": "privacy.accounting.composition",
    "privacy.profiles": "privacy.accounting.profiles",
    "privacy.renyi": "privacy.accounting.renyi",
    "privacy.sampled": "privacy.accounting.subsampled_profiles",
    "privacy.scores": "privacy.aggregates",
    "privacy.vectors": "privacy.aggregates",
    "readers": "records.readers",
    "staging": "files.checkpoint",
    "synthesis_order": "synthesis.config",
    "writing": "generation",
}
"""Modules: the old path below the package, and the new one."""

NAMES: Final = {
    "Amount": "Cost",
    "Level": "Cap",
    "short_of": "first_exceeded_cap",
    "Charge": "EventCost",
    "charge_of": "cost_of",
    "Losses": "LossDistribution",
    "Chooser": "TokenSampler",
    "Writing": "GenerationTemplate",
    "Order": "SynthesisConfig",
    "Staging": "Checkpoint",
    "Terms": "Guarantee",
}
"""Names in them."""


def warn(old: str, new: str) -> None:
    """Says once a place that a name has changed."""
    warnings.warn(f"{old} is now {new}; the old name goes with version 0.3.", DeprecationWarning, stacklevel=3)


def names_of(old: str, new: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that stands where another one was.

    Args:
        old: The module that was here.
        new: Where its names are.
    """

    def look_up(name: str) -> Any:
        module = import_module(new)
        current = name if hasattr(module, name) else NAMES.get(name, name)
        if name.startswith("__") or not hasattr(module, current):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warn(f"{old}.{name}", f"{new}.{current}")
        return getattr(module, current)

    return look_up


def renamed(old: str, new: str) -> property:
    """An attribute under its old name.

    Args:
        old: That name.
        new: Where it is now, such as ``workspace.lock``.
    """

    def read(owner: Any) -> Any:
        warn(f"{type(owner).__name__}.{old}", f"{type(owner).__name__}.{new}")
        return attrgetter(new)(owner)

    return property(read)


def old_arguments(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Takes arguments by their old names too.

    Args:
        names: Old name to new name.
    """

    def accept(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> T:
            for old in set(keywords) & set(names):
                warn(f"{function.__qualname__}({old}=)", f"{function.__qualname__}({names[old]}=)")
                keywords[names[old]] = keywords.pop(old)
            return function(*args, **keywords)

        return call

    return accept


@final
class _Moved(MetaPathFinder, Loader):
    """Finds a module under its old path, where no module is any more."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        old = name.removeprefix(f"{PACKAGE}.")
        return ModuleSpec(name, self) if old != name and old in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        new = f"{PACKAGE}.{MODULES[module.__name__.removeprefix(f'{PACKAGE}.')]}"
        vars(module)["__getattr__"] = names_of(module.__name__, new)


def find_moved() -> None:
    """Lets imports by old paths be found, after everything that is there."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.append(_Moved())
