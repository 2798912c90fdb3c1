"""What ``make docs`` writes while it builds: the commands, the methods, and pages that stand outside of ``docs``.

Read by mkdocs (``hooks`` in mkdocs.yml). Nothing of it is kept in the repository, so that it is never out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs_markdown import bound, from_the_root, widened
from docs_reference import command_page, methods_page
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]

BOOST = {"guides": 3, "tutorials": 3, "explanations": 3, "reference": 2, "results": 0.5, "decisions": 0.5}
"""How early the pages of a folder come in a search."""
OUTSIDE = {"contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md"}


def on_config(config: Any) -> Any:
    """Lists the pages of the folders that the navigation names. What is described is this tree's package."""
    sys.path.insert(0, str(ROOT / "src"))
    config.nav = [_filled(entry, Path(config.docs_dir)) for entry in config.nav]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are written here."""
    pages = {"reference/commands.md": command_page(), "reference/methods.md": methods_page()}
    pages |= {name: from_the_root((ROOT / source).read_text("utf-8")) for name, source in OUTSIDE.items()}
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """What was written for GitHub, as it is read here; and how early a page is found."""
    folder = page.file.src_uri.rpartition("/")[0]
    page.meta.setdefault("search", {"boost": BOOST.get(folder, 1)})
    return bound(widened(markdown))


def _filled(entry: Any, docs: Path) -> Any:
    """An entry of the navigation; a folder becomes its pages."""
    if isinstance(entry, dict):
        return {title: _filled(value, docs) for title, value in entry.items()}
    if isinstance(entry, list):
        return [_filled(value, docs) for value in entry]
    return list(_pages(docs, entry)) if entry.endswith("/") else entry


def _pages(docs: Path, folder: str) -> Iterator[str]:
    return (page.relative_to(docs).as_posix() for page in sorted((docs / folder).glob("*.md")))
