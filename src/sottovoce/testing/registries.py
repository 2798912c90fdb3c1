"""Every registry of the package, and the contract that its entries are put through.

A registry that this module does not know fails the suite: ``unknown_registries`` reads the package's source for
functions that enrol something.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from sottovoce.mechanisms import base as mechanisms
from sottovoce.methods import base as methods
from sottovoce.methods.answering import answerer as answerers
from sottovoce.methods.decoding import decoder as decoders
from sottovoce.methods.fitting import fitter as fitters
from sottovoce.testing.answerers import check_answerer
from sottovoce.testing.decoders import check_decoder
from sottovoce.testing.fitters import check_fitter
from sottovoce.testing.mechanisms import check_mechanism
from sottovoce.testing.methods import check_method
from sottovoce.testing.report import ContractError, Effort, Report


@final
@dataclass(frozen=True)
class Enrolled:
    """A registry.

    Attributes:
        kind: What its entries are.
        decorator: What enrols them.
        entries: Every entry by name.
        check: Puts one entry through its contract.
    """

    kind: str
    decorator: Callable[..., Any]
    entries: Callable[[], Mapping[str, Any]]
    check: Callable[[Any, Effort, Report], object]


_PRICES = "what a step costs: checked through the methods that charge it, and against laws by the tests of prices"
WITHOUT_CONTRACT: Final[Mapping[str, str]] = {
    "step_cost": _PRICES,
    "register_cost_model": _PRICES,
    "register_model": "whether a model keeps experts apart is tried by its self-test and stated with every answer",
}
"""Functions that enrol what needs no contract, with the reason."""


def registries() -> tuple[Enrolled, ...]:
    """Every registry whose entries have a contract."""
    return REGISTRIES


def _check_mechanism(
    entry: tuple[type[mechanisms.Mechanism], Mapping[str, Any]], effort: Effort, report: Report
) -> object:
    return check_mechanism(entry[0], effort, report, example=entry[1])


REGISTRIES: Final = (
    Enrolled("mechanism", mechanisms.register, mechanisms.registered, _check_mechanism),
    Enrolled("method", methods.register_method, methods.registered_methods, check_method),
    Enrolled("decoder", decoders.register_decoder, decoders.registered_decoders, check_decoder),
    Enrolled("answerer", answerers.register_answerer, answerers.registered_answerers, check_answerer),
    Enrolled("fitter", fitters.register_fitter, fitters.registered_fitters, check_fitter),
)


def entries(only: Collection[str] = ()) -> Iterator[tuple[Enrolled, str, Any]]:
    """Every entry of every registry, or those of some names."""
    for registry in registries():
        for name, entry in registry.entries().items():
            if not only or name in only:
                yield registry, name, entry


def examine(registry: Enrolled, name: str, entry: Any, effort: Effort = Effort.QUICK) -> Report:
    """The report on one entry; what goes wrong is in it."""
    report = Report(registry.kind, name)
    try:
        registry.check(entry, effort, report)
    except ContractError as failure:
        report.failure = failure
    except Exception as error:
        report.failure = ContractError("drive", name, f"the suite cannot drive it: {type(error).__name__}: {error}")
    return report


def unknown_registries(source: Path | None = None) -> list[str]:
    """Functions of the package that enrol something and have no contract here, as ``file:function``.

    They are recognised by their form: a function whose inner function, a decorator, gives back what it was given. A
    registry that needs no contract is named in ``WITHOUT_CONTRACT`` with the reason.

    Args:
        source: The folder to read; the package's by default.
    """
    folder = source or Path(__file__).parents[1]
    known = {registry.decorator.__name__ for registry in registries()} | WITHOUT_CONTRACT.keys()
    return [
        f"{path.relative_to(folder).as_posix()}:{node.name}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and _makes_decorators(node) and node.name not in known
    ]


def _makes_decorators(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(inner, ast.FunctionDef)
        and len(inner.args.args) == 1
        and any(
            isinstance(last, ast.Return)
            and isinstance(last.value, ast.Name)
            and last.value.id == inner.args.args[0].arg
            for last in inner.body
        )
        for inner in function.body
    )
