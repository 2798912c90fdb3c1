"""The method of ``sotto audit exact``, whichever registry it stands in, with the model that its law needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sottovoce.cli import options as o
from sottovoce.errors import GIVEN, ParameterError

if TYPE_CHECKING:
    from sottovoce.audits.exact.given import Given
    from sottovoce.methods.base import Price
    from sottovoce.models.base import LabelScorer
    from sottovoce.privacy.unit import Adjacency
    from sottovoce.records.sealed import Row
    from sottovoce.tasks import Task

DELTA = 1e-6
"""Of one release, where its noise needs one and none was named."""


def worst_of_method(
    setup: o.Setup, given: Mapping[str, Any], rows: Sequence[Row], count: int, task: Task, price: Price
) -> tuple[Given, Price]:
    """The worst pairs of a method by its name, and the price that they are held against.

    Args:
        setup: What was typed.
        given: The command's parameters.
        rows: Made-up records.
        count: How many are played with.
        task: Labels and templates.
        price: As typed; a delta is put in where the method needs one.

    Raises:
        ParameterError: There is no such method, it states no law, or an option does not suit it.
    """
    from sottovoce.audits.exact.coverage import coverage
    from sottovoce.parameters import nearest
    from sottovoce.privacy.unit import Adjacency

    adjacency = Adjacency.parse(given["adjacency"])
    kinds = {row.name: row.kind for row in reversed(coverage())}
    if setup.method not in kinds:
        known = sorted(row.name for row in coverage() if row.reason is None)
        raise ParameterError("--method", setup.method, f"one of {', '.join(known)}{nearest(setup.method, known)}")
    kind = kinds[setup.method]
    _require_suited(kind)
    finder = {"label": _labels, "token": _texts, "fit": _fits, "answer": _answers}[kind]
    return finder(_Asked(setup, given, rows, count, task, price, adjacency))


@dataclass(frozen=True)
class _Asked:
    """As ``worst_of_method`` is called, with the relation read."""

    setup: o.Setup
    given: Mapping[str, Any]
    rows: Sequence[Row]
    count: int
    task: Task
    price: Price
    adjacency: Adjacency

    @property
    def few(self) -> Sequence[Row]:
        """The records that are played with."""
        from sottovoce.audits.kinds.canary import spread

        return spread(self.rows, self.count)

    @property
    def with_delta(self) -> Price:
        """The price, with a delta where none was typed."""
        return replace(self.price, delta=DELTA) if self.given["delta"] is None else self.price

    @property
    def model_options(self) -> dict[str, Any]:
        """Of the model, as typed."""
        return o.given(device=self.given["device"], dtype=self.given["dtype"], chat=self.given["chat"])

    def scorer(self) -> LabelScorer:
        """The model that scores labels and embeds texts."""
        from sottovoce.cli.console import load_scorer

        return load_scorer(self.given["model"], **self.model_options)


def _require_suited(kind: str) -> None:
    """Options of one kind of method are refused with another."""
    from sottovoce.cli.flags import flag_of_name, is_typed

    suited = {"tokens": ("token",), "writer": ("answer",), "question_text": ("label", "answer")}
    for name, kinds in suited.items():
        if is_typed(name) and kind not in kinds:
            raise ParameterError(flag_of_name(name), GIVEN, f"left out: the method answers with another kind, {kind}")


def _labels(asked: _Asked) -> tuple[Given, Price]:
    from sottovoce.audits.exact.given import of_labels

    method, price = asked.setup.load_method(asked.setup.method), asked.price
    if method.can_fail or getattr(method, "noise", "") == "gaussian":
        price = asked.with_delta
    questions = asked.given["question_text"] or ()
    return of_labels(method, asked.scorer(), asked.task, asked.few, price, asked.adjacency, questions), price


def _texts(asked: _Asked) -> tuple[Given, Price]:
    from sottovoce.audits.exact.given import of_texts
    from sottovoce.audits.game.canaries import rare_and_common
    from sottovoce.audits.kinds.canary import spread
    from sottovoce.cli.console import load_stepper
    from sottovoce.methods.decoding.decoder import make_decoder, read_decoder_options

    setup, task, price = asked.setup, asked.task, asked.with_delta
    options = o.MethodOptions(setup.option or (), setup.shorthands)
    with options.as_typed():
        decoder = make_decoder(setup.method, **read_decoder_options(setup.method, options.values))
    _, common = rare_and_common(asked.rows, task)
    own = [row for row in asked.rows if task.labels[task.label_of(row, "records")] == common]
    few = spread(own, min(asked.count, len(own)))
    stepper = load_stepper(asked.given["model"], **asked.model_options)
    return of_texts(decoder, stepper, task, few, price, asked.adjacency, asked.given["tokens"]), price


def _fits(asked: _Asked) -> tuple[Given, Price]:
    from sottovoce.audits.exact.given import of_fits
    from sottovoce.cli.fit import fitter_of

    fitter = fitter_of(asked.setup)
    price = asked.with_delta if fitter.needs_delta else asked.price
    return of_fits(fitter, asked.scorer(), asked.task, asked.few, price, asked.adjacency), price


def _answers(asked: _Asked) -> tuple[Given, Price]:
    from sottovoce.audits.exact.given import of_answers
    from sottovoce.cli.console import load_writer
    from sottovoce.methods.answering.answerer import make_answerer, read_answerer_options

    setup, given = asked.setup, asked.given
    options = o.MethodOptions(setup.option or (), setup.shorthands)
    with options.as_typed():
        answerer = make_answerer(setup.method, **read_answerer_options(setup.method, options.values))
    price = asked.with_delta if answerer.needs_delta else asked.price
    writer = None if given["writer"] is None else load_writer(given["writer"], **asked.model_options)
    keywords = int(getattr(answerer, "k")) if "k" in options.values else None  # noqa: B009
    found = of_answers(
        answerer,
        asked.scorer(),
        asked.task,
        asked.few,
        price,
        asked.adjacency,
        given["question_text"] or (),
        writer=writer,
        keywords=keywords,
    )
    return found, price
