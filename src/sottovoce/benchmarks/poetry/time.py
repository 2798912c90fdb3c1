"""How long an answer takes by each method, on the same model, records and questions, in one run.

Every method answers through ``PrivateICL`` with a ledger in memory, charged by the answer. Two models are timed beside
each other: the embedded one, and a causal language model, by default one of random weights (speed does not depend on
what they say) made on the spot. A round is one draw of records and questions, which each method takes in turn; the
order of methods rotates from round to round, and is turned about in every second one. Timed are

* ``first answer``: from opening a session to its first answer, so that the experts' prompts are read; the model itself
  is loaded before, and noise that depends on the price alone was worked out;
* ``one by one``: further questions, each in a call of its own;
* ``in batches``: further questions in one call.

No question is asked twice of one session, and no score is taken from a store. The embedded model begins each session
with an empty cache of embeddings, which it keeps on disk as in use. The language model runs on one thread. Processor
time adds up all threads, and leaves out what an accelerator does.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import OWN, Episode
from sottovoce.benchmarks.harness.experiment import (
    Bench,
    Cell,
    Experiment,
    Key,
    Measurements,
    Piece,
    Result,
    Settings,
    about,
)
from sottovoce.benchmarks.harness.results import Figure, ReportSection, Series, Table
from sottovoce.methods.base import Method
from sottovoce.methods.pbs import PbS
from sottovoce.methods.references import FullContext, ZeroShot
from sottovoce.models.base import LabelScorer
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Query

if TYPE_CHECKING:
    from sottovoce.models.huggingface.label_scorer import TransformersScorer

PBS_MANY: Final = "PbS, as many prompts as by default"
"""Ten times the prompts: left to the embedded model, since a language model would take minutes a round."""

METHODS: Final[Mapping[str, Method]] = {
    e.ZERO_SHOT: ZeroShot(),
    e.FULL: FullContext(),
    e.POE: e.SELECTING[e.POE],
    e.PRIOR_POE: e.SELECTING[e.PRIOR_POE],
    e.VOTES: e.SELECTING[e.VOTES],
    e.VOTES_PF: e.SELECTING[e.VOTES_PF],
    e.VOTES_GAUSSIAN: e.SELECTING[e.VOTES_GAUSSIAN],
    e.PBS: PbS(sampling_probability=0.1, subsamples=10),
    PBS_MANY: PbS(),
}
PHASES: Final = ("first answer", "one by one", "in batches")
CLOCKS: Final = ("clock", "processor")
ALLOWED: Final = 1.2
"""How many times the time of votes a product of experts may take."""

DELTA: Final = 1e-9
"""Of one answer, for the methods that have one."""

EMBEDDED: Final = "embedded"
HF_SHARE: Final = 12
"""A language model is asked one question for so many of the embedded model's."""

RANDOM: Final = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "intermediate_size": 704,
    "max_position_embeddings": 16_384,
}
"""The shape of Llama that ``hf-cache`` measures, with room for all records in one prompt."""


def measure(bench: Bench, piece: Piece) -> Measurements:
    """One round: every model and method, in an order of this round's own."""
    for name, opened, questions in _models(bench):
        episode = bench.world(piece.task).episode(piece.seed, questions, piece.names)
        for records, adjacency, epsilon in product(bench.settings.records, bench.adjacencies, bench.settings.epsilons):
            _warm(name, opened, episode, records, adjacency, epsilon)
            for method in order([m for m in METHODS if m != PBS_MANY or not _is_language_model(name)], piece.seed):
                with opened() as scorer:
                    times = _timed(METHODS[method], scorer, episode, records, adjacency, epsilon)
                for (phase, clock), value in times.items():
                    yield _key(piece, method, phase, clock, records, adjacency, epsilon, name), value


def order(methods: Sequence[str], seed: int) -> list[str]:
    """The order of one round: in as many rounds as there are methods, each is first and last once."""
    step = -1 if seed % 2 and len(methods) % 2 == 0 else 1
    return [methods[(seed + step * place) % len(methods)] for place in range(len(methods))]


