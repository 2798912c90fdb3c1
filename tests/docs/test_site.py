"""What the documentation site is built from: no page is forgotten, no link is dead, nothing is fetched.

``make docs`` builds it strictly; these tests need none of its packages.
"""

from __future__ import annotations

import re
import runpy

import pytest
import yaml

import sottovoce
from docs.blocks import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(ROOT).as_posix() for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
WRITTEN = {"reference/commands.md", "reference/methods.md", "contributing.md", "changes.md"}
"""Pages that are written while the site is built."""


class Settings(yaml.SafeLoader):
    """mkdocs.yml names Python objects, which are left alone."""


Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)
SITE = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Settings)


def listed(entry) -> list[str]:
    """Files and folders that the navigation names."""
    if isinstance(entry, str):
        return [entry]
    return [name for part in (entry.values() if isinstance(entry, dict) else entry) for name in listed(part)]


@pytest.fixture(scope="module")
def markdown():
    return runpy.run_path(str(ROOT / "scripts" / "docs_markdown.py"))


@pytest.fixture(scope="module")
def reference():
    return runpy.run_path(str(ROOT / "scripts" / "docs_reference.py"))


def test_every_page_is_in_the_navigation_and_every_entry_is_there():
    entries = listed(SITE["nav"])
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} | WRITTEN
    folders = tuple(entry for entry in entries if entry.endswith("/"))
    assert sorted(page for page in pages if page not in entries and not page.startswith(folders)) == []
    assert [entry for entry in entries if entry not in pages and not (DOCS / entry).is_dir()] == []


def test_nothing_is_fetched_to_read_the_site():
    assert SITE["theme"]["font"] is False
    assert "offline" in SITE["plugins"]
    assert not any(key in SITE for key in ("repo_url", "extra_javascript"))
    for asset in (*SITE["extra"]["polyfills"], *SITE["extra_css"]):
        text = (DOCS / asset).read_text("utf-8")
        assert not re.search(r"https?://|@import", text), asset


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_to_files_and_headings(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    for file, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        target = (ROOT / page).parent / file if file else ROOT / page
        if any(target.resolve() == (DOCS / written).resolve() for written in WRITTEN):
            continue
        assert target.exists(), f"{page} links to {file}"
        if anchor:
            assert anchor in anchors(target.read_text("utf-8")), f"{page} links to {file}#{anchor}"


def anchors(text: str) -> set[str]:
    """Headings as they are linked to."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_public_name_has_its_place_in_the_reference():
    page = (DOCS / "reference" / "python.md").read_text("utf-8")
    homes = {f"sottovoce.{home}.{name}" for name, home in sottovoce._HOMES.items()} | {"sottovoce.errors"}
    assert len(homes) == len(sottovoce.__all__) - 1  # `methods` is a folder, of which the page has the methods
    assert sorted(home for home in homes if f"::: {home}\n" not in page) == []


def test_the_commands_of_the_reference_are_those_that_there_are(reference):
    page = reference["command_page"]()
    for name in ("sotto fit", "sotto ledger grant", "sotto verify certificate"):
        assert f"\n## `{name}`\n" in page
    for option in ("--epsilon", "--private", "--write-tickets", "--require-caller`, `--no-require-caller"):
        assert f"| `{option}`" in page
    assert not re.search(r"bound method|<class|\\b", page)
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in page.splitlines() if line.startswith("|")]
    assert set(cells) == {3, 5}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["class-means", "prior-poe", "invisible-ink", "full-context"])
def test_the_methods_of_the_reference_are_those_that_there_are(reference, method, methods_page):
    assert f"| `{method}` |" in methods_page
    assert ("NO guarantee" in methods_page.split(f"| `{method}` |")[1].split("\n")[0]) == (method == "full-context")


@pytest.fixture(scope="module")
def methods_page(reference):
    return reference["methods_page"]()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1. one\n\n   two", "1. one\n\n    two"),
        ("- one\n\n  two\n\nthree", "- one\n\n    two\n\nthree"),
        ("1. one\n\n   ```\n   x\n     y\n   ```\n2. two", "1. one\n\n    ```\n    x\n      y\n    ```\n\n2. two"),
        ("```\n1. one\n   two\n```", "```\n1. one\n   two\n```"),
        ("text\n  moved", "text\n  moved"),
        ("1. one\n\n   two\n2. three\n3. four", "1. one\n\n    two\n\n2. three\n3. four"),
        ("1. one\n   goes on\n2. two", "1. one\n    goes on\n2. two"),
    ],
)
def test_parts_of_an_item_stay_in_it(markdown, written, read):
    assert markdown["widened"](written) == read


def test_a_number_and_its_percent_sign_stay_together(markdown):
    assert markdown["bound"]("82 % of `5 % x`\n```\n3 %\n```\n4 %") == "82\u00a0% of `5 % x`\n```\n3 %\n```\n4\u00a0%"


def test_links_of_the_root_lose_the_folder(markdown):
    assert markdown["from_the_root"]("[a](docs/a.md), [b](https://b.example)") == "[a](a.md), [b](https://b.example)"


def test_pinned_versions_agree_with_those_of_the_environment():
    pinned = {
        name: dict(
            line.lower().split("==")
            for line in (ROOT / "requirements" / name).read_text("utf-8").splitlines()
            if "==" in line and not line.startswith("#")
        )
        for name in ("base.txt", "dev.txt", "docs.txt")
    }
    both = {**pinned["base.txt"], **pinned["dev.txt"]}
    shared = pinned["docs.txt"].keys() & both.keys()
    assert len(shared) > 5
    assert {name: pinned["docs.txt"][name] for name in shared} == {name: both[name] for name in shared}
