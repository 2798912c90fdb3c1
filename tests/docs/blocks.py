"""Code blocks of the pages, and what runs them: commands and Python in this process, a page's blocks one after another.

Comments above a block say what is not plain: ``<!-- slow -->``, ``<!-- exit code 3 -->``, ``<!-- output -->`` (the
block is what the one before printed, line by line), ``<!-- output varies: why -->``, ``<!-- not run: why -->``.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sottovoce.cli import run

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"(?P<marks>(?:^<!--[^\n]*-->\n)*)^(?P<margin> *)```(?P<language>[a-z]*)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^(?P=margin)```$",
    re.MULTILINE | re.DOTALL,
)
RUN = {"shell", "python"}
SHOWN = {"text", "json", "toml", "sql"}


@dataclass(frozen=True)
class Block:
    """A fenced block with the comments above it."""

    page: str
    line: int
    language: str
    title: str
    text: str
    marks: tuple[str, ...]

    def mark(self, name: str) -> str | None:
        """What follows the name of a mark; empty where nothing does, ``None`` where the mark is not there."""
        for mark in self.marks:
            if mark == name or mark.startswith((f"{name}:", f"{name} ")):
                return mark.removeprefix(name).lstrip(": ")
        return None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[list[str]]:
        """Words of each command line, without the program's name."""
        lines = self.text.replace("\\\n", " ").splitlines()
        words = [found for line in lines if (found := shlex.split(line, comments=True))]
        assert all(each[0] == "sotto" for each in words), f"{self.place}: only sotto is run; mark the block"
        return [each[1:] for each in words]


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page in their order."""
    whole = page.read_text("utf-8")
    for match in FENCE.finditer(whole):
        margin = match["margin"]
        text = "".join(line.removeprefix(margin) for line in match["text"].splitlines(keepends=True))
        marks = tuple(re.findall(r"<!-- (.*?) -->", match["marks"]))
        line = whole.count("\n", 0, match.start()) + 1
        yield Block(page.name, line, match["language"], match["title"] or "", text, marks)


@dataclass
class Runner:
    """Runs blocks in the current folder; names that Python defines are kept from block to block."""

    slow: bool
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    printed: str = ""
    out: io.StringIO = field(default_factory=io.StringIO)
    ran: list[str] = field(default_factory=list)

    def run(self, block: Block) -> None:
        """Runs one block, writes the file that it stands for, or compares it with what was printed before."""
        if block.mark("not run") is not None or (block.mark("slow") is not None and not self.slow):
            self.printed = ""
            return
        if block.title:
            Path(block.title).write_text(block.text, "utf-8")
        elif block.mark("output") is not None and block.language == "text":
            self.compare(block)
        elif block.language in RUN:
            self.out = io.StringIO()
            with contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.out):
                self.code(block) if block.language == "python" else self.shell(block)
            self.printed = self.out.getvalue()
            self.ran.append(block.place)

    def code(self, block: Block) -> None:
        exec(compile(block.text, block.place, "exec"), self.names)

    def shell(self, block: Block) -> None:
        *before, last = block.commands
        expected = int(block.mark("exit code") or 0)
        for words, wanted in [*((words, 0) for words in before), (last, expected)]:
            code = run(words)
            assert code == wanted, f"{block.place}: sotto {shlex.join(words)} ended with {code}\n{self.out.getvalue()}"

    def compare(self, block: Block) -> None:
        """Each line that is shown was printed, in this order."""
        if block.mark("output") != "":
            return
        printed = iter(" ".join(line.split()) for line in self.printed.splitlines())
        missing = [line for line in block.text.splitlines() if not any(" ".join(line.split()) == p for p in printed)]
        assert missing == [], f"{block.place}: not printed: {missing}"
