"""Fits in small worlds: settings, private sides made of plain blocks, and records of two labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from sottovoce.experts.unit_sums import Block
from sottovoce.fitting.certificate import statement_of
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.fitting.fitter import FitSetting
from sottovoce.models.base import Isolation
from sottovoce.privacy.unit import DROP, SWAP, Adjacency, ChangeType
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Task

CHANGES = {Adjacency.ADD_REMOVE: DROP, Adjacency.REPLACE_ONE: SWAP, Adjacency.ZERO_OUT: DROP}
"""One unit an expert: table 2.2, first row, written out by hand."""

WORDS = {"billing": "a fee was charged twice on my bill", "fraud": "somebody stole and used my card"}
QUESTIONS = {"was the fee on this bill charged twice": "billing", "somebody used the card they stole": "fraud"}
POOL = [
    "a fee on my bill",
    "somebody stole it",
    "my card was used",
    "charged twice",
    "the weather is fine",
    "a red book",
]


def setting(adjacency: Adjacency, *, labels=2, dimension=2, units=100, **more) -> FitSetting:
    public = None if adjacency is Adjacency.ADD_REMOVE else units
    more.setdefault("change", CHANGES[adjacency])
    return FitSetting(labels=labels, dimension=dimension, units=public, adjacency=adjacency, **more)


def several(change: ChangeType, units: int) -> ChangeType:
    return ChangeType(f"{units}-{change.name}", change.widths * units, change.rows * units)


class Blocks:
    """A private side that was read already, which notes the rules that it was asked by."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks, self.rules = blocks, []

    def sum_of(self, rule):
        self.rules.append(rule)
        return sum((rule.add_up(block) for block in self.blocks), np.zeros(rule.size, dtype=np.int64))


def without_pool() -> SimpleNamespace:
    return SimpleNamespace(vectors=np.empty((0, 0)), pool=())


def promising_nothing(fitted: Fitted) -> Fitted:
    """The same, as if its model had not been seen to keep records apart."""
    c, unsure = fitted.certificate, Isolation.NOT_VERIFIED
    words = statement_of(Adjacency(c.adjacency), c.unit, c.epsilon, c.delta, c.method, unsure, seeded=False)
    return replace(fitted, certificate=replace(c, isolation=unsure.value, statement=words))


def task() -> Task:
    return Task(labels=list(WORDS))


def records(seed: str, each: int = 150, **more) -> PrivateRecords:
    """Records of both labels; another seed gives other ones, so that each may have its own ledger."""
    rows = [
        Row(place, {"text": f"{WORDS[label]} {seed}{i}", "label": label, "owner": f"{label}{i // 3}"})
        for place, (i, label) in enumerate((i, label) for i in range(each) for label in WORDS)
    ]
    return PrivateRecords(rows, source="notes", **more)
