"""Options that several commands share, and how they become a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, final

import typer

from sottovoce.errors import GIVEN, InputError, ParameterError

if TYPE_CHECKING:
    from sottovoce.methods.base import Method
    from sottovoce.records.sealed import PrivateRecords
    from sottovoce.session import PrivateICL
    from sottovoce.tasks import AnswerTask, Example, Task

_BOTH: Final = "--labels and --task are both given. A task names its labels: leave one of the two out."
_NEITHER: Final = (
    "No labels are named. Name them with --labels, such as --labels billing,fraud,shipping, or a task with --task."
)

DEFAULT_BUDGET = "8,1e-6"
"""The whole budget of a data set whose owner named none."""

Private = Annotated[
    str | None, typer.Option("--private", help="Private records: .jsonl[.gz], .csv, .parquet, or a folder of pictures.")
]
Labels = Annotated[str | None, typer.Option("--labels", help="The public label set, such as billing,fraud,shipping.")]
TaskName = Annotated[str | None, typer.Option("--task", help="A built-in task, or your own .toml file.")]
MethodName = Annotated[
    str, typer.Option("--method", help="See 'sotto methods'; auto chooses by public numbers, for free.")
]
NamedMethod = Annotated[str, typer.Option("--method", help="See 'sotto methods'.")]
Epsilon = Annotated[str, typer.Option("--epsilon", help="Price of one answer.")]
Delta = Annotated[
    str | None, typer.Option("--delta", help="Delta of one answer, for Gaussian noise. Default: the budget's.")
]
AdjacencyName = Annotated[str, typer.Option("--adjacency", help="replace-one, add-remove or zero-out.")]
TextColumn = Annotated[
    str | None,
    typer.Option(
        "--text-column", help="The column that holds the text. Public rows may call it either. Default: text."
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label-column", help="The column that holds the label. Public rows may call it either. Default: label."
    ),
]
UnitName = Annotated[
    str | None, typer.Option("--unit", help="Who is protected: a column, or 'record'. Default: 'group' where present.")
]
LedgerPath = Annotated[
    str | None,
    typer.Option(
        "--ledger", help="The ledger: a file, postgresql://USER@HOST/DATABASE, or :memory:. Default: your data folder."
    ),
]
CallerName = Annotated[
    str | None, typer.Option("--caller", help="Your name as a caller, if the owner gave callers parts of the budget.")
]
AnswerColumn = Annotated[
    str | None, typer.Option("--answer-column", help="The column that holds the answer, where answers are texts.")
]
BudgetText = Annotated[
    str | None,
    typer.Option(
        "--budget",
        help=f"The whole budget, on first use: EPSILON,DELTA[,failure=DELTA][,alpha=ORDER] [{DEFAULT_BUDGET}].",
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        help="embedded, embedded-image, encoder:NAME_OR_PATH, hf:NAME_OR_PATH[,layer=N] or vision:NAME_OR_PATH. "
        "See 'sotto models'.",
    ),
]
Device = Annotated[str | None, typer.Option("--device", help="For hf: and vision: models: cpu, cuda, cuda:1.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="For hf: and vision: models: float32 or bfloat16.")]
Chat = Annotated[
    bool | None,
    typer.Option(
        "--chat/--no-chat",
        help="For hf: models: put prompts into the chat template. Default: for labels, if the model has "
        "one; never for writing.",
        show_default=False,
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="NAME=VALUE",
        help="An option of the method, such as -o clip=2.3; 'sotto methods' lists them. May be repeated.",
        show_default=False,
    ),
]
Clip = Annotated[float | None, typer.Option("--clip", help="Short for -o clip=.")]
PriorWeight = Annotated[float | None, typer.Option("--prior-weight", help="Short for -o prior_weight=.")]
SamplingProbability = Annotated[
    float | None, typer.Option("--sampling-probability", help="Short for -o sampling_probability=.")
]
Subsamples = Annotated[int | None, typer.Option("--subsamples", help="Short for -o subsamples=.")]
Noise = Annotated[str | None, typer.Option("--noise", help="Short for -o noise=.")]
Temperature = Annotated[float | None, typer.Option("--temperature", help="Short for -o temperature=.")]
TopK = Annotated[int | None, typer.Option("--top-k", help="Short for -o top_k=.")]
PerExpert = Annotated[int, typer.Option("--per-expert", "-g", help="Units an expert sees.")]
Capacity = Annotated[
    int | None, typer.Option("--capacity", help="Under add-remove: a public number of experts; needs stable ids.")
]
MaxCharacters = Annotated[
    int | None,
    typer.Option(
        "--max-characters", help="Longest text of one field. Default: 8000; 8000000 where a field is an image."
    ),
]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut longer texts instead of refusing them.")]
ShownRows = Annotated[
    str | None,
    typer.Option("--demonstrations", help="Public or synthetic rows shown as examples; free. See 'sotto synthesize'."),
]
Shots = Annotated[
    int | None,
    typer.Option("--shots", min=1, help="With --demonstrations: show only the first ones, this many. Default: all."),
]
Calibrate = Annotated[
    bool,
    typer.Option(
        "--calibrate",
        help="For language models: subtract from each prompt's scores its own scores of content-free questions; costs "
        "no epsilon.",
    ),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        help="Public texts, .jsonl[.gz], .csv or .parquet; labels are not read. Default: bundled ones.",
    ),
]
Candidates = Annotated[
    int | None,
    typer.Option(
        "--candidates", help="In place of --public: this many texts, which --writer writes from public words."
    ),
]
WriterName = Annotated[
    str | None,
    typer.Option(
        "--writer",
        help="Writes --candidates, and variations for --method evolve: embedded or hf:NAME_OR_PATH; it sees no record. "
        "Default: embedded.",
    ),
]
AllowNonPrivate = Annotated[
    bool, typer.Option("--allow-non-private", help="Let a method without a guarantee answer; the ledger notes it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of the table.")]


SHORTHANDS: Final = (
    "clip", "noise", "prior_weight", "sampling_probability", "subsamples", "temperature", "top_k",
)  # fmt: skip
"""Flags that are short for an option of the method."""


@final
class MethodOptions:
    """Options of a method as they were typed, with -o or as shorthands.

    Args:
        pairs: Texts such as ``clip=2.3``.
        shorthands: Values of flags by name; ``None`` for those that were not typed.
        meanings: Flags that stand for several options, or for one of another name.

    Attributes:
        values: Each option's text or value.

    Raises:
        ParameterError: A text is not NAME=VALUE, or an option is given twice.
    """

    def __init__(
        self,
        pairs: Sequence[str] = (),
        shorthands: Mapping[str, Any] | None = None,
        meanings: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.values: dict[str, Any] = {}
        self._typed: dict[str, str] = {}
        for flag, value in (shorthands or {}).items():
            for name, meant in (meanings or {}).get(flag, {flag: value}).items():
                self._add(name, meant, f"--{flag.replace('_', '-')}")
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if not equals or not name.strip():
                raise ParameterError("--option", pair, "NAME=VALUE, such as -o clip=2.3")
            self._add(name.strip().replace("-", "_"), value, f"-o {name.strip()}")

    def _add(self, name: str, value: Any, typed: str) -> None:
        if name in self.values:
            raise ParameterError(typed, value, f"given once: {self._typed[name]} sets the same option")
        self.values[name], self._typed[name] = value, typed

    @contextmanager
    def as_typed(self) -> Iterator[None]:
        """Names options in errors as they were typed."""
        try:
            yield
        except ParameterError as error:
            name = self._typed.get(error.name, error.name)
            raise ParameterError("--method" if name == "method" else name, error.value, error.limit) from None


@dataclass(frozen=True, kw_only=True)
class TaskChoice:
    """What is asked: --task or --labels."""

    task: str | None = None
    labels: str | None = None

    def load_task(self) -> Task:
        """The task, from --task or --labels."""
        from sottovoce.tasks import Task, load_task

        if (self.task is None) == (self.labels is None):
            raise InputError(_BOTH if self.task else _NEITHER)
        if self.labels is not None:
            return Task(labels=self.labels.split(","))
        return load_task(str(self.task))

    def answer_task(self) -> AnswerTask | None:
        """The task, where its answers are texts; ``None`` where it has labels."""
        from sottovoce.tasks import is_answer_task, load_answer_task

        if self.labels is not None or self.task is None or not is_answer_task(self.task):
            return None
        return load_answer_task(self.task)


@dataclass(frozen=True, kw_only=True)
class RecordsChoice:
    """Which records are read, and how."""

    private: str | None = None
    unit: str | None = None
    text_column: str | None = None
    label_column: str | None = None
    answer_column: str | None = None
    max_characters: int | None = None
    truncate: bool = False

    def columns_of_answers(self, task: AnswerTask) -> dict[str, str]:
        """Which columns hold the fields of a task whose answers are texts, where they have other names.

        Raises:
            ParameterError: A column is named that the task has no place for.
        """
        if self.text_column is not None and len(task.fields) != 1:
            limit = f"left out: the fields of the task are {', '.join(task.fields)}"
            raise ParameterError("--text-column", self.text_column, limit)
        if self.label_column is not None:
            raise ParameterError(
                "--label-column", self.label_column, "left out: the task has answers, see --answer-column"
            )
        named = {task.fields[0]: self.text_column, task.output_field: self.answer_column}
        return {field: column for field, column in named.items() if column is not None}

    def columns(self, task: Task | None) -> dict[str, str]:
        """Which columns hold the fields of a task, where they have other names.

        Raises:
            ParameterError: A column is named that the task has no place for.
        """
        if self.text_column is not None and (task is None or len(task.fields) != 1):
            fields = ", ".join(task.fields) if task else "those of the schema"
            raise ParameterError("--text-column", self.text_column, f"left out: the fields of the task are {fields}")
        if self.answer_column is not None:
            raise ParameterError(
                "--answer-column", self.answer_column, "left out: the task has labels, see --label-column"
            )
        if self.label_column is not None and task is None:
            raise ParameterError("--label-column", self.label_column, "left out without --task and --labels")
        named = {task.fields[0]: self.text_column, task.label_field: self.label_column} if task else {}
        return {field: column for field, column in named.items() if column is not None}

    def longest(self, task: Task) -> int:
        """Characters of the longest field that is read."""
        if task.image and self.truncate:
            raise ParameterError("--truncate", True, "left out: an image cannot be cut")
        if self.max_characters is None:
            return 8_000_000 if task.image else 8_000
        return self.max_characters


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """Which model is asked."""

    model: str = "embedded"
    device: str | None = None
    dtype: str | None = None
    chat: bool | None = None


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """Which method answers, with which options of its own."""

    method: str = "auto"
    option: list[str] | None = None
    shorthands: Mapping[str, Any] = field(default_factory=dict)
    allow_non_private: bool = False
    demonstrations: str | None = None
    shots: int | None = None
    calibrate: bool = False

    def load_method(self, name: str) -> Method:
        """The method of this name with the options that were typed."""
        from sottovoce.methods.base import make_method, read_method_options

        options = MethodOptions(self.option or (), self.shorthands)
        with options.as_typed():
            return make_method(name, **read_method_options(name, options.values))


@dataclass(frozen=True, kw_only=True)
class PublicChoice:
    """Which public texts a fit has, and what writes some."""

    public: str | None = None
    candidates: int | None = None
    writer: str | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerChoice:
    """Which ledger is charged, on whose behalf, and with which budget it is opened."""

    ledger: str | None = None
    budget: str | None = None
    caller: str | None = None

    def first_budget(self, records: PrivateRecords) -> Any:
        """The budget that was named, or the default one where the ledger is new."""
        from sottovoce.privacy.ledger.budget import Budget
        from sottovoce.privacy.ledger.ledger import Ledger
        from sottovoce.privacy.ledger.opening import is_new
        from sottovoce.privacy.ledger.registry import default_path

        if self.budget is not None:
            return Budget.parse(self.budget)
        path = self.ledger or default_path(records)
        fresh = is_new(path) or Ledger(path).is_empty(verified=False)
        return Budget.parse(DEFAULT_BUDGET) if fresh else None


@dataclass(frozen=True, kw_only=True)
class PartitionChoice:
    """What one change of the data is, and how units are shared out among experts."""

    adjacency: str = "replace-one"
    per_expert: int = 1
    capacity: int | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Setup(TaskChoice, RecordsChoice, ModelChoice, MethodChoice, PublicChoice, LedgerChoice, PartitionChoice):
    """What a command was told about the session it needs."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """From a command's parameters, by name; the others are the command's own."""
        values = {field.name: parameters[field.name] for field in fields(cls) if field.name in parameters}
        typed = {
            name: value for name in SHORTHANDS if (value := parameters.get(name)) is not None and value is not False
        }
        return cls(**values, shorthands=typed)

    def session(
        self,
        task: Task,
        *,
        epsilon: float,
        questions: int = 1,
        resumes: bool = False,
        begun: Mapping[str, Any] | None = None,
        before_opening: Callable[[PrivateRecords | None], None] = lambda records: None,
    ) -> PrivateICL:
        """Reads the records and opens the ledger; nothing is charged.

        Args:
            task: What is asked.
            epsilon: Price of an answer, which ``auto`` goes by.
            questions: How many are to be answered.
            resumes: Whether a run that was begun is resumed: then the ledger must know the records.
            begun: Of a run that is resumed: its public words, whose method ``auto`` goes on with.
            before_opening: Refuses what does not go with the records, before a budget is settled for them; ``None``
                where none are read.
        """
        from sottovoce.cli.console import load_scorer, say
        from sottovoce.experts.partition import Partition
        from sottovoce.methods.base import Reads, is_method, registered_methods
        from sottovoce.parameters import OneOf
        from sottovoce.planner.answering import AUTO
        from sottovoce.privacy.ledger.opening import require_known
        from sottovoce.privacy.unit import Adjacency
        from sottovoce.records.readers import read_private
        from sottovoce.session import PrivateICL

        shown = self._demonstrations(task)
        chosen = not shown and self.method == AUTO
        if not shown and not chosen and not is_method(self.method):
            OneOf((AUTO, *registered_methods())).read("--method", self.method)
        method = None if chosen else self.load_method("demonstrations" if shown else self.method)
        if method is not None:
            require_used(method)
        reads = method is None or method.reads is not Reads.NOTHING
        if reads and self.private is None:
            raise ParameterError("--private", None, f"given: the method {self.method!r} answers from private records")
        records = None
        if reads:
            records = read_private(
                str(self.private),
                unit=self.unit,
                max_characters=self.longest(task),
                truncate=self.truncate,
                columns=self.columns(task),
                labels=task.labels,
            )
        before_opening(records)
        if resumes and records is not None:
            require_known(records, Adjacency.parse(self.adjacency), self.ledger, self.caller)
        told: list[str] = []
        if method is None and records is not None:
            name, *told = self._chosen(task, records, epsilon, questions, begun)
            method = self.load_method(name)
            require_used(method)
        model = load_scorer(self.model, **given(device=self.device, dtype=self.dtype, chat=self.chat))
        session = PrivateICL(
            records=records,
            task=task,
            method=method or AUTO,
            model=model,
            adjacency=self.adjacency,
            budget=self.first_budget(records) if records else None,
            ledger=self.ledger,
            caller=self.caller,
            partition=Partition(units_per_expert=self.per_expert, capacity=self.capacity),
            demonstrations=shown,
            calibrate=self.calibrate,
            allow_non_private=self.allow_non_private,
        )
        for line in (*told, *filter(None, [getattr(model, "note", "")])):
            say(line)
        warn_of(self.ledger if reads else None, session.conflicting_ledger)
        return session

    def _chosen(
        self, task: Task, records: PrivateRecords, epsilon: float, questions: int, begun: Mapping[str, Any] | None
    ) -> list[str]:
        """The method that ``auto`` stands for, by public numbers alone, and what to say of it."""
        from sottovoce.methods.base import registered_methods
        from sottovoce.planner.answering import resolve_answering
        from sottovoce.privacy.unit import Adjacency

        made = str((begun or {}).get("method")).partition("(")[0]
        for name, kind in registered_methods().items():
            if kind.__name__ == made:
                return [name, f"Method {name}: that of the run that is resumed"]
        adjacency = Adjacency.parse(self.adjacency)
        options = MethodOptions(self.option or (), self.shorthands)
        with options.as_typed():
            found = resolve_answering(
                labels=len(task.labels),
                units=len(records.with_public_size()) if adjacency.size_is_public else None,
                epsilon=epsilon,
                questions=questions,
                adjacency=adjacency,
                options=options.values,
                model=self.model,
            )
        return [found.method, f"Method {found}", *([found.hint] if found.hint else [])]

    def _demonstrations(self, task: Task) -> list[Example]:
        """Rows that anybody may see, read as examples of the task."""
        if self.demonstrations is None:
            if self.shots is not None:
                raise ParameterError("--shots", self.shots, "given with --demonstrations, whose rows it counts")
            return []
        if self.private is not None:
            raise ParameterError(
                "--demonstrations", self.demonstrations, "given without --private: they are shown as they are"
            )
        from sottovoce.privacy.ledger.known_records import require_public
        from sottovoce.records.readers import read_public

        rows = read_public(
            self.demonstrations,
            max_characters=self.longest(task),
            truncate=self.truncate,
            columns=self.columns(task),
        )
        require_public(rows, f"--demonstrations {self.demonstrations}")
        shown = [task.example_of(row, rows.source) for row in rows]
        if self.shots is not None and self.shots > len(shown):
            raise ParameterError("--shots", self.shots, f"from 1 to {len(shown)}, the rows of {rows.source!r}")
        return shown[: self.shots]


OF_RECORDS: Final = (
    "unit", "ledger", "budget", "caller", "release_id", "delta", "per_expert", "capacity", "allow_non_private",
)  # fmt: skip
"""Parameters that say nothing to a method that reads no private record."""


def require_used(method: Method) -> None:
    """Refuses an option that was typed and that the method does not use.

    Raises:
        ParameterError: There is one; the error names it and the methods that use it.
    """
    from sottovoce.cli.flags import flag_of_name, is_typed
    from sottovoce.methods.base import Reads, registered_methods

    if method.reads is Reads.NOTHING:
        for name in filter(is_typed, OF_RECORDS):
            using = ", ".join(kind for kind, cls in registered_methods().items() if cls.reads is not Reads.NOTHING)
            limit = f"left out: --method {method.name} reads no private record; it is used by {using}"
            raise ParameterError(flag_of_name(name), GIVEN, limit)
    if method.private and is_typed("delta") and not _uses_delta(method):
        using = ", ".join(
            f"{name}{more}"
            for name in registered_methods()
            for more in ("", *_noises(name))
            if _uses_delta(_made(name, more))
        )
        limit = f"left out: --method {method.name} has no delta of its own; it is used by {using}"
        raise ParameterError("--delta", GIVEN, limit)


def _noises(name: str) -> list[str]:
    """The noises that a method lets choose, as they are typed."""
    from sottovoce.methods.base import registered_methods
    from sottovoce.parameters import limits_of

    limit = limits_of(registered_methods()[name]).get("noise", (None,))[0]
    return [f" --noise {word}" for word in getattr(limit, "words", ())]


def _made(name: str, more: str) -> Method:
    from sottovoce.methods.base import make_method

    noise = more.rpartition(" ")[2]
    return make_method(name, **({"noise": noise} if noise else {}))


def _uses_delta(method: Method) -> bool:
    """Whether the delta of an answer changes what it costs."""
    from sottovoce.methods.base import Price
    from sottovoce.privacy.unit import Adjacency

    if not method.private or method.can_fail:
        return method.can_fail
    first, second = (method.event(Price(1.0, delta), Adjacency.REPLACE_ONE) for delta in (1e-6, 1e-9))
    return bool(first != second)


def warn_of(ledger: str | None, conflicting_ledger: str | None) -> None:
    """Says that a ledger forgets its budget, or that the records have another one on this machine.

    Args:
        ledger: As it was named; ``None`` for the one that the records have.
        conflicting_ledger: Where else they have a budget.
    """
    from sottovoce.cli.console import say
    from sottovoce.privacy.ledger.location import IN_MEMORY, is_address

    if ledger == IN_MEMORY:
        say(
            "WARNING: a ledger in memory forgets this budget and what was charged when the command ends. All such runs "
            "add up, and nothing counts them; from now on, even where nothing is charged, these records get no other "
            "budget unless their owner grants it."
        )
    if conflicting_ledger:
        say(
            f"WARNING: these records already have the ledger {conflicting_ledger}. Its budget and this one's add up, "
            "and neither knows of the other. Leave --ledger out to go on with that one."
            + (" Two addresses of one database are one budget." if is_address(conflicting_ledger) else "")
        )


def given(**values: Any) -> dict[str, Any]:
    """The values that are not ``None``."""
    return {name: value for name, value in values.items() if value is not None}