def _is_language_model(name: str) -> bool:
    return name.startswith(("random", "hf:", "vision:"))


def _key(
    piece: Piece, method: str, phase: str, clock: str, records: int, adjacency: Adjacency, epsilon: float, model: str
) -> Key:
    return Key(
        piece.task, piece.names, method, _quantity(phase, clock), records, 1, adjacency.value, epsilon, option=model
    )


def _quantity(phase: str, clock: str) -> str:
    return f"milliseconds a question, {phase}, {clock}"


# What is timed


def _timed(
    method: Method, scorer: LabelScorer, episode: Episode, records: int, adjacency: Adjacency, epsilon: float
) -> dict[tuple[str, str], float]:
    """Milliseconds a question by phase and clock; phases without a question are left out."""
    sealed, delta = _sealed(episode, records), DELTA if method.private else None
    first, rest = episode.questions[:1], episode.questions[1:]
    quarter = -(-len(rest) // 4)
    alone, together = rest[:quarter], rest[quarter:]
    times: dict[tuple[str, str], float] = {}
    with _stopwatch(times, PHASES[0], len(first)):
        icl = _open(method, scorer, episode, sealed, adjacency)
        _ask(icl, first, epsilon, delta)
    try:
        with _stopwatch(times, PHASES[1], len(alone)):
            _ask(icl, alone, epsilon, delta)
        with _stopwatch(times, PHASES[2], len(together)):
            list(icl.classify(together, epsilon=epsilon, delta=delta))
    finally:
        icl.close()
    return times


def _ask(icl: PrivateICL, questions: Sequence[Query], epsilon: float, delta: float | None) -> None:
    for question in questions:
        icl.ask(question, epsilon=epsilon, delta=delta)


def _open(
    method: Method, scorer: LabelScorer, episode: Episode, sealed: PrivateRecords, adjacency: Adjacency
) -> PrivateICL:
    answers = len(episode.questions)
    return PrivateICL(
        records=sealed,
        task=episode.task,
        method=method,
        model=scorer,
        adjacency=adjacency,
        budget=Budget(epsilon=1000, delta=1e-4, failure_delta=min(5e-5, 2 * DELTA * (answers + 1))),
        ledger=":memory:",
        allow_non_private=not method.private,
    )


def _sealed(episode: Episode, records: int) -> PrivateRecords:
    """Public rows in the part of private ones."""
    task = episode.task
    rows = [
        Row(line, {**example.fields, task.label_field: task.labels[example.label]})
        for line, example in enumerate(episode.records[:records], 1)
    ]
    return PrivateRecords(rows, source="benchmark rows", unit="record", synthetic=True)


@contextmanager
def _stopwatch(times: dict[tuple[str, str], float], phase: str, questions: int) -> Iterator[None]:
    clock, processor = time.perf_counter(), time.process_time()
    yield
    spent = (time.perf_counter() - clock, time.process_time() - processor)
    if questions:
        times |= {(phase, name): 1000 * each / questions for name, each in zip(CLOCKS, spent, strict=True)}


# The models


@final
@dataclass(frozen=True)
class _Opened:
    """What was made once for a process."""

    scorer: TransformersScorer
    parameters: int


Opener = Callable[[], AbstractContextManager[LabelScorer]]


def _models(bench: Bench) -> Iterator[tuple[str, Opener, int]]:
    """Name, a way to open it for one session, and number of questions."""
    questions = bench.settings.queries
    yield EMBEDDED, _embedded, questions
    few = max(len(PHASES), round(questions / HF_SHARE))
    if bench.settings.model == EMBEDDED:
        made = random_model()
        yield f"random hf model of {made.parameters / 1e6:.1f} M", lambda: _one_thread(made.scorer), few
    else:
        # The runner has opened it; its scores are not looked up here.
        scorer = bench.scorer.scorer
        yield bench.settings.model, lambda: _one_thread(scorer), few


@contextmanager
def _embedded() -> Iterator[LabelScorer]:
    """The embedded model, loaded, with an empty cache: no session finds what another one embedded."""
    from sottovoce.models.embedded.embedding_cache import EmbeddingCache
    from sottovoce.models.embedded.label_scorer import EmbeddedScorer

    with tempfile.TemporaryDirectory() as folder:
        scorer = EmbeddedScorer(store=EmbeddingCache(Path(folder)))
        scorer.load()
        yield scorer


@contextmanager
def _one_thread(scorer: LabelScorer) -> Iterator[LabelScorer]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield scorer
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def random_model() -> _Opened:
    """A Llama of 10.6 M random weights and a tokenizer trained on the bundled, invented tickets."""
    import torch
    import transformers

    from sottovoce.benchmarks.speed.gpu_experts import trained_tokenizer
    from sottovoce.data.bundled import tickets_file
    from sottovoce.models.huggingface.label_scorer import TransformersScorer

    tokenizer = trained_tokenizer([tickets_file("queries.jsonl").read_text("utf-8")], RANDOM["vocab_size"])
    special = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**RANDOM, tie_word_embeddings=False, **special)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa")
    scorer = TransformersScorer("random", device="cpu", loaded=(tokenizer, model))
    return _Opened(scorer, sum(weight.numel() for weight in model.parameters()))


