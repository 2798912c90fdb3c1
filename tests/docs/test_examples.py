"""The scripts and the notebook of ``examples/`` run: by default with stand-ins for the model, slowly as they stand."""

from __future__ import annotations

import ast
import json
import os
import runpy
import subprocess
import sys

import pytest

from docs.blocks import ROOT, blocks_of
from docs.test_code_blocks import folder, needs_encoder, stand_ins  # noqa: F401

SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOK = ROOT / "examples" / "tickets.ipynb"
FIRST_WORDS = {
    "fit_and_predict": "Replacing any one 'group'",
    "own_task_and_model": "",
    "pay_per_answer": "Where is my parcel? ->",
    "scikit_learn_groups": "Replacing any one 'group'",
    "synthetic_rows": "",
}
TOGETHER = 240
"""Seconds: nobody waits longer for an example."""


def cells() -> list[str]:
    """Source of the notebook's code cells."""
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def require_what_it_needs(script) -> None:
    """Skips where an optional package is missing."""
    for extra in ("sklearn", "pandas"):
        if extra in script.read_text("utf-8"):
            pytest.importorskip(extra)


def test_there_are_five_scripts_and_each_says_how_it_is_run():
    assert [script.stem for script in SCRIPTS] == sorted(FIRST_WORDS)
    for script in SCRIPTS:
        assert f"Run: python examples/{script.name}" in (ast.get_docstring(ast.parse(script.read_text("utf-8"))) or "")


QUICK = [script for script in SCRIPTS if script.stem != "synthetic_rows"]


@pytest.mark.slow
@pytest.mark.parametrize("script", QUICK, ids=lambda script: script.stem)
def test_a_script_runs_with_stand_ins_for_the_model(script, folder, stand_ins, capsys):  # noqa: F811
    require_what_it_needs(script)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.startswith(FIRST_WORDS[script.stem])
    assert list(folder.iterdir()) == []  # what it wrote went with its own folder


@pytest.mark.slow
@needs_encoder
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_runs_as_it_stands_and_again(script, tmp_path):
    require_what_it_needs(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=TOGETHER, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(FIRST_WORDS[script.stem])


def test_the_notebook_has_the_cells_of_its_page_and_no_outputs():
    page = [b.text.strip() for b in blocks_of(ROOT / "docs" / "guides" / "notebook.md") if b.language == "python"]
    assert [cell.strip() for cell in cells()] == page
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")


@pytest.mark.slow
@needs_encoder
def test_the_notebook_runs_from_its_first_cell_to_its_last(folder):  # noqa: F811
    pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells()):
        exec(compile(cell, f"cell {number}", "exec"), names)
    assert names["fitted"].method
