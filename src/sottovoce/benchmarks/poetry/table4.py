"""Private PoEtry, Table 4: can an asker tell whether a record is among the private ones?

Every seed draws half of a fixed pool of candidates as its private records. The attacker asks each candidate's own text
and decides by a likelihood ratio fitted on the other seeds: once from the confidence in the candidate's label, which no
method releases (the published attack), and once from released answers alone.

The number of members is fixed, so a candidate's presence replaces another record. Answers that are priced under
replace-one are held against their own curve; those priced under add-remove against that of two changes, the group bound
(2 epsilon, delta (1 + e^epsilon)) at every point of the curve (specification T18).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from sottovoce.audits.membership import (
    LOW_RATES,
    NOT_RELEASED,
    Observations,
    attack_result,
    likelihood_ratio_scores,
    logit_confidence,
    membership_design,
    released_label_scores,
)
from sottovoce.audits.roc import BoolArray, Caps, FloatArray, IntArray, caps_of_curve
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import Episode
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.errors import ParameterError
from sottovoce.methods.base import Price
from sottovoce.methods.pbs import PbS, sampled_event
from sottovoce.privacy.accounting.profiles import delta_of_plan
from sottovoce.privacy.events import ZCDpEvent
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import Adjacency

CANDIDATES: Final = 40
ANSWERS: Final = 1
LEAST: Final = 2
"""How often every candidate must be in, and how often out: fits of both sides leave out the seed that they score."""

MOST_SEEDS: Final = 1_000
POINTS: Final = 17
"""Points of a privacy profile that a cap is drawn from."""

DEFENCES: Final = ("no defence", e.POE, e.PRIOR_POE, e.VOTES, e.VOTES_GAUSSIAN, e.PBS)


def design(settings: Settings) -> BoolArray:
    """Who is private in which seed, shape (seeds, candidates).

    Raises:
        ParameterError: So few seeds, or so few or so many records, that some candidate is not in twice and out twice.
    """
    seeds, (records, *more) = settings.seeds, settings.records
    if more:
        raise ParameterError("records", settings.records, "one number: the attack has one size")
    if not 1 <= records < CANDIDATES:
        raise ParameterError("records", records, f"from 1 to {CANDIDATES - 1}: they are drawn from {CANDIDATES}")
    # More seeds begin with the same ones.
    longer = membership_design(np.random.default_rng(400), max(seeds, MOST_SEEDS), CANDIDATES, records)
    counts = np.minimum(longer.cumsum(axis=0), (~longer).cumsum(axis=0)).min(axis=1)
    if counts[seeds - 1] < LEAST:
        enough = np.flatnonzero(counts >= LEAST)
        least = str(int(enough[0]) + 1) if len(enough) else f"more than {MOST_SEEDS}"
        raise ParameterError(
            "seeds",
            seeds,
            f"{least} or more with {records} records of {CANDIDATES}: the attack fits every candidate on other seeds, "
            "so each must be private in two and absent from two",
        )
    return longer[:seeds]


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Nothing by itself: the attack fits each seed on all the others. Settings are checked before anything is asked."""
    design(bench.settings)
    yield from ()


def whole(bench: Bench, pieces: Sequence[Piece]) -> dict[str, Any]:
    """Every attack on every task: rates with intervals, and the curves that figures show."""
    attacks = []
    member = design(bench.settings)
    drawn = (None, _middle(bench.settings.epsilons)), (None, bench.adjacencies[0].value)
    for task, names in dict.fromkeys((piece.task, piece.names) for piece in pieces):
        pool = _pool(bench, task, names)
        for defence, adjacency, epsilon, laws in _systems(bench, pool, member):
            system = {"task": task, "names": names, "defence": defence, "adjacency": adjacency, "epsilon": epsilon}
            for result in _attacks(laws, member, pool.truth):
                if epsilon not in drawn[0] or adjacency not in drawn[1]:
                    del result["roc"]
                attacks.append(system | _six_digits(result))
    return {"attacks": attacks}


