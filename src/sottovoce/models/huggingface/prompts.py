"""From a task and its examples to tokens, without letting a text act as a control token.

A prompt is drawn up with placeholders where texts belong, by the tokenizer's chat template if it has one, and the texts
are filled in afterwards. So a template never sees a text, and the prompt falls into a *prefix* (all that precedes the
question's text: instruction and demonstrations) and a *suffix* (the question and what follows). The two are turned into
tokens separately: the prefix's tokens do not depend on the question.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from sottovoce.errors import ModelError, TaskError
from sottovoce.models.base import Context
from sottovoce.models.failures import is_shared
from sottovoce.tasks import Query, Task

Tokens = tuple[int, ...]


@final
@dataclass(frozen=True, repr=False)
class Piece:
    """A stretch of a prompt: the template's own words, or a text that somebody wrote."""

    text: str
    trusted: bool


NO_TEMPLATE = "This tokenizer has no chat template. Leave chat (--chat) out, or use a model that has one."
_CHANGING_TEMPLATE = "The chat template writes a question differently after demonstrations; it cannot be used."


@final
class PromptWriter:
    """Writes the prompts of one task for one tokenizer.

    Args:
        tokenizer: Of the transformers library.
        task: Labels and templates.
        chat: Whether questions are turns in the tokenizer's chat template; ``None`` where it has one.

    Attributes:
        nonce: Opens every placeholder; nobody can guess it, so no text can write one.

    Raises:
        ModelError: The chat template cannot hold a conversation of questions and labels, or there is none.
    """

    def __init__(self, tokenizer: Any, task: Task, *, chat: bool | None = None) -> None:
        self._tokenizer, self._task = tokenizer, task
        has_template = bool(getattr(tokenizer, "chat_template", None))
        if chat and not has_template:
            raise ModelError(NO_TEMPLATE)
        self._chat = has_template if chat is None else chat
        self.nonce = secrets.token_hex(8)
        self._controls = control_tokens(tokenizer)
        self._control_ids = frozenset(self._controls.values())
        breaks = "|".join(re.escape(text) for text in sorted(self._controls, key=len, reverse=True) if len(text) > 1)
        self._control_pattern = re.compile(f"(?={breaks})") if breaks else None
        self._glues = _adds_blank(tokenizer)
        self._folds = self._chat and not self._template_takes_system()
        self._tail = self._draw(())[1]
        if self._draw([0])[1] != self._tail:
            raise ModelError(_CHANGING_TEMPLATE)

    def prefix(self, context: Context) -> Tokens | None:
        """Tokens of everything before the question, or ``None`` if a text could not be kept from acting as control.

        Raises:
            TaskError: An example lacks a field of the task's templates.
        """
        drawn, tail = self._draw([example.label for example in context])
        if tail != self._tail:
            raise ModelError(_CHANGING_TEMPLATE)
        values = [example.fields for example in context]
        ids = self.encode(self._fill(drawn, values), first=True)
        if ids is None:
            return None
        start = () if self._chat else leading_tokens(self._tokenizer)
        return (*start, *ids) or (any_start(self._tokenizer),)

    def suffix(self, query: Query) -> Tokens | None:
        """Tokens of the question and what follows it, up to its label; ``None`` as for ``prefix``.

        Raises:
            TaskError: The question lacks a field of the task's query template.
        """
        return self.encode(self._fill(self._tail, [query]), first=False)

    def label_paths(self) -> list[Tokens]:
        """Tokens of each label in the position after a question."""
        lead = self._around_an_answer()[0] if self._chat else self._task.answer_prefix
        return [tuple(self.continued(lead + label)) for label in self._task.labels]

    def eos_tokens(self) -> list[int]:
        """Tokens that may close a label, the one that follows it in demonstrations first."""
        following = self.continued(self._around_an_answer()[1] if self._chat else self._task.answer_suffix)[:1]
        end = self._tokenizer.eos_token_id
        return [*following, *([] if end is None else [end])]

    def _draw(self, labels: Sequence[int]) -> tuple[str, str]:
        """The prompt with placeholders, cut into prefix and suffix."""
        task, count = self._task, len(labels)
        questions = [task.render_query({name: self._mark(k, name) for name in task.fields}) for k in range(count + 1)]
        questions[count] = task.render_query({name: self._mark("q", name) for name in task.fields})
        answers = [f"{task.answer_prefix}{task.labels[label]}{task.answer_suffix}" for label in labels]
        if self._chat:
            answers = [answer.strip() for answer in answers]
            text = self._render(self._turns(questions, answers))
        else:
            opening = f"{task.instruction}\n\n" if task.instruction else ""
            shots = "".join(question + answer for question, answer in zip(questions, answers, strict=False))
            text = opening + shots + questions[count]
        expected = re.findall(self._pattern, "".join(questions))
        if re.findall(self._pattern, text) != expected:
            raise ModelError("The chat template does not show every turn exactly once; the model cannot be asked.")
        cut = text.index(f"{self.nonce}q")
        while cut and text[cut - 1] == " ":
            cut -= 1
        return text[:cut], text[cut:]

    def _around_an_answer(self) -> tuple[str, str]:
        """What a template has between the end of a question and its answer, such as a blank, and what follows that."""
        answer = f"{self.nonce}answer"
        unanswered = self._render(self._turns(["hello"], []))
        before, _, after = self._render(self._turns(["hello", "hello"], [answer])).rpartition(answer)
        return (before[len(unanswered) :] if before.startswith(unanswered) else ""), after

    @property
    def _pattern(self) -> str:
        return f"{self.nonce}(?:[0-9]+|q)x[0-9]+z"

    def _mark(self, turn: int | str, name: str) -> str:
        return f"{self.nonce}{turn}x{self._task.fields.index(name)}z"

    def _turns(self, questions: Sequence[str], answers: Sequence[str]) -> list[dict[str, str]]:
        turns = [{"role": "system", "content": self._task.instruction}] if self._task.instruction else []
        if self._folds:
            turns = []
            questions = [f"{self._task.instruction}\n\n{questions[0]}", *questions[1:]]
        for question, answer in zip(questions, answers, strict=False):
            turns += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return [*turns, {"role": "user", "content": questions[-1]}]

    def _render(self, turns: list[dict[str, str]]) -> str:
        return rendered(
            self._tokenizer, turns, "The model's chat template cannot hold a conversation of questions and labels."
        )

    def _template_takes_system(self) -> bool:
        if not self._task.instruction:
            return True
        word, handled = f"{self.nonce}system", sys.exception()
        try:
            text = self._render([{"role": "system", "content": word}, {"role": "user", "content": "hello"}])
        except ModelError as error:
            if is_shared(error, handled):  # else the prompt of whoever is read where memory is short is another one
                raise
            return False
        return word in text

    def _fill(self, drawn: str, values: Sequence[Mapping[str, str]]) -> list[Piece]:
        pieces, last = [], 0
        for match in re.finditer(f"{self.nonce}([0-9]+|q)x([0-9]+)z", drawn):
            pieces.append(Piece(drawn[last : match.start()], trusted=True))
            turn = -1 if match[1] == "q" else int(match[1])
            name = self._task.fields[int(match[2])]
            value = values[turn].get(name)
            if not isinstance(value, str):
                raise TaskError(f"A row lacks the text field {name!r} that the task {self._task.name!r} asks for.")
            pieces.append(Piece(value.encode("utf-8", "replace").decode("utf-8"), trusted=False))
            last = match.end()
        return [*pieces, Piece(drawn[last:], trusted=True)]

    def encode(self, pieces: Sequence[Piece], *, first: bool) -> Tokens | None:
        """Tokens of the pieces; texts are cut inside whatever would read as a control token."""
        chunks = [""]
        for piece in pieces:
            text, cuts = piece.text, [0]
            if not piece.trusted and self._control_pattern is not None:
                cuts += [match.start() + 1 for match in self._control_pattern.finditer(text)]
            parts = [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]
            chunks[-1] += parts[0]
            chunks += parts[1:]
        ids: list[int] = []
        for number, chunk in enumerate(chunks):
            ids += self._tokens(chunk) if first and number == 0 else self.continued(chunk)
        expected = self._tokens("".join(piece.text if piece.trusted else "x" for piece in pieces))
        if self._controls_in(ids) != self._controls_in(expected):
            return None
        return tuple(ids)

    def _controls_in(self, ids: Sequence[int]) -> list[int]:
        return [token for token in ids if token in self._control_ids]

    def _tokens(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False, verbose=False)) if text else []

    def continued(self, text: str) -> list[int]:
        """Tokens of a text that follows another one: without the blank some tokenizers put before a first word."""
        if not self._glues or not text:
            return self._tokens(text)
        anchor = self._tokens("\n")
        joined = self._tokens("\n" + text)
        return joined[len(anchor) :] if joined[: len(anchor)] == anchor else self._tokens(text)


