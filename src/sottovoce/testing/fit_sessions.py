"""What ``sottovoce.fitting`` does with a fitter: what it refuses before a record is read, and what it leaves."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from sottovoce.errors import InputError, SottoError
from sottovoce.fitting.fit import Fitting
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import Fitter, registered_fitters
from sottovoce.models.fake import FakeScorer, FakeStepper
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task
from sottovoce.testing.report import ContractError, Report, must_not_raise

TASKS: Final = (Task(labels=["fee", "theft", "none of these"]), Task(labels=["fee", "theft"]))
"""The first of them that a fitter takes."""
TEXTS: Final = (("a fee was charged twice", "fee"), ("somebody used my card", "theft"))
POOL: Final = ("a fee", "a theft", "a question", "the weather", "a card that is lost")
COUNTS: Final = (12, 120, 1_200)
"""Records of a session: the fewest that a fitter takes."""


def budgets(price: Price) -> tuple[Budget, Budget]:
    """A ledger that adds epsilons, and one that adds rho."""
    return Budget.once(price.epsilon, price.delta), Budget(price.epsilon, price.delta)


def records(count: int) -> PrivateRecords:
    """So many records; one label has none."""
    rows = [Row(i + 1, {"text": f"{TEXTS[i % 2][0]} {i}", "label": TEXTS[i % 2][1]}) for i in range(count)]
    return PrivateRecords(rows, source="a world", synthetic=True)


def refuses(fitter: Fitter, subject: str, price: Price, adjacency: Adjacency) -> int:
    """A fit that a ledger cannot pay for reads no record; the number of fits that were refused."""
    with must_not_raise("session", subject, "a fit", f"{adjacency.value}, {price}"):
        smallest = _smallest(fitter, FakeScorer(), adjacency, price, budgets(price)[0])
    if not isinstance(smallest, _Smallest):
        return 0
    cost = smallest.fitting.plan.report
    small = budgets(Price(cost.epsilon / 2, cost.delta / 2))
    for budget in small:
        model = FakeScorer()
        try:
            _fitting(fitter, model, adjacency, price, budget, smallest.count, smallest.task).run()
        except AssertionError as error:
            raise ContractError("asks", subject, str(error), f"{adjacency.value}, {smallest.count} records") from error
        except SottoError:
            if model.contexts_read:
                raise ContractError("refusals", subject, "records were read before it was refused") from None
            continue
        raise ContractError("refusals", subject, "a ledger with half of what it costs takes it")
    return len(small)


def fits(fitter: Fitter, subject: str, report: Report, prices: Mapping[Adjacency, Price]) -> None:
    """A fit leaves a certificate of which every check holds, and its file is read back as it is.

    For fitters that are registered: a certificate names its fitter.
    """
    if registered_fitters().get(fitter.name) is not type(fitter):
        report.not_compared(f"{subject}: session, since it is not registered and a certificate names its fitter")
        return
    for adjacency, price in prices.items():
        for budget in budgets(price):
            world = f"{adjacency.value}, a budget of {budget}"
            with must_not_raise("session", subject, "a fit", world):
                smallest = _smallest(fitter, FakeScorer(), adjacency, price, budget)
                if not isinstance(smallest, _Smallest):
                    report.refused.append(f"{subject}, a session under {world}: {smallest}")
                    continue
                fitting = smallest.fitting
                fitted = fitting.run()
                back = Fitted.from_bytes(fitted.to_bytes(), "a file")
                checks = fitted.certificate.checks(back.content_sha256, fitting.ledger, records(smallest.count))
                answers = fitted.predict([text for text, _ in TEXTS])
                back.use(FakeScorer())
                again = back.predict([text for text, _ in TEXTS])
            if broken := [check for check in checks if check.holds is not True]:
                problem = f"its certificate fails: {broken[0].what} ({broken[0].told})"
                raise ContractError("session", subject, problem, world)
            if answers != again:
                raise ContractError("session", subject, "its file answers otherwise than what was fitted", world)
            report.kept("session", 1, "fits with a certificate that holds")


@final
@dataclass(frozen=True)
class _Smallest:
    """A fit of the fewest records that a fitter takes."""

    fitting: Fitting
    count: int
    task: Task


def _smallest(
    fitter: Fitter, model: FakeScorer, adjacency: Adjacency, price: Price, budget: Budget
) -> _Smallest | InputError:
    """The fit of the fewest records that it takes, or what it says of the most."""
    for task, count in itertools.product(TASKS, COUNTS):
        try:
            return _Smallest(_fitting(fitter, model, adjacency, price, budget, count, task), count, task)
        except InputError as error:
            refusal = error
    return refusal


def _fitting(
    fitter: Fitter, model: FakeScorer, adjacency: Adjacency, price: Price, budget: Budget, count: int, task: Task
) -> Fitting:
    pool: Any = POOL if fitter.pool == "required" else ()
    return Fitting(
        records(count),
        task,
        epsilon=price.epsilon,
        delta=price.delta,
        method=fitter,
        model=model,
        adjacency=adjacency,
        pool=pool,
        writer=FakeStepper() if fitter.writes else None,
        budget=budget,
        ledger=":memory:",
    )
