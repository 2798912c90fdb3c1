"""Draws figures of experiments as PNG and SVG.

A series keeps its colour, marker and dash through a report: well-known names have a place of their own, others take the
free ones in order of appearance. References are grey and dashed. Legends stand outside the axes, below up to six
entries and to the right beyond, so they cover no data. Intervals are drawn from end to end as given; a value that is
not a number leaves a gap in a line, and "n/a" in place of a bar.

A logarithmic axis has no place for zero, yet a ROC starts there: such values stand in a shaded strip before the least
positive one, on a tick that says so.

With one version of matplotlib, equal numbers give equal files: no date or program name is kept, ids are hashed with a
fixed salt, text is drawn as outlines, and the user's matplotlibrc is not consulted. matplotlib's settings belong to the
whole process: draw from one thread.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.harness.results import Figure, ReportSection
from sottovoce.benchmarks.reporting.scales import Scale
from sottovoce.benchmarks.reporting.styles import Style, Styles, assign_styles, series_of
from sottovoce.errors import MissingExtraError, ParameterError
from sottovoce.files.outputs import begins_as, new_file
from sottovoce.files.pages import page_opening
from sottovoce.parameters import OneOf

FloatArray = NDArray[np.float64]

KINDS = ("lines", "steps", "points", "bars")
ENDINGS = ("png", "svg")
DOTS_PER_INCH = 160
BELOW_UP_TO = 6
"""Entries of a legend below the axes; a longer one stands to the right."""
BANDS_UP_TO = 3
"""Lines with intervals drawn as shaded bands; with more, bands would hide each other and bars are drawn."""

_LOOK = {
    "svg.fonttype": "path",
    "path.simplify_threshold": 0.3,  # of a dot: a curve of 100,000 steps needs few of them
    "text.parse_math": False,  # a "$" in a name is a dollar
    "font.size": 9.5,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
}
MARK: Final = "sotto bench report"
"""What pages and figures say of themselves: another report may take their place."""
OPENINGS: Final[Mapping[str, str | re.Pattern[bytes]]] = {
    "html": page_opening(MARK),
    "md": f"<!-- {MARK} -->\n",
    "png": re.compile(rb"\x89PNG\r\n\x1a\n....IHDR.{13}.{4}....tEXtSoftware\0" + MARK.encode(), re.DOTALL),
    "svg": re.compile(
        rb"<\?xml [^>]*\?>\s*<!DOCTYPE svg [^>]*>\s*<svg [^>]*>(?:(?!</metadata>).)*"
        rb"<dc:creator>\s*<cc:Agent>\s*<dc:title>" + MARK.encode() + rb"</dc:title>",
        re.DOTALL,
    ),
}
"""How each kind of file that a report writes begins, by its ending."""
_WIDTH, _HEIGHT, _WIDEST = 6.6, 4.2, 10.5


def draw(figure: Figure, folder: Path, prefix: str, *, styles: Styles | None = None) -> list[Path]:
    """Draws a figure as ``PREFIX-NAME.png`` and ``PREFIX-NAME.svg``.

    Args:
        figure: What to draw.
        folder: Where to; made if it does not exist.
        prefix: Usually the experiment's name; empty for none.
        styles: From :func:`assign_styles` over the whole report; by default over this figure alone.

    Returns:
        The files written.

    Raises:
        MissingExtraError: If matplotlib is not installed.
        ParameterError: If a name is no file name, the kind is unknown or lengths differ.
    """
    paths = [folder / name for name in names_of(figure, prefix)]
    drawn = render(figure, ENDINGS, styles=styles)
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        with new_file(path, replaces=begins_as(OPENINGS[path.suffix[1:]])) as stream:
            stream.write(drawn[path.suffix[1:]])
    return paths


def draw_all(sections: Sequence[ReportSection], folder: Path) -> list[Path]:
    """Draws all figures, each series alike in all of them; the prefix is the experiment."""
    styles = assign_styles(series_of(sections))
    return [
        path
        for section in sections
        for figure in section.figures
        for path in draw(figure, folder, section.experiment, styles=styles)
    ]


def names_of(figure: Figure, prefix: str) -> list[str]:
    """The names of a figure's files. Raises as :func:`draw` does."""
    return [f"{file_stem(figure, prefix)}.{ending}" for ending in ENDINGS]


