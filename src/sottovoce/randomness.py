"""The only source of noise.

Everything random in a release is built from one question, "a uniform integer below n", so that samplers can be exact
(spec 9.1, 9.5). In production the operating system answers it. A seeded source exists for tests and benchmarks; it says
of itself that it is not secure, and sessions that hold private records refuse it.

Sources     Python's ``secrets`` (rejection sampling over os.urandom).
"""

from __future__ import annotations

import random
import secrets
from typing import Protocol, final, runtime_checkable

from sottovoce.errors import ParameterError


@runtime_checkable
class Randomness(Protocol):
    """A source of uniform integers."""

    @property
    def secure(self) -> bool:
        """Whether the bits come from the operating system's generator."""

    def below(self, bound: int) -> int:
        """Returns a uniform integer in {0, ..., bound - 1}; bound is at least 1 and may have hundreds of bits."""


@final
class SystemRandomness:
    """The operating system's generator, by rejection: exactly uniform given uniform bits.

    Example:
        >>> 0 <= SystemRandomness().below(10) < 10
        True
    """

    secure = True

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)


@final
class SeededRandomness:
    """A repeatable stream for tests and benchmarks. Anyone who knows the seed can take the noise off again.

    Example:
        >>> SeededRandomness(7).below(10**30) == SeededRandomness(7).below(10**30)
        True
    """

    secure = False

    def __init__(self, seed: int) -> None:
        self._stream = random.Random(seed)

    def below(self, bound: int) -> int:
        return self._stream.randrange(bound)


def source_of(given: object) -> Randomness:
    """A caller's source of noise, or the operating system's where none was given.

    Raises:
        ParameterError: It is none.
    """
    if given is None:
        return SystemRandomness()
    if isinstance(given, type) or not isinstance(given, Randomness):
        raise ParameterError("randomness", type(given).__name__, "a source of noise, or None")
    return given


def require_secure(randomness: Randomness, *, synthetic: bool) -> None:
    """Refuses a seeded source, except for records that are made up or published.

    Raises:
        ParameterError: It is one.
    """
    if not randomness.secure and not synthetic:
        raise ParameterError(
            "randomness", "a seeded source", "the operating system's: whoever knows the seed can take off the noise"
        )
