"""Membership with one demonstration: can an asker tell whose record is behind the text in the prompt?

The model that answers has one demonstration in its prompt. Without a defence it is a private record: the candidate
itself, or another record of the same label. Defended it is a text of that label, written by a decoding method from a
batch of s experts: the candidate is one of them, or was replaced by another record (replace-one), or is absent
(add-remove). The attacker knows the model, asks the candidate's own text, and sees the confidence in its label, which
is not released, or the released label.

Guarantee   What a defended model says is a function of a text that was written under the stated price, so the caps of
            that price bind every attack here, on confidences too. Each text is a run of its own.
Assumes     Candidates are independent of each other. Thresholds of the certificates were fixed before any run.
Sources     Privacy-Aware ICL (PRISM), appendix C; specification 10.1, 10.3, T17.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, final
from zlib import crc32

import numpy as np

from sottovoce.audits.bounds import Rates, epsilon_of_rates
from sottovoce.audits.membership import LOW_RATES, NOT_RELEASED, logit_confidence
from sottovoce.audits.roc import Caps, FloatArray, bootstrap_interval, caps_of_curve, resolution_note, roc_of, tpr_at
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import OWN, Dataset
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.prism.demonstrations import RESERVED, stepper_of
from sottovoce.benchmarks.prism.extraction import DELTA, plan_of, write
from sottovoce.errors import ParameterError
from sottovoce.generation import GenerationTemplate
from sottovoce.intervals import Proportion
from sottovoce.models.stepper import Group, Prompt, Stepper
from sottovoce.privacy.accounting.profiles import delta_of_plan, has_profile
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Example

METHODS: Final = ("invisible-ink", "prism")
UNDEFENDED: Final = "no defence"
TOKENS, INSIDE, CANDIDATES = 12, 48, 12
"""Tokens of a text; of a record in a prompt; candidates of one task and seed, at least one a label."""

IN, REPLACED, ABSENT = "in", "replaced", "absent"
CONFIDENCE, ABOVE, LABEL = "confidence", "confidence above zero-shot", "released label"
ATTACKS: Final = (CONFIDENCE, ABOVE, LABEL)
RELEASED: Final = (LABEL,)
FIXED: Final[Mapping[str, float]] = {ABOVE: 0.0, LABEL: 0.5}
"""Thresholds above which a candidate is called a member, for the certificates: fixed before any run."""

REPLICATES: Final = 400
POINTS: Final = 17
"""Points of a privacy profile that a cap is drawn from."""


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Logit confidence in, and correctness of, the candidate's label: one number a candidate, world and defence."""
    settings = bench.settings
    experts, *more = settings.records
    if more:
        raise ParameterError("records", settings.records, "one number: the size of a batch")
    world, stepper = bench.world(piece.task), stepper_of(settings.writer or settings.model)
    for number, drawn in enumerate(_drawn(world, piece.seed, experts)):
        candidate, replacement, *rest = drawn
        shown: dict[Key, Sequence[Example]] = {
            Key(piece.task, piece.names, e.ZERO_SHOT, option=_option(number, ABSENT)): [],
            Key(piece.task, piece.names, UNDEFENDED, option=_option(number, IN)): [candidate],
            Key(piece.task, piece.names, UNDEFENDED, option=_option(number, REPLACED)): [replacement],
            **_synthetic(bench, stepper, world, piece, number, candidate, replacement, rest),
        }
        prepared = bench.scorer.prepare(world.task, list(shown.values()))
        (laws,) = prepared.score([candidate.fields])
        prepared.close()
        logits = logit_confidence(laws, np.full(len(shown), candidate.label))
        for key, logit, law in zip(shown, logits, laws, strict=True):
            yield replace(key, quantity=CONFIDENCE), float(logit)
            yield replace(key, quantity=LABEL), float(int(np.argmax(law)) == candidate.label)


