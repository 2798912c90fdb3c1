"""A model behind a server as a label scorer: ``openai:MODEL@BASE_URL``.

Scores come from log-probabilities, in one of two ways that a public prompt finds out before anything is charged:

    echo    The prompt with each label behind it, one request a label; the server says what every token of it had. Where
            labels begin with the same tokens, those are left out: they say nothing about which label it is.
    top     The prompt, and the likeliest first tokens of what follows. A label has the probability of the tokens that
            it alone begins with; one that has none is at ``FLOOR``. Labels must differ in their first word.

A server that gives no log-probabilities, or leaves the request for them unheeded, is refused then.

Isolation   As for the writer (``http.writer``). A bare question is asked once and remembered: the last digits of a
            server's numbers may change from one request to the next, and a question that was paid for must not fail by
            that. Whether the server still answers public prompts is looked at by ``asking``.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import ModelError, TaskError
from sottovoce.models.base import Context, FloatArray, require_text
from sottovoce.models.http.address import Server
from sottovoce.models.http.asking import Asked
from sottovoce.models.http.replies import UnreadableError, only_choice
from sottovoce.models.http.served import ServedModel
from sottovoce.models.http.writing_apis import encoded
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Query, Task

FLOOR: Final = -1000.0
"""Log-probability of a label that is not among the likeliest tokens. Methods clip far above it."""
MOST_BARE: Final = 10_000
"""Bare questions that are remembered."""
_TAIL: Final = 32
"""Tokens that are looked at before those of a label."""
_PROBE: Final = Task(labels=["grass", "snow"], instruction="What is it?", name="probe")
_PROBE_QUERY: Final = {"text": "green"}

Tokens = Sequence[Sequence[Any]]
"""Tokens with their log-probabilities, as pairs."""


@final
@dataclass(frozen=True)
class _Way:
    """How log-probabilities are asked for.

    Attributes:
        api: ``completions`` or ``chat``.
        echo: Whether the prompt's own tokens are scored; else the likeliest next ones.
        number: Tokens to be written for ``echo``, and likeliest tokens otherwise.
    """

    api: str
    echo: bool
    number: int

    @property
    def path(self) -> str:
        return "/chat/completions" if self.api == "chat" else "/completions"

    def fields(self, text: str, task: Task) -> dict[str, Any]:
        """What is sent for a prompt."""
        common = {"temperature": 0, "n": 1, "stream": False}
        if self.echo:
            return {**common, "prompt": text, "max_tokens": self.number, "echo": True, "logprobs": 1}
        if self.api == "completions":
            return {**common, "prompt": text, "max_tokens": 1, "logprobs": self.number}
        turns = [{"role": "user", "content": text}]
        return {**common, "messages": turns, "max_tokens": 1, "logprobs": True, "top_logprobs": self.number}

    def tokens(self, found: Mapping[str, Any], most: int) -> Tokens:
        """Tokens with their log-probabilities: the last ones of the prompt, behind their number, or the likeliest.

        Args:
            found: An answer.
            most: How many of a prompt's last tokens are kept.

        Raises:
            UnreadableError: There are none.
        """
        choice = only_choice(found)
        told = choice.get("logprobs")
        if not isinstance(told, dict):
            raise UnreadableError("it has no log-probabilities; the request for them was not heeded")
        if self.echo:
            return _echoed(told, self.number, most)
        return _likeliest_in_chat(told) if self.api == "chat" else _likeliest(told)


WAYS: Final = {
    "echo": tuple(_Way("completions", True, number) for number in (0, 1)),
    "top": (*(_Way("completions", False, number) for number in (20, 5)), _Way("chat", False, 20)),
}


@final
class ServerScorer(ServedModel):
    """Scores labels with a model behind a server.

    Args:
        name: ``MODEL@BASE_URL``, and options behind it; see ``Server.named``.
        api: ``completions`` or ``chat`` alone; by default completions, then chat.
        score: ``echo`` or ``top`` alone; by default ``echo``, then ``top``.
        isolation: ``asserted`` where the operator asserts that a prompt's answer depends on that prompt alone.
        timeout_s: Seconds for one request.
        concurrency: Requests under way at once.
        retries: Further attempts where the server is busy or fails.
        cache: Whether answers are kept in the trusted store.
        unencrypted: Whether plain ``http://`` to other machines is allowed.

    Raises:
        ParameterError: The name or an option is not usable.
        InputError: The address or the key is not usable.
        ModelError: No way of asking suits ``api`` and ``score``.
    """

    reads = "texts"

    def __init__(
        self,
        name: str,
        *,
        api: str | None = None,
        score: str | None = None,
        isolation: str | None = None,
        timeout_s: float | None = None,
        concurrency: int | None = None,
        retries: int | None = None,
        cache: bool | None = None,
        unencrypted: bool | None = None,
    ) -> None:
        super().__init__(
            Server.named(
                name, api=api, score=score, isolation=isolation, timeout_s=timeout_s, concurrency=concurrency,
                retries=retries, cache=cache, unencrypted=unencrypted,
            )
        )  # fmt: skip
        kinds = WAYS if self.server.score == "auto" else {self.server.score: WAYS[self.server.score]}
        self._ways = [way for ways in kinds.values() for way in ways if self.server.api in (None, way.api)]
        if not self._ways:
            raise ModelError("Labels are scored with api=completions, or with api=chat and score=top.")
        self._bare: dict[bytes, Tokens] = {}
        self._way: _Way | None = None
        self._lock = threading.Lock()

    def prepare(self, task: Task, contexts: Sequence[Context]) -> ServerContexts:
        """Keeps the demonstrations; they go to the server with each question.

        Raises:
            TaskError: Labels cannot be told apart by their first tokens, which are all that this server gives.
            ModelError: The server cannot be asked, or gives no log-probabilities.
        """
        require_text(task, self.name)
        way = self.rehearse()
        if not way.echo:
            _require_different_words(task)
        return ServerContexts(self, way, task, contexts)

    def rehearse(self) -> _Way:
        """Asks public prompts, once, for how this server gives log-probabilities; ``prepare`` does so too.

        Raises:
            ModelError: It does not.
        """
        with self._lock:
            if self._way is None:
                probes = [self.probe(way) for way in self._ways]
                self._way = self._ways[self.asker.rehearse(probes, "give log-probabilities")]
            return self._way

    def probe(self, way: _Way) -> Asked[Tokens]:
        """A public prompt."""
        text = _prompt(_PROBE, (), _PROBE_QUERY) + (_answer(_PROBE, 0) if way.echo else "")
        return self.asked(way, text, _PROBE)

    def asked(self, way: _Way, text: str, task: Task) -> Asked[Tokens]:
        """A prompt as it is sent."""
        most = _TAIL + max(len(_answer(task, label).encode()) for label in range(len(task.labels)))
        body = encoded({"model": self.server.model, **way.fields(text, task)})
        return Asked(way.path, body, partial(way.tokens, most=most))

    def tokens(self, way: _Way, prompts: Sequence[Asked[Tokens]], bare: Sequence[bool]) -> list[Tokens | None]:
        """What the server says to each prompt; ``None`` where it fails on it by itself.

        Args:
            way: How it is asked.
            prompts: What is asked.
            bare: Whether a prompt holds no demonstration.
        """
        bodies = [prompt.body for prompt in prompts]
        found: dict[bytes, Tokens | None] = {body: self._bare.get(body) for body in bodies}
        open_ = [body for body in found if found[body] is None]
        scope, texts = self._scope(way.path), [body.decode("utf-8") for body in open_]
        if self._kept is not None:
            kept = self._kept.find(scope, texts)
            found |= {body: json.loads(value) for body, value in zip(open_, kept, strict=True) if value is not None}
        by_body = dict(zip(bodies, prompts, strict=True))
        missing = [body for body in open_ if found[body] is None]
        answers = self.asker.ask([by_body[body] for body in missing], self.probe(way))
        found |= dict(zip(missing, answers, strict=True))
        new = [(body, answer) for body, answer in zip(missing, answers, strict=True) if answer is not None]
        if self._kept is not None and new:
            self._kept.keep(scope, [body.decode("utf-8") for body, _ in new], [json.dumps(a).encode() for _, a in new])
        for body, is_bare in zip(bodies, bare, strict=True):
            answer = found[body]
            if is_bare and answer is not None and len(self._bare) < MOST_BARE:
                self._bare[body] = answer
        return [found[body] for body in bodies]


@final
class ServerContexts(Opaque):
    """Demonstrations that go to a server with each question."""

    def __init__(self, scorer: ServerScorer, way: _Way, task: Task, contexts: Sequence[Context]) -> None:
        self._scorer, self._way, self._task, self._contexts = scorer, way, task, [tuple(each) for each in contexts]

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Log-probabilities among the labels; see ``PreparedContexts.score``.

        Raises:
            ModelError: The server cannot be reached, is busy, or does not answer public prompts.
        """
        task, way = self._task, self._way
        answers = [_answer(task, label) for label in range(len(task.labels))] if way.echo else [""]
        texts = [_prompt(task, context, query) for query in queries for context in self._contexts]
        bare = [not context for _ in queries for context in self._contexts]
        prompts = [self._scorer.asked(way, text + answer, task) for text in texts for answer in answers]
        found = self._scorer.tokens(way, prompts, [each for each in bare for _ in answers])
        rows = [_row(task, way, found[start : start + len(answers)]) for start in range(0, len(found), len(answers))]
        return np.asarray(rows, dtype=np.float64).reshape(len(queries), len(self._contexts), len(task.labels))

    def close(self) -> None:
        """Forgets the demonstrations."""
        self._contexts = []


