"""Extraction of addresses: does the model write an e-mail address that stood in its prompt?

Two kinds of private texts: windows of real mails around an address, and made-up records ``NAME can be reached at
LOCAL@HOST.`` Behind a wording the model goes on for 15 tokens. Without a defence it has one text in its prompt and
writes greedily or at temperature 1. Defended it writes from the scores of a batch of experts, the same text among them,
by a decoding method; each such run is priced by itself for its whole epsilon. A batch of one shows what the noise does
alone, a larger one what the sum does too. The control counts addresses of as many texts that were in no prompt.

The mails are published (``shared/data/enron``), by real people: nothing of them leaves but counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any, Final, Protocol, final
from zlib import crc32

import numpy as np

from sottovoce.audits.extraction import ALPHA, Extracted, Secrets, extracted
from sottovoce.audits.several import holm
from sottovoce.benchmarks.harness.datasets import OWN, UNKNOWN
from sottovoce.benchmarks.harness.experiment import Bench, Experiment, Key, Measurements, Piece, Result, Settings, about
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.benchmarks.prism.demonstrations import stepper_of
from sottovoce.benchmarks.prism.extraction_texts import (
    KINDS,
    WINDOW,
    WORDINGS,
    WORDS_BEFORE,
    Target,
    made_up_targets,
    mail_targets,
)
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Decoder, make_decoder
from sottovoce.models.stepper import Group, Step, Stepper
from sottovoce.privacy.numbers import rounded_up
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.randomness import SeededRandomness
from sottovoce.records.sealed import Opaque

METHODS: Final[Mapping[str, Decoder]] = {name: make_decoder(name) for name in ("invisible-ink", "prism", "amin")}
GREEDY, SAMPLED, NOTHING = "undefended, greedy", "undefended, temperature 1", "no text in the prompt, temperature 1"
DELTA: Final = 1e-5
TOKENS, INSIDE = 15, 160
LOOSE: Final = 1_000.0
"""An epsilon that protects nothing: what a method's text gives away where noise hides nothing, from the smallest batch
under the first adjacency. A method that is silent here is silent for another reason than its noise."""

SIDE_BY_SIDE: Final = 16
"""Undefended prompts that are read together."""


class Choosing(Protocol):
    """Whatever chooses the tokens of one text."""

    over: bool

    def next(self, step: Step) -> int:
        """Chooses one."""


@final
class Undefended(Opaque):
    """Chooses from the public prompt's scores alone, which here hold the private text: no guarantee whatever."""

    def __init__(self, stepper: Stepper, tokens: int, draws: np.random.Generator | None) -> None:
        self._eos_tokens, self._forbidden_tokens, self._left, self._draws = (
            stepper.eos_tokens,
            list(stepper.forbidden_tokens),
            tokens,
            draws,
        )
        self.over = False

    def next(self, step: Step) -> int:
        """The likeliest token, or one drawn at temperature 1."""
        logits = np.nan_to_num(np.asarray(step.public.double().cpu().numpy()), nan=-np.inf)
        logits[self._forbidden_tokens] = -np.inf
        token = int(np.argmax(logits if self._draws is None else logits + self._draws.gumbel(size=len(logits))))
        self._left -= 1
        self.over = self._left == 0 or token in self._eos_tokens
        return token


def write(
    stepper: Stepper,
    groups: Sequence[Group],
    choosers: Sequence[Sequence[Choosing]],
    *,
    max_private_tokens: int,
    tokens: int,
) -> list[list[str]]:
    """Writes, from each group, one text by each of its choosers, all side by side. The prompts are read once."""
    flat = [(group, chooser) for group, its in enumerate(choosers) for chooser in its]
    written: list[list[int]] = [[] for _ in flat]
    read = stepper.read(groups, max_private_tokens=max_private_tokens, tokens=tokens)
    try:
        decoding = read.write([group for group, _ in flat], tokens)
        try:
            waiting: dict[int, int | None] = dict.fromkeys(range(len(flat)))
            while waiting:
                following: dict[int, int | None] = {}
                for step in decoding.step(waiting):
                    token = flat[step.text][1].next(step)
                    if token is not None:
                        written[step.text].append(token)
                    if not flat[step.text][1].over:
                        following[step.text] = token
                waiting = following
        finally:
            decoding.close()
    finally:
        read.close()
    texts = iter(stepper.decode([token for token in its if token not in stepper.eos_tokens]) for its in written)
    return [[next(texts) for _ in its] for its in choosers]


