"""The blocks of the README run, each in a folder and a store of its own."""

from __future__ import annotations

import json
import re

import pytest

from docs.blocks import ROOT, Block, Runner, blocks_of
from docs.test_code_blocks import needs_encoder, stand_ins  # noqa: F401
from sottovoce.data.bundled import tickets_file

README = ROOT / "README.md"
LABELS = ("billing", "fraud", "shipping")
SLOW = re.compile(r"sotto (synthesize|demo)\b")
CHATS = {"chats.jsonl": 40, "meetings.jsonl": 16, "new_chats.jsonl": 2}
"""Files of dialogues with their summaries, and how many each has."""
FURTHER = {
    "texts": ["a fee was charged twice", "somebody used my card"] * 40,
    "labels": ["billing", "fraud"] * 40,
    "customers": [f"C{i // 2}" for i in range(80)],
    "new_texts": ["was this fee charged twice?"],
}
"""What the block on scikit-learn takes as given."""


def kind(block: Block) -> str:
    """The README names few languages: what begins with the command is typed, what begins with make is not run here."""
    first = block.text.lstrip().split(" ", 1)[0]
    return block.language or {"sotto": "shell", "make": "make"}.get(first, "text")


ALL = [block for block in blocks_of(README) if kind(block) in {"shell", "python"}]
QUICK = [block for block in ALL if not SLOW.search(block.text)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tickets of three labels, questions, and dialogues, under the README's names."""
    monkeypatch.chdir(tmp_path)
    for name, source in (("tickets.jsonl", "private.jsonl"), ("new.jsonl", "queries.jsonl")):
        lines = tickets_file(source).read_text("utf-8").splitlines()
        kept = [line for line in lines if json.loads(line)["label"] in LABELS]
        (tmp_path / name).write_text("\n".join(kept if source == "private.jsonl" else kept[:5]) + "\n", "utf-8")
    for name, count in CHATS.items():
        said = [f"A: In {name} the {'fee' if i % 2 else 'box'} number {i} is late. B: I see." for i in range(count)]
        rows = [{"dialogue": text, "summary": f"{text[3:-10]} by days."} for text in said]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return tmp_path


def run_block(block: Block) -> None:
    Runner(slow=True, names={"__name__": "page", **FURTHER}).run(
        Block(block.page, block.line, kind(block), "", block.text, block.marks)
    )


@pytest.mark.slow
@pytest.mark.parametrize("block", QUICK, ids=lambda block: block.place)
def test_a_block_of_the_readme_runs_with_stand_ins_for_the_model(block, folder, stand_ins):  # noqa: F811
    run_block(block)


@pytest.mark.slow
@needs_encoder
@pytest.mark.parametrize("block", ALL, ids=lambda block: block.place)
def test_a_block_of_the_readme_runs_as_it_stands(block, folder):
    run_block(block)


def test_the_readme_has_blocks_of_each_kind():
    assert {kind(block) for block in blocks_of(README)} == {"shell", "python", "make", "text"}
    assert len(ALL) >= 4
