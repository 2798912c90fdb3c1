"""``sotto account``: what a method or a list of events costs, and what its paper would have claimed.

Every option of a method, a decoding method, a fitter, an answerer and a cost model is an option here, by its own name:
the flags are made from the registries when the command runs, and no list is kept.
"""

from __future__ import annotations

import inspect
import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from sottovoce.cli import options as o
from sottovoce.cli import panels
from sottovoce.cli.console import put, put_text, table
from sottovoce.errors import ParameterError
from sottovoce.privacy.numbers import rounded_up

if TYPE_CHECKING:
    from sottovoce.explain import Explanation, Setting, Side
    from sottovoce.privacy.events import DpEvent

SETTING = (
    "delta", "queries", "units_per_expert", "slots_per_unit", "assignment", "adjacency", "epsilon", "unit",
)  # fmt: skip
OF_METHODS: Final = "sottovoce.options"
"""Where the flags that were made from the registries are kept, out of the way of the command's own."""

Text = str | None


def _option(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, show_default=False)


class _AccountCommand(TyperCommand):
    """The command with a flag for every option that something registered has."""

    def get_params(self, ctx: Any) -> list[Any]:
        own = super().get_params(ctx)
        taken = {name for parameter in own for name in parameter.opts}
        return [*own, *(made for made in _flags() if made.opts[0] not in taken)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest: list[str] = super().parse_args(ctx, args)
        own = {parameter.name for parameter in self.params}
        ctx.meta[OF_METHODS] = {name: ctx.params.pop(name) for name in [*ctx.params] if name not in own}
        return rest


@cache
def _flags() -> list[Any]:
    """A flag for every option of the registries, made as typer makes those of a function."""
    from sottovoce.explain import options_of_kind, registered_subjects
    from sottovoce.explain.subject import ALIASES

    helps: dict[str, dict[str, list[str]]] = {}
    switches = set()
    for subject, kind in registered_subjects().items():
        for name, option in options_of_kind(kind).items():
            helps.setdefault(name, {}).setdefault(option.limit or "see the method", []).append(subject)
            switches |= {name} if option.kind is bool else set()
    descriptions = {
        name: "; ".join(f"{', '.join(of)}: {words}" for words, of in by.items()) for name, by in helps.items()
    }
    descriptions |= {alias: f"another name of --{name}" for alias, name in ALIASES.items()}

    def made(**values: object) -> None:
        """Has the flags as parameters."""

    parameters = []
    for name in sorted(descriptions):
        flag, switch = name.replace("_", "-"), name in switches
        names = f"--{flag}/--no-{flag}" if switch else f"--{flag}"
        annotation = Annotated[(bool if switch else str) | None, _option(names, help=f"{descriptions[name]}.")]  # type: ignore[valid-type]
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
        made.__annotations__[name] = annotation
    made.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    commands = typer.Typer(add_completion=False)
    commands.command()(made)
    flags: list[Any] = list(typer.main.get_command(commands).params)
    for flag in flags:
        flag.rich_help_panel = panels.OF_METHODS
    return flags


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("account", cls=_AccountCommand)(account)


def account(
    context: typer.Context,
    method: Annotated[
        str,
        typer.Argument(metavar="METHOD", help="A method with a guarantee, see 'sotto methods', or events."),
    ],
    delta: Annotated[
        Text,
        _option(
            "--delta", help="Delta of the whole plan (1e-6); of an answer from a sample only where given or needed."
        ),
    ] = None,
    queries: Annotated[Text, _option("--queries", help="Answers; those from a fit are free. Default: 1.")] = None,
    epsilon: Annotated[Text, _option("--epsilon", help="Price of one answer, or of one fit: sets the noise.")] = None,
    adjacency: Annotated[
        Text, _option("--adjacency", help="The adjacency that --epsilon, or the list of events, is meant for.")
    ] = None,
    units_per_expert: Annotated[
        Text, _option("--units-per-expert", "-g", help="Units an expert sees (1); above 1, add-remove is a swap.")
    ] = None,
    slots_per_unit: Annotated[Text, _option("--slots-per-unit", help="Experts one unit may be in. Default: 1.")] = None,
    assignment: Annotated[
        Text,
        _option("--assignment", help="own-slot, stable-id, content, chunks, retrieved or retrieved-groups."),
    ] = None,
    unit: Annotated[Text, _option("--unit", help="Who is protected, for the report. Default: record.")] = None,
    option: o.Options = None,
    file: Annotated[Text, _option("--file", help="events: a JSON list of events, each with an optional count.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Explain what a method or a list of events costs under both adjacencies. Reads nothing private."""
    typed = {name: value for name, value in context.meta[OF_METHODS].items() if value is not None}
    if file is not None:
        typed["file"] = file
    own = {name: value for name in SETTING if (value := context.params[name]) is not None}
    explanation = _explanation(method, own, o.MethodOptions(option or (), typed))
    if as_json:
        put(explanation.as_dict())
        return
    _show(explanation)


def _explanation(method: str, own: dict[str, Any], options: o.MethodOptions) -> Explanation:
    """Prices what was asked; errors name the options as they are typed."""
    from sottovoce.explain import Setting, explain, explain_events

    try:
        with options.as_typed():
            setting = Setting(**own, answer_delta=own.get("delta"))
            if method == "events":
                return explain_events(_events(dict(options.values), setting), setting)
            return explain(method, options.values, setting)
    except ParameterError as error:
        raise ParameterError(_typed(error.name), error.value, error.limit) from None


def _typed(name: str) -> str:
    if name == "--method":
        return "METHOD"
    return f"--{name.replace('_', '-')}" if name.isidentifier() else name


def _events(given: dict[str, Any], setting: Setting) -> list[tuple[DpEvent, int]]:
    from sottovoce.privacy.event_json import read_events

    file = given.pop("file", None)
    for name, value in given.items():
        raise ParameterError(name, value, "absent: events has file, adjacency, delta and unit")
    for name in ("queries", "units_per_expert", "slots_per_unit", "assignment", "epsilon"):
        if (value := getattr(setting, name)) != type(setting).__dataclass_fields__[name].default:
            raise ParameterError(name, value, "absent: events has file, adjacency, delta and unit")
    if file is None:
        raise ParameterError("file", None, "given: a JSON list of events")
    try:
        plan = json.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise ParameterError("file", file, f"a file that can be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise ParameterError("file", file, f"JSON ({error})") from None
    return read_events(plan, file)


def _show(explanation: Explanation) -> None:
    sides = explanation.sides
    bounds = dict.fromkeys(name for side in sides if side.report for name in side.report.bounds)
    rows = [["change", *(side.change.split(":")[0] or "no guarantee" for side in sides)]]
    cells = ([name, *(_cell(side, name) for side in sides)] for name in bounds)
    rows += [row for row in cells if set(row[1:]) - {"none", "-"}]
    rows.append(["epsilon", *(_cell(side, None) for side in sides)])
    if explanation.paper_epsilon is not None:
        rows.append(["the paper's", *(f"{rounded_up(explanation.paper_epsilon, 5)}" for _ in sides)])
    for line in explanation.lines():
        put_text(line)
    table(
        f"{explanation.method}: steps {explanation.steps}, delta {rounded_up(explanation.setting.delta)}",
        ["epsilon by", *(side.adjacency.value for side in sides)],
        rows,
    )


def _cell(side: Side, bound: str | None) -> str:
    if side.report is None:
        return "-"
    value = side.report.epsilon if bound is None else side.report.bounds.get(bound, float("inf"))
    return "none" if value == float("inf") else rounded_up(value, 5)
