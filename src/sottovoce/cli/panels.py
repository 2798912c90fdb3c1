"""Under which heading of ``--help`` an option stands."""

from __future__ import annotations

from typing import Any, Final

from sottovoce.cli.flags import flag_of

PANELS: Final = {
    "Input": (
        "private", "queries", "labels", "task", "demonstrations", "shots", "public", "candidates", "fitted", "schema",
        "text-column", "label-column", "answer-column", "text-field", "label-field", "max-characters", "truncate",
        "limit", "records", "questions", "made-up-labels", "pool", "rows", "results", "file", "synthetic",
    ),
    "Privacy and budget": (
        "epsilon", "delta", "adjacency", "unit", "ledger", "budget", "caller", "release-id", "allow-non-private",
        "slots-per-unit", "units-per-expert", "assignment", "group", "name", "continues",
        "require-caller", "accountant",
    ),
    "Method": (
        "method", "option", "clip", "noise", "prior-weight", "sampling-probability", "subsamples", "temperature",
        "top-k", "calibrate", "per-expert", "capacity", "per-label", "tokens", "texts-per-batch", "experts", "sampling",
        "public-experts", "inside-tokens", "max-records", "grammar",
    ),
    "Attack": (
        "canary", "canary-text", "question", "question-text", "insertion", "answers", "attacks", "runs", "seed",
        "defence",
    ),
    "Model": (
        "model", "writer", "embedder", "device", "dtype", "chat", "encoder", "engine", "workers", "endpoint",
        "endpoint-model",
    ),
    "Output": (
        "out", "out-fitted", "write-tickets", "json", "scores", "resume", "without-lost", "dry-run", "figures",
        "markdown", "long", "report", "junit", "sarif",
    ),
    "Options": ("help", "version", "config", "install-completion", "show-completion"),
}  # fmt: skip
OTHERS: Final = "Options"
"""The heading of an option that has none of its own."""
OF_METHODS: Final = "Options of single methods"
"""The heading of options that are made from the registries."""


def group(command: Any) -> None:
    """Puts every option of a command, and of those below it, under its heading."""
    for inner in getattr(command, "commands", {}).values():
        group(inner)
    headings = {key: heading for heading, keys in PANELS.items() for key in keys}
    for parameter in command.params:
        if parameter.param_type_name == "option":
            parameter.rich_help_panel = headings.get(flag_of(parameter).lstrip("-"), OTHERS)