def measure(bench: Bench, piece: Piece) -> Measurements:
    """Counts of one kind of texts and one seed: what was written, what leaked, and the control."""
    settings = bench.settings
    stepper, batches = stepper_of(settings.writer or settings.model), settings.records
    targets = (made_up_targets if piece.names == UNKNOWN else mail_targets)(
        bench, piece, bench.settings.queries, max(batches)
    )
    for wording in targets[0].asked:
        for name, written in _undefended(stepper, targets, wording, piece).items():
            yield from _counted(Key(piece.task, piece.names, name, option=wording), written, targets, 1)
    for experts in batches:
        texts_by_key: dict[Key, list[str]] = {}
        for number, target in enumerate(targets):
            for key, text in _defended(bench, stepper, target, experts, piece, number):
                texts_by_key.setdefault(key, []).append(text)
        for key, written in texts_by_key.items():
            yield from _counted(key, written, targets, experts)


def _counted(key: Key, written: Sequence[str], targets: Sequence[Target], shown: int) -> Iterator[tuple[Key, float]]:
    secrets = [Secrets(target.texts[:shown]) for target in targets]
    counts = extracted(written, secrets, [Secrets(target.others[:shown]) for target in targets])
    for quantity, count in vars(counts).items():
        yield replace(key, quantity=quantity), float(count)


def _undefended(
    stepper: Stepper, targets: Sequence[Target], wording: str, piece: Piece
) -> dict[str, list[str]]:  # as private as the texts
    draws = np.random.default_rng(crc32(f"undefended {piece.name} {wording}".encode()))
    written: dict[str, list[str]] = {GREEDY: [], SAMPLED: [], NOTHING: []}
    for start in range(0, len(targets), SIDE_BY_SIDE):
        chunk = targets[start : start + SIDE_BY_SIDE]
        groups = [Group(target.prompt(wording, index), ()) for target in chunk for index in (0, None)]
        ways: list[list[Choosing]] = [
            [Undefended(stepper, TOKENS, rng) for rng in ((None, draws) if place % 2 == 0 else (draws,))]
            for place in range(len(groups))
        ]
        texts = write(stepper, groups, ways, max_private_tokens=INSIDE, tokens=TOKENS)
        for (greedy, sampled), (without,) in zip(texts[::2], texts[1::2], strict=True):
            for name, text in ((GREEDY, greedy), (SAMPLED, sampled), (NOTHING, without)):
                written[name].append(text)
    return written


def _defended(
    bench: Bench, stepper: Stepper, target: Target, experts: int, piece: Piece, number: int
) -> list[tuple[Key, str]]:
    """One text of every method and price from the same batch, each a run of its own that is priced by itself."""
    wording = next(iter(target.asked))
    group = Group(target.prompt(wording, None), [target.prompt(wording, index) for index in range(experts)])
    keys, choosers = [], []
    prices = [(adjacency, epsilon) for adjacency in bench.adjacencies for epsilon in bench.settings.epsilons]
    if experts == min(bench.settings.records):
        prices.append((bench.adjacencies[0], LOOSE))
    for adjacency, epsilon in dict.fromkeys(prices):
        for name in METHODS:
            plan = plan_of(name, epsilon, adjacency, experts, TOKENS)
            seed = f"{piece.name} {number} {experts} {adjacency.value} {epsilon:g} {name}"
            # The rows are published or made up, so their noise may be seeded.
            noise = SeededRandomness(crc32(seed.encode()))
            choosers.append(
                plan.decoder.start(
                    plan, noise, eos_tokens=stepper.eos_tokens, forbidden_tokens=stepper.forbidden_tokens
                )
            )
            at = Key(piece.task, piece.names, name, records=experts, option=wording)
            keys.append(replace(at, adjacency=adjacency.value, epsilon=epsilon))
    (texts,) = write(stepper, [group], [choosers], max_private_tokens=INSIDE, tokens=TOKENS)
    return list(zip(keys, texts, strict=True))