def file_stem(figure: Figure, prefix: str) -> str:
    """The name of a figure's files without ending.

    Raises:
        ParameterError: If it holds anything but letters, digits, dots, dashes and underscores.
    """
    stem = f"{prefix}-{figure.name}" if prefix else figure.name
    if not re.fullmatch(r"\w[\w.-]*", stem, re.ASCII):
        raise ParameterError("the file name of a figure", stem, "letters, digits, '.', '-' and '_'")
    return stem


def render(figure: Figure, endings: Sequence[str] = ENDINGS, *, styles: Styles | None = None) -> dict[str, bytes]:
    """The same as bytes, by ending (``png``, ``svg``); writes nothing. Raises as :func:`draw` does."""
    curves = _curves(figure, {**assign_styles(figure.series), **(styles or {})})
    metadata: dict[str, dict[str, str | None]] = {
        "png": {"Software": MARK, "Title": _clean(figure.title)},
        "svg": {"Date": None, "Creator": MARK, "Title": _clean(figure.title)},
    }
    drawn = {}
    with _look(f"sottovoce {figure.name}"):
        canvas = _Painter(figure, curves).paint()
        for ending in endings:
            buffer = io.BytesIO()
            canvas.savefig(buffer, format=ending, dpi=DOTS_PER_INCH, metadata=metadata[ending])
            drawn[ending] = buffer.getvalue()
    return drawn


@contextmanager
def _look(salt: str) -> Iterator[None]:
    try:
        from matplotlib import style
    except ModuleNotFoundError:
        raise MissingExtraError("matplotlib", "plots") from None
    with style.context({**_LOOK, "svg.hashsalt": salt}, after_reset=True):
        yield


@dataclass(frozen=True, eq=False)
class _Curve:
    """A series as arrays of one length; what is not finite is NaN. ``x`` is empty for a level across the axes."""

    name: str
    x: FloatArray
    y: FloatArray
    low: FloatArray
    high: FloatArray
    style: Style
    reference: bool

    @property
    def is_level(self) -> bool:
        return self.x.size == 0 and self.y.size == 1


def _curves(figure: Figure, styles: Styles) -> list[_Curve]:
    OneOf(tuple(KINDS)).read("kind", figure.kind)
    places = {group: place for place, group in enumerate(_groups(figure))}
    curves = []
    for series in figure.series:
        x = [float(places[_group(value)]) if places else float(value) for value in series.x]
        if series.reference and len(series.y) == 1 and figure.kind == "lines":
            x = []  # one value for all x: a level
        low_ends, high_ends = (ends if len(ends) else series.y for ends in (series.low, series.high))
        level = not x and series.reference and len(series.y) == 1
        if not (len(series.y) == len(low_ends) == len(high_ends) and (level or len(x) == len(series.y))):
            lengths = (len(series.x), len(series.y), len(series.low), len(series.high))
            raise ParameterError(
                f"the length of x, y, low, high of '{series.name}'", lengths, "one length, or none for an interval"
            )
        x_values, y, low, high = (_finite(values) for values in (x, series.y, low_ends, high_ends))
        curves.append(
            _Curve(_clean(series.name), x_values, y, low, high, styles[series.name, series.reference], series.reference)
        )
    return curves


def _groups(figure: Figure) -> list[str]:
    """Names along the horizontal axis, by first appearance; none where it is a number."""
    positions = [value for series in figure.series for value in series.x]
    if figure.kind != "bars" and not any(isinstance(value, str) for value in positions):
        return []
    return list(dict.fromkeys(_group(value) for value in positions))


