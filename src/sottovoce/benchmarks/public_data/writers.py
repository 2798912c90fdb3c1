"""Writers of these experiments: any that there is, each request asked once; batched ones; and two stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeVar, final

from sottovoce.benchmarks.public_data.batched import PREFIXES, BatchedWriter
from sottovoce.models.base import Embedder, Isolation, Writer, WritingRequest
from sottovoce.models.embedded.label_scorer import EmbeddedScorer
from sottovoce.models.fake import FakeScorer, FakeWriter
from sottovoce.models.registry import load_writer

T = TypeVar("T")
NEAREST: Final = "nearest"
"""The writer that gives the answer of the example most like the question: no language model, but fast at any size."""

REPEATS: Final = "repeats"
"""The writer that repeats its whole prompt before the question: the worst that a repeat attack can meet."""


@final
class KeptWriter:
    """A writer that is asked each request once. For published rows: what it keeps would be private otherwise.

    Args:
        writer: The model.

    Attributes:
        asked: Requests that the model was asked.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer, self._kept = writer, dict[tuple[WritingRequest, int], str | None]()
        self._wanted: dict[tuple[WritingRequest, int], None] | None = None
        self.asked = 0

    @property
    def name(self) -> str:
        return self._writer.name

    @property
    def isolation(self) -> Isolation:
        return self._writer.isolation

    @property
    def longest(self) -> int | None:
        return self._writer.longest

    def write(self, requests: Sequence[WritingRequest], *, tokens: int) -> list[str | None]:
        """Texts as the model gives them."""
        missing = [request for request in dict.fromkeys(requests) if (request, tokens) not in self._kept]
        if self._wanted is not None:
            self._wanted |= dict.fromkeys((request, tokens) for request in missing)
        elif missing:
            self.asked += len(missing)
            written = self._writer.write(missing, tokens=tokens)
            self._kept |= {(request, tokens): text for request, text in zip(missing, written, strict=True)}
        return [self._kept.get((request, tokens)) for request in requests]

    def together(self, work: Callable[[], T]) -> T:
        """What some work gives that asks for texts one by one, which the model writes several at a time.

        The work is done again until no text is missing, and must do the same each time; meanwhile a missing text is
        ``None``.
        """
        while True:
            self._wanted = {}
            try:
                found, wanted = work(), self._wanted
            finally:
                self._wanted = None
            if not wanted:
                return found
            for tokens in {tokens for _, tokens in wanted}:
                self.write([request for request, its in wanted if its == tokens], tokens=tokens)


@lru_cache(maxsize=2)
def writer_of(spec: str) -> Writer:
    """A writer by name, loaded once."""
    if spec == NEAREST:
        return FakeWriter(nearest_answer, name=NEAREST)
    if spec == REPEATS:
        return FakeWriter(repeated_context, name=REPEATS)
    if spec.startswith(tuple(PREFIXES)):
        return BatchedWriter.opened(spec)
    return load_writer(spec)


@lru_cache(maxsize=2)
def embedder_of(spec: str) -> Embedder:
    """What compares texts: ``fake``, or the built-in encoder, whose vectors stay in memory."""
    return FakeScorer() if spec == "fake" else EmbeddedScorer()


def nearest_answer(request: WritingRequest) -> str:
    """The answer of the example whose words are most like those of the question and of a hint behind the instruction.

    Without examples, the words that are asked with.
    """
    wanted = set(f"{request.instruction} {request.question}".casefold().split())
    if not request.shots:
        return request.question
    shares = [len(wanted & (own := set(f"{a} {b}".casefold().split()))) / max(1, len(own)) for a, b in request.shots]
    return request.shots[shares.index(max(shares))][1]


def repeated_context(request: WritingRequest) -> str:
    """The instruction, with what stands behind it, and every example."""
    return " ".join([request.instruction, *(text for shot in request.shots for text in shot)])
