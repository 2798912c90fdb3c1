"""Private PoEtry, Table 4: can an asker tell whether a record is among the private ones?

Every seed draws half of a fixed pool of candidates as its private records. The attacker asks each candidate's own text
and decides by a likelihood ratio fitted on the other seeds: once from the confidence in the candidate's label, which no
method releases (the published attack), and once from released answers alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.audits.membership import (
    NOT_RELEASED,
    Observations,
    attack_result,
    likelihood_ratio_scores,
    logit_confidence,
    membership_design,
    released_label_scores,
)
from sottovoce.audits.roc import caps
from sottovoce.benchmarks import evaluation as e
from sottovoce.benchmarks.exhibits import Exhibit, Figure, Series, Table
from sottovoce.benchmarks.experiment import Bench, Experiment, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.worlds import Episode
from sottovoce.methods.base import Price
from sottovoce.methods.pbs import PbS
from sottovoce.privacy.unit import Adjacency

CANDIDATES: Final = 40
ANSWERS: Final = 1
DEFENCES: Final = ("no defence", e.POE, e.PRIOR_POE, e.VOTES, e.VOTES_GAUSSIAN, e.PBS)
ADJACENCY: Final = Adjacency.REPLACE_ONE
"""With a fixed number of members one candidate's presence replaces another record."""


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Nothing by itself: the attack fits each seed on all the others."""
    yield from ()


def whole(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Every attack on every task: rates with intervals, and curves."""
    attacks = []
    for task, names in dict.fromkeys((piece.task, piece.names) for piece in pieces):
        for defence, epsilon, laws, member, truth in _systems(bench, task, names):
            for result in _attacks(laws, member, truth):
                told = {"task": task, "names": names, "defence": defence, "epsilon": epsilon, **result}
                attacks.append(told)
    return {"attacks": attacks}


System = tuple[str, float | None, NDArray[np.float64], NDArray[np.bool_], NDArray[np.intp]]
"""Defence, epsilon, label laws of shape (seeds, candidates, labels), members, candidates' labels."""


def _systems(bench: Bench, task: str, names: str) -> Iterator[System]:
    seeds, records = bench.settings.seeds, bench.settings.records[0]
    pool = _pool(bench, task, names)
    member = membership_design(np.random.default_rng(400), seeds, CANDIDATES, records)
    alone = e.ask(bench.scorer, pool, [[i] for i in range(CANDIDATES)])
    public = e.ask_public(bench.scorer, pool)
    inside = [np.flatnonzero(row).tolist() for row in member]
    together = np.stack([e.ask(bench.scorer, pool, [group])[:, 0] for group in inside])
    yield "no defence", None, _shares(together), member, pool.truth
    for name in DEFENCES:
        for epsilon in bench.settings.epsilons:
            price = Price(epsilon, e.DELTA)
            if name in e.SELECTING:
                change = e.change_of(1, ADJACENCY)
                answers = [e.Answers(alone[:, group], public, change, ADJACENCY).outputs() for group in inside]
                laws = np.stack([e.laws(e.SELECTING[name], outputs, price) for outputs in answers])
                yield name, epsilon, laws, member, pool.truth
    samples = []
    for seed, group in enumerate(inside):
        mine = replace(pool, records=[pool.records[i] for i in group])
        samples.append(e.ask_samples(bench.scorer, mine, len(group), PbS(), seed))
    for epsilon in bench.settings.epsilons:
        laws = np.stack([e.pbs_laws(PbS(), said, Price(epsilon, e.DELTA), ADJACENCY) for said in samples])
        yield e.PBS, epsilon, laws, member, pool.truth


def _pool(bench: Bench, task: str, names: str) -> Episode:
    """The candidates as records and, in the same order, as questions; the same pool and names in every seed."""
    drawn = bench.world(task).episode(0, 1, names)
    records = list(drawn.records[:CANDIDATES])
    truth = np.array([record.label for record in records])
    return Episode(drawn.task, records, [record.fields for record in records], truth)


