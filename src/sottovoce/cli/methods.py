"""``sotto methods``: what can be asked for with --method, and what each promises."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, say


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("methods")(methods)


def methods(as_json: o.AsJson = False) -> None:
    """List the methods and the noise mechanisms they are built from."""
    from sottovoce.mechanisms.base import registered
    from sottovoce.methods.base import Price, make_method, registered_methods
    from sottovoce.privacy.events import describe
    from sottovoce.privacy.unit import Adjacency

    rows: list[dict[str, Any]] = [
        {
            "method": name,
            "summary": cls.summary,
            "guarantee": cls.private,
            "reads": cls.reads.value,
            "needs": cls.needs,
            "options": [f"{f.name}={f.default!r}" for f in fields(cls)] if is_dataclass(cls) else [],
            "event_at_epsilon_1": describe(make_method(name).event(Price(1.0, 1e-6), Adjacency.REPLACE_ONE)),
            "source": cls.source,
        }
        for name, cls in registered_methods().items()
    ]
    if as_json:
        put({"methods": rows, "mechanisms": list(registered())})
        return
    for row in rows:
        event = row["event_at_epsilon_1"] if row["guarantee"] else "NO GUARANTEE"
        options = ", ".join(row["options"])
        say(f"{row['method']:<13} {row['summary']} ({row['source']})")
        say(f"{'':<13} one answer at epsilon 1: {event}" + (f"; options: {options}" if options else ""))
    say(f"Mechanisms: {', '.join(registered())}")
