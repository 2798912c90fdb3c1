"""Models made of Python functions, without weights: for tests and for trying a method.

One scores labels. One writes token by token; its tokens are pieces of text, single characters unless others are given,
and torch is used for its rows alone, on use. One writes whole texts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from sottovoce.errors import MissingExtraError, ModelError, ParameterError
from sottovoce.models.base import Context, FloatArray, Isolation, WritingRequest
from sottovoce.models.failures import OwnFailure
from sottovoce.models.stepper import Group, Prompt, Step
from sottovoce.parameters import COUNT, Number
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Query, Task

ScoreFunction = Callable[[Task, Context, Query], Sequence[float]]
VectorFunction = Callable[[str], Sequence[float]]
TextFunction = Callable[[WritingRequest], str | None]
"""A request to its text; ``None`` for a request that cannot be answered."""


if TYPE_CHECKING:
    from torch import Tensor

Tokens = tuple[int, ...]
LogitFunction = Callable[[Prompt, Tokens], Sequence[float] | None]
"""A prompt and the text's tokens so far to a logit for each token; ``None`` for a prompt that cannot be read."""

CHARACTERS: Final = tuple(" \n.,:;!?'\"()-&/$%#0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
UNKNOWN: Final = "?"


def one_shot(task: Task, context: Context, query: Query) -> list[float]:
    """Likes the labels of its demonstrations: three nats for each, one less for the others."""
    scores = [0.0] * len(task.labels)
    for example in context:
        scores[example.label] += 3.0
    return scores


def nearest_output(request: WritingRequest) -> str:
    """The output of the shot whose input shares the most words with the question; of none, the question itself."""
    asked = set(request.question.lower().split())
    shared = [len(asked & set(shown.lower().split())) for shown, _ in request.shots]
    return request.shots[shared.index(max(shared))][1] if shared else request.question


def words_hashed(text: str) -> list[float]:
    """A unit vector of 16 numbers that tells which words a text has, in any order."""
    vector = [0] * 16
    for word in text.lower().split():
        place, sign = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:2]
        vector[place % 16] += 1 if sign % 2 else -1
    norm = math.sqrt(sum(x * x for x in vector))
    return [x / norm for x in vector] if norm else [1.0] + [0.0] * 15


_of_public = lru_cache(maxsize=2048)(words_hashed)
"""Vectors of public texts; those of private ones are not kept."""


@final
class FakeScorer:
    """Scores labels and embeds texts with functions, and counts what it was asked.

    Args:
        function: Scores of the labels for a context and a question.
        vectors: The unit vector of a text.
        name: As the caller would name it.
        isolation: What ``isolation`` says.

    Attributes:
        calls: (context, query) pairs scored so far, private or not.
        contexts_read: Non-empty contexts that were prepared, and records that were embedded: private reads.
    """

    def __init__(
        self,
        function: ScoreFunction = one_shot,
        *,
        vectors: VectorFunction = words_hashed,
        name: str = "fake",
        isolation: Isolation = Isolation.BY_CONSTRUCTION,
    ) -> None:
        self.function, self.vectors, self.name, self.isolation = function, vectors, name, isolation
        self.dimension = len(vectors("a"))
        self.embedding = hashlib.sha256(f"{name} {self.dimension}".encode()).hexdigest()
        self.calls = self.contexts_read = 0

    def embed_records(self, task: Task, records: Sequence[Query]) -> FloatArray:
        self.contexts_read += len(records)
        return self._embedded(task, records, self.vectors)

    def embed_questions(self, task: Task, queries: Sequence[Query]) -> FloatArray:
        return self._embedded(task, queries, _of_public if self.vectors is words_hashed else self.vectors)

    def _embedded(self, task: Task, rows: Sequence[Query], vectors: VectorFunction) -> FloatArray:
        found = [vectors(task.text_of(row)) for row in rows]
        return np.asarray(found, dtype=np.float64).reshape(len(rows), self.dimension)

    def prepare(self, task: Task, contexts: Sequence[Context]) -> _FakeContexts:
        self.contexts_read += sum(bool(context) for context in contexts)
        return _FakeContexts(self, task, contexts)