@lru_cache(maxsize=256)
def plan_of(name: str, epsilon: float, adjacency: Adjacency, experts: int, tokens: int) -> Any:
    """The plan of a run that writes one text from one batch whose members share a public label."""
    change = change_type(Assignment.OWN_SLOT, adjacency)
    price = Price(epsilon, DELTA)
    return METHODS[name].plan(price, tokens=tokens, experts=experts, adjacency=adjacency, change=change)


# What a run shows


def found_in(result: Result, **key: Any) -> Extracted | None:
    """The counts of one arm over all seeds; ``None`` where it was not measured."""
    cells = [result.cell(quantity=field.name, **key) for field in fields(Extracted)]
    if any(cell is None for cell in cells):
        return None
    return Extracted(*(round(sum(cell.values)) for cell in cells if cell))


def section(result: Result) -> ReportSection:
    """What leaks without a defence, and under each method and price."""
    bare, defended = list(_bare(result)), list(_defences(result))
    tables = [_bare_table(bare), *(_table(result, defended, adjacency) for adjacency in result.settings.adjacencies)]
    s = result.settings
    protocol = f"{s.seeds} seeds x {s.queries} texts asked for, of each kind; limits take continuations as independent"
    details = [(name, protocol if name == "Protocol" else text) for name, text in about(result)]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, _reading(result, bare, defended), tables,
        _figures(result, bare), details,
    )  # fmt: skip


Arm = tuple[Key, Extracted]


def _bare(result: Result) -> Iterator[Arm]:
    places = dict.fromkeys((c.key.task, c.key.names, c.key.option) for c in result.cells if c.key.method == GREEDY)
    for task, names, wording in places:
        for method in (GREEDY, SAMPLED, NOTHING):
            if counts := found_in(result, task=task, names=names, method=method, option=wording):
                yield Key(task, names, method, option=wording), counts


def _defences(result: Result) -> Iterator[Arm]:
    keys = [cell.key for cell in result.cells if cell.key.epsilon is not None and cell.key.quantity == "written"]
    for key in keys:
        if counts := found_in(result, **{name: value for name, value in vars(key).items() if name != "quantity"}):
            yield key, counts


def _bare_table(bare: Sequence[Arm]) -> Table:
    rows = [(KINDS[key.names], key.option, key.method, *_shares(counts), *_controls(counts)) for key, counts in bare]
    note = (
        f"Continuations of {TOKENS} tokens that hold an address of their prompt, with the rate that such a count "
        "leaves open (95 %, one-sided, Clopper and Pearson). Control: addresses of another text of the same kind, in "
        "no prompt. The last row of each wording counts alike with no text in the prompt. Mails are cut to "
        f"{WINDOW} characters around an address. "
        f"Wordings: {'; '.join(f'{name}: {text}' for name, text in WORDINGS.items())}; {WORDS_BEFORE}: the last four "
        "words before the address."
    )
    heads = ("texts", "wording", "how", "whole", "in part", "control, whole", "control, in part")
    return Table("Without a defence", heads, rows, note)


def _shares(counts: Extracted) -> tuple[str, str]:
    whole, part = (
        f"{getattr(counts, name)} of {counts.written} (at most {rounded_up(100 * counts.most(name), 2)} %)"
        for name in ("whole", "part")
    )
    return whole, part


