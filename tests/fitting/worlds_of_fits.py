"""Records, tasks and fits for the tests of this folder."""

from __future__ import annotations

from sottovoce.fitting.fit import Fitting
from sottovoce.fitting.fit import fit as fitted_once
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

WORDS = {"billing": "a fee was charged twice", "fraud": "somebody used my card"}
TASK = Task(labels=list(WORDS))
PRICE = {"epsilon": 4.0, "delta": 1e-6}
ROOMY = Budget(40.0, 1e-4, failure_delta=1e-4)
"""A budget that would pay for a fit ten times over, so that a second charge shows."""
RHO = Budget(4.0, 1e-6)
"""A ledger that adds rho, and has room for one fit."""


def rows(count=40, *, end="", **more):
    labels = list(WORDS)
    return [
        Row(
            i + 1,
            {"text": f"{WORDS[labels[i % 2]]} {i}{end}", "label": labels[i % 2]} | {k: v(i) for k, v in more.items()},
        )
        for i in range(count)
    ]


def records(count=40, *, synthetic=False, **more):
    return PrivateRecords(rows(count, **more), source="notes", synthetic=synthetic)


def asked(**how):
    """Arguments of a fit, with those that are given in place of the usual ones."""
    return {**PRICE, "method": "class-means", "model": FakeScorer(), "ledger": ":memory:", "pool": (), **how}


def fitting(data=None, task=TASK, **how) -> Fitting:
    return Fitting(data or records(), task, **asked(**how))


def fit(data=None, task=TASK, **how):
    return fitted_once(data or records(), task, **asked(**how))


def kinds(ledger) -> list[str]:
    """What the ledger noted of charges, in order."""
    return [entry["kind"] for entry in ledger.history() if entry["kind"] in ("reserve", "draw", "release")]