_warmed: set[tuple[object, ...]] = set()


def _warm(name: str, opened: Opener, episode: Episode, records: int, adjacency: Adjacency, epsilon: float) -> None:
    """Lets a model run, and noise be worked out for a price, once before anything is timed."""
    if (name, adjacency, epsilon) in _warmed:
        return
    _warmed.add((name, adjacency, epsilon))
    for method in (METHODS[e.ZERO_SHOT], METHODS[e.PBS], *([] if _is_language_model(name) else [METHODS[PBS_MANY]])):
        with opened() as scorer:
            few = Episode(episode.task, episode.records, episode.questions[:2], episode.truth[:2])
            _timed(method, scorer, few, records, adjacency, epsilon)


# What is shown


def section(result: Result) -> ReportSection:
    """Medians and ranges by method, times that of votes, and bars."""
    tables, figures, lines = list[Table](), list[Figure](), list[str]()
    for place in _places(result):
        tables += [_table(result, place, clock) for clock in CLOCKS]
        figures.append(_bars(result, place, len(figures)))
        lines += _reading(result, place)
    details = dict(about(result)) | {"Model": _model_names(result), "Protocol": _protocol(result)}
    details["Load"] = (
        f"{result.machine['load_before']} on average in the last minute; a busy machine widens the clock's ranges"
    )
    del details["Model asked"]
    return ReportSection(
        result.experiment, EXPERIMENT.title, EXPERIMENT.source, lines, tables, figures, list(details.items())
    )


def ratios(result: Result, place: Mapping[str, Any], method: str, phase: str, clock: str) -> list[float]:
    """A method's time over that of votes (exponential), round by round; empty where one was not measured."""
    mine, votes = (_cell(result, place, name, phase, clock) for name in (method, e.VOTES))
    return [a / b for a, b in zip(mine.values, votes.values, strict=True) if b] if mine and votes else []


def _cell(result: Result, place: Mapping[str, Any], method: str, phase: str, clock: str) -> Cell | None:
    return result.cell(**place, method=method, quantity=_quantity(phase, clock))


def _places(result: Result) -> list[dict[str, Any]]:
    """What a table is about: model, rows, names, records and price."""
    names = ("option", "task", "names", "records", "adjacency", "epsilon")
    places = dict.fromkeys(tuple(getattr(cell.key, name) for name in names) for cell in result.cells)
    return [dict(zip(names, values, strict=True)) for values in places]


def _title(place: Mapping[str, Any]) -> str:
    return (
        f"{place['option']}, {place['task']}, {place['records']} experts, epsilon {place['epsilon']:g}, "
        f"{place['adjacency']}"
    )


