"""``sotto account``: what a method or a list of events costs, and what its paper would have claimed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.cli import options as o
from sottovoce.cli.console import put, say, table
from sottovoce.errors import ParameterError
from sottovoce.privacy.numbers import rounded_up

if TYPE_CHECKING:
    from sottovoce.privacy.events import DpEvent
    from sottovoce.privacy.explain import Explanation, Setting, Side

METHODS = (
    "poe, rnm, pbs, esa, ksa, dpm, tang, amin, prism, invisible-ink, exponential (generic bounded-range steps), "
    "or events (with --file)"
)
SETTING = (
    "delta", "queries", "units_per_expert", "slots_per_unit", "assignment", "adjacency", "epsilon", "unit",
)  # fmt: skip

Text = str | None


def _option(*names: str, help: str) -> Any:
    return typer.Option(*names, help=help, show_default=False)


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("account")(account)


def account(
    context: typer.Context,
    method: Annotated[str, typer.Argument(metavar="METHOD", help=METHODS)],
    delta: Annotated[Text, _option("--delta", help="Delta of the whole plan [1e-6].")] = None,
    queries: Annotated[Text, _option("--queries", help="Answers [1].")] = None,
    tokens: Annotated[Text, _option("--tokens", help="Tokens an answer [1]; for amin the most private ones.")] = None,
    steps: Annotated[Text, _option("--steps", help="exponential: steps [1].")] = None,
    epsilon: Annotated[Text, _option("--epsilon", help="Price of one answer: sets the method's noise.")] = None,
    adjacency: Annotated[
        Text, _option("--adjacency", help="The one --epsilon is meant for, or events were worked out for.")
    ] = None,
    units_per_expert: Annotated[
        Text, _option("--units-per-expert", "-g", help="Units an expert sees [1]; above 1, add-remove is a swap.")
    ] = None,
    slots_per_unit: Annotated[Text, _option("--slots-per-unit", help="Experts one unit may be in [1].")] = None,
    assignment: Annotated[
        Text,
        _option("--assignment", help="own-slot, stable-id, content, chunks, retrieved or retrieved-groups."),
    ] = None,
    unit: Annotated[Text, _option("--unit", help="Who is protected, for the report [record].")] = None,
    clip: Annotated[Text, _option("--clip", help="Clip constant: C, c or B.")] = None,
    batch: Annotated[Text, _option("--batch", help="s or B, the fixed denominator of decoding.")] = None,
    temperature: Annotated[Text, _option("--temperature", help="tau.")] = None,
    experts: Annotated[Text, _option("--experts", help="m or M, the fixed denominator of a mean.")] = None,
    rate: Annotated[Text, _option("--rate", help="lambda, the weight of one unit of utility.")] = None,
    eta: Annotated[Text, _option("--eta", help="exponential: bounded range of a step.")] = None,
    noise: Annotated[Text, _option("--noise", help="rnm, tang: which noise.")] = None,
    release: Annotated[Text, _option("--release", help="ksa: joint, top-k, ptr or histogram.")] = None,
    scale: Annotated[Text, _option("--scale", help="Scale of Laplace or exponential noise.")] = None,
    sigma: Annotated[Text, _option("--sigma", help="Deviation of Gaussian noise.")] = None,
    sampler: Annotated[
        Text, _option("--sampler", help="Gaussian noise: discrete (priced by zCDP) or continuous [discrete].")
    ] = None,
    candidates: Annotated[Text, _option("--candidates", help="K, labels or tokens to choose from.")] = None,
    sampling_probability: Annotated[Text, _option("--sampling-probability", help="pbs: q.")] = None,
    subsamples: Annotated[Text, _option("--subsamples", help="pbs: subsamples an answer [1].")] = None,
    keywords: Annotated[Text, _option("--keywords", help="ksa top-k: k.")] = None,
    words: Annotated[Text, _option("--words", help="ksa histogram: most keywords one response adds.")] = None,
    failure_delta: Annotated[Text, _option("--failure-delta", help="ksa ptr: the test's own delta.")] = None,
    threshold_scale: Annotated[Text, _option("--threshold-scale", help="amin: Laplace scale of the threshold.")] = None,
    kappa: Annotated[Text, _option("--kappa", help="dpm: weight of the splits.")] = None,
    levels: Annotated[Text, _option("--levels", help="dpm: depth.")] = None,
    count_sigma: Annotated[Text, _option("--count-sigma", help="dpm: deviation of the counts.")] = None,
    radius: Annotated[Text, _option("--radius", help="dpm: largest norm of an embedding [1].")] = None,
    emptiness: Annotated[Text, _option("--emptiness", help="dpm: weight we [5].")] = None,
    centreness: Annotated[Text, _option("--centreness", help="dpm: weight wc [1].")] = None,
    rise: Annotated[Text, _option("--rise", help="dpm: t of the centreness profile [0.3].")] = None,
    knee: Annotated[Text, _option("--knee", help="dpm: q of the centreness profile [1/12].")] = None,
    one_coordinate: Annotated[
        bool | None, _option("--one-coordinate", help="dpm: every split's coordinate is fixed from public data.")
    ] = None,
    file: Annotated[Text, _option("--file", help="events: a JSON list of events, each with an optional count.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Explain what a method or a list of events costs under both adjacencies. Reads nothing private."""
    given = {
        name: value for name, value in context.params.items() if value is not None and name not in ("method", "as_json")
    }
    explanation = _explanation(method, given)
    if as_json:
        put(explanation.as_dict())
        return
    _show(explanation)


def _explanation(method: str, given: dict[str, Any]) -> Explanation:
    """Prices what was asked; errors name the options as they are typed."""
    from sottovoce.privacy.explain import Setting, explain, explain_events

    try:
        setting = Setting(**{name: given.pop(name) for name in SETTING if name in given})
        if method == "events":
            return explain_events(_events(given, setting), setting)
        return explain(method, given, setting)
    except ParameterError as error:
        raise ParameterError(_typed(error.name), error.value, error.limit) from None


def _typed(name: str) -> str:
    if name == "method":
        return "METHOD"
    return f"--{name.replace('_', '-')}" if name.isidentifier() else name


def _events(given: dict[str, Any], setting: Setting) -> list[tuple[DpEvent, int]]:
    from sottovoce.privacy.explain_events import read_events

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
        say(line)
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
