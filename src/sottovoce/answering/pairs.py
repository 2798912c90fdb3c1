"""Pay once for examples: public pairs of input and answer that records chose, and any number of free answers.

The choice is a fit like any other (``fitting``): ``choice`` over pairs (``methods/answering/pairs.py``). What it left
is public; answers after these examples cost nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

from sottovoce.errors import InputError
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.answering.pairs import KIND, pair_of, pairs_task
from sottovoce.methods.fitting.support import DemonstrationSupport
from sottovoce.records.sealed import PublicRecords
from sottovoce.tasks import AnswerExample, AnswerTask, Query, Task


def fit_task(task: AnswerTask) -> Task:
    """The task of choosing examples for an answer task, for ``sottovoce.fit``."""
    return pairs_task(task, task.name)


def pool_of(task: AnswerTask, public: PublicRecords | Sequence[AnswerExample]) -> list[Query]:
    """Public examples as the texts that are chosen among.

    Raises:
        RecordError: A row does not suit the task.
    """
    return [pair_of(task, example.fields, example.answer) for example in _examples_in(task, public)]


def longest_of(task: AnswerTask, public: PublicRecords | Sequence[AnswerExample], count: int) -> list[AnswerExample]:
    """The public examples that take up most room in a prompt, by their bytes: no others that are chosen, each of them
    once, take up more.

    Raises:
        RecordError: A row does not suit the task.
    """
    examples = {(*example.fields.items(), example.answer): example for example in _examples_in(task, public)}
    return sorted(examples.values(), key=lambda example: size_of([task.shot(example)]), reverse=True)[:count]


def size_of(shots: Sequence[tuple[str, str]]) -> int:
    """Bytes of examples of a prompt, as (input, answer)."""
    return sum(len(text.encode("utf-8", "replace")) for shot in shots for text in shot)


def is_of_pairs(fitted: Fitted) -> bool:
    """Whether a fitted file holds examples for answers that are texts."""
    return fitted.task.name.startswith(KIND)


def examples_of(fitted: Fitted, task: AnswerTask, file: str = "the fitted file") -> list[AnswerExample]:
    """The examples that were chosen, for ``PrivateAnswers(method="public-shots")``.

    Args:
        fitted: What a fit left.
        task: That questions are asked of.
        file: Its name, for the error.

    Raises:
        InputError: It was fitted for another task, or holds no examples.
    """
    if not isinstance(fitted.support, DemonstrationSupport) or not is_of_pairs(fitted):
        raise InputError(
            f"{file} holds what labels are answered from. Use 'sotto predict', or fit examples for texts with "
            "'sotto fit --task summarize --method choice'."
        )
    if fitted.task != fit_task(task):
        raise InputError(
            f"{file} was fitted for the task {fitted.task.name.removeprefix(KIND)!r}, and its fields, instruction or "
            f"name are not those of {task.name!r}. Name the task that it was fitted for."
        )
    return [
        AnswerExample({name: example.fields[name] for name in task.fields}, example.fields[task.output_field])
        for example in fitted.support.examples
        if example.label == 0
    ]


def _examples_in(task: AnswerTask, public: PublicRecords | Sequence[AnswerExample]) -> list[AnswerExample]:
    if isinstance(public, PublicRecords):
        return [task.example_of(row, public.source) for row in public]
    return list(public)