def _drawn(world: Dataset, seed: int, experts: int) -> Iterator[list[Example]]:
    """For each candidate: itself, the record in its place, and the rest of its batch, all of one label.

    Raises:
        ParameterError: A label has too few rows.
        InputError: Most of its rows are somebody's private records.
    """
    rng = np.random.default_rng(8_000 + seed)
    labels, reserved = len(world.task.labels), world.train[:RESERVED]
    each = max(1, CANDIDATES // labels)
    for label in range(labels):
        own = [(place, x) for place, x in enumerate(reserved) if x.label == label]
        places = list({tuple(sorted(x.fields.items())): place for place, x in own}.values())
        if len(places) < each * (experts + 1):
            most = len(places) // each - 1
            raise ParameterError("records", experts, f"at most {most} for the task {world.name!r}")
        order = rng.permutation(len(places))[: each * (experts + 1)]
        drawn = list(reserved.taken(places[i] for i in order))
        yield from (drawn[start : start + experts + 1] for start in range(0, len(drawn), experts + 1))


def _synthetic(
    bench: Bench,
    stepper: Stepper,
    world: Dataset,
    piece: Piece,
    number: int,
    candidate: Example,
    replacement: Example,
    rest: Sequence[Example],
) -> dict[Key, Sequence[Example]]:
    """The demonstration of every method, price and world; none where the text is blank."""
    writing, experts = GenerationTemplate.of(world.task), len(rest) + 1
    opening = writing.opening(world.task.labels[candidate.label])

    def prompt(records: Sequence[Example]) -> Prompt:
        return Prompt(opening, "".join(writing.show(record.fields) for record in records), writing.lead)

    batches = {IN: [candidate, *rest], REPLACED: [replacement, *rest], ABSENT: [*rest]}
    groups = [Group(prompt(()), [prompt([record]) for record in batch]) for batch in batches.values()]
    keys: list[list[Key]] = [[] for _ in groups]
    choosers: list[list[Any]] = [[] for _ in groups]
    for adjacency in bench.adjacencies:
        out = REPLACED if adjacency.size_is_public else ABSENT
        for epsilon in bench.settings.epsilons:
            for name in METHODS:
                plan = plan_of(name, epsilon, adjacency, experts, TOKENS)
                for place, world_name in enumerate(batches):
                    if world_name not in (IN, out):
                        continue
                    seed = f"{piece.name} {number} {world_name} {adjacency.value} {epsilon:g} {name}"
                    # The rows are published benchmark rows, so their noise may be seeded.
                    noise = SeededRandomness(crc32(seed.encode()))
                    eos_tokens, forbidden_tokens = stepper.eos_tokens, stepper.forbidden_tokens
                    choosers[place].append(
                        plan.decoder.start(plan, noise, eos_tokens=eos_tokens, forbidden_tokens=forbidden_tokens)
                    )
                    keys[place].append(
                        Key(piece.task, piece.names, name, records=experts, adjacency=adjacency.value, epsilon=epsilon,
                            option=_option(number, world_name))
                    )  # fmt: skip
    written = write(stepper, groups, choosers, max_private_tokens=INSIDE, tokens=TOKENS)
    examples: dict[Key, Sequence[Example]] = {}
    for its, texts in zip(keys, written, strict=True):
        for key, text in zip(its, texts, strict=True):
            values = writing.read(text)
            examples[key] = [] if values is None else [Example(values, candidate.label)]
    return examples


def _option(number: int, world: str) -> str:
    return f"{number} {world}"


# From numbers to attacks


@final
@dataclass(frozen=True)
class Attack:
    """One attack on one arm.

    Attributes:
        key: Task, names, method and price.
        name: One of ``ATTACKS``.
        scores: By trial.
        members: Whether the candidate was in, by trial.
        auroc: With its interval over resampled candidates.
        tprs: By false-positive rate, with intervals.
        cap: What the price leaves any attack at each rate; ``None`` without a defence.
        epsilon: Lower bound with 95 % confidence, at the threshold that was fixed before; ``None`` where none was.
    """

    key: Key
    name: str
    scores: FloatArray
    members: Any
    auroc: Proportion
    tprs: Mapping[float, Proportion]
    cap: Mapping[float, Caps] | None
    epsilon: float | None

    @property
    def exceeds(self) -> bool:
        """Whether the interval of the AUROC lies above the cap, or the certified epsilon above the price."""
        if self.cap is None or self.key.epsilon is None:
            return False
        above = self.auroc.low > self.cap[LOW_RATES[0]].auroc
        return above or (self.epsilon is not None and self.epsilon > self.key.epsilon)


def attacks_of(result: Result, caps: Callable[[Key, float], Caps] | None = None) -> list[Attack]:
    """Every attack on every arm of a result.

    Args:
        result: With its cells.
        caps: From an arm and a false-positive rate to its caps; by default ``cap_of``.
    """
    trials: dict[Key, dict[tuple[int, str], dict[str, Sequence[float]]]] = {}
    for cell in result.cells:
        number, world = cell.key.option.split(" ", 1)
        arm = replace(cell.key, option="", quantity="")
        trials.setdefault(arm, {}).setdefault((int(number), world), {})[cell.key.quantity] = cell.values
    attacks = []
    for arm, its in trials.items():
        if arm.method == e.ZERO_SHOT:
            continue
        zero = trials[Key(arm.task, arm.names, e.ZERO_SHOT, "")]
        attacks += [_attack(arm, name, its, zero, caps or cap_of) for name in ATTACKS]
    return attacks


def _attack(
    arm: Key,
    name: str,
    trials: Mapping[tuple[int, str], Mapping[str, Sequence[float]]],
    zero: Mapping[tuple[int, str], Mapping[str, Sequence[float]]],
    caps: Callable[[Key, float], Caps],
) -> Attack:
    scores, members, groups = [], [], []
    for (number, world), seen in trials.items():
        values = np.array(seen[LABEL if name == LABEL else CONFIDENCE])
        if name == ABOVE:
            values = values - np.array(zero[number, ABSENT][CONFIDENCE])
        scores += values.tolist()
        members += [world == IN] * len(values)
        groups += [(number, seed) for seed in range(len(values))]
    rounded, inside = np.round(np.array(scores), 6), np.array(members)
    _, group = np.unique(np.array(groups), axis=0, return_inverse=True)
    draws = np.random.default_rng(crc32(f"{arm} {name}".encode()))

    def interval(statistic: Callable[..., float] | None) -> Proportion:
        return bootstrap_interval(
            rounded, inside, group.reshape(-1), draws, statistic=statistic, replicates=REPLICATES
        )  # fmt: skip

    certified = None
    if name in FIXED:
        guessed = rounded > FIXED[name]
        rates = Rates(
            int((guessed & ~inside).sum()), int((~inside).sum()), int((~guessed & inside).sum()), int(inside.sum())
        )
        certified = epsilon_of_rates(rates, DELTA if arm.epsilon is not None else 0.0)
    return Attack(
        arm,
        name,
        rounded,
        inside,
        interval(None),
        {rate: interval(partial(tpr_at, fpr=rate)) for rate in LOW_RATES},
        None if arm.epsilon is None else {rate: caps(arm, rate) for rate in LOW_RATES},
        certified,
    )


@lru_cache(maxsize=256)
def curve_of(method: str, epsilon: float, adjacency: Adjacency, experts: int) -> tuple[tuple[float, float], ...]:
    """Points (epsilon, delta) of the privacy profile of one text, the price among them."""
    event = plan_of(method, epsilon, adjacency, experts, TOKENS).event
    points = [(epsilon, DELTA)]
    if has_profile(event):
        points += [(float(x), delta_of_plan([event], float(x), adjacency)) for x in np.linspace(0.0, epsilon, POINTS)]
    return tuple(points)


def cap_of(arm: Key, rate: float) -> Caps:
    """What a defence leaves any attack on what follows from its text, under the adjacency that was tried."""
    if arm.epsilon is None or arm.adjacency is None:
        raise AssertionError("an arm with a defence has a price")
    return caps_of_curve(curve_of(arm.method, arm.epsilon, Adjacency.parse(arm.adjacency), arm.records), rate)


# What a run shows


def section(result: Result) -> ReportSection:
    """One table for each attack, and curves."""
    attacks = attacks_of(result)
    tables = [_table(attacks, name) for name in ATTACKS]
    protocol = f"{result.settings.seeds} seeds, batches of {result.settings.records[0]} records, {TOKENS} tokens a text"
    details = [(name, protocol if name == "Protocol" else text) for name, text in about(result)]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, reading(attacks), tables, _figures(attacks), details
    )


