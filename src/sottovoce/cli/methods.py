"""``sotto methods``: what can be asked for with --method, and what each promises."""

from __future__ import annotations

from typing import Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, put_text

WIDE = ("1e+09", "1,000,000,000")
"""Ends of limits that only keep out what is no number."""


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("methods")(methods)


def methods(as_json: o.AsJson = False) -> None:
    """List the methods with their options, and the noise mechanisms they are built from."""
    from sottovoce.explain import registered_cost_models
    from sottovoce.mechanisms.base import registered
    from sottovoce.methods.answering.answerer import registered_answerers
    from sottovoce.methods.base import Price, make_method, registered_methods
    from sottovoce.methods.decoding.decoder import registered_decoders
    from sottovoce.methods.fitting.fitter import registered_fitters
    from sottovoce.privacy.events import describe
    from sottovoce.privacy.unit import Adjacency

    rows: list[dict[str, Any]] = [
        {
            "method": name,
            "summary": cls.summary,
            "guarantee": cls.private,
            "reads": cls.reads.value,
            "needs": cls.needs,
            **_options(cls),
            "adjacency": Adjacency.REPLACE_ONE.value,
            "event_at_epsilon_1": describe(make_method(name).listed_event(Price(1.0, 1e-6), Adjacency.REPLACE_ONE)),
            "source": cls.source,
        }
        for name, cls in registered_methods().items()
    ]
    fitting, writing, priced = ([_row(name, cls) for name, cls in registry.items()] for registry in (
        registered_fitters(), registered_decoders(), registered_cost_models()
    ))  # fmt: skip
    answering = [
        {
            **_row(name, cls),
            "guarantee": cls.private,
            "reads": cls.reads.value,
            "needs": sorted(cls.needs),
            "least_candidates": cls.least_candidates,
        }
        for name, cls in registered_answerers().items()
    ]
    if as_json:
        put(
            {
                "fitters": fitting,
                "methods": rows,
                "answerers": answering,
                "decoders": writing,
                "cost_models": priced,
                "mechanisms": list(registered()),
            }
        )
        return
    put_text("For sotto fit: paid once, answers are free; options with -o NAME=VALUE:")
    for row in fitting:
        _show(row)
    put_text("For sotto classify and sotto ask: every answer is paid; options with -o NAME=VALUE:")
    for row in rows:
        event = row["event_at_epsilon_1"] if row["guarantee"] else "NO GUARANTEE"
        _show(row, f"one answer at epsilon 1, replace-one: {event}")
    put_text("For sotto answer: texts for answers; every answer is paid; options with -o NAME=VALUE:")
    for row in answering:
        compares = "looks at public answers, see --public-experts" if row["least_candidates"] else ""
        _show(row, "; ".join(filter(None, ["" if row["guarantee"] else "NO GUARANTEE", compares])))
    put_text("For sotto synthesize:")
    for row in writing:
        _show(row)
    put_text("Published releases that sotto account prices, drawn here or not:")
    for row in priced:
        _show(row)
    put_text(f"Mechanisms: {', '.join(registered())}")


def _row(name: str, cls: Any) -> dict[str, Any]:
    return {"method": name, "summary": cls.summary, **_options(cls), "source": cls.source}


def _options(cls: type) -> dict[str, Any]:
    """Each option as NAME=DEFAULT, and what it accepts."""
    from dataclasses import MISSING

    from sottovoce.parameters import options_of

    options = options_of(cls).values()
    return {
        "options": [f"{option.name}={option.default!r}" if option.default is not MISSING else option.name
                    for option in options],
        "limits": {option.name: option.limit for option in options if option.limit},
    }  # fmt: skip


def _show(row: dict[str, Any], more: str = "") -> None:
    put_text(f"{row['method']:<15} {row['summary']} ({row['source']})")
    limits = {name: limit for name, limit in row["limits"].items() if not limit.endswith(WIDE)}
    options = "; ".join(
        name + (f" ({limit})" if (limit := limits.get(name.partition("=")[0])) else "") for name in row["options"]
    )
    details = [more] if more else []
    details += [f"options: {options}"] if options else []
    if details:
        put_text(f"{'':<15} {'; '.join(details)}")
