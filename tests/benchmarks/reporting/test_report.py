"""Reports stand alone, say what they were given letter by letter, and can be read without seeing."""

from __future__ import annotations

import re
import sys
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from sottovoce.benchmarks.harness import tables
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.reporting import plots, report
from sottovoce.errors import MissingExtraError

WEIRD = '<script>alert("x")</script>&"\'`|*_$'
VOID = {"meta", "img", "br", "hr", "link", "input"}
TABLE = Table(
    "Accuracy (%) | invented",
    ("method", "epsilon", "accuracy", "remark"),
    [("PoE", "1", "84.2 (81.0 to 86.9)", "4 experts"), (WEIRD, "–", "< 9.0", "")],
    note="Read first.",
)
FIGURE = Figure("curve", f"Curve {WEIRD}", "epsilon", "accuracy (%)", [Series(WEIRD, [1, 2], [3, 4])], note="Caption.")
SECTION = ReportSection(
    "poetry table/1", "Does it work?", "Table 1", ["A < B & C.", WEIRD], [TABLE], [FIGURE], [("model", WEIRD)]
)
PLAIN = replace(SECTION, figures=[])


class Page(HTMLParser):
    """Collects what a page holds and what is wrong with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[tuple[str, str]] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()
        self.wrong += [f"{tag} is not closed" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append((tag, values))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("script", "link", "iframe", "object", "base", "form") or any(
            name.startswith("on") for name in values
        ):
            self.wrong.append(f"{tag} can act or fetch")
        for name in ("src", "href", "srcset", "xlink:href", "data", "poster"):
            if name in values and not values[name].startswith(("#", "data:image/svg+xml;base64,")):
                self.wrong.append(f"{name} leads to {values[name][:30]}")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"{tag} is closed out of order")

    def handle_data(self, data):
        if data.strip():
            self.words.append((self.open[-1] if self.open else "", data))
        if self.open and self.open[-1] == "style" and re.search(r"url\(|@import", data):
            self.wrong.append("the style sheet fetches")

    def of(self, tag: str) -> list[dict[str, str]]:
        return [values for name, values in self.tags if name == tag]

    def said(self, tag: str) -> list[str]:
        return [words for name, words in self.words if name == tag]


def written(
    tmp_path: Path, *sections: ReportSection, title: str = "A report", introduction: tuple[str, ...] = ()
) -> str:
    file = tmp_path / "new" / "report.html"
    report.write_report(sections, file, title=title, introduction=introduction)
    return file.read_text("utf-8")


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> str:
    pytest.importorskip("matplotlib", reason="the extra 'plots' is not installed")
    second = Figure("roc", "ROC", "FPR", "TPR", [Series("attack", [0, 0.1, 1], [0, 0.5, 1])], kind="steps", log_x=True)
    also = replace(SECTION, figures=[FIGURE, second])
    return written(tmp_path_factory.mktemp("report"), SECTION, also, title=WEIRD, introduction=("First.", WEIRD))


def drawings(html: str) -> list[str]:
    return [b64decode(found).decode() for found in re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', html)]


@pytest.mark.slow
def test_the_page_is_well_formed_and_fetches_nothing(html):
    assert Page(html).wrong == []
    outside = re.sub(r'src="data:[^"]*"', "", html)
    assert not re.search(r"https?://|//\w+\.\w|@import|url\(", outside)
    assert "default-src 'none'" in html


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "planted",
    [
        "<p>",
        "</p>",
        "<b><i></b></i>",
        "<script></script>",
        '<img src="https://example.org/a.png">',
        '<link href="a.css">',
        "<p onclick='x'></p>",
        "<style>p { background: url(a.png) }</style>",
    ],
)
def test_a_page_with_a_planted_fault_is_reported(html, planted):
    assert Page(html.replace("</main>", planted + "</main>")).wrong


def test_drawings_stand_alone_and_their_ids_do_not_meet(html):
    inside = drawings(html)
    assert len(inside) == 3
    for drawing in inside:
        assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', drawing))
        assert not re.search(r"<script|url\((?!#)|@import", drawing)
    ids = re.findall(r'\bid="([^"]*)"', html)  # what browsers see of the page: drawings are images of their own
    assert len(ids) == len(set(ids)) > 4


def test_weird_names_are_shown_letter_by_letter(html):
    page = Page(html)
    for tag in ("h1", "title", "p", "li", "th", "dd"):
        assert WEIRD in page.said(tag), tag
    assert any(WEIRD in image["alt"] for image in page.of("img"))
    assert all("alert" not in words for tag, words in page.words if tag == "script")


def test_control_characters_do_not_reach_the_page(tmp_path):
    html = written(tmp_path, replace(PLAIN, title="a\x00b\x1bc"))
    assert "a b c" in html
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", html)


def test_the_page_can_be_read_without_seeing(html):
    page = Page(html)
    assert page.of("html") == [{"lang": "en"}]
    assert [tag for tag, _ in page.tags if re.fullmatch(r"h\d", tag)] == ["h1", "h2", "h3", "h2", "h3"]
    assert all(head.get("scope") in ("col", "row") for head in page.of("th"))
    assert all(len(image["alt"]) > 20 for image in page.of("img"))
    ids = {values["id"] for _, values in page.tags if "id" in values}
    labels = [values["aria-labelledby"] for _, values in page.tags if "aria-labelledby" in values]
    assert labels
    assert set(labels) <= ids
    assert all(region["tabindex"] == "0" for region in page.of("div"))


def test_the_contents_lead_to_every_experiment(html):
    page = Page(html)
    links = [link["href"].removeprefix("#") for link in page.of("a")]
    assert links == [section["id"] for section in page.of("section")] == ["poetry-table-1", "poetry-table-1-2"]


def test_everything_a_section_says_is_on_the_page_in_reading_order(html):
    words = [words for _, words in Page(html).words]
    order = ["First.", "Does it work?", ", answers to: Table 1", "A < B & C.", TABLE.title, "Read first.", "Caption."]
    places = [words.index(said) for said in order]
    start = words.index("A < B & C.")  # the title is in the contents as well
    assert places == sorted(places)
    assert words.index("Measured with") > start


def test_numbers_stand_to_the_right_and_words_to_the_left(html):
    heads = [(head, words) for head, words in zip(Page(html).of("th")[:4], TABLE.columns, strict=True)]
    assert [words for head, words in heads if head.get("class") == "number"] == ["epsilon", "accuracy"]


@pytest.mark.parametrize(
    "cell", ["1", "-0.5", "−0.5", ".5", "84.2 %", "0.5 ± 0.1", "1e-05", "≥ 3", "12 s", "9 (7 to 11)"]
)
def test_a_cell_is_a_number_with_its_interval_or_unit(cell):
    assert tables._is_number(cell)


@pytest.mark.parametrize("cell", ["PoE", "4 experts", "5-shot", "", "x", "sst2"])
def test_a_cell_of_words_is_none(cell):
    assert not tables._is_number(cell)


def test_short_rows_are_filled_and_an_empty_report_is_still_a_page(tmp_path):
    ragged = Table("t", ("a", "b"), [("1",), ("1", "2", "3"), ()])
    page = Page(written(tmp_path, replace(PLAIN, tables=[ragged, Table("none", (), [])])))
    assert page.wrong == []
    assert len(page.of("td")) == 3 * 2
    assert Page(written(tmp_path)).wrong == []


@pytest.mark.slow
def test_the_same_sections_give_the_same_page(html, tmp_path):
    one, other = (written(tmp_path, SECTION) for _ in range(2))
    assert one == other != html


def test_matplotlib_is_needed_for_figures_alone(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert Page(written(tmp_path, PLAIN)).wrong == []
    with pytest.raises(MissingExtraError, match=r"pip install 'sottovoce\[plots\]'"):
        report.write_report([SECTION], tmp_path / "other.html", title="t", introduction=())
    assert not (tmp_path / "other.html").exists()
    report.write_markdown(
        [replace(SECTION, experiment="e")], tmp_path / "a.md", title="t", introduction=(), figures=tmp_path
    )


def test_markdown_tables_have_straight_columns_and_no_stray_pipe():
    lines = [line for line in report.text_tables(SECTION).splitlines() if line.startswith("|")]
    assert len(lines) == 4
    edges = [[found.start() for found in re.finditer(r"(?<!\\)\|", line)] for line in lines]
    assert len(edges[0]) == 5
    assert all(edge == edges[0] for edge in edges)
    assert re.fullmatch(r"\| -+ \| -+: \| -+: \| -+ \|", lines[1])
    assert report.text_tables(SECTION).index("Read first.") < report.text_tables(SECTION).index("| method")


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("a|b", r"a\|b"),
        ("<b>", r"\<b\>"),
        ("permute_and_flip _x_", r"permute_and_flip \_x\_"),
        ("R&D & &lt;", r"R\&D & \&lt;"),
        ("![a](b)", r"\!\[a\](b)"),
        ("back\\slash `code` $x$ *y*", r"back\\slash \`code\` \$x\$ \*y\*"),
        ("two\nlines", "two lines"),
        ("# no heading", r"\# no heading"),
        ("- no list", r"\- no list"),
        ("1. no list", r"1\. no list"),
        ("-5 points, 1.5 times", "-5 points, 1.5 times"),
        ("---", r"\---"),
    ],
)
def test_markdown_shows_a_text_as_it_is(text, marked):
    assert report.escaped(text) == marked


@pytest.mark.slow
def test_a_markdown_page_links_the_figures_that_are_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="the extra 'plots' is not installed")
    section = replace(SECTION, experiment="poetry-table1")
    drawn = plots.draw_all([section], tmp_path / "with space" / "figures")
    page = tmp_path / "docs" / "page.md"
    report.write_markdown(
        [section], page, title="T <b>", introduction=["Hello."], figures=tmp_path / "with space" / "figures"
    )
    text = page.read_text("utf-8")
    (link,) = re.findall(r"\]\((\S+)\)", text)
    assert link == "../with%20space/figures/poetry-table1-curve.png"
    assert (page.parent / link.replace("%20", " ")).resolve() == drawn[0]
    assert text.startswith(
        "<!-- sotto bench report -->\n"
        "# T \\<b\\>\n\nHello.\n\n## Does it work?\n\npoetry-table1, answers to: Table 1\n\n- A \\< B & C."
    )
    assert report.text_tables(section) in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert "\n\n\n" not in text
