"""Figures are written twice, equal for equal numbers, legible, and honest about zeros and gaps."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from itertools import combinations, pairwise
from xml.etree import ElementTree

import numpy as np
import pytest

from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series
from sottovoce.benchmarks.reporting import plots
from sottovoce.benchmarks.reporting import scales as plot_scales
from sottovoce.benchmarks.reporting import styles as plot_styles
from sottovoce.errors import MissingExtraError, ParameterError

matplotlib = pytest.importorskip("matplotlib", reason="the extra 'plots' is not installed")

EPSILONS = (0.1, 0.5, 1.0, 4.0)
RISING = (40.0, 55.0, 70.0, 80.0)


def figure(*series: Series, kind: str = "lines", **options: object) -> Figure:
    return Figure("accuracy", "A title", "epsilon", "accuracy (%)", series, kind=kind, **options)


def svg(drawn: Figure, **options: object) -> bytes:
    return plots.render(drawn, ("svg",), **options)["svg"]


def texts(drawn: bytes) -> list[str]:
    """What is written in a figure: matplotlib notes each text that it draws as outlines in a comment."""
    return re.findall("<!-- (.*?) -->", drawn.decode())


def several(count: int, x: tuple = EPSILONS) -> list[Series]:
    rows = [[value + 2 * place for value in range(len(x))] for place in range(count)]
    low, high = ([[y + shift for y in row] for row in rows] for shift in (-1, 1))
    return [Series(f"method number {place}", x, rows[place], low[place], high[place]) for place in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", plots.KINDS)
def test_both_files_are_written(tmp_path, kind):
    paths = plots.draw(figure(*several(2), kind=kind), tmp_path / "new", "poetry")
    assert [path.name for path in paths] == ["poetry-accuracy.png", "poetry-accuracy.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert ElementTree.fromstring(paths[1].read_bytes()).tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.slow
def test_equal_numbers_give_equal_files_whatever_the_users_settings(tmp_path):
    drawn = figure(*several(3), log_x=True)
    first = plots.render(drawn)
    with matplotlib.rc_context({"axes.facecolor": "red", "svg.hashsalt": "other", "font.size": 20}):
        assert plots.render(drawn) == first
        assert matplotlib.rcParams["font.size"] == 20  # put back
    assert svg(figure(*several(4), log_x=True)) != first["svg"]
    assert b"<dc:date>" not in first["svg"]


@pytest.mark.slow
def test_drawing_needs_no_pyplot_and_importing_no_matplotlib():
    program = (
        "import sys; from sottovoce.benchmarks.reporting import plots, report\n"
        "from sottovoce.benchmarks.harness import results as e\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plots.render(e.Figure('n', 't', 'x', 'y', [e.Series('a', [1, 2], [1, 2])]))\n"
        "assert 'matplotlib.figure' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_missing_matplotlib_is_answered_with_the_install_line(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"'matplotlib'.*pip install 'sottovoce\[plots\]'"):
        plots.draw(figure(*several(1)), tmp_path / "new", "x")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("series", "kind", "problem"),
    [
        (Series("a", [1, 2], [1]), "lines", "length of x, y, low, high of 'a'"),
        (Series("a", [1], [1], [0, 0], [2]), "lines", "length"),
        (Series("a", [], [1]), "lines", "length"),
        (Series("a", [1], [1]), "pies", "lines, steps, points, bars"),
    ],
)
def test_what_cannot_be_drawn_is_refused(series, kind, problem):
    with pytest.raises(ParameterError, match=problem):
        plots.render(figure(series, kind=kind))


@pytest.mark.parametrize("prefix", ["../up", "a b", ".hidden", "é"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path, prefix):
    with pytest.raises(ParameterError, match="file name"):
        plots.draw(figure(*several(1)), tmp_path, prefix)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", plots.KINDS)
def test_empty_series_and_gaps_are_drawn_as_such(kind):
    nothing = figure(Series("empty", [], []), Series("gap", [1, 2], [math.nan, math.inf]), kind=kind, log_y=True)
    assert "no data" in texts(svg(nothing))
    some = figure(Series("gap", [1, 2, 3], [1, math.nan, 2], [0, math.nan, 1], [2, math.nan, 3]), kind=kind)
    assert "no data" not in texts(svg(some))
    assert "no data" in texts(svg(figure(kind=kind)))


@pytest.mark.slow
def test_a_bar_that_was_not_measured_is_marked_and_one_of_zero_is_not():
    measured = Series("a", ["sst2", "trec"], [0.0, 80.0])
    missing = Series("b", ["sst2", "trec"], [math.nan, 80.0])
    assert "n/a" not in texts(svg(figure(measured, kind="bars")))
    assert texts(svg(figure(measured, missing, kind="bars"))).count("n/a") == 1


@pytest.mark.slow
def test_a_roc_on_logarithmic_axes_shows_its_start_at_zero():
    roc = Series("attack", [0, 0, 0.002, 1], [0, 0.1, 0.2, 1])
    options = {"kind": "steps", "log_x": True, "log_y": True, "diagonal": True}
    shown = texts(svg(figure(roc, **options)))
    assert shown.count("0") == 2
    assert {"0.01", "0.1", "1", "guessing: y = x"} <= set(shown)
    without = texts(svg(figure(Series("attack", [0.002, 1], [0.2, 1]), **options)))
    assert "0" not in without


@pytest.mark.slow
def test_zeros_stand_apart_below_the_least_positive_value():
    scale = plot_scales.Scale.of(np.array([0.0, 0.01, 1.0, math.nan]), log=True)
    placed = scale.place(np.array([0.0, 0.01, math.nan]))
    # Two decades: a tenth of them, 0.2 decades, lies between zero's place and 0.01.
    assert placed[:2].tolist() == pytest.approx([0.01 / 10**0.2, 0.01])
    assert math.isnan(placed[2])
    assert plot_scales.Scale.of(np.array([-1.0, 2.0]), log=True).strip == "≤ 0"
    assert not plot_scales.Scale.of(np.array([0.0, -1.0]), log=True).log  # nothing positive: a linear axis
    assert "≤ 0" in texts(svg(figure(Series("a", [1, 2], [1, 2], [-1, 1], [2, 3]), log_y=True)))


@pytest.mark.parametrize(
    ("least", "most", "ticks"),
    [
        (0.001, 1, [0.001, 0.01, 0.1, 1]),
        (0.1, 8, [0.1, 0.2, 0.5, 1, 2, 5]),
        (3, 7, [3, 4, 5, 6, 7]),
        (4.2, 4.2, [4.2]),
    ],
)
def test_logarithmic_ticks_are_plain_numbers(least, most, ticks):
    assert plot_scales.log_ticks(least, most) == ticks
    assert len(plot_scales.log_ticks(1e-20, 1e20)) <= 14


@pytest.mark.cases(1)
@pytest.mark.parametrize(("count", "kind"), [(3, "lines"), (7, "lines"), (12, "lines"), (30, "points"), (9, "bars")])
def test_the_legend_lists_every_series_and_covers_neither_axes_nor_edge(count, kind):
    groups = tuple(f"data set {place}" for place in range(14)) if kind == "bars" else EPSILONS
    drawn = figure(*several(count, groups), kind=kind)
    with plots._look("salt"):
        canvas = plots._Painter(drawn, plots._curves(drawn, plot_styles.assign_styles(drawn.series))).paint()
        canvas.draw_without_rendering()
        legend = canvas.legends[0].get_window_extent()
        axes = canvas.axes[0].get_tightbbox()
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == [one.name for one in drawn.series]
    assert not legend.overlaps(axes)
    assert legend.x0 >= 0
    assert legend.y0 >= 0
    assert legend.x1 <= canvas.bbox.x1
    assert legend.y1 <= canvas.bbox.y1
    assert canvas.axes[0].bbox.width >= 400  # dots, 100 an inch
    assert canvas.axes[0].bbox.height >= 200


def test_bars_of_a_group_stand_side_by_side_with_their_intervals_from_end_to_end():
    drawn = figure(*several(3, ("sst2", "trec")), kind="bars")
    with plots._look("salt"):
        painter = plots._Painter(drawn, plots._curves(drawn, plot_styles.assign_styles(drawn.series)))
        painter.paint()
    bars = sorted(painter.axes.patches, key=lambda bar: bar.get_x())
    assert len(bars) == 3 * 2
    assert all(left.get_x() + left.get_width() <= right.get_x() for left, right in pairwise(bars))
    assert [bar.get_height() for bar in bars] == [0, 2, 4, 1, 3, 5]  # as in several()
    eos_tokens = {tuple(line[:, 1]) for lines in painter.axes.collections for line in lines.get_segments()}
    assert eos_tokens == {(height - 1, height + 1) for height in range(6)}


@pytest.mark.slow
def test_a_name_is_shown_letter_by_letter():
    names = ['<script>&"', "$x_1$", "_hidden", "bell\x07\x00"]
    drawn = svg(figure(*(Series(name, [1, 2], [1, 2]) for name in names)))
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(drawn).iter()}
    assert "script" not in tags
    assert {'&lt;script&gt;&amp;"', "$x_1$", "_hidden"} <= set(texts(drawn))
    assert b"Oblique" not in drawn  # a formula would be set in slanted letters


@pytest.mark.slow
def test_a_reference_of_one_value_is_a_level_across_the_axes():
    levels = [Series(name, x, [60.0], reference=True) for name, x in (("soft sum", []), ("full context", [1.0]))]
    drawn = figure(*several(1), *levels)
    curves = plots._curves(drawn, plot_styles.assign_styles(drawn.series))
    assert [curve.is_level for curve in curves] == [False, True, True]
    assert {"soft sum", "full context"} <= set(texts(svg(drawn)))


@pytest.mark.slow
def test_a_series_looks_alike_in_every_figure(tmp_path):
    both = Figure("both", "t", "x", "y", [Series("other", [1], [2]), Series("mine", [1], [2])])
    alone = Figure("alone", "t", "x", "y", [Series("mine", [1], [2])])
    section = ReportSection("e", "t", "s", [], [], [both, alone], [])
    color = plot_styles.assign_styles(plot_styles.series_of([section]))["mine", False].color.lower().encode()
    paths = plots.draw_all([section], tmp_path)
    assert [path.name for path in paths] == ["e-both.png", "e-both.svg", "e-alone.png", "e-alone.svg"]
    assert all(color in path.read_bytes() for path in paths if path.suffix == ".svg")
    assert color not in svg(alone)  # drawn by itself it takes the first free colour


def test_known_names_keep_their_colour_and_none_is_given_twice():
    known = ["PoE", "prior × PoE", "votes, exponential", "PbS", "votes, Gaussian (as published)"]
    names = ["unknown", *known, *(f"another {place}" for place in range(30))]
    styles = plot_styles.assign_styles(Series(name, [], []) for name in names)
    for name in known:
        assert styles[name, False] == plot_styles.assign_styles([Series(name, [], [])])[name, False]
    assert len({(style.color, style.dash) for style in styles.values()}) == len(names)
    grey = plot_styles.assign_styles(Series(name, [], [], reference=True) for name in plot_styles.KNOWN_REFERENCES)
    assert all(style.color[1:3] == style.color[3:5] == style.color[5:7] for style in grey.values())
    assert all(style.dash != "-" for style in grey.values())


NORMAL = np.eye(3)
NO_RED = np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]])
NO_GREEN = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]])
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def least_distance(colors: tuple[str, ...]) -> float:
    """The least CIE 1976 difference between two colours, also as seen without red or green cones.

    Simulated after Machado, Oliveira and Fernandes (2009), severity 1.
    """

    def lab(color: str, eye: np.ndarray) -> np.ndarray:
        given = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
        linear = np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)
        xyz = TO_XYZ @ np.clip(eye @ linear, 0, 1) / np.array([0.9505, 1, 1.089])
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    eyes = (NORMAL, NO_RED, NO_GREEN)
    pairs = combinations(colors, 2)
    return min(float(np.linalg.norm(lab(one, eye) - lab(other, eye))) for one, other in pairs for eye in eyes)


def test_colours_stay_apart_without_red_or_green_cones():
    # A difference of about 2 is just noticeable; the tab10 colours of matplotlib are the version that fails.
    assert least_distance(plot_styles.PALETTE) > 15
    assert least_distance(tuple(matplotlib.colors.TABLEAU_COLORS.values())) < 10
