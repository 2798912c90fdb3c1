"""Which models there are, and how one is opened by name, such as ``embedded`` or ``hf:NAME_OR_PATH``.

A kind of model is one file of ``models/backends/``, or a module of an installed package that its entry point in the
group ``sottovoce.models`` names. Nothing heavy is imported before a model that needs it is opened.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar, final

from sottovoce.errors import MissingExtraError, ModelError, ParameterError, SottoError
from sottovoce.models.base import LabelScorer, Writer
from sottovoce.models.stepper import Stepper
from sottovoce.parameters import Kind, nearest
from sottovoce.registry import Registry

M = TypeVar("M")


class Backend:
    """How one kind of model is opened: ``scorer``, ``stepper``, ``writer``. What is heavy is imported inside them."""

    def scorer(self) -> Callable[..., LabelScorer]:
        """What makes a model that scores labels, such as its class.

        It is called with the name that follows the colon, where the kind has one, and with the caller's options.
        """
        raise NotImplementedError

    def stepper(self) -> Callable[..., Stepper]:
        """What makes a model that writes token by token; called likewise."""
        raise NotImplementedError

    def writer(self) -> Callable[..., Writer]:
        """What makes a model that writes whole texts; called likewise."""
        raise NotImplementedError


@final
@dataclass(frozen=True)
class ModelEntry:
    """One line of ``sotto models``.

    Attributes:
        spec: What the caller types.
        capabilities: Names of the protocols that it fulfils.
        extra: Optional packages to install, as in ``pip install 'sottovoce[local]'``; empty if none are needed.
        summary: One line.
    """

    spec: str
    capabilities: tuple[str, ...]
    extra: str
    summary: str


B = TypeVar("B", bound=type[Backend])
GROUP: Final = "sottovoce.models"
"""Entry points of installed packages that bring models of their own."""
_BACKENDS = Registry[tuple[ModelEntry, type[Backend]]]("model", "sottovoce.models.backends", group=GROUP)


def register_model(spec: str, *, summary: str, extra: str = "") -> Callable[[B], B]:
    """Enrols a kind of model under its name, for ``--model``, ``load_scorer`` and ``sotto models``.

    Args:
        spec: What the caller types: ``mine``, or ``mine:NAME`` for a kind whose models have names of their own.
        summary: One line.
        extra: The optional dependencies of this package that it needs, as ``pyproject.toml`` names them.

    Raises:
        ParameterError: The name is taken, or the backend defines none of ``scorer``, ``stepper`` and ``writer``.
    """

    def enrol(cls: B) -> B:
        able = {
            "LabelScorer": cls.scorer is not Backend.scorer,
            "Stepper": cls.stepper is not Backend.stepper,
            "Writer": cls.writer is not Backend.writer,
        }
        capabilities = tuple(name for name, has in able.items() if has)
        if not capabilities:
            raise ParameterError("model", spec, "one whose backend defines 'scorer', 'stepper' or 'writer'")
        _BACKENDS.enter(spec.partition(":")[0], (ModelEntry(spec, capabilities, extra, summary), cls))
        return cls

    return enrol


def model_catalog() -> list[ModelEntry]:
    """Every kind of model: those that need optional packages first, and of these, those that can do more."""
    entries = [entry for entry, _ in _BACKENDS.all().values()]
    return sorted(entries, key=lambda entry: (not entry.extra, -len(entry.capabilities), entry.spec))


def load_scorer(spec: str, **options: Any) -> LabelScorer:
    """Opens a model that scores labels.

    Args:
        spec: ``embedded``, ``embedded-image``, ``fake``, ``hf:`` or ``vision:`` and a folder or a name on the hub, or
            ``openai:MODEL@BASE_URL``.
        options: Passed to the model, such as ``device="cpu"`` or ``cache_bytes=2**30`` for ``hf:``.

    Raises:
        ParameterError: There is no such model, or it has no such option.
        MissingExtraError: An optional package is not installed.
        ModelError: The model cannot be loaded.

    Example:
        >>> load_scorer("fake").name
        'fake'
    """
    entry, backend, names = _backend_of(spec, "LabelScorer", "one of")
    with _loading(entry, spec):
        return _open(backend.scorer(), names, options)


def load_stepper(spec: str, **options: Any) -> Stepper:
    """Opens a model that writes, token by token.

    Args:
        spec: ``embedded``, ``fake``, or ``hf:`` and a folder or a name on the hub.
        options: Passed to the model, such as ``device="cuda"`` for ``hf:``.

    Raises:
        ParameterError: There is no such model, it cannot write, or it has no such option.
        MissingExtraError: An optional package is not installed.
        ModelError: The model cannot be loaded.
    """
    entry, backend, names = _backend_of(spec, "Stepper", "one that writes:")
    with _loading(entry, spec):
        return _open(backend.stepper(), names, options)


def load_writer(spec: str, **options: Any) -> Writer:
    """Opens a model that writes whole texts.

    Args:
        spec: ``embedded-lm``, ``fake``, ``hf:`` and a folder or a name on the hub, or ``openai:MODEL@BASE_URL``.
        options: Passed to the model, such as ``chat=False`` for ``hf:``.

    Raises:
        ParameterError: There is no such model, it cannot write, or it has no such option.
        MissingExtraError: An optional package is not installed.
        ModelError: The model cannot be loaded.

    Example:
        >>> load_writer("fake").name
        'fake'
    """
    entry, backend, names = _backend_of(spec, "Writer", "one that writes texts:")
    with _loading(entry, spec):
        return _open(backend.writer(), names, options)


def _backend_of(spec: str, capability: str, limit: str) -> tuple[ModelEntry, Backend, tuple[str, ...]]:
    """What opens a model, and the name that follows the colon, if any."""
    Kind(str, "the name of a model").read("model", spec)
    kind, colon, name = spec.partition(":")
    if enrolled := _BACKENDS.find(kind):
        entry, backend = enrolled
        well_formed = bool(name) if ":" in entry.spec else not colon
        if well_formed and capability in entry.capabilities:
            return entry, backend(), (name,) if name else ()
    known = [entry.spec for entry in model_catalog() if capability in entry.capabilities]
    raise ParameterError("model", spec, f"{limit} {', '.join(known)}{_meant(spec, known)}")


def _meant(spec: str, known: list[str]) -> str:
    """The model that was probably meant, in words: a bare NAME/NAME, or a folder, is one of ``hf:``."""
    if ":" not in spec and ("/" in spec or os.path.isdir(spec)):
        return f"; did you mean {'hf:' + spec!r}?"
    return nearest(spec, known)


@contextmanager
def _loading(entry: ModelEntry, spec: str) -> Iterator[None]:
    """Names the optional dependencies to install when a package is missing, and the model that cannot be loaded."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not entry.extra or (error.name or "").startswith("sottovoce"):
            raise
        raise MissingExtraError(error.name or str(error), entry.extra) from None
    except SottoError:
        raise
    except Exception as error:
        raise ModelError(
            f"The model {spec!r} cannot be loaded ({type(error).__name__}). See that its files are whole, and of the "
            "kind that its name says."
        ) from error


def _open(model: Callable[..., M], arguments: tuple[str, ...], options: dict[str, Any]) -> M:
    known = list(inspect.signature(model).parameters)[len(arguments) :]
    if unknown := sorted(set(options) - set(known)):
        raise ParameterError("model option", unknown[0], f"one of {', '.join(known)}" if known else "left out")
    return model(*arguments, **options)