def _table(result: Result, place: Mapping[str, Any], clock: str) -> Table:
    rows = []
    for method in METHODS:
        cells = [_cell(result, place, method, phase, clock) for phase in PHASES]
        if any(cells):
            rows.append(
                (
                    method,
                    *("" if cell is None else _range(cell.values, "{:.3g}") for cell in cells),
                    *(_range(ratios(result, place, method, phase, clock), "{:.2f}") for phase in PHASES),
                )
            )
    return Table(
        f"Milliseconds a question by {'the clock' if clock == CLOCKS[0] else 'processor time'}: {_title(place)}",
        ("method", *PHASES, *(f"{phase}, times votes" for phase in PHASES)),
        rows,
        f"Median (least to most) of {result.settings.seeds} rounds; times votes (exponential) round by round. The "
        "first answer includes opening the session and reading the experts' prompts. A language model's passes have a "
        "constant number of rows, 4 on a processor: one question fills one of them, several in a call share them. Full "
        "context has no guarantee.",
    )


def _range(values: Sequence[float], form: str) -> str:
    if not values:
        return ""
    least, middle, most = (form.format(value) for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({least} to {most})" if len(values) > 1 else middle


def _bars(result: Result, place: Mapping[str, Any], number: int) -> Figure:
    bars = []
    for method in METHODS:
        measured = [(phase, cell) for phase in PHASES if (cell := _cell(result, place, method, phase, CLOCKS[0]))]
        bars.append(
            Series(
                method,
                [phase for phase, _ in measured],
                [statistics.median(cell.values) for _, cell in measured],
                [min(cell.values) for _, cell in measured],
                [max(cell.values) for _, cell in measured],
                reference=method in e.REFERENCES,
            )
        )
    return Figure(
        f"time-{number + 1}",
        _title(place),
        "which question",
        "milliseconds a question, clock",
        [bar for bar in bars if bar.x],
        kind="bars",
        log_y=True,
        note="Medians; whiskers from least to most over rounds. Grey: no guarantee, or nothing read.",
    )


def _reading(result: Result, place: Mapping[str, Any]) -> list[str]:
    """The question asked, answered yes or no, and what prediction by subsampling takes."""
    lines = []
    for phase in PHASES:
        poe, pbs, many = (
            [ratios(result, place, name, phase, clock) for clock in CLOCKS] for name in (e.POE, e.PBS, PBS_MANY)
        )
        if not all(poe):
            continue
        within = all(statistics.median(values) <= ALLOWED for values in poe)
        lines.append(
            f"{_title(place)}, {phase}: PoE takes {_range(poe[0], '{:.2f}')} times as long as RNM by the clock and "
            f"{_range(poe[1], '{:.2f}')} by processor time. PoE is within {ALLOWED:g} times RNM: "
            f"{'yes' if within else 'no'}."
        )
        if all(pbs):
            lines[-1] += (
                f" PbS takes {_range(pbs[0], '{:.2f}')} times as long as RNM by the clock and "
                f"{_range(pbs[1], '{:.2f}')} by processor time."
            )
        if all(many):
            lines[-1] += f" With its default of {PbS().subsamples} prompts it takes {_range(many[0], '{:.2f}')} times."
    return lines


def _protocol(result: Result) -> str:
    s = result.settings
    few = max(len(PHASES), round(s.queries / HF_SHARE))
    return (
        f"{s.seeds} rounds, the order of methods rotating; {s.queries} questions a round for the embedded model and "
        f"{few} for the language model: one first, a quarter of the rest one by one, the others in one call; "
        f"{_listed(s.records)} records, one an expert; PbS with {_subsampling()}; ledger in memory"
    )


def _subsampling() -> str:
    methods = [m for m in METHODS.values() if isinstance(m, PbS)]
    return " or ".join(f"k = {pbs.subsamples} and q = {pbs.sampling_probability:g}" for pbs in methods)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _model_names(result: Result) -> str:
    return ", ".join(dict.fromkeys(cell.key.option for cell in result.cells))


EXPERIMENT = Experiment(
    name="poetry-time",
    title="How long does an answer take?",
    source="Private PoEtry, time by method",
    settings=Settings(
        seeds=5, tasks=("tickets",), names=(OWN,), epsilons=(1.0,), adjacencies=(Adjacency.REPLACE_ONE.value,)
    ),
    measure=measure,
    section=section,
)
