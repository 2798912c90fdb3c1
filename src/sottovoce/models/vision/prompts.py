"""From a task and its examples to tokens, for prompts with pictures.

As in ``_hf_prompts``, a prompt is drawn up by the chat template with placeholders, and texts are filled in afterwards,
kept from acting as control tokens. A picture's place is the image token that the template writes; what stands for it is
filled in as the model's own words, so only a picture can put an image token into a prompt.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, final

from sottovoce.errors import ModelError, TaskError
from sottovoce.models.failures import is_shared
from sottovoce.models.huggingface.prompts import Piece, PromptWriter, Tokens, leading_tokens
from sottovoce.tasks import Query, Task

_CHANGING = "The chat template writes a question differently after demonstrations; it cannot be used."
_Turn = dict[str, Any]


@final
class VisionPromptWriter:
    """Writes the prompts of one task for one model.

    Args:
        tokenizer: Of the transformers library, without a chat template of its own.
        template: The model's chat template.
        placeholder: The image token.
        task: Labels and templates; it names an image field.

    Raises:
        TaskError: The task's own words hold the image token.
        ModelError: The chat template cannot hold a conversation of pictures and labels.
    """

    def __init__(self, tokenizer: Any, template: str, placeholder: str, task: Task) -> None:
        self._tokenizer, self._template, self._task = tokenizer, template, task
        if any(placeholder in words for words in (task.instruction, task.example, *task.labels)):
            raise TaskError(f"The task {task.name!r} writes the model's image token {placeholder!r}. Leave it out.")
        self._cutter = PromptWriter(tokenizer, task)
        self._nonce = self._cutter.nonce
        self._pattern = re.compile(f"{self._nonce}([0-9]+|q)x([0-9]+)z|{re.escape(placeholder)}")
        self._folds = bool(task.instruction) and not self._takes_system()
        self._tail = self._draw(())[1]
        if self._draw([0])[1] != self._tail:
            raise ModelError(_CHANGING)
        self._lead, self._after = self._around_an_answer()

    def prefix(
        self, labels: Sequence[int], fields: Sequence[Mapping[str, str]], pictures: Sequence[str]
    ) -> Tokens | None:
        """Tokens of everything before the question, or ``None`` if a text could not be kept from acting as control.

        Args:
            labels: Of the demonstrations.
            fields: Of the demonstrations; images are not read here.
            pictures: What stands for the picture of each demonstration.
        """
        drawn, tail = self._draw(labels)
        if tail != self._tail:
            raise ModelError(_CHANGING)
        ids = self._cutter.encode(self._fill(drawn, fields, pictures), first=True)
        if ids is None:
            return None
        start = leading_tokens(self._tokenizer)
        return ids if ids[: len(start)] == start else (*start, *ids)

    def suffix(self, query: Query, picture: str) -> Tokens | None:
        """Tokens of the question and what follows it, up to its label; ``None`` as for ``prefix``.

        Raises:
            TaskError: The question lacks a field of the task's query template.
        """
        return self._cutter.encode(self._fill(self._tail, [query], [picture]), first=False)

    def label_paths(self) -> list[Tokens]:
        """Tokens of each label in the position after a question."""
        lead = self._lead + self._task.answer_prefix.lstrip()
        return [tuple(self._cutter.continued(lead + label)) for label in self._task.labels]

    def eos_tokens(self) -> list[int]:
        """Tokens that may close a label, the one that follows it in demonstrations first."""
        end = self._tokenizer.eos_token_id
        return [*self._cutter.continued(self._after)[:1], *([] if end is None else [end])]

    def _draw(self, labels: Sequence[int]) -> tuple[str, str]:
        """The prompt with placeholders, cut before the first thing that the question brings."""
        task, count = self._task, len(labels)
        answers = [f"{task.answer_prefix}{task.labels[label]}{task.answer_suffix}".strip() for label in labels]
        text = self._render(self._turns([*map(str, range(count)), "q"], answers))
        matches = list(self._pattern.finditer(text))
        expected = [(turn, name) for turn in [*map(str, range(count)), "q"] for name in self._order]
        if len(matches) != len(expected) or any(
            (match[1], match[2]) != ((None, None) if name == task.image else (turn, str(task.fields.index(name))))
            for match, (turn, name) in zip(matches, expected, strict=True)
        ):
            raise ModelError("The chat template does not show every turn exactly once; the model cannot be asked.")
        cut = matches[count * len(self._order)].start()
        while cut and text[cut - 1] == " ":
            cut -= 1
        return text[:cut], text[cut:]

    @property
    def _order(self) -> list[str]:
        """Fields in the order in which a question shows them, one that is shown twice named twice."""
        marked = self._task.render_query({name: self._mark("q", name) for name in self._task.fields})
        return [self._task.fields[int(match[2])] for match in self._pattern.finditer(marked)]

    def _mark(self, turn: str, name: str) -> str:
        return f"{self._nonce}{turn}x{self._task.fields.index(name)}z"

    def _turns(self, names: Sequence[str], answers: Sequence[str]) -> list[_Turn]:
        task = self._task
        turns = [_turn("system", _text(task.instruction))] if task.instruction and not self._folds else []
        for place, name in enumerate(names):
            text = task.render_query({field: self._mark(name, field) for field in task.fields})
            before, _, after = text.partition(self._mark(name, task.image))
            if self._folds and place == 0:
                before = f"{task.instruction}\n\n{before}"
            turns.append(_turn("user", *_text(before), {"type": "image"}, *_text(after)))
            if place < len(answers):
                turns.append(_turn("assistant", _text(answers[place])))
        return turns

    def _render(self, turns: list[_Turn]) -> str:
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    turns,
                    chat_template=self._template,
                    tokenize=False,
                    add_generation_prompt=True,
                    enable_thinking=False,
                )
            )
        except Exception:
            raise ModelError("The model's chat template cannot hold a conversation of pictures and labels.") from None

    def _takes_system(self) -> bool:
        word, handled = f"{self._nonce}system", sys.exception()
        try:
            text = self._render([_turn("system", _text(word)), _turn("user", _text("hello"))])
        except ModelError as error:
            if is_shared(error, handled):  # as in ``_hf_prompts``
                raise
            return False
        return word in text and "'type'" not in text

    def _around_an_answer(self) -> tuple[str, str]:
        """What a demonstration has between the place where a question ends and its label, and what follows that."""
        answer = f"{self._nonce}answer"
        unanswered = self._render(self._turns(["0"], []))
        before, _, after = self._render(self._turns(["0", "q"], [answer])).rpartition(answer)
        return (before[len(unanswered) :] if before.startswith(unanswered) else ""), after

    def _fill(self, drawn: str, fields: Sequence[Mapping[str, str]], pictures: Sequence[str]) -> list[Piece]:
        pieces, last, shown = [], 0, iter(pictures)
        for match in self._pattern.finditer(drawn):
            pieces.append(Piece(drawn[last : match.start()], trusted=True))
            last = match.end()
            if match[1] is None:
                pieces.append(Piece(next(shown), trusted=True))
                continue
            name = self._task.fields[int(match[2])]
            value = fields[-1 if match[1] == "q" else int(match[1])].get(name)
            if not isinstance(value, str):
                raise TaskError(f"A row lacks the text field {name!r} that the task {self._task.name!r} asks for.")
            pieces.append(Piece(value.encode("utf-8", "replace").decode("utf-8"), trusted=False))
        return [*pieces, Piece(drawn[last:], trusted=True)]


def _turn(role: str, *parts: Any) -> _Turn:
    content = [piece for part in parts for piece in (part if isinstance(part, list) else [part])]
    return {"role": role, "content": content}


def _text(words: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": words}] if words else []
