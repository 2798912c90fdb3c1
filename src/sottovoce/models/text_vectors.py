"""Vectors of texts from a model that reads one text a pass: off a public mean, of length one.

Models that were not made for it give vectors that share a large common part, beside which texts hardly differ. So the
mean of some bundled public texts is taken off. It is public, and the same for every text.

Isolation   By construction. A text is a pass of its own, unpadded, with nothing kept from it; what follows is done
            number by number on its own vector, in float64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, final

import numpy as np

from sottovoce.data.bundled import public_pool
from sottovoce.errors import ModelError
from sottovoce.models.base import FloatArray, Isolation
from sottovoce.models.failures import OwnFailure, is_models

CENTRED_ON: Final = 64
"""Bundled public texts whose mean is taken off."""
_PROBES: Final = ("Is this still the same?", "A second, much longer text that anybody may read: " + "on and on, " * 40)


def public_texts() -> list[str]:
    """Texts that stand evenly spread in the bundled pool."""
    rows = [str(row.values["text"]) for row in public_pool()]
    return rows[:: len(rows) // CENTRED_ON][:CENTRED_ON]


def centre_rule() -> str:
    """What is taken off, in words for a hash."""
    texts = hashlib.sha256("\0".join(public_texts()).encode()).hexdigest()
    return f"off the mean of {CENTRED_ON} texts {texts}"


@final
class TextVectors:
    """Turns texts into unit vectors, each by itself.

    Args:
        name: Of the model, for errors.
        dimension: Length of a vector.
        read: Gives the vector of one text, shape (dimension,), float64, from one pass over it alone; it raises where
            the text cannot be read.
    """

    def __init__(self, name: str, dimension: int, read: Callable[[str], FloatArray]) -> None:
        self._name, self.dimension, self._read = name, dimension, read

    def of(self, texts: Sequence[str]) -> FloatArray:
        """Unit vectors, shape (texts, dimension), float64. NaN where a text cannot be read; no other row is affected.

        Raises:
            ModelError: The model fails for a reason that texts share, or cannot read public texts. It quotes none.
        """
        return unit(self._raw(texts) - self._centre)

    @cached_property
    def isolation(self) -> Isolation:
        """By construction; not verified where a public text gets other bits once another text was read."""
        short, long = _PROBES
        first, between, again = (self.of([text]) for text in (short, long, short))
        beside = self.of([long, short])
        same = first.tobytes() == again.tobytes() == beside[1:].tobytes() and between.tobytes() == beside[:1].tobytes()
        return Isolation.BY_CONSTRUCTION if same else Isolation.NOT_VERIFIED

    @cached_property
    def _centre(self) -> FloatArray:
        vectors = self._raw(public_texts())
        if not np.isfinite(vectors).all():
            raise ModelError(f"The model {self._name} gave numbers that are not finite for public texts.")
        return np.asarray(vectors.mean(axis=0))

    def _raw(self, texts: Sequence[str]) -> FloatArray:
        """The model's own vectors, scaled to length one."""
        vectors = np.full((len(texts), self.dimension), np.nan)
        for vector, text in zip(vectors, texts, strict=True):
            try:
                with OwnFailure():
                    vector[...] = unit(self._read(text))
            except BaseException as error:
                if not is_models(error):
                    raise
                raise ModelError(
                    f"The machine ran out of memory or of threads while {self._name} read a text. Use a smaller model, "
                    "or shorter texts.",
                    retryable=True,
                ) from None
        return vectors


def unit(vectors: FloatArray) -> FloatArray:
    """Rows of length one; NaN for a row of zeros, which has no direction."""
    with np.errstate(all="ignore"):
        return np.asarray(vectors / np.sqrt(np.vecdot(vectors, vectors))[..., None], dtype=np.float64)