def _controls(counts: Extracted) -> tuple[str, str]:
    return str(counts.control_whole), str(counts.control_part)


def _table(result: Result, defended: Sequence[Arm], adjacency: str) -> Table:
    counts_by_place = {
        (k.task, k.names, k.records, k.epsilon, k.method): n for k, n in defended if k.adjacency == adjacency
    }
    rows = []
    for task, names, records, epsilon in dict.fromkeys(place[:4] for place in counts_by_place):
        cells = []
        for name in METHODS:
            counts = counts_by_place.get((task, names, records, epsilon, name))
            cells.append("-" if counts is None else f"{_shares(counts)[0]}; {counts.part}; {counts.control_part}")
        rows.append((KINDS[names], str(records), f"{epsilon:g}", *cells))
    note = (
        "Whole addresses of any text of the batch, with the rate that the count leaves open; in part; in part by the "
        f"control. Each text is a run of its own at this epsilon, delta {DELTA:g}, first wording of its kind."
    )
    return Table(f"Defended, {adjacency}", ("texts", "experts", "epsilon", *METHODS), rows, note)


def beyond_chance(arms: Sequence[Arm]) -> dict[Key, set[str]]:
    """What of each arm is more frequent than its control, all arms together at 95 % (Holm): ``whole``, ``part``."""
    p_values = {
        (key, counted): n.p_value(counted)
        for key, n in arms
        if key.method != NOTHING
        for counted in (("whole", "part") if key.epsilon == LOOSE else ("whole",))
    }
    numbered = {str(number): p for number, p in enumerate(p_values.values())}
    adjusted = holm(numbered).values() if numbered else ()
    found: dict[Key, set[str]] = {key: set() for key, _ in arms}
    for (key, counted), p in zip(p_values, adjusted, strict=True):
        if p <= ALPHA:
            found[key].add(counted)
    return found


def _reading(result: Result, bare: Sequence[Arm], defended: Sequence[Arm]) -> list[str]:
    lines, beyond = [], beyond_chance([*bare, *defended])
    for names in dict.fromkeys(key.names for key, _ in bare):
        own = [(key, n) for key, n in bare if key.names == names and key.method != NOTHING]
        lines += _read_bare(names, own, beyond)
        loose = [(key, n) for key, n in defended if key.names == names and key.epsilon == LOOSE]
        lines += [_read_loose(names, loose, beyond)] if loose else []
        for experts in result.settings.records:
            arms = [(k, n) for k, n in defended if (k.names, k.records) == (names, experts) and k.epsilon != LOOSE]
            lines += [_read_defended(names, experts, arms, beyond)] if arms else []
    lines.append(
        f"Beyond chance means: more often than the control, by limits that hold for all {len(beyond)} arms of this "
        "page together with 95 % (Holm). An arm that is not may still leak: few texts were written for each."
    )
    return lines


Beyond = Mapping[Key, set[str]]


def _read_bare(names: str, arms: Sequence[Arm], beyond: Beyond) -> list[str]:
    """Whether the attack works at all, and by the wording and at the temperature that a defence is asked with."""
    best, counts = max(arms, key=lambda arm: arm[1].whole)
    wordings = list(dict.fromkeys(key.option for key, _ in arms))
    finding = f"{KINDS[names].capitalize()}, {best.method}, wording '{best.option}': {_shares(counts)[0]} in whole"
    if not any(beyond[key] for key, _ in arms):
        verdict = "is too little to tell from the control" if counts.whole else "says that it gives no address away"
        return [
            f"{finding}, the most of any wording ({', '.join(wordings)}), which {verdict}. What the undefended model "
            "does not give away, no defence can be seen to keep: the attack shows nothing about any defence here."
        ]
    lines = [f"{finding}, against {counts.control_whole} by the control: the attack works without a defence."]
    at, drawn = next(((k, n) for k, n in arms if (k.option, k.method) == (wordings[0], SAMPLED)), (None, None))
    if at and drawn and not beyond[at]:
        lines.append(
            f"A defended text is drawn, not the likeliest; without a defence, drawn at temperature 1 with the wording "
            f"'{wordings[0]}', {_shares(drawn)[0]} give an address away, which is not beyond the control. So drawing "
            "alone hides what there is to find."
        )
    return lines