def _table(attacks: Sequence[Attack], name: str) -> Table:
    rows = []
    selected = [attack for attack in attacks if attack.name == name]
    for attack in selected:
        key = attack.key
        price = "none" if key.epsilon is None else f"{key.epsilon:g}, {key.adjacency}"
        cap = "-" if attack.cap is None else rounded_up(attack.cap[LOW_RATES[0]].auroc, 3)
        rates = []
        for rate in LOW_RATES:
            limit = "" if attack.cap is None else f"; cap {rounded_up(attack.cap[rate].tpr, 3)}"
            rates.append(_with_interval(attack.tprs[rate]) + limit)
        certified = "-" if attack.epsilon is None else rounded_down(attack.epsilon, 3)
        rows.append((key.task, key.method, price, _with_interval(attack.auroc), cap, *rates, certified))
    counts = dict.fromkeys(
        f"{attack.key.task} {int(attack.members.sum())} + {int((~attack.members).sum())}" for attack in selected
    )
    outside = min(int((~attack.members).sum()) for attack in selected)
    notes = [note for rate in LOW_RATES if (note := resolution_note(outside, rate))]
    fixed = f" Guess at a score above {FIXED[name]:g}." if name in FIXED else " No threshold was fixed for it."
    note = (
        f"Members and others: {', '.join(counts)}. 95 % intervals by resampling candidates; one of one point only says "
        f"that all resamples agreed. {' '.join(notes)} Epsilon refuted: with 95 % confidence, at a threshold fixed "
        f"before.{fixed} The caps bind every column of a defended row, whose demonstration was written at that price."
    )
    title = f"Attack on the {name}" + ("" if name in RELEASED else f" ({NOT_RELEASED})")
    heads = ("task", "defence", "epsilon", "AUROC", "cap", "TPR at 1 % FPR", "TPR at 0.1 % FPR", "epsilon refuted")
    return Table(title, heads, rows, note)


