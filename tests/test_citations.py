"""Every place of the specification that is cited anywhere is in ``docs/specification.md``, whose tables hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from decimal import ROUND_CEILING, Decimal
from functools import cache
from pathlib import Path

import pytest

from sottovoce.privacy.accounting.accountant import RdpAccountant
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.unit import Adjacency

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "specification.md"
CODE = ("src/**/*.py", "tests/**/*.py", "scripts/**/*.py")
PAGES = ("*.md", "docs/*.md", "docs/proofs/*.md", "docs/decisions/*.md")
LISTS = ("8", "11")
"""Sections whose numbered items are cited as 8.4."""

LABEL = r"[TOP]\d{1,2}(?!\d)(?:\([a-c]\)|[a-c]\b)?"
PLACE = rf"(?:{LABEL}|\d+(?:\.\d+)*)"
OPENING = re.compile(
    rf"\b[Ss]pec(?:ification)?(?:'s|\.)?,? (?:the )?(?:tables? |sections? |oracles? |propert(?:y|ies) )?({PLACE})"
)
ASIDE = re.compile(r" ?\(([^()]*)\)")
NEXT = re.compile(rf"(,| and| to|, and|;) (?:its )?(items? |sections? |tables? |oracles? )?({PLACE})(?![\w%])")
BARE = re.compile(rf"\b{LABEL}")
SECTION = r"((?:1[01]|[1-9])\.\d{1,2}(?:\.\d{1,2})?)"
BRACKETED = re.compile(rf"\({SECTION}(?:(?:,| to) {SECTION})?(?:, i+)?\)")


def places(page: str) -> set[str]:
    """Every place that the page has: sections, theorems and their parts, oracles, properties, items of lists."""
    found: set[str] = set()
    here = ""
    for line in page.splitlines():
        if match := re.match(r"#{2,4} (T\d+|\d+(?:\.\d+)*)\.? ", line):
            here = match[1]
            found.add(here)
        elif match := re.match(r"\| ([OP]\d+) \|", line):
            found.add(match[1])
        elif here in LISTS and (match := re.match(r"(\d+)\. ", line)):
            found.add(f"{here}.{match[1]}")
        elif match := re.match(r"(\([a-z]\)) ", line):
            found.add(here + match[1])
    return found


def flat(text: str) -> str:
    """Text on one line: without margins, comment signs and the quotes between parts of one string."""
    return re.sub(r"\s+", " ", re.sub(r"\"\s*\n\s*f?\"|\n\s*#", " ", text))


def cited(text: str) -> Iterator[str]:
    """Every place that a text cites after the word "specification"."""
    if not re.search(r"\b[Ss]pec", text):
        return  # most files: nothing is made flat
    text = flat(text)
    for opening in OPENING.finditer(text):
        last, end, section = opening[1], opening.end(), opening[1]
        yield named(last)
        while True:
            if aside := ASIDE.match(text, end):
                if item := re.fullmatch(r"item (\d+)", aside[1]):
                    yield f"{section}.{item[1]}"
                end = aside.end()
            following = NEXT.match(text, end)
            if not following:
                break
            joint, kind, place = following.groups()
            if place.isdigit() and (section in LISTS or (kind or "").startswith("item")):
                place = f"{section}.{place}"
            elif not (kind or "").startswith("item"):
                section = place
            yield from (between(last, place) if joint == " to" else [named(place)])
            last, end = place, following.end()


def named(place: str) -> str:
    """``T16c`` is the page's ``T16(c)``."""
    return re.sub(r"(?<=\d)([a-c])$", r"(\1)", place)


def between(first: str, last: str) -> list[str]:
    """The places after ``first`` up to ``last``: T2 to T4, or 5.8 to 5.11."""
    head, start = re.fullmatch(r"(.*?)(\d+)", first).groups()  # type: ignore[union-attr]
    other, stop = re.fullmatch(r"(.*?)(\d+)", last).groups()  # type: ignore[union-attr]
    return [f"{head}{number}" for number in range(int(start) + 1, int(stop) + 1)] if head == other else [last]


def bracketed(source: str) -> Iterator[str]:
    """Sections alone in brackets, such as (2.4), in the docstrings of a module; and the sources of its registries."""
    if "source=" not in source and not (
        re.search(r"\((?:1[01]|[1-9])\.\d", source) and BRACKETED.search(re.sub(r"\s+", " ", source))
    ):
        return
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (words := ast.get_docstring(node)):
            prose = " ".join(line for line in words.splitlines() if not line.lstrip().startswith((">>>", "...")))
            for match in BRACKETED.finditer(prose):
                yield from (place for place in match.groups() if place)
        elif isinstance(node, ast.keyword) and node.arg == "source":
            yield from re.findall(rf"^.({PLACE})\b", ast.unparse(node.value))


@cache
def known() -> set[str]:
    return places(PAGE.read_text("utf-8"))


def files() -> list[Path]:
    return sorted(path for pattern in (*CODE, *PAGES) for path in ROOT.glob(pattern) if path != Path(__file__))


def missing(text: str, *, is_code: bool) -> set[str]:
    """What a file cites that is not there."""
    wanted = set(cited(text))
    labels = BARE.findall(text if not is_code else "\n".join(re.findall(r"#.*|\"\"\"(?s:.*?)\"\"\"", text)))
    wanted |= {named(label) for label in labels if not label.startswith("T0")}
    if is_code:
        wanted |= set(bracketed(text))
    return {place for place in wanted if place not in known()}


