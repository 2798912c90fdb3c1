"""The tutorials, followed to the letter in a copy of the tree: every file is written, every command typed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from docs.blocks import ROOT, blocks_of

TUTORIALS = sorted(page.name for page in (ROOT / "docs" / "tutorials").glob("*.md"))
PROGRAMS = {"python": [sys.executable], "sotto": [sys.executable, "-c", "from sottovoce.cli import main; main()"]}


def copy_of_the_tree(folder):
    for name in ("src", "tests", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "results", "slow", "mutants")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("conftest.py", "pyproject.toml", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder / name)


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", TUTORIALS)
def test_a_tutorial_can_be_followed_to_the_letter(tutorial, tmp_path):
    copy_of_the_tree(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "SOTTOVOCE_HOME": str(tmp_path / "store")}
    typed = 0
    for block in blocks_of(ROOT / "docs" / "tutorials" / tutorial):
        if block.title:
            (tmp_path / block.title).write_text(block.text, "utf-8")
        if block.language != "shell":
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            program, *words = shlex.split(line, comments=True)
            done = subprocess.run(
                [*PROGRAMS[program], *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            wanted = int(block.mark("exit code") or 0)
            assert done.returncode == wanted, f"{block.place}: {line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            typed += 1
    assert typed > 3
