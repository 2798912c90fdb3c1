"""Which registered methods have an exact law, and why the others have none: no method is left out in silence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from sottovoce.audits.exact import answers, fits, labels, texts
from sottovoce.methods.answering.answerer import registered_answerers
from sottovoce.methods.base import registered_methods
from sottovoce.methods.decoding.decoder import registered_decoders
from sottovoce.methods.fitting.fitter import registered_fitters


@final
@dataclass(frozen=True)
class Coverage:
    """One registered method.

    Attributes:
        name: Of the method.
        kind: ``label``, ``token``, ``fit`` or ``answer``: what its law is of.
        reason: Why it has no exact law; ``None`` where it has one.
    """

    name: str
    kind: str
    reason: str | None


def coverage() -> list[Coverage]:
    """Every registered method. A new one that states its law as the others do is covered without a line here.

    Example:
        >>> [row.name for row in coverage() if row.kind == "label" and row.reason is None]
        ['poe', 'prior-poe', 'rnm']
    """
    return [
        *(Coverage(name, "label", labels.why_no_law(cls)) for name, cls in registered_methods().items()),
        *(Coverage(name, "token", texts.why_no_law(cls)) for name, cls in registered_decoders().items()),
        *(Coverage(name, "fit", fits.why_no_law(cls)) for name, cls in registered_fitters().items()),
        *(Coverage(name, "answer", answers.why_no_law(cls)) for name, cls in registered_answerers().items()),
    ]
