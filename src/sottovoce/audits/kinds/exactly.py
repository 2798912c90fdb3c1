"""Exact leakage of one method on given records: every single change, no sampling.

Guarantee   As for ``audits.exact``: the losses are those of the method's own laws.
Assumes     Records are made up.
Sources     specification 10.7.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sottovoce.audits.exact.given import Given, of_labels
from sottovoce.audits.exact.pair import as_dict, exact_epsilon
from sottovoce.audits.game.games import LabelGame
from sottovoce.audits.game.play import Claim
from sottovoce.audits.report import Measured, Report, Verdict, curve_points
from sottovoce.errors import ParameterError
from sottovoce.methods.base import Price
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import Row


def audit_exactly(game: LabelGame, rows: Sequence[Row], questions: Sequence[str]) -> Report:
    """The worst pair of data sets for every question, of a method that answers with labels.

    Args:
        game: A method with a law in closed form, one unit an expert.
        rows: Made-up records, each an expert.
        questions: What is asked; every record's own text where there is none.

    Raises:
        ParameterError: The method has no such law, or several units share an expert.
    """
    if game.partition.units_per_expert != 1 or game.partition.capacity is not None:
        raise ParameterError("per_expert", game.partition.units_per_expert, "1, without a capacity")
    found = of_labels(game.method, game.model, game.task, rows, game.price, game.adjacency, questions)
    return report_of(game.name, found, game.price, game.adjacency)


def report_of(subject: str, found: Given, price: Price, adjacency: Adjacency) -> Report:
    """What the worst pairs say of a claim.

    Args:
        subject: The method's name.
        found: The worst pairs.
        price: Of one release: what is claimed of it.
        adjacency: The relation.
    """
    claim = Claim.of(price.epsilon, price.delta, adjacency, found.event)
    attacks: list[Mapping[str, Any]] = []
    for name, worst in found.worst.items():
        exact = exact_epsilon(worst.pair, claim.delta)
        attacks.append(
            {
                "id": name,
                "question": name,
                "change": worst.change,
                "tried": worst.tried,
                "exact": exact,
                "total_variation": worst.pair.total_variation,
                "accuracy": min(1.0, (1 + worst.pair.total_variation) / 2),
                "violation": worst.excess is not None,
                "leak": as_dict(worst.pair),
            }
        )
    excess = next((worst.excess for worst in found.worst.values() if worst.excess is not None), None)
    largest = max(attack["exact"] for attack in attacks)
    tried = sum(attack["tried"] for attack in attacks)
    verdict = Verdict.NONE_FOUND if excess is None else Verdict.VIOLATION
    loss = "a loss of" if claim.delta == 0 else f"at delta {rounded_up(claim.delta, 6)} an epsilon of"
    pairs = "pair of neighbouring data sets" if tried == 1 else "pairs of neighbouring data sets"
    questions = ", each with a question," if len(attacks) > 1 else ""
    reason = (
        f"Of {tried:,} {pairs}{questions} the worst has {loss} "
        f"{rounded_down(largest, 4)}; epsilon {rounded_up(claim.epsilon, 6)} is claimed. "
    )
    reason += excess if excess else "No pair exceeds what is claimed. Other records may lose more, up to the claim."
    told = {
        "epsilon": claim.epsilon,
        "delta": claim.delta,
        "adjacency": claim.adjacency.value,
        "own_curve": claim.own_curve,
        "curve": curve_points(claim.curve),
    }
    bound = largest if math.isfinite(largest) else 0.0
    return Report(
        "exact", subject, verdict, reason, told, Measured(bound, 1.0, exact=largest), dict(found.setting), attacks
    )
