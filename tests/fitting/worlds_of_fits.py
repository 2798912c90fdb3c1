"""Records, tasks and fits for the tests of this folder."""

from __future__ import annotations

import json

import numpy as np
from safetensors.numpy import load, save

from sottovoce.fitting.fit import Fitting
from sottovoce.fitting.fit import fit as fitted_once
from sottovoce.fitting.fitted import HEADER
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


def parts(content):
    """The arrays of a fitted file, without the one that holds the JSON, and the JSON."""
    arrays = load(content)
    return arrays, json.loads(arrays.pop("about").tobytes())


def whole(arrays, about, form=2):
    """A fitted file of such parts, in a format."""
    if form == 1:
        return save(arrays, metadata={HEADER: json.dumps({"format": 1, **about})})
    told = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    return save({**arrays, "about": told}, metadata={HEADER: json.dumps({"format": form})})


def kinds(ledger) -> list[str]:
    """What the ledger noted of charges, in order."""
    return [entry["kind"] for entry in ledger.history() if entry["kind"] in ("reserve", "draw", "release")]