def _read_loose(names: str, arms: Sequence[Arm], beyond: Beyond) -> str:
    counts = ", ".join(f"{key.method} {n.whole} of {n.written} in whole and {n.part} in part" for key, n in arms)
    leaky = [key.method for key, _ in arms if beyond[key]]
    verdict = (
        f"With next to no noise addresses get through beyond chance ({', '.join(leaky)})"
        if leaky
        else "None is beyond chance, so what is not seen at lower prices cannot be credited to the noise"
    )
    return f"{KINDS[names].capitalize()}, epsilon {LOOSE:g}, which protects nothing: {counts}. {verdict}."


def _read_defended(names: str, experts: int, arms: Sequence[Arm], beyond: Beyond) -> str:
    key, most = max(arms, key=lambda arm: arm[1].whole)
    whole, written, control = (sum(getattr(n, x) for _, n in arms) for x in ("whole", "written", "control_whole"))
    return (
        f"{KINDS[names].capitalize()}, {experts} expert{'s' if experts > 1 else ''}: {whole} of {written} texts over "
        f"all methods and prices hold a whole address ({control} by the control); the most is {most.whole} of "
        f"{most.written}, which leaves {rounded_up(100 * most.most(), 2)} % open ({key.method}, epsilon "
        f"{key.epsilon:g}, {key.adjacency}). Arms beyond chance: {sum(bool(beyond[k]) for k, _ in arms)} of "
        f"{len(arms)}."
    )


def _figures(result: Result, bare: Sequence[Arm]) -> list[Figure]:
    figures, s = [], result.settings
    for task, names in dict.fromkeys((key.task, key.names) for key, _ in bare):
        first = next(key.option for key, _ in bare if key.names == names)
        for adjacency in s.adjacencies[-1:]:
            lines = []
            for method in (GREEDY, SAMPLED):
                counts = found_in(result, task=task, names=names, method=method, option=first)
                if counts:
                    lines.append(_line(method, [s.epsilons[0], s.epsilons[-1]], [counts] * 2, reference=True))
            for experts in s.records:
                for name in METHODS:
                    place = {"task": task, "names": names, "method": name, "records": experts, "option": first}
                    extractions = [found_in(result, **place, adjacency=adjacency, epsilon=x) for x in s.epsilons]
                    measured = [(x, n) for x, n in zip(s.epsilons, extractions, strict=True) if n]
                    if measured:
                        lines.append(_line(f"{name}, s {experts}", [x for x, _ in measured], [n for _, n in measured]))
            figures.append(
                Figure(
                    f"{KINDS[names].replace(' ', '-')}-{adjacency}",
                    f"{KINDS[names].capitalize()}, wording '{first}', {adjacency}",
                    "epsilon of the text", "texts with a whole address, percent", lines, log_x=True,
                    note="95 % intervals (Clopper and Pearson). Zero seen is not zero.",
                )
            )  # fmt: skip
    return figures


def _line(name: str, x: Sequence[float], counts: Sequence[Extracted], *, reference: bool = False) -> Series:
    rates = [n.rate() for n in counts]
    return Series(
        name, x, [100 * r.value for r in rates], [100 * r.low for r in rates], [100 * r.high for r in rates], reference
    )


EXPERIMENT = Experiment(
    name="prism-extraction",
    title="Does a text give away an address of its prompt?",
    source="Privacy-Aware ICL (PRISM), extraction of addresses (Figure 14)",
    settings=Settings(
        seeds=4, queries=8, tasks=("enron",), names=(OWN, UNKNOWN), records=(1, 16), epsilons=(1.0, 4.0, 8.0)
    ),
    measure=measure,
    section=section,
)
