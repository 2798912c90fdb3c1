"""One line before a run: what it will take, by public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sottovoce.cli.console import say

if TYPE_CHECKING:
    from sottovoce.answering.session import PrivateAnswers
    from sottovoce.session import PrivateICL
    from sottovoce.synthesis.synthesizer import Synthesizer
    from sottovoce.tasks import Query


def say_writing(writer: Synthesizer) -> None:
    """For a run that writes from records; models that cannot be foreseen say nothing."""
    model: Any = writer.model
    if not hasattr(model, "foresight"):
        return
    seen, order, labels = model.foresight(), writer.order, len(writer.labels)
    groups = labels * order.batches_per_label
    prompts = groups * math.ceil(writer.plan.setting.experts)
    room = order.max_private_tokens
    kept = prompts * (room + order.tokens) * seen.bytes_a_token
    passes = math.ceil(prompts / model.rows) * model.rows
    read = prompts * room + order.rounds * order.tokens * (passes + groups)
    of_them = f"keys and values of {prompts} prompts and their texts up to {_bytes(kept)}"
    _say(seen.weights, of_them, f"up to {_time(read * seen.seconds_a_token)}")


def say_scoring(session: PrivateICL, questions: Sequence[Query]) -> None:
    """For a run that asks experts; models that cannot be foreseen say nothing."""
    from sottovoce.session import BATCH

    model: Any = session.model
    if not questions or not hasattr(model, "foresight"):
        return
    seen, experts = model.foresight(), session.public_experts
    whose = f"of each of {experts} experts" if experts is not None else "of an expert"
    kept = f"100 tokens {whose} take {_bytes(100 * seen.bytes_a_token * (experts or 1))} of keys and values"
    content_free = session.task.content_free_queries() if session.calibrate else []
    asked, empty = (model.pass_tokens(session.task, some, BATCH) for some in (questions, content_free))
    seconds = seen.seconds_a_token * (experts or 1) * (100 + asked + empty)
    told = f"{len(questions)} questions of {math.ceil(asked / len(questions))} tokens"
    told += f" and {len(content_free)} without content" if content_free else ""
    _say(seen.weights, kept, f"about {_time(seconds)} for {told}{'' if experts else ', for each expert'}")


def say_answering(answers: PrivateAnswers, questions: int) -> None:
    """For a run whose answers are texts, by what the public side of the next answer took."""
    texts, seconds = answers.texts_an_answer, answers.seconds_a_text
    if seconds is None or not questions:
        return
    which = f"Each of {questions} answers" if questions > 1 else "The answer"
    if texts is None:
        say(f"A text takes about {seconds:.2g} s. {which} takes one for every expert; their number is private.")
        return
    experts = answers.experts or 0
    whose = f", {experts} of them by experts over private records" if experts else ""
    say(
        f"{which} takes about {texts} texts{whose}, at {seconds:.2g} s a text; time: about "
        f"{_time(questions * texts * seconds)}."
    )


def _say(weights: int, kept: str, takes: str) -> None:
    say(f"The model's weights take {_bytes(weights)}; {kept}; time: {takes}.")


def _bytes(size: int) -> str:
    return f"{math.ceil(size / 1e6):,} MB"


def _time(seconds: float) -> str:
    return f"{math.ceil(seconds)} s" if seconds < 120 else f"{math.ceil(seconds / 60)} min"
