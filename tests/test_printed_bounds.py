"""Every bound that is printed goes through ``privacy/numbers.py``: the source is read for formats that do not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sottovoce

SOURCE = Path(sottovoce.__file__).parent
MEASURED = "benchmarks"
"""Its tables print parameters and measured figures; only what it derives from bounds is looked at."""

BOUND_NO_LOSS = {
    "audits": {"off", "rate", "100 * fpr", "CONFIDENCE", "100 * CONFIDENCE", "scores", "factor", "estimate",
        "round(1000 * share) / 10", "100 * found",
    },
    "cli": {
        "seconds", "summary['seconds']", "summary['accuracy']", "low", "high", "rate", "c['largest_difference']",
        "ratio", "option.clip", "value", "written / seconds", "done / (time.perf_counter() - started)",
        "bar.tasks[0].speed or 0",
        "row.lead.mean", "lead", "100 * share", "100 * low", "100 * high", "before", "after",
    },
    "explain": {"value"},
    "fitting": {"best.lead.mean"},
    "intervals": {
        "100 * self.value", "100 * self.low", "100 * self.high", "self.value", "self.low", "self.high",
    },
    "mechanisms": {"low", "high"},
    "methods": {"self.ceiling", "(SPREAD / (turns * rate) * setting.labels / _units(setting, SUPPOSED)) ** 2"},
    "models": {
        "float(np.mean(one))", "float(np.mean(many))", "gap", "allowed", "moved", "float(getattr(head, name))",
        "float(numbers[name])",
    },
    "parameters": {"self.least", "self.most", "value"},
    "planner": {
        "over[0]", "over[1]", "over[2]", "setting.clip", "chooser.grid.prior_weight", "value", "x", "rounded",
        "self.mean", "self.standard_error", "low", "high", "end", "lead.mean", "right", "floor", "right - floor",
        "fit.accuracy.mean", "DELTA",
    },
    "privacy": {"self.alpha", "MOST_COUNT"},
    "records": {"number"},
    "testing": {  # says by how much a contract was broken; a contract that holds prints none of them
        "rho * order", "epsilon", "delta", "claim.pure", "claim.width", "cost", "price.epsilon", "price.delta",
        "stated", "charged", "least", "most", "x", "time.perf_counter() - started", "ratio", "value", "lost", "point",
        "allowed", "square / len(flat)", "plan.report.epsilon",
    },
}  # fmt: skip
"""By room: what is rounded to the nearest since it promises nothing, such as times, accuracies and limits of input."""

UPPER = {"spent", "report", "charged", "cap"}
LOWER = {"left", "reached"}
"""Words of figures that bound from above, and from below: neither goes through the other's function."""
NEVER = {"rounded_up": LOWER, "float_above": LOWER, "rounded_down": UPPER, "float_below": UPPER}
DERIVED = UPPER | LOWER | {"bound", "bounds"}
ROUNDING = {"round", "format", "format_float_positional", "format_float_scientific"}


def rounded(tree: ast.AST) -> Iterator[ast.expr]:
    """Every expression that is rounded to the nearest digit."""
    for node in ast.walk(tree):
        match node:
            case ast.FormattedValue(value=value, format_spec=ast.JoinedStr() as spec):
                if ast.unparse(spec)[2:-1].endswith(tuple("gGfFeE%n")):
                    yield value
            case ast.Call(func=func, args=[value, _]):
                if (func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")) in ROUNDING:
                    yield value
            case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod(), right=value):
                yield value


def words(expression: ast.AST) -> set[str]:
    """Names and attributes in an expression; of ``cap.left`` only ``left``."""
    nodes = list(ast.walk(expression))
    owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    names = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in owners}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute) and id(node) not in owners}


def past_the_function(room: str, text: str) -> list[str]:
    """Expressions that a file of this room prints by itself although they may be bounds."""
    found = rounded(ast.parse(text))
    if room == MEASURED:
        return [ast.unparse(value) for value in found if words(value) & DERIVED]
    return [what for value in found if (what := ast.unparse(value)) not in BOUND_NO_LOSS.get(room, set())]


def on_the_wrong_side(text: str) -> list[str]:
    """Upper bounds that are rounded down, and what is left rounded up."""
    if not any(name in text for name in NEVER):
        return []
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and words(node.func) & set(NEVER) and node.args
        if words(node.args[0]) & set().union(*(NEVER.get(name, set()) for name in words(node.func)))
    ]


def files() -> list[tuple[str, str]]:
    """Every module: its path below the package, and its text."""
    return [(p.relative_to(SOURCE).as_posix(), p.read_text("utf-8")) for p in sorted(SOURCE.rglob("*.py"))]


def test_no_module_rounds_a_bound_by_itself():
    found = {
        path: wrong
        for path, text in files()
        if (wrong := past_the_function(path.removesuffix(".py").split("/")[0], text))
    }
    assert found == {}, "print bounds by rounded_up, rounded_down or factor_up, or list what promises nothing"


def test_upper_bounds_are_rounded_up_and_what_is_left_is_rounded_down():
    assert {path: wrong for path, text in files() if (wrong := on_the_wrong_side(text))} == {}


@pytest.mark.parametrize(
    "text",
    [
        'f"epsilon {report.epsilon:.4g}"',
        'f"at most a factor of {math.exp(epsilon):.4g}"',
        "told = round(balance.spent, 6)",
        '"epsilon %.3g" % epsilon',
        "format(delta, '.2e')",
    ],
)
def test_a_bound_that_is_formatted_on_the_spot_is_found(text):
    assert past_the_function("cli", text)
    assert not past_the_function("cli", 'f"{rounded_up(report.epsilon)} {count:,} {name:<13}"')


@pytest.mark.parametrize("text", ["rounded_up(balance.left)", "rounded_down(b.spent, 6)", "float_above(level.left)"])
def test_a_bound_that_is_rounded_to_the_wrong_side_is_found(text):
    assert on_the_wrong_side(text)
