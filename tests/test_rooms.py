"""Rooms: no import circle at any level, no family of files that a prefix holds together, no large file in git."""

from __future__ import annotations

import ast
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import sottovoce

SOURCE = Path(sottovoce.__file__).parent
ROOT = SOURCE.parent.parent
TESTS = Path(__file__).parent
PACKAGE = "sottovoce"
MOST_AT_THE_ROOT = 12
FAMILY = 4
LARGEST = 1_000_000
EXEMPT = {"src/sottovoce/data/embedded_language_model/model.safetensors"}
"""Said in docs/decisions/0020-no-built-pages.md."""

Graph = dict[str, set[str]]


def module_of(path: str) -> str:
    """``a/b.py`` to ``sottovoce.a.b``, ``a/__init__.py`` to ``sottovoce.a``."""
    parts = path.removesuffix(".py").split("/")
    return ".".join([PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def imported(path: str, text: str, modules: Iterable[str]) -> set[str]:
    """The modules that a file imports by any statement: in functions, under ``TYPE_CHECKING``, relative ones too."""
    known, own = set(modules), module_of(path)
    package = own if path.endswith("__init__.py") else own.rpartition(".")[0]
    named = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            named |= {full if (full := f"{base}.{alias.name}") in known else base for alias in node.names}
    return (named & known) - {own}


def graph_of(files: Mapping[str, str]) -> Graph:
    modules = {module_of(path) for path in files}
    return {module_of(path): imported(path, text, modules) for path, text in files.items()}


def below(graph: Graph, package: str) -> Graph:
    """What a package's own parts import of each other: modules, and sub-packages as one part each."""
    prefix = f"{package}."
    parts: Graph = {}
    for module in (module for module in graph if module.startswith(prefix)):
        part = _part(module, prefix)
        others = {_part(other, prefix) for other in graph[module] if other.startswith(prefix)}
        parts.setdefault(part, set()).update(others - {part})
    return parts


def _part(module: str, prefix: str) -> str:
    return module.removeprefix(prefix).split(".")[0]


def circle(graph: Graph) -> list[str]:
    """The parts in circles, and those between two of them; empty where there is none."""
    left = set(graph)
    while True:
        needed = {other for part in left for other in graph[part]}
        kept = {part for part in left if part in needed and graph[part] & left}
        if kept == left:
            return sorted(left)
        left = kept


FILES = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}


def test_no_part_of_the_package_imports_in_a_circle():
    graph = graph_of(FILES)
    assert circle(graph) == []
    packages = {module.rpartition(".")[0] for module in graph if "." in module}
    assert {package: found for package in packages if (found := circle(below(graph, package)))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from sottovoce.b.two import Two",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sottovoce.b.two import Two",
        "def late():\n    from ..b import two",
        "def late():\n    import sottovoce.b.two",
    ],
)
def test_a_circle_is_found_whatever_the_statement(text):
    files = {"a/one.py": text, "b/two.py": "from sottovoce.a.one import One"}
    assert circle(graph_of(files)) == ["sottovoce.a.one", "sottovoce.b.two"]


def test_a_circle_of_rooms_is_found_where_no_files_make_one():
    graph = graph_of({"a/x.py": "import sottovoce.b.x", "b/x.py": "", "b/y.py": "import sottovoce.a.y", "a/y.py": ""})
    assert circle(graph) == []
    assert circle(below(graph, PACKAGE)) == ["a", "b"]


def families(paths: Iterable[str]) -> dict[str, int]:
    """Folders and first words that at least four files share."""
    stems = [Path(path.replace("/test_", "/")) for path in paths if path.endswith(".py")]
    shared = Counter(
        f"{stem.parent}/{stem.stem.strip('_').split('_')[0]}_" for stem in stems if "_" in stem.stem.strip("_")
    )
    return {name: count for name, count in shared.items() if count >= FAMILY}


def test_no_room_is_a_prefix():
    assert families(FILES) == {}
    assert families(f"tests/{path.relative_to(TESTS).as_posix()}" for path in TESTS.rglob("*.py")) == {}
    assert families(["p/ledger_a.py", "p/ledger_b.py", "p/ledger_c.py", "p/ledger_d.py"]) == {"p/ledger_": 4}
    assert families(["t/test_ledger_a.py", "t/test_ledger_b.py", "t/ledger_c.py", "t/ledger_d.py"]) == {"t/ledger_": 4}


def test_the_root_holds_at_most_a_dozen_modules():
    assert len([path for path in FILES if "/" not in path and not path.startswith("__")]) <= MOST_AT_THE_ROOT


def test_no_large_file_is_in_git():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert len(files) > 100
    large = {path.relative_to(ROOT).as_posix() for path in files if path.is_file() and path.stat().st_size > LARGEST}
    assert large == EXEMPT