def test_every_cited_place_exists():
    found = {
        str(path.relative_to(ROOT)): lost
        for path in files()
        if (lost := missing(path.read_text("utf-8"), is_code=path.suffix == ".py"))
    }
    assert found == {}, f"cited, but not in {PAGE.name}"


@pytest.mark.slow
def test_citations_are_found_in_number():
    # A reader that finds nothing would pass everything: the package cites well over a hundred places.
    counted = [place for path in files() if path.suffix == ".py" for place in cited(path.read_text("utf-8"))]
    assert len(counted) > 150
    assert len(set(counted)) > 50


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("specification 5.5.2). Proof", ["5.5.2"]),
        ("specification T2 to T4 and T6 (bounded range), T7 (pure), 6.1.", ["T2", "T3", "T4", "T6", "T7", "6.1"]),
        ("(specification 11, items 10 to 12).", ["11", "11.10", "11.11", "11.12"]),
        ("specification 8 (item 7).", ["8", "8.7"]),
        ("the specification's table 2.2. Under", ["2.2"]),
        ('source="Vinod et al. (2025); spec. 5.11",', ["5.11"]),
        ("(specification 5.2: width 1.49 at epsilon 1)", ["5.2"]),
        ("Sources     specification T8,\n            5.4, 9.3.", ["T8", "5.4", "9.3"]),
        ("    # (specification T16c).", ["T16(c)"]),
    ],
)
def test_a_citation_is_read_as_a_person_reads_it(text, places):
    assert list(cited(text)) == places


@pytest.mark.parametrize(
    "text",
    [
        "specification 5.19",
        "specification 2.2.9, T1",
        "specification T1 to T25",
        "specification 8 (item 40)",
        "specification 11, items 26 to 28",
        '"""By T33 the loss is bounded."""',
        '"""A fixed denominator (2.9)."""',
        'row("x", source="5.5.9")',
        "# Oracle O77",
    ],
)
def test_a_citation_of_what_is_not_there_is_found(text):
    assert missing(text, is_code=not text.startswith("spec"))


def test_files_that_the_page_names_exist():
    named_files = re.findall(r"`((?:tests|docs)/[^`\s]+)`", PAGE.read_text("utf-8"))
    assert len(named_files) > 30
    assert [name for name in named_files if not (ROOT / name).is_file()] == []


def table_after(words: str) -> list[list[str]]:
    """Cells of the first table after a heading, without its head."""
    _, _, rest = PAGE.read_text("utf-8").partition(words)
    rows = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    assert rows is not None
    return [[cell.strip() for cell in line.strip("| \n").split("|")] for line in rows[0].splitlines()[2:]]


def is_rounded_up(printed: str, value: float) -> bool:
    shown = Decimal(printed.strip())
    return Decimal(value).quantize(shown, rounding=ROUND_CEILING) == shown


def composed(eta: float, steps: int, *names: str) -> list[float]:
    bounds = RdpAccountant(Adjacency.REPLACE_ONE).compose(BoundedRange(eta), steps).report(1e-5, names).bounds
    return [bounds[name] for name in names]


def test_the_composition_table_is_the_accountants_rounded_up():
    for setting, _, _, _, *printed in table_after("### Composition methods compared"):
        eta, steps = setting.split(", ")
        bounds = composed(float(eta), int(steps), "zCDP", "RDP", "PLD", "optimal")
        assert [is_rounded_up(shown, value) for shown, value in zip(printed, bounds, strict=True)] == [True] * 4


def test_the_table_of_prism_is_the_accountants_rounded_up():
    for setting, shown, _, _, *sides in table_after("### 5.10 PRISM"):
        s, tau = map(float, setting.split(", "))
        eta = 10 / (s * tau)
        assert is_rounded_up(shown, eta)
        for times, side in enumerate(sides, start=1):
            bounds = composed(times * eta, 100, "zCDP", "RDP")
            assert [is_rounded_up(*pair) for pair in zip(side.split(" / "), bounds, strict=True)] == [True, True]


def test_the_tests_that_hold_what_hostile_readings_proved_exist():
    text = (ROOT / "docs" / "results" / "hostile-readings.md").read_text("utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| `")]
    assert all("::" in row[-1] for row in rows)
    pointed = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(pointed) > len(rows) > 15
    assert [
        f"{file}::{name}"
        for file, name in pointed
        if f"\ndef {name}(" not in (ROOT / "tests" / file).read_text("utf-8")
    ] == []


@pytest.mark.parametrize("page", ["guarantees.md", "nist-sp-800-226.md"])
def test_what_a_page_of_guarantees_points_to_exists(page):
    text = (ROOT / "docs" / page).read_text("utf-8")
    pointed = re.findall(r"`((?:tests|docs|src)/[^`\s]+)`", text)
    pointed += [f"docs/{name}" for name in re.findall(r"(?:`|\]\()((?:proofs/|results/)?[a-z0-9_-]+\.md)[`)]", text)]
    assert pointed
    assert [name for name in pointed if not (ROOT / name).exists()] == []


def test_every_hazard_is_answered_and_a_yes_names_its_evidence():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "nist-sp-800-226.md").read_text("utf-8").splitlines()
        if line.startswith("|") and not line.startswith(("|---", "| hazard"))
    ]
    assert len(rows) > 30
    assert {handled for _, handled, _, _ in rows} == {"yes", "partly", "no"}
    assert [hazard for hazard, handled, _, where in rows if handled == "yes" and "`" not in where] == []
