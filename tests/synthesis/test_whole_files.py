"""The law of a whole file, exactly: every batch's text, mixed over the secret coins, for neighbours of every kind.

Texts have one token, so that the outcomes of all batches together can be counted out.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sottovoce.experts.batches import Batches
from sottovoce.models.fake import FakeStepper
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.synthesis.config import SynthesisConfig
from synthesis.worlds_of_texts import TASK, writer

BILLING, FRAUD = TASK.labels
OTHERS = [("y", FRAUD), ("x", BILLING)] * 2
ONE = ("x", BILLING)
NEIGHBOURS = {
    "add-remove": [None],
    "replace-one": [("y", BILLING), ("y", FRAUD), ("x", FRAUD)],
    "zero-out": [("", "")],
}
CASES = [(adjacency, other) for adjacency, others in NEIGHBOURS.items() for other in others]


class Coins:
    """Coins that were thrown beforehand."""

    secure = True

    def __init__(self, coins):
        self._coins = iter(coins)

    def below(self, limit: int) -> int:
        return next(self._coins) % limit


def says_it_loudly(prompt, text):
    """Two tokens, neither of which ends a text."""
    says_x, says_y = "x" in prompt.private_text.partition(":")[2], "y" in prompt.private_text
    return [60.0 * (says_x - says_y), 60.0 * (says_y - says_x), -60.0, 0.0]


def law_of_file(icl, first, per_label: int) -> np.ndarray:
    """Probability of every outcome of all batches, the coins unknown."""
    units = [unit for unit in (first, *OTHERS) if unit is not None]
    records = PrivateRecords(
        [Row(i, {"text": text, "label": label, "id": f"u{i}"}) for i, (text, label) in enumerate(units, 1)], source="w"
    )
    total, worlds = 0.0, list(itertools.product(range(per_label), repeat=len(units)))
    for coins in worlds:
        batches = Batches(records, icl.writing, per_label=per_label, adjacency=icl.adjacency, randomness=Coins(coins))
        read = icl.model.read(batches.groups(), max_private_tokens=20, tokens=1)
        decoding = read.write(range(len(batches.labels)), 1)
        laws = []
        for step in decoding.step(dict.fromkeys(range(len(batches.labels)))):
            chooser = icl.plan.decoder.start(icl.plan, SeededRandomness(1), eos_tokens=(2,), forbidden_tokens=(3,))
            laws.append(chooser.law(step)[:3])
        joint = np.ones(1)
        for law in laws:
            joint = np.multiply.outer(joint, law).ravel()
        total = total + joint / len(worlds)
    return total


def planned(adjacency: str, epsilon: float, delta: float, per_label: int):
    order = SynthesisConfig(per_label=per_label, texts_per_batch=1, tokens=1, experts=1)
    model = FakeStepper(says_it_loudly, pieces=("x", "y"))
    return writer(adjacency=adjacency, order=order, epsilon=epsilon, delta=delta, model=model)


def loss(icl, other, per_label: int) -> tuple[float, float]:
    """The largest loss, and the exact delta at the plan's epsilon."""
    p, q = (law_of_file(icl, first, per_label) for first in (ONE, other))
    assert p.sum() == pytest.approx(1)
    epsilon = icl.plan.report.epsilon
    delta = max(float(np.maximum(one - math.exp(epsilon) * two, 0).sum()) for one, two in ((p, q), (q, p)))
    return float(np.abs(np.log(p) - np.log(q)).max()), delta


@pytest.mark.cases(2)
@pytest.mark.parametrize("per_label", [1, 2])
@pytest.mark.parametrize(("adjacency", "other"), CASES, ids=str)
def test_a_whole_file_costs_what_one_batch_is_charged(adjacency, other, per_label):
    most, delta = loss(planned(adjacency, 1.0, 0.0, per_label), other, per_label)
    assert most <= 1.0 + 1e-9
    assert delta <= 1e-12
    assert loss(planned(adjacency, 1.0, 0.05, per_label), other, per_label)[1] <= 0.05


@pytest.mark.parametrize(("adjacency", "other"), [case for case in CASES if case[1] != ("y", FRAUD)], ids=str)
def test_the_price_is_nearly_used_inside_a_batch_and_by_a_move_between_two(adjacency, other):
    # Without a coin to hide behind: a swap in one batch, or a drop in each of two, is what was paid for.
    assert loss(planned(adjacency, 1.0, 0.0, 1), other, 1)[0] > 0.7


# Planted mistakes


@pytest.mark.slow
def test_a_unit_in_every_batch_of_its_label_costs_more_than_one_batch(monkeypatch):
    original = Batches.__init__

    def everywhere(batches, *arguments, per_label, **options):
        original(batches, *arguments, per_label=per_label, **options)
        for label in range(2):
            its = batches._members[label * per_label : (label + 1) * per_label]
            whole = [unit for one in its for unit in one]
            batches._members[label * per_label : (label + 1) * per_label] = [whole] * per_label

    monkeypatch.setattr(Batches, "__init__", everywhere)
    for adjacency, others in NEIGHBOURS.items():
        assert max(loss(planned(adjacency, 1.0, 0.0, 2), other, 2)[0] for other in others) > 1.3