def rendered(tokenizer: Any, turns: Sequence[dict[str, str]], otherwise: str) -> str:
    """A conversation in the chat template, up to where the answer begins.

    Raises:
        ModelError: The template cannot hold it; in the words that are given.
    """
    try:
        # Models that think before they answer are asked not to: the answer must follow at once.
        return str(
            tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, enable_thinking=False)
        )
    except Exception:
        raise ModelError(otherwise) from None


def control_tokens(tokenizer: Any) -> dict[str, int]:
    """Added tokens that a text must not be able to write: all special ones, and others that are not mere blanks."""
    controls: dict[str, int] = {}
    try:
        added = dict(tokenizer.added_tokens_decoder)
    except (AttributeError, NotImplementedError):
        raise ModelError("This kind of tokenizer does not tell its control tokens, so it cannot be used.") from None
    for number, token in added.items():
        text = str(token.content)
        if token.special or (len(text) > 1 and text.strip(" \t\r\n▁")):
            controls[text] = number
    for text, number in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True):
        controls[str(text)] = number
    return controls


def any_start(tokenizer: Any) -> int:
    """A token that may stand before everything."""
    candidates = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, 0)
    return next(token for token in candidates if token is not None)


def _adds_blank(tokenizer: Any) -> bool:
    plain = list(tokenizer.encode("word", add_special_tokens=False))
    anchor = list(tokenizer.encode("\n", add_special_tokens=False))
    return list(tokenizer.encode("\nword", add_special_tokens=False)) != anchor + plain


def leading_tokens(tokenizer: Any) -> Tokens:
    """What the tokenizer puts before a text, such as a start token."""
    bare = list(tokenizer.encode("word", add_special_tokens=False))
    full = list(tokenizer.encode("word"))
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return tuple(full[:start])
    return ()
