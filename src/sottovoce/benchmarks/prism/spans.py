"""Answers to public questions by a model that writes: the likeliest text, and the likeliest span of the question.

All questions go side by side. A span's probability is that of its tokens and of an end behind them. Spans that begin
where the model thinks it likeliest are followed first, and none for longer than it may still win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.prism.writing import log_shares, text_of
from sottovoce.models.stepper import Decoding, Group, Prompt, ReadPrompts, Stepper

WORDS: Final = 4
"""Most words of a span."""

FIRST: Final = 3
"""Words of a question that its spans are tried from before the others; what is found does not depend on it."""

TOKENS: Final = 8
"""Most tokens of an answer that is written."""

ROOM: Final = 80
"""Room for a question, in tokens."""


@final
@dataclass(frozen=True)
class Asked:
    """One question's prompt, in the parts that a model reads.

    Attributes:
        before: Shared by all questions.
        question: Its own.
        lead: Into the answer.
    """

    before: str
    question: str
    lead: str


@final
@dataclass(frozen=True)
class Answer:
    """What was answered.

    Attributes:
        likeliest: Token by token, to the end of the line; read leniently, without blanks around it.
        span: Of the question.
    """

    likeliest: str
    span: str


def spans_of(question: str) -> list[str]:
    """All runs of up to ``WORDS`` words, as they stand.

    Example:
        >>> spans_of("a b a")
        ['a', 'a b', 'a b a', 'b', 'b a']
    """
    words = question.split()
    runs = [" ".join(words[at:end]) for at in range(len(words)) for end in range(at + 1, at + WORDS + 1)]
    return list(dict.fromkeys(runs))


def answers(stepper: Stepper, prompts: Sequence[Asked], questions: Sequence[str]) -> list[Answer]:
    """Answers all of them; prompts are read once."""
    paths = [
        [_Path(stepper, question.split()[at:][:WORDS]) for at in range(len(question.split()))] for question in questions
    ]
    longest = max((len(path.tokens) for choices in paths for path in choices), default=0)
    room = max(TOKENS, longest + 1)
    groups = [Group(Prompt(prompt.before, prompt.question, prompt.lead), ()) for prompt in prompts]
    read = stepper.read(groups, max_private_tokens=ROOM, tokens=room)
    try:
        first, written = _written(stepper, read, len(prompts))
        spans = _spans(stepper, read, first, paths, room)
    finally:
        read.close()
    return [Answer(text, span) for text, span in zip(written, spans, strict=True)]


class _Path:
    """Words as tokens: where each word ends, and the span up to there."""

    def __init__(self, stepper: Stepper, words: Sequence[str]) -> None:
        self.tokens: list[int] = []
        self.spans: dict[int, str] = {}
        for count, word in enumerate(words, 1):
            self.tokens += stepper.encode(f" {word}")
            self.spans[len(self.tokens)] = " ".join(words[:count])


def _written(stepper: Stepper, read: ReadPrompts, count: int) -> tuple[list[NDArray[np.float64]], list[str]]:
    """The first step's log-probabilities, and the likeliest texts."""
    first: list[NDArray[np.float64]] = []
    tokens: list[list[int]] = [[] for _ in range(count)]
    decoding, forbidden_tokens = read.write(range(count), TOKENS), stepper.forbidden_tokens
    waiting: dict[int, int | None] = dict.fromkeys(range(count))
    while waiting:
        following: dict[int, int | None] = {}
        for step in decoding.step(waiting):
            logs = log_shares(step.public, forbidden_tokens)
            if not tokens[step.text]:
                first.append(logs)
            token = int(np.argmax(logs))
            tokens[step.text].append(token)
            over = token in stepper.eos_tokens or len(tokens[step.text]) == TOKENS
            if not over and "\n" not in text_of(stepper, tokens[step.text]).lstrip():
                following[step.text] = token
        waiting = following
    decoding.close()
    return first, [text_of(stepper, its).strip().partition("\n")[0].strip() for its in tokens]


def _spans(
    stepper: Stepper,
    read: ReadPrompts,
    first: Sequence[NDArray[np.float64]],
    paths: Sequence[Sequence[_Path]],
    room: int,
) -> list[str]:
    """The likeliest span of each question."""
    best, spans = np.full(len(paths), -np.inf), [""] * len(paths)
    eos_tokens, forbidden_tokens = [*stepper.eos_tokens, *stepper.encode("\n")[:1]], stepper.forbidden_tokens
    likeliest = [
        sorted((path for path in its if path.tokens), key=lambda path: -logs[path.tokens[0]])
        for its, logs in zip(paths, first, strict=True)
    ]
    for part in (slice(FIRST), slice(FIRST, None)):
        chosen = [
            (number, path)
            for number, its in enumerate(likeliest)
            for path in its[part]
            if first[number][path.tokens[0]] > best[number]
        ]
        if chosen:
            _follow(
                read.write([number for number, _ in chosen], room), chosen, best, spans, eos_tokens, forbidden_tokens
            )
    return spans


def _follow(
    decoding: Decoding,
    chosen: Sequence[tuple[int, _Path]],
    best: NDArray[np.float64],
    spans: list[str],
    eos_tokens: Sequence[int],
    forbidden_tokens: Sequence[int],
) -> None:
    """Goes along paths, and notes the likeliest span of each question in ``best`` and ``spans``."""
    so_far = np.zeros(len(chosen))
    waiting: dict[int, int | None] = dict.fromkeys(range(len(chosen)))
    at = 0
    while waiting:
        for step in decoding.step(waiting):
            number, path = chosen[step.text]
            logs = log_shares(step.public, forbidden_tokens)
            if at in path.spans:
                whole = so_far[step.text] + np.logaddexp.reduce(logs[list(eos_tokens)])
                if whole > best[number]:
                    best[number], spans[number] = whole, path.spans[at]
            so_far[step.text] += logs[path.tokens[at]] if at < len(path.tokens) else -np.inf
        # What follows only lowers a probability: a path that has fallen behind a whole span is given up.
        waiting = {text: chosen[text][1].tokens[at] for text in waiting if so_far[text] > best[chosen[text][0]]}
        at += 1
    decoding.close()
