"""Axes: where values stand on them, and what their ticks say. A logarithmic one has a strip for zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """One axis: where values stand and what its ticks say.

    Attributes:
        log: Whether it is logarithmic, which needs a positive value.
        least, most: Of the values with a place of their own.
        below: Where values of 0 or less stand on a logarithmic axis.
        strip: What the tick there says, empty if there are none.
    """

    log: bool
    least: float
    most: float
    below: float
    strip: str

    @classmethod
    def of(cls, values: FloatArray, log: bool) -> Scale:
        values = values[np.isfinite(values)]
        positive = values[values > 0]
        if not (log and positive.size):
            least, most = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
            return cls(False, least, most, 0.0, "")
        least, most = float(positive.min()), float(positive.max())
        gap = 0.1 * max(np.log10(most / least), 1.0)
        strip = "" if (values > 0).all() else "0" if (values >= 0).all() else "≤ 0"
        return cls(True, least, most, least / 10**gap, strip)

    def place(self, values: FloatArray) -> FloatArray:
        return np.where(values <= 0, self.below, values) if self.log else values

    def apply(self, axis: Any, limit: Any, span: Any) -> None:
        """Sets scale, limits and ticks of a logarithmic axis; a linear one is left to matplotlib."""
        from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

        margin = 10 ** (0.05 * max(np.log10(self.most / self.least), 0.5))
        bottom = self.below / margin**0.5 if self.strip else self.least / margin
        limit(bottom, self.most * margin)
        ticks = log_ticks(self.least, self.most)
        names = [f"{tick:g}" for tick in ticks]
        if self.strip:
            span(bottom, (self.below * self.least) ** 0.5, color="#000000", alpha=0.06, linewidth=0, zorder=0)
            ticks, names = [self.below, *ticks], [self.strip, *names]
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FixedFormatter(names))
        axis.set_minor_locator(NullLocator())


def log_ticks(least: float, most: float) -> list[float]:
    """Powers of ten, every few if there are many; with few, also their multiples by 2 and 5, or by 1 to 9."""
    powers = range(int(np.floor(np.log10(least))), int(np.ceil(np.log10(most))) + 1)
    for multiples in ((1,), (1, 2, 5), range(1, 10)):
        ticks = [float(f"{multiple}e{power}") for power in powers for multiple in multiples]
        ticks = [tick for tick in ticks if least * 0.97 <= tick <= most * 1.03]
        if len(ticks) >= 4:
            return ticks[:: -(-len(ticks) // 12)]
    return ticks if len(ticks) >= 2 else sorted({least, most})