@final
class _FakeContexts:
    def __init__(self, scorer: FakeScorer, task: Task, contexts: Sequence[Context]) -> None:
        self._scorer, self._task, self._contexts = scorer, task, contexts

    def score(self, queries: Sequence[Query]) -> FloatArray:
        self._scorer.calls += len(queries) * len(self._contexts)
        raw = [[self._scorer.function(self._task, c, q) for c in self._contexts] for q in queries]
        scores = np.asarray(raw, dtype=np.float64).reshape(len(queries), len(self._contexts), len(self._task.labels))
        with np.errstate(invalid="ignore"):
            return np.asarray(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))

    def close(self) -> None:
        self._contexts = ()


@final
class FakeWriter:
    """Writes texts by a function and counts what it was asked. A token is a word.

    Args:
        function: The text of a request, cut to the tokens that it may have. By default ``nearest_output``. Where it
            gives ``None``, or fails for a reason that is the request's own, there is no text; other errors are raised.
        longest: Most words of prompt and text together; a request that does not fit has no text. ``None``: no limit.
        name: As the caller would name it.
        isolation: What ``isolation`` says.

    Attributes:
        calls: Requests so far, private or not.
        shots_read: Examples in them.

    Example:
        >>> shots = [("a lost card", "Block it."), ("a late fee", "Ask for it back.")]
        >>> FakeWriter().write([WritingRequest("Advise.", shots, "my card is lost")], tokens=5)
        ['Block it.']
    """

    def __init__(
        self,
        function: TextFunction = nearest_output,
        *,
        longest: int | None = None,
        name: str = "fake",
        isolation: Isolation = Isolation.BY_CONSTRUCTION,
    ) -> None:
        self.function, self.longest, self.name, self.isolation = function, longest, name, isolation
        self.calls = self.shots_read = 0

    def write(self, requests: Sequence[WritingRequest], *, tokens: int) -> list[str | None]:
        """A text each; see ``Writer.write``."""
        COUNT.read("tokens", tokens)
        return [self._text(request, tokens) for request in requests]

    def _text(self, request: WritingRequest, tokens: int) -> str | None:
        self.calls += 1
        self.shots_read += len(request.shots)
        if self.longest is not None and _words_of(request) + tokens > self.longest:
            return None
        with OwnFailure():
            text = self.function(request)
            return None if text is None else " ".join(text.split()[:tokens])
        return None


def _words_of(request: WritingRequest) -> int:
    texts = [request.instruction, *(text for shot in request.shots for text in shot), request.question]
    return sum(len(text.split()) for text in texts)


