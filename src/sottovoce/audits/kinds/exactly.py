"""Exact leakage of one method on given records: every single change, every question, no sampling.

Guarantee   As for ``audits.exact``: the losses are those of the method's own laws.
Assumes     Records are made up.
Sources     specification 10.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sottovoce.audits.exact.labels import LabelWorld, worst_label_pair
from sottovoce.audits.game.games import LabelGame
from sottovoce.audits.game.play import Claim
from sottovoce.audits.report import Measured, Report, Verdict, curve_points
from sottovoce.errors import ParameterError
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.records.sealed import Row


def audit_exactly(game: LabelGame, rows: Sequence[Row], questions: Sequence[str]) -> Report:
    """The worst pair of data sets for every question.

    Args:
        game: A method with a law in closed form, one unit an expert.
        rows: Made-up records, each an expert.
        questions: What is asked; every record's own text where there is none.

    Raises:
        ParameterError: The method has no such law, or several units share an expert.
    """
    task = game.task
    if game.partition.units_per_expert != 1 or game.partition.capacity is not None:
        raise ParameterError("per_expert", game.partition.units_per_expert, "1, without a capacity")
    examples = [task.example_of(row, "records") for row in rows]
    queries = [task.query_of(Row(1, dict.fromkeys(task.fields, text)), "the question") for text in questions]
    attacks: list[dict[str, Any]] = []
    excess: str | None = None
    for number, query in enumerate(queries or [example.fields for example in examples], 1):
        world = LabelWorld.of_examples(game.model, task, examples, query)
        worst = worst_label_pair(game.method, world, game.price, game.adjacency)
        excess = excess or worst.excess
        attacks.append(
            {
                "id": f"question {number}",
                "question": f"question {number}",
                "change": worst.change,
                "tried": worst.tried,
                "exact": worst.pair.max_loss,
                "total_variation": worst.pair.total_variation,
                "accuracy": min(1.0, (1 + worst.pair.total_variation) / 2),
                "violation": worst.excess is not None,
            }
        )
    claim = Claim.of(game.price.epsilon, game.price.delta, game.adjacency, game.event)
    largest = max(attack["exact"] for attack in attacks)
    verdict = Verdict.NONE_FOUND if excess is None else Verdict.VIOLATION
    tried = sum(attack["tried"] for attack in attacks)
    bound = 0.0 if claim.delta or not math.isfinite(largest) else largest
    reason = (
        f"Of {tried:,} pairs of neighbouring data sets, each with a question, the worst has a loss of "
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
    return Report("exact", game.name, verdict, reason, told, Measured(bound, 1.0, exact=largest), attacks=attacks)