def _with_interval(estimate: Proportion) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def reading(attacks: Sequence[Attack]) -> list[str]:
    """What the attacks found, in sentences."""
    lines = []
    for task in dict.fromkeys(attack.key.task for attack in attacks):
        bare = {attack.name: attack for attack in attacks if attack.key.task == task and attack.key.epsilon is None}
        aurocs = "; ".join(f"{name} {_with_interval(attack.auroc)}" for name, attack in bare.items())
        works = [name for name, attack in bare.items() if attack.auroc.low > 0.5]
        verdict = (
            f"tells members from others by: {', '.join(works)}"
            if works
            else "does not tell members from others, so it shows nothing about any defence here"
        )
        lines.append(f"{task}, without a defence, AUROC of the attack on the {aurocs}. The attack {verdict}.")
        for name in ATTACKS:
            values = [
                attack
                for attack in attacks
                if (attack.key.task, attack.name) == (task, name) and attack.key.epsilon is not None
            ]
            if values:
                most = max(values, key=lambda attack: attack.auroc.value)
                above = sum(attack.auroc.low > 0.5 for attack in values)
                lines.append(
                    f"{task}, defended, {name}: AUROC {min(attack.auroc.value for attack in values):.2f} to "
                    f"{most.auroc.value:.2f} over {len(values)} methods and prices; intervals above .5 in "
                    f"{above} (1 in 40 is expected where nothing is to be found)."
                )
    bound = [attack for attack in attacks if attack.key.epsilon is not None]
    over = [attack for attack in bound if attack.exceeds]
    names = "; ".join(
        f"{x.key.task}, {x.key.method}, epsilon {x.key.epsilon:g}, {x.key.adjacency}, {x.name}" for x in over
    )
    lines.append(
        "Attacks on defended answers that exceed what their price leaves (the interval of the AUROC above its cap, or "
        f"the refuted epsilon above the price): {len(over)} of "
        f"{len(bound)}" + (f" ({names}). Repeat with other seeds before believing it." if over else
        ". That none does is no proof of a cap: these attacks need not be the best ones.")
    )  # fmt: skip
    return lines


def _figures(attacks: Sequence[Attack]) -> list[Figure]:
    figures = []
    for task in dict.fromkeys(attack.key.task for attack in attacks):
        selected = [attack for attack in attacks if (attack.key.task, attack.name) == (task, ABOVE)]
        prices = sorted({attack.key.epsilon for attack in selected if attack.key.epsilon is not None})
        lines = []
        for attack in selected:
            if attack.key.epsilon is None or attack.key.epsilon == prices[-1]:
                curve = roc_of(attack.scores, attack.members).as_dict()
                name = (
                    attack.key.method if attack.key.epsilon is None else f"{attack.key.method}, {attack.key.adjacency}"
                )
                x, y = curve["false_positive_rates"], curve["true_positive_rates"]
                lines.append(Series(name, x, y, reference=attack.key.epsilon is None))
        price = f", epsilon {prices[-1]:g}" if prices else ""
        figures.append(
            Figure(
                f"roc-{task}", f"{task}, attack on the {ABOVE}{price}", "false-positive rate", "true-positive rate",
                lines, kind="lines", diagonal=True, note=NOT_RELEASED.capitalize() + ".",
            )
        )  # fmt: skip
    return figures


EXPERIMENT = Experiment(
    name="prism-membership",
    title="Membership with one demonstration: can an asker tell whose record is behind it?",
    source="Privacy-Aware ICL (PRISM), appendix C",
    settings=Settings(
        seeds=7, queries=1, tasks=("agnews", "dbpedia"), names=(OWN,), records=(4,), epsilons=(1.0, 4.0, 8.0)
    ),
    measure=measure,
    section=section,
)
