"""Pay once for examples: the exponential mechanism draws public pairs of input and answer that are like the records.

A pair is one text for the private choice of demonstrations (``methods.choice``): its input and its answer together. All
records have one label, so that k pairs are drawn for their likeness to all of them, and any number of questions is
answered after these pairs for free.

Guarantee   That of ``Choice``, at its price: k adaptive selections of bounded range, lambda for a drop and 2 lambda for
            a swap. The second label that a task must have is no record's: its draws are uniform, and are not used.
Assumes     Isolation of the embedder; the pairs are public and were fixed before a record was read.
Sources     specification 5.14, 5.7.2 (c). Proof: docs/proofs/choice.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sottovoce.errors import TaskError
from sottovoce.experts.written import AnswerTask
from sottovoce.tasks import Example, Query, Task

CHOSEN, UNUSED = "chosen", "unused"
KIND: Final = "pairs of "
"""Opens the name of a task whose texts are pairs."""


def pairs_task(task: AnswerTask, name: str = "answers") -> Task:
    """The task of choosing pairs: a text is an input with its answer, and every record has the label ``chosen``.

    Args:
        task: Whose records and public examples are chosen from.
        name: Its name, for reports.

    Raises:
        TaskError: A column is called ``label``, which templates need.

    Example:
        >>> from sottovoce.testing.answer_road import TASK
        >>> pairs = pairs_task(TASK)
        >>> pairs.fields, pairs.labels
        (('text', 'answer'), ('chosen', 'unused'))
    """
    columns = (*task.fields, task.output_field)
    if "label" in columns:
        raise TaskError("A column of the task is called 'label', and pairs cannot be chosen by it; rename the column.")
    query = "\n".join(f"{{{column}}}" for column in columns)
    return Task(
        labels=[CHOSEN, UNUSED],
        name=f"{KIND}{name}",
        instruction=task.instruction,
        query=query,
        example=f"{query}\n{{label}}",
        label_field=task.output_field,
        answer="present",
    )


def pair_of(task: AnswerTask, given: Query, answer: str) -> Query:
    """A public example as a text of ``pairs_task``.

    Args:
        task: Of the example.
        given: Its input, by column.
        answer: Its answer.
    """
    return {**{column: given[column] for column in task.fields}, task.output_field: answer}


def pairs_of(task: AnswerTask, examples: Sequence[Example]) -> list[tuple[str, str]]:
    """The pairs that were drawn, in order, as examples of a prompt.

    Args:
        task: Whose pairs they are.
        examples: Of a ``DemonstrationSupport`` that was fitted with ``pairs_task``.
    """
    return [
        (task.render_query(example.fields), example.fields[task.output_field])
        for example in examples
        if example.label == 0
    ]