def _shares(log_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def _attacks(laws: NDArray[np.float64], member: NDArray[np.bool_], truth: NDArray[np.intp]) -> Iterator[dict[str, Any]]:
    draws = np.random.default_rng(401)
    with np.errstate(divide="ignore"):
        confidence = logit_confidence(np.log(laws), np.broadcast_to(truth, member.shape))
    seen = Observations(member, statistic=confidence)
    scores = likelihood_ratio_scores(seen)
    yield attack_result("scores", scores, member, draws, released=False).as_dict()
    ends = laws.cumsum(axis=-1)
    drawn = (draws.random((*member.shape, ANSWERS))[..., None] * ends[..., None, -1:] > ends[..., None, :]).sum(axis=-1)
    answered = Observations(member, labels=drawn, classes=laws.shape[-1])
    yield attack_result("released answers", released_label_scores(answered), member, draws, released=True).as_dict()


def exhibit(result: Result) -> Exhibit:
    """One table for each attack, the caps, and curves on logarithmic axes."""
    found = result.extra["attacks"]
    tables = [_table(found, "scores"), _table(found, "released answers"), _caps(result)]
    return Exhibit(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(found), tables, _figures(found), about(result)
    )


def _table(found: Sequence[dict[str, Any]], attack: str) -> Table:
    rows = []
    for one in found:
        if one["name"] == attack:
            low = one["tpr_at_fpr"]
            rates = [_said(low[rate]) for rate in ("0.01", "0.001")]
            price = "none" if one["epsilon"] is None else f"{one['epsilon']:g}"
            rows.append((one["task"], one["names"], one["defence"], price, _said(one["auroc"], 3), *rates))
    first = found[0]
    note = (
        f"{first['members']} members and {first['non_members']} others. 95 % intervals by resampling seeds and "
        f"candidates. {'; '.join(first['notes'])}"
    )
    title = f"Likelihood-ratio attack on {attack}" + (f" ({NOT_RELEASED})" if attack == "scores" else "")
    heads = ("task", "label names", "defence", "epsilon", "AUROC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")
    return Table(title, heads, rows, note)


def _said(found: dict[str, float], digits: int = 3) -> str:
    return f"{found['value']:.{digits}f} ({found['low']:.{digits}f} to {found['high']:.{digits}f})"


def _caps(result: Result) -> Table:
    rows = []
    for epsilon in result.settings.epsilons:
        bounds = [caps(epsilon, 0.0, rate) for rate in (0.01, 0.001)]
        rows.append((f"{epsilon:g}", f"{bounds[0].auroc:.3f}", *(f"{bound.tpr:.4f}" for bound in bounds)))
    return Table(
        "What epsilon leaves any attack on one released answer (delta 0, replace-one)",
        ("epsilon", "AUROC", "TPR at 1 % FPR", "TPR at 0.1 % FPR"),
        rows,
        "An attack on scores is not bound by this: scores are not released.",
    )


def _reading(found: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for task, names in dict.fromkeys((one["task"], one["names"]) for one in found):
        here = [one for one in found if (one["task"], one["names"]) == (task, names)]
        bare = {one["name"]: one["auroc"]["value"] for one in here if one["defence"] == "no defence"}
        told = []
        for defence in DEFENCES[1:]:
            for attack in ("scores", "released answers"):
                values = [one["auroc"]["value"] for one in here if (one["defence"], one["name"]) == (defence, attack)]
                if values:
                    told.append(f"{defence} {attack} {min(values):.2f} to {max(values):.2f}")
        lines.append(
            f"{task} ({names} names): AUROC without defence {bare['scores']:.2f} on scores and "
            f"{bare['released answers']:.2f} on the answer; over the epsilons: {'; '.join(told)}."
        )
    over = [
        one
        for one in found
        if one["released"] and one["epsilon"] and one["auroc"]["low"] > caps(one["epsilon"], 0.0, 0.01).auroc
    ]
    lines.append(f"Attacks on released answers whose interval lies above their cap: {len(over)}.")
    return lines


def _figures(found: Sequence[dict[str, Any]]) -> list[Figure]:
    figures = []
    for task, names in dict.fromkeys((one["task"], one["names"]) for one in found):
        for attack in ("scores", "released answers"):
            here = [one for one in found if (one["task"], one["names"], one["name"]) == (task, names, attack)]
            middle = sorted({one["epsilon"] for one in here if one["epsilon"]})
            epsilon = middle[len(middle) // 2]
            lines = []
            for one in here:
                if one["epsilon"] in (None, epsilon):
                    curve = one["roc"]
                    x, y = curve["false_positive_rates"], curve["true_positive_rates"]
                    lines.append(Series(one["defence"], x, y, reference=one["epsilon"] is None))
            short = f"{task}-{'own' if names == 'own' else 'made-up'}-{attack.split(maxsplit=1)[0]}"
            figures.append(
                Figure(
                    f"roc-{short}",
                    f"{task}, {names} names, attack on {attack}, epsilon {epsilon:g}",
                    "false-positive rate",
                    "true-positive rate",
                    lines,
                    kind="lines",
                    log_x=True,
                    log_y=True,
                    diagonal=True,
                    note=NOT_RELEASED.capitalize() + "." if attack == "scores" else "One answer for each candidate.",
                )
            )
    return figures


EXPERIMENT = Experiment(
    name="poetry-table4",
    title="Membership: can an asker tell whose record is private?",
    source="Private PoEtry, Table 4 and section 4.4 (50 seeds x 20 records)",
    settings=Settings(
        tasks=("agnews", "dbpedia", "trec", "gsm8k"),
        seeds=50,
        records=(20,),
        epsilons=(1.0, 4.0, 8.0),
        adjacencies=(ADJACENCY.value,),
    ),
    measure=measure,
    exhibit=exhibit,
    whole=whole,
)
