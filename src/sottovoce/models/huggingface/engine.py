"""What a label scorer's prepared contexts and its self-test share: the model, kept prefixes, and how passes are run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, Protocol, TypeVar, final

from sottovoce.models.huggingface.prefix_cache import PrefixStore

M = TypeVar("M")


class Readable(Protocol):
    """Prepared contexts."""

    def read_all(self) -> None:
        """Reads the prefixes that may be kept."""

    def close(self) -> None:
        """Forgets them."""


P = TypeVar("P", bound=Readable)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Engine(Generic[M]):
    """A loaded model, and what is public about its use.

    Attributes:
        model: The model.
        store: Keys and values of prefixes, under a cap.
        reuse_cache: Whether prefixes are kept between questions.
        rows: Rows of every forward pass, or the most where ``pass_tokens`` is given.
        restricted: Whether choices are among labels only.
        layout: How experts share passes: ``queries`` where they do not.
        chat: Whether questions are turns of a conversation; ``None`` where the tokenizer has a template for one.
        lock: Held while the model runs.
        pass_tokens: Where given, a pass has as many rows as make up so many tokens; see ``rows_of``.
        length_step: Rows are padded to a multiple of so many tokens.
    """

    model: M
    store: PrefixStore
    reuse_cache: bool = True
    rows: int = 1
    restricted: bool = True
    layout: str = "queries"
    chat: bool | None = None
    lock: Any = field(default_factory=threading.RLock)
    pass_tokens: int | None = None
    length_step: int = 8
    _owners: Iterator[int] = field(default_factory=lambda: count(1), repr=False)

    def new_owner(self) -> int:
        """A number under which prepared contexts keep their prefixes."""
        with self.lock:
            return next(self._owners)

    def padded(self, length: int) -> int:
        """To how many tokens a row is padded: a function of its own length alone."""
        return -(-length // self.length_step) * self.length_step

    def rows_of(self, length: int) -> int:
        """Rows of a pass over rows of so many tokens, at least 1: a function of the length alone, whatever is asked."""
        return self.rows if self.pass_tokens is None else min(self.rows, -(-self.pass_tokens // length))

    def prepared(self, make: Callable[[], P]) -> P:
        """Contexts whose prefixes are read, as many as may be kept; closed again where that fails."""
        with self.lock:
            contexts = make()
            if self.reuse_cache:
                try:
                    contexts.read_all()
                except BaseException:
                    contexts.close()
                    raise
        return contexts