def _group(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


class _Painter:
    """Draws one figure; used once."""

    def __init__(self, figure: Figure, curves: list[_Curve]) -> None:
        from matplotlib.figure import Figure as Canvas

        self.figure, self.curves, self.groups = figure, curves, _groups(figure)
        self.x = Scale.of(_joined(curve.x for curve in curves), figure.log_x and not self.groups)
        self.y = Scale.of(_joined(part for curve in curves for part in (curve.y, curve.low, curve.high)), figure.log_y)
        self.side_by_side = [curve for curve in curves if not curve.is_level]
        each = max(0.45, 0.1 * len(self.side_by_side)) * len(self.groups)
        self.canvas = Canvas(figsize=(min(max(_WIDTH, each + 1.2), _WIDEST), _HEIGHT), layout="constrained", dpi=100)
        self.axes = self.canvas.add_subplot()
        self.handles: list[tuple[Any, str]] = []

    def paint(self) -> Any:
        axes = self.axes
        if self.x.log:
            axes.set_xscale("log")
        if self.y.log:
            axes.set_yscale("log")
        for index, curve in enumerate(self.curves):
            self.handles.append((self._draw_curve(index, curve), curve.name))
        if not any(np.isfinite(curve.y).any() for curve in self.curves):
            axes.tick_params(left=False, labelleft=False)
            axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color="#767676")
        if self.x.log:
            self.x.apply(axes.xaxis, axes.set_xlim, axes.axvspan)
        if self.y.log:
            self.y.apply(axes.yaxis, axes.set_ylim, axes.axhspan)
        if self.figure.diagonal:
            self._diagonal()
        self._name_axes()
        self._legend()
        return self.canvas

    def _draw_curve(self, index: int, curve: _Curve) -> Any:
        if curve.is_level:
            return self._level(curve)
        if self.figure.kind == "bars":
            return self._bars(curve)
        color, width = curve.style.color, 1.4 if curve.reference else 1.8
        x, y = self.x.place(curve.x), self.y.place(curve.y)
        if self.groups:  # side by side, so that intervals at one name do not hide each other
            x = x + self._shift(curve, 0.6)
        every = max(1, len(x) // 12)
        look: dict[str, Any] = {
            "color": color,
            "marker": curve.style.marker,
            "markersize": 6.5 if curve.style.marker in "PX*" else 5,
        }
        look |= {"markevery": (index * every // 4 % every, every), "markeredgecolor": "white", "markeredgewidth": 0.5}
        if curve.reference:
            look |= {"markerfacecolor": "white", "markeredgecolor": color, "markeredgewidth": 1, "markersize": 4}
        if self.figure.kind == "points":
            look |= {"linestyle": "none", "markevery": None, "markersize": 6}
        else:
            drawstyle = "steps-post" if self.figure.kind == "steps" else "default"
            look |= {"linestyle": curve.style.dash, "linewidth": width, "drawstyle": drawstyle}
        self._interval(curve, x)
        return self.axes.plot(x, y, zorder=2 if curve.reference else 3, **look)[0]

    def _interval(self, curve: _Curve, x: FloatArray) -> None:
        """A band along a line if few lines have one, else a bar at each value."""
        if np.array_equal(curve.low, curve.high, equal_nan=True):
            return
        low, high = self.y.place(curve.low), self.y.place(curve.high)
        wide = [other for other in self.side_by_side if not np.array_equal(other.low, other.high, equal_nan=True)]
        if self.figure.kind in ("lines", "steps") and len(wide) <= BANDS_UP_TO and len(x) > 1:
            look: dict[str, Any] = {"color": curve.style.color, "alpha": 0.16, "linewidth": 0, "zorder": 1}
            look["step"] = "post" if self.figure.kind == "steps" else None
            self.axes.fill_between(x, low, high, **look)
            return
        color = curve.style.color
        if self.figure.kind == "bars":
            color = "#222222"
            self.axes.vlines(x, low, high, color="white", linewidth=2.4, zorder=4)  # seen on dark bars too
        self.axes.vlines(x, low, high, color=color, linewidth=1.1, alpha=0.85, zorder=4)

    def _bars(self, curve: _Curve) -> Any:
        from matplotlib.patches import Patch

        width = 0.84 / len(self.side_by_side)
        x, y = curve.x + self._shift(curve, 0.84 - width), self.y.place(curve.y)
        foot = self.y.below / 2 if self.y.log else 0.0
        look: dict[str, Any] = {"facecolor": curve.style.color, "hatch": curve.style.hatch, "edgecolor": "white"}
        if curve.reference:
            look |= {"facecolor": "#E9E9E9", "edgecolor": curve.style.color, "linestyle": "--", "linewidth": 0.9}
        known = np.isfinite(y)
        self.axes.bar(x[known], y[known] - foot, width * 0.94, bottom=foot, zorder=2, **look)
        self._interval(curve, x)
        for missing in x[~known]:
            bottom = self.axes.get_xaxis_transform()
            look_text: dict[str, Any] = {"rotation": 90, "fontsize": 7, "color": curve.style.color}
            self.axes.text(missing, 0.01, "n/a", transform=bottom, ha="center", va="bottom", **look_text)
        return Patch(**look)

    def _shift(self, curve: _Curve, room: float) -> float:
        among = len(self.side_by_side)
        return 0.0 if among < 2 else room * (self.side_by_side.index(curve) / (among - 1) - 0.5)

    def _level(self, curve: _Curve) -> Any:
        low, high = float(self.y.place(curve.low)[0]), float(self.y.place(curve.high)[0])
        if high > low:
            self.axes.axhspan(low, high, color=curve.style.color, alpha=0.1, linewidth=0, zorder=0)
        y = float(self.y.place(curve.y)[0])
        return self.axes.axhline(y, color=curve.style.color, linestyle=curve.style.dash, linewidth=1.4, zorder=2)

    def _diagonal(self) -> None:
        x_limits, y_limits = self.axes.get_xlim(), self.axes.get_ylim()
        start, end = self.x.least, self.x.most
        if end > start:
            x = np.geomspace(start, end, 200) if self.x.log else np.linspace(start, end, 200)
            line = self.axes.plot(x, x, color="#9A9A9A", linestyle=(0, (1, 2)), linewidth=1.2, zorder=1)[0]
            self.handles.append((line, "guessing: y = x"))
        self.axes.set_xlim(*x_limits)
        self.axes.set_ylim(*y_limits)

    def _name_axes(self) -> None:
        figure, axes = self.figure, self.axes
        width, height = self.canvas.get_size_inches()
        axes.set_title(_wrapped(figure.title, int(width * 11)), pad=10)
        axes.set_xlabel(_wrapped(figure.x_label, int(width * 12)))
        axes.set_ylabel(_wrapped(figure.y_label, int(height * 11)))
        if self.groups:
            names = [_wrapped(name, 22) for name in self.groups]
            longest = max(len(line) for name in names for line in name.split("\n"))
            tilted = longest * 0.085 > (width - 1.2) / len(names)
            look: dict[str, Any] = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if tilted else {}
            axes.set_xticks(range(len(names)), names, **look)
            axes.set_xlim(-0.6, len(names) - 0.4)
            axes.grid(visible=False, axis="x")

    def _legend(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        handles = [(handle, name) for handle, name in self.handles if name]
        if not handles:
            return
        width, height = self.canvas.get_size_inches()
        aside = len(handles) > BELOW_UP_TO and width < 1.3 * _WIDTH
        renderer = FigureCanvasAgg(self.canvas).get_renderer()
        where = {"loc": "outside right upper" if aside else "outside lower center", "frameon": False, "fontsize": 9}
        for columns in (1,) if aside else range(int(width / 2), 0, -1):
            # Set afterwards: a name that begins with "_" would be left out.
            legend = self.canvas.legend([handle for handle, _ in handles], ["-"] * len(handles), ncols=columns, **where)
            for text, (_, name) in zip(legend.get_texts(), handles, strict=True):
                text.set_text(_wrapped(name, 32 if aside else 48))
            box, dots = legend.get_window_extent(renderer), self.canvas.dpi
            if columns == 1 or box.width < self.canvas.bbox.width:
                break
            legend.remove()
        if aside:
            self.canvas.set_size_inches(width + box.width / dots, max(height, box.height / dots + 0.3))
        else:
            self.canvas.set_size_inches(max(width, box.width / dots + 0.2), height + box.height / dots)


def _clean(text: str) -> str:
    """Without control characters, which XML cannot hold."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(_clean(text), max(width, 8)))


def _finite(values: Sequence[float]) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)


def _joined(parts: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate([np.empty(0), *parts])