@final
class FakeStepper:
    """Gives logits by a function and counts what it was asked.

    Tokens are the pieces, then two more: the end (``eos_tokens``), and a control token that no text may hold
    (``forbidden_tokens``).

    Args:
        function: Logits of all tokens, length ``vocabulary``, for a prompt (its private part cut to the room there is)
            and a text so far. By default ``echo``, which goes on as its prompt does.
        pieces: What a token may be; a text is cut greedily into the longest pieces. Characters by default.
        rows: Experts in a block.
        most_tokens: Room of the model for prompt and text together; ``None`` for no limit.
        name: As the caller would name it.
        isolation: What ``isolation`` says.

    Attributes:
        calls: Rows computed so far.
        prompts_read: Prompts of experts read so far: private reads.
        steps: Texts times steps so far.
        open: Sets of prompts and of texts that are not closed yet.

    Example:
        >>> stepper = FakeStepper(pieces=["yes", "no"], function=lambda own, text: [len(own.private_text), 0, 0, 0])
        >>> group = Group(Prompt("Say ", "", ":"), [Prompt("Say ", "no", ":")])
        >>> read = stepper.read([group], max_private_tokens=4, tokens=2)
        >>> [step] = read.write([0], tokens=2).step({0: None})
        >>> step.public.tolist(), [block.tolist() for block in step.blocks]
        ([0.0, 0.0, 0.0, 0.0], [[[2.0, 0.0, 0.0, 0.0]]])
    """

    def __init__(
        self,
        function: LogitFunction | None = None,
        *,
        pieces: Sequence[str] = CHARACTERS,
        rows: int = 2,
        most_tokens: int | None = None,
        name: str = "fake",
        isolation: Isolation = Isolation.BY_CONSTRUCTION,
    ) -> None:
        _torch()  # before anything private, if it is absent
        if not pieces or len(set(pieces)) != len(pieces) or "" in pieces:
            raise ParameterError("pieces", list(pieces), "different texts, none of them empty")
        self.function = function or self.echo
        self.pieces, self.rows, self.most_tokens = tuple(pieces), rows, most_tokens
        self.name, self.isolation = name, isolation
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._longest = max(map(len, pieces))
        self.calls = self.prompts_read = self.steps = self.open = 0

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return len(self.pieces) + 2

    @property
    def eos_tokens(self) -> Sequence[int]:
        """The last token but one."""
        return (len(self.pieces),)

    @property
    def forbidden_tokens(self) -> Sequence[int]:
        """The last token."""
        return (len(self.pieces) + 1,)

    def encode(self, text: str) -> Tokens:
        """Tokens of a text; what is no piece is read as a question mark, or left out where that is no piece."""
        return tuple(self._numbers[piece] for piece, _ in self._cuts(text) if piece in self._numbers)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of the tokens; end and control token have none."""
        return "".join(self.pieces[token] for token in tokens if token < len(self.pieces))

    def token_bytes(self) -> Sequence[bytes]:
        """The pieces; end and control token have none."""
        return [*(piece.encode("utf-8") for piece in self.pieces), b"", b""]

    def echo(self, prompt: Prompt, text: Tokens) -> list[float]:
        """Likes what followed the last three tokens in the prompt: a nat for each time, more for longer matches."""
        read = self.encode(prompt.prefix + prompt.private_text + prompt.suffix)
        past = (*read, *text)
        logits = [0.0] * self.vocabulary
        for place in range(1, len(read)):
            for length in (1, 2, 3):
                if read[max(place - length, 0) : place] == past[-length:]:
                    logits[read[place]] += 2.0 ** (length - 1)
        logits[-1] = -math.inf
        return logits

    def read(self, groups: Sequence[Group], *, max_private_tokens: int, tokens: int) -> FakePrompts:
        """Keeps the prompts, the private part of each cut to ``max_private_tokens`` tokens.

        Raises:
            ModelError: A public part, ``max_private_tokens`` and ``tokens`` are more than ``most_tokens``.
        """
        COUNT.read("max_private_tokens", max_private_tokens)
        COUNT.read("tokens", tokens)
        around = max((self._around(prompt) for group in groups for prompt in _prompts(group)), default=0)
        if self.most_tokens is not None and around + max_private_tokens + tokens > self.most_tokens:
            raise ModelError(
                f"The prompts need {around + max_private_tokens + tokens} tokens; the model reads {self.most_tokens}. "
                "Ask for shorter texts, or give less room to the private part."
            )
        cut = [
            Group(group.public, [self._cut(expert, max_private_tokens) for expert in group.experts]) for group in groups
        ]
        self.prompts_read += sum(expert is not None for group in groups for expert in group.experts)
        return FakePrompts(self, cut, tokens)

    def _cuts(self, text: str) -> Iterator[tuple[str, str]]:
        """Pieces of a text, each beside the stretch that it stands for."""
        while text:
            lengths = range(min(self._longest, len(text)), 0, -1)
            length = next((length for length in lengths if text[:length] in self._numbers), 0)
            yield (text[:length], text[:length]) if length else (UNKNOWN, text[0])
            text = text[length or 1 :]

    def _around(self, prompt: Prompt) -> int:
        return len(self.encode(prompt.prefix)) + len(self.encode(prompt.suffix))

    def _cut(self, prompt: Prompt | None, tokens: int) -> Prompt | None:
        if prompt is None:
            return None
        stretches = (stretch for _, stretch in self._cuts(prompt.private_text))
        return Prompt(prompt.prefix, "".join(islice(stretches, tokens)), prompt.suffix)


@final
class FakePrompts(Opaque):
    """Prompts that a fake stepper keeps."""

    def __init__(self, stepper: FakeStepper, groups: Sequence[Group], tokens: int) -> None:
        self._stepper, self._groups, self._tokens, self._closed = stepper, tuple(groups), tokens, False
        stepper.open += 1

    def write(self, groups: Sequence[int], tokens: int) -> FakeDecoding:
        """Opens texts side by side."""
        if self._closed:
            raise ModelError("These prompts were closed; read them again.")
        Number(1, self._tokens, whole=True, strict=True).read("tokens", tokens)
        return FakeDecoding(self._stepper, [self._groups[group] for group in groups], tokens)

    def close(self) -> None:
        """Forgets the prompts."""
        self._stepper.open -= not self._closed
        self._groups, self._closed = (), True


@final
class FakeDecoding(Opaque):
    """Texts that a fake stepper writes."""

    def __init__(self, stepper: FakeStepper, groups: Sequence[Group], tokens: int) -> None:
        self._stepper, self._groups, self._most, self._closed = stepper, tuple(groups), tokens, False
        self._texts: list[Tokens | None] = [None] * len(groups)
        stepper.open += 1

    def step(self, tokens: Mapping[int, int | None]) -> Iterator[Step]:
        """One step of some of the texts; as ``Decoding.step``, and as strict as a real model may be.

        Raises:
            ModelError: The texts were closed.
            ParameterError: A text has had all its tokens, its first step has a token or a later one has none, or a
                token does not exist.
        """
        if self._closed:
            raise ModelError("These texts were closed.")
        for text, token in tokens.items():
            self._add(text, token)
        return self._steps(tuple(tokens))

    def close(self) -> None:
        """Forgets the texts."""
        self._stepper.open -= not self._closed
        self._groups, self._texts, self._closed = (), [], True

    def _add(self, text: int, token: int | None) -> None:
        have = self._texts[text]
        if (token is None) != (have is None):
            raise ParameterError("tokens", token, "None at the first step of a text, a token at every later one")
        if have is None or token is None:
            self._texts[text] = ()
            return
        if len(have) + 1 >= self._most:
            raise ParameterError("tokens", len(have) + 1, f"below {self._most}, for which the text was opened")
        if not 0 <= token < self._stepper.vocabulary:
            raise ParameterError("tokens", token, f"between 0 and {self._stepper.vocabulary - 1}")
        self._texts[text] = (*have, token)

    def _steps(self, texts: Tokens) -> Iterator[Step]:
        for text in texts:
            self._stepper.steps += 1
            group, so_far = self._groups[text], self._texts[text] or ()
            yield Step(text, self._row(group.public, so_far), self._blocks(group, so_far))

    def _blocks(self, group: Group, text: Tokens) -> Iterator[Tensor]:
        """Blocks that share their memory, as a real model's may."""
        torch, rows = _torch(), self._stepper.rows
        shared = torch.empty(rows, self._stepper.vocabulary)
        for start in range(0, len(group.experts), rows):
            block = shared[: len(group.experts[start : start + rows])]
            for row, expert in enumerate(group.experts[start : start + rows]):
                block[row] = self._expert(expert, text)
            yield block
            shared.fill_(math.nan)

    def _expert(self, prompt: Prompt | None, text: Tokens) -> Any:
        """The row of an expert; NaN where its slot is empty, or the function fails on it."""
        with OwnFailure():
            if prompt is not None:
                return self._row(prompt, text)
        torch = _torch()
        return torch.full((self._stepper.vocabulary,), math.nan)

    def _row(self, prompt: Prompt, text: Tokens) -> Any:
        self._stepper.calls += 1
        logits = self._stepper.function(prompt, text)
        if logits is None:
            return _torch().full((self._stepper.vocabulary,), math.nan)
        torch = _torch()
        return torch.tensor(logits, dtype=torch.float32)


def _prompts(group: Group) -> list[Prompt]:
    return [group.public, *(expert for expert in group.experts if expert is not None)]


def _torch() -> Any:
    """Imported on use: the scorer needs no torch."""
    try:
        import torch
    except ModuleNotFoundError:
        raise MissingExtraError("torch", "local") from None
    return torch