def _middle(epsilons: Iterable[float]) -> float:
    """The price whose curves are drawn."""
    ordered = sorted(epsilons)
    return ordered[len(ordered) // 2]


def _six_digits(value: Any) -> Any:
    """Measured figures as they are kept."""
    if isinstance(value, dict):
        return {key: _six_digits(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_six_digits(item) for item in value]
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else float(f"{value:.6g}")
    return value


System = tuple[str, str | None, float | None, FloatArray]
"""Defence, adjacency, epsilon, label laws of shape (seeds, candidates, labels)."""


def _systems(bench: Bench, pool: Episode, member: BoolArray) -> Iterator[System]:
    alone = e.ask(bench.scorer, pool, [[i] for i in range(CANDIDATES)])
    public = e.ask_public(bench.scorer, pool)
    inside = [np.flatnonzero(row).tolist() for row in member]
    together = np.stack([e.ask(bench.scorer, pool, [group])[:, 0] for group in inside])
    yield "no defence", None, None, _shares(together)
    for adjacency in bench.adjacencies:
        change = e.change_of(1, adjacency)
        answers = [e.Answers(alone[:, group], public, change, adjacency).outputs() for group in inside]
        for name in (name for name in DEFENCES if name in e.SELECTING):
            for epsilon in bench.settings.epsilons:
                price = Price(epsilon, e.DELTA)
                laws = np.stack([e.laws(e.SELECTING[name], outputs, price) for outputs in answers])
                yield name, adjacency.value, epsilon, laws
    if e.PBS not in DEFENCES:
        return
    samples = []
    for seed, group in enumerate(inside):
        mine = replace(pool, records=[pool.records[i] for i in group])
        samples.append(e.ask_samples(bench.scorer, mine, len(group), PbS(), seed))
    for adjacency in bench.adjacencies:
        for epsilon in bench.settings.epsilons:
            laws = np.stack([e.pbs_laws(PbS(), scores, Price(epsilon, e.DELTA), adjacency) for scores in samples])
            yield e.PBS, adjacency.value, epsilon, laws


def _pool(bench: Bench, task: str, names: str) -> Episode:
    """The candidates as records and, in the same order, as questions; the same pool and names in every seed.

    No candidate is among the rows that the embedded model was fitted on: that would be membership of another kind.

    Raises:
        ParameterError: There are too few, or two with the same text, whose presence could not be told apart.
    """
    drawn = bench.world(task).episode(0, 1, names)
    records = list(drawn.records[:CANDIDATES])
    different = len({tuple(sorted(record.fields.items())) for record in records})
    if different < CANDIDATES:
        raise ParameterError(
            "tasks", task, f"one with {CANDIDATES} different texts among the first; it has {different}"
        )
    truth = np.array([record.label for record in records])
    return Episode(drawn.task, records, [record.fields for record in records], truth)


def _shares(log_weights: FloatArray) -> FloatArray:
    shares = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def _attacks(laws: FloatArray, member: BoolArray, truth: IntArray) -> Iterator[dict[str, Any]]:
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


@lru_cache(maxsize=64)
def curve_of(defence: str, adjacency: Adjacency, epsilon: float) -> tuple[tuple[float, float], ...]:
    """Points (epsilon, delta) of one answer's privacy profile, for a member that replaces another record.

    The asked (epsilon, delta) is one of them. A vote with Gaussian noise has its profile by zCDP: the conversion T9,
    and Pinsker's inequality at epsilon 0.
    """
    price = Price(epsilon, e.DELTA)
    grid = [float(x) for x in np.linspace(0.0, epsilon, POINTS)]
    if defence == e.PBS:
        pbs = PbS()
        noise = pbs.noise_multiplier(price, adjacency)
        event = sampled_event(pbs.sampling_probability, pbs.subsamples, noise, adjacency)
    else:
        event = e.SELECTING[defence].event(price, adjacency)
    if isinstance(event, ZCDpEvent):
        points = [(x, _delta_of_rho(x, event.rho)) for x in grid]
    else:
        points = [(x, delta_of_plan([event], x, adjacency)) for x in grid]
    points.append((epsilon, e.DELTA if defence in e.SPEND_DELTA else 0.0))
    if adjacency is Adjacency.REPLACE_ONE:
        return tuple(points)
    return tuple((2 * x, min(1.0, delta * (1 + math.exp(x)))) for x, delta in points)


def _delta_of_rho(epsilon: float, rho: float) -> float:
    alphas = 1 + np.geomspace(1e-3, 1e4, 2_000)
    logs = (alphas - 1) * (alphas * rho - epsilon + np.log1p(-1 / alphas)) - np.log(alphas)
    pinsker = math.sqrt(rho / 2)
    return min(1.0, pinsker, math.exp(min(0.0, float(logs.min()))))


def cap_of(entry: dict[str, Any], rate: float) -> Caps | None:
    """What a defence leaves any attack on its answer; None where it has no guarantee."""
    if entry["epsilon"] is None:
        return None
    return caps_of_curve(curve_of(entry["defence"], Adjacency.parse(entry["adjacency"]), entry["epsilon"]), rate)


def section(result: Result) -> ReportSection:
    """One table for each attack, the caps, and curves on logarithmic axes."""
    attacks = result.extra["attacks"]
    tables = [_table(attacks, "scores"), _table(attacks, "released answers"), _caps(attacks)]
    protocol = f"{result.settings.seeds} seeds x {CANDIDATES} candidates, {result.settings.records[0]} of them private"
    details = [(name, protocol if name == "Protocol" else text) for name, text in about(result)]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(attacks), tables, _figures(attacks), details
    )


def _table(attacks: Sequence[dict[str, Any]], attack: str) -> Table:
    selected = [entry for entry in attacks if entry["name"] == attack]
    rows = []
    for entry in selected:
        rates = [_with_interval(entry["tpr_at_fpr"][f"{rate:g}"]) for rate in LOW_RATES]
        price = "none" if entry["epsilon"] is None else f"{entry['epsilon']:g}, {entry['adjacency']}"
        rows.append((entry["task"], entry["names"], entry["defence"], price, _with_interval(entry["auroc"], 3), *rates))
    first = selected[0]
    note = (
        f"{first['members']} members and {first['non_members']} others, of {CANDIDATES} candidates. 95 % intervals by "
        "resampling seeds and candidates; the fits behind the scores are not repeated, and an interval of one point "
        "only says that all resamples agreed. A true-positive rate is that of the best threshold with no more false "
        "positives than stated, never interpolated. Without a defence the answer "
        f"is drawn from the model's own probabilities. {' '.join(first['notes'])} The others are not independent (the "
        "same candidates in every seed), so less is resolved than these counts say."
    )
    title = f"Likelihood-ratio attack on {attack}" + (f" ({NOT_RELEASED})" if attack == "scores" else "")
    heads = ("task", "label names", "defence", "epsilon", "AUROC", "TPR at 1 % FPR", "TPR at 0.1 % FPR")
    return Table(title, heads, rows, note)


def _with_interval(estimate: dict[str, float], digits: int = 3) -> str:
    return f"{estimate['value']:.{digits}f} ({estimate['low']:.{digits}f} to {estimate['high']:.{digits}f})"


def _caps(attacks: Sequence[dict[str, Any]]) -> Table:
    rows = []
    systems = {
        (entry["defence"], entry["adjacency"], entry["epsilon"]): entry
        for entry in attacks
        if entry["epsilon"] is not None
    }
    for (defence, adjacency, epsilon), entry in systems.items():
        bounds = [bound for rate in LOW_RATES if (bound := cap_of(entry, rate))]
        delta = f"{e.DELTA:g}" if defence in e.SPEND_DELTA else "0"
        limits = (rounded_up(bounds[0].auroc, 3), *(rounded_up(bound.tpr, 3) for bound in bounds))
        rows.append((defence, f"{epsilon:g}, {adjacency}", delta, *limits))
    return Table(
        "What each defence leaves any attack on one released answer",
        ("defence", "epsilon", "delta", "AUROC", "TPR at 1 % FPR", "TPR at 0.1 % FPR"),
        rows,
        "From the mechanism's own privacy profile, for a member in place of another record; under add-remove that is "
        "two changes. An attack on scores is not bound by this: scores are not released.",
    )


def _reading(attacks: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for task, names in dict.fromkeys((entry["task"], entry["names"]) for entry in attacks):
        of_task = [entry for entry in attacks if (entry["task"], entry["names"]) == (task, names)]
        bare = {entry["name"]: entry["auroc"]["value"] for entry in of_task if entry["defence"] == "no defence"}
        ranges = []
        for defence in DEFENCES[1:]:
            for attack in ("scores", "released answers"):
                values = [
                    entry["auroc"]["value"]
                    for entry in of_task
                    if (entry["defence"], entry["name"]) == (defence, attack)
                ]
                if values:
                    ranges.append(f"{defence} {attack} {min(values):.2f} to {max(values):.2f}")
        lines.append(
            f"{task} ({names} names): AUROC without defence {bare['scores']:.2f} on scores and "
            f"{bare['released answers']:.2f} on the answer; over the epsilons: {'; '.join(ranges)}."
        )
    bound = [entry for entry in attacks if entry["released"] and entry["epsilon"] is not None]
    lines.append(
        f"Attacks on released answers whose AUROC's interval lies above their cap: {len(above_cap(attacks))} of "
        f"{len(bound)}. An attack that reaches its cap exactly would be counted with a chance of at most 1 in 40, and "
        "none can pass it; that none is counted does not prove a cap, since this attack need not be the best one."
    )
    return lines


def above_cap(attacks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attacks on released answers whose interval of the AUROC lies above what their defence leaves."""
    return [
        entry
        for entry in attacks
        if entry["released"] and (cap := cap_of(entry, LOW_RATES[0])) and entry["auroc"]["low"] > cap.auroc
    ]


def _figures(attacks: Sequence[dict[str, Any]]) -> list[Figure]:
    figures = []
    for task, names in dict.fromkeys((entry["task"], entry["names"]) for entry in attacks):
        for attack in ("scores", "released answers"):
            selected = [
                entry for entry in attacks if (entry["task"], entry["names"], entry["name"]) == (task, names, attack)
            ]
            epsilon = _middle({entry["epsilon"] for entry in selected if entry["epsilon"]})
            lines = []
            adjacency = next(entry["adjacency"] for entry in selected if entry["epsilon"])
            for entry in selected:
                if entry["epsilon"] in (None, epsilon) and entry["adjacency"] in (None, adjacency):
                    curve = entry["roc"]
                    x, y = curve["false_positive_rates"], curve["true_positive_rates"]
                    lines.append(Series(entry["defence"], x, y, reference=entry["epsilon"] is None))
            short = f"{task}-{'own' if names == 'own' else 'made-up'}-{attack.split(maxsplit=1)[0]}"
            figures.append(
                Figure(
                    f"roc-{short}",
                    f"{task}, {names} names, attack on {attack}, epsilon {epsilon:g}, {adjacency}",
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
        adjacencies=(Adjacency.REPLACE_ONE.value,),
    ),
    measure=measure,
    section=section,
    whole=whole,
)