def _prompt(task: Task, context: Context, query: Query) -> str:
    """Instruction, demonstrations and question."""
    shots = "".join(
        f"{task.render_query(example.fields)}{task.answer_prefix}{task.labels[example.label]}{task.answer_suffix}"
        for example in context
    )
    return (
        f"{task.instruction}\n\n{shots}{task.render_query(query)}"
        if task.instruction
        else shots + task.render_query(query)
    )


def _answer(task: Task, label: int) -> str:
    """What follows a question: the label, and what ends it, by which a label differs from a longer one."""
    return f"{task.answer_prefix}{task.labels[label]}{task.answer_suffix}"


def _row(task: Task, way: _Way, found: Sequence[Tokens | None]) -> list[float]:
    """Log-probabilities of the labels, which sum to one; NaN where the server said nothing that helps."""
    told = [tokens for tokens in found if tokens is not None]
    scores = [math.nan] * len(task.labels)
    if len(told) == len(found):
        scores = _sums(told) if way.echo else _by_first_token(task, told[0])
    with np.errstate(invalid="ignore"):
        row = np.asarray(scores, dtype=np.float64)
        row = row - np.logaddexp.reduce(row)
    return [float(score) for score in row]


def _sums(found: Sequence[Tokens]) -> list[float]:
    """Log-probability of each text behind the tokens that all of them begin with.

    Each is given as its first token's place and then the tokens from there on.
    """
    starts = [int(tokens[0][1]) for tokens in found]
    ends = [start + len(tokens) - 1 for start, tokens in zip(starts, found, strict=True)]

    def at(number: int, place: int) -> Sequence[Any]:
        return found[number][1 + place - starts[number]]

    place, end = max(starts), min(ends)
    while place < end and len({at(number, place)[0] for number in range(len(found))}) == 1:
        place += 1
    return [
        max(FLOOR, sum(max(FLOOR, float(at(number, each)[1])) for each in range(place, ends[number])))
        for number in range(len(found))
    ]


def _by_first_token(task: Task, tokens: Tokens) -> list[float]:
    """Log-probability of the tokens that each label alone begins with."""
    scores = [-math.inf] * len(task.labels)
    for text, told in tokens:
        word = str(text).strip()
        labels = [number for number, label in enumerate(task.labels) if word and label.startswith(word)]
        if len(labels) == 1:
            scores[labels[0]] = float(np.logaddexp(scores[labels[0]], float(told)))
    if not any(map(math.isfinite, scores)):
        return [math.nan] * len(scores)
    return [max(FLOOR, score) for score in scores]


def _require_different_words(task: Task) -> None:
    words = [label.split()[0] for label in task.labels]
    for word in words:
        if sum(other.startswith(word) for other in words) > 1:
            raise TaskError(
                f"Labels of the task {task.name!r} begin alike ({word!r}), and this server says only what the first "
                "token may be. Rename them, or use a server whose completions can echo a prompt with log-probabilities."
            )


def _echoed(told: Mapping[str, Any], written: int, most: int) -> Tokens:
    """The last tokens of a prompt, behind the place of the first of them; what was written is left out."""
    tokens, scores = told.get("tokens"), told.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(scores, list) or len(tokens) != len(scores):
        raise UnreadableError("it has not a log-probability for each token")
    if written:
        tokens, scores = tokens[:-written], scores[:-written]
    if len(tokens) < 2:
        raise UnreadableError("it does not echo the prompt")
    start = max(1, len(tokens) - most)  # nothing comes before the first token, which has no score
    pairs = [(str(token), _number(score)) for token, score in zip(tokens[start:], scores[start:], strict=True)]
    return [("", start), *pairs]


def _likeliest(told: Mapping[str, Any]) -> Tokens:
    top = told.get("top_logprobs")
    if not isinstance(top, list) or len(top) != 1 or not isinstance(top[0], dict) or not top[0]:
        raise UnreadableError("it has no likeliest tokens")
    return [(str(token), _number(score)) for token, score in top[0].items()]


def _likeliest_in_chat(told: Mapping[str, Any]) -> Tokens:
    content = told.get("content")
    top = (
        content[0].get("top_logprobs")
        if isinstance(content, list) and content and isinstance(content[0], dict)
        else None
    )
    if not isinstance(top, list) or not top or not all(isinstance(each, dict) for each in top):
        raise UnreadableError("it has no likeliest tokens")
    return [(str(each.get("token")), _number(each.get("logprob"))) for each in top]


def _number(value: object) -> float:
    """A log-probability; minus infinity is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 1e-3:  # NaN too
        raise UnreadableError("a log-probability is no number, or above 0")
    return float(max(FLOOR, value))  # in this order: an integer may be too large for a float
