"""Options that several commands share, and how they become a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.errors import ParameterError

if TYPE_CHECKING:
    from sottovoce.records import PrivateRecords
    from sottovoce.session import PrivateICL
    from sottovoce.tasks import Example, Task

DEFAULT_BUDGET = "8,1e-6"
"""The whole budget of a data set whose owner named none."""

Private = Annotated[
    str | None, typer.Option("--private", help="Private records: .jsonl[.gz], .csv, .parquet, or a folder of pictures.")
]
Labels = Annotated[str | None, typer.Option("--labels", help="The public label set, such as billing,fraud,shipping.")]
TaskName = Annotated[str | None, typer.Option("--task", help="A built-in task, or your own .toml file.")]
MethodName = Annotated[str, typer.Option("--method", help="See 'sotto methods'.")]
Epsilon = Annotated[str, typer.Option("--epsilon", help="Price of one answer.")]
Delta = Annotated[
    str | None, typer.Option("--delta", help="Delta of one answer, for Gaussian noise; default the budget's.")
]
AdjacencyName = Annotated[str, typer.Option("--adjacency", help="replace-one, add-remove or zero-out.")]
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
    str | None, typer.Option("--caller", help="Who asks, if the owner gave each caller a part of the budget.")
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
        "--model", help="embedded, embedded-image, hf:NAME_OR_PATH or vision:NAME_OR_PATH. See 'sotto models'."
    ),
]
Device = Annotated[str | None, typer.Option("--device", help="For hf: and vision: models: cpu, cuda, cuda:1.")]
Dtype = Annotated[str | None, typer.Option("--dtype", help="For hf: and vision: models: float32 or bfloat16.")]
Clip = Annotated[float | None, typer.Option("--clip", help="For poe and prior-poe: clip in nats.")]
PriorWeight = Annotated[
    float | None, typer.Option("--prior-weight", help="For poe and prior-poe: power of the answer without examples.")
]
SamplingProbability = Annotated[
    float | None, typer.Option("--sampling-probability", help="For pbs: chance of each unit to be in a prompt.")
]
Subsamples = Annotated[int | None, typer.Option("--subsamples", help="For pbs: prompts for each question.")]
Noise = Annotated[str | None, typer.Option("--noise", help="For rnm: exponential, permute_and_flip or gaussian.")]
PerExpert = Annotated[int, typer.Option("--per-expert", "-g", help="Units an expert sees.")]
Capacity = Annotated[
    int | None, typer.Option("--capacity", help="Under add-remove: a public number of experts; needs stable ids.")
]
MaxCharacters = Annotated[
    int | None,
    typer.Option("--max-characters", help="Longest text of one field [8000; 8000000 where a field is an image]."),
]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut longer texts instead of refusing them.")]
ShownRows = Annotated[
    str | None,
    typer.Option("--demonstrations", help="Public or synthetic rows shown as examples; free. See 'sotto synthesize'."),
]
Shots = Annotated[
    int | None, typer.Option("--shots", min=1, help="With --demonstrations: show the first so many [all].")
]
Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="With --demonstrations: take off what is said to questions without content.")
]
AllowNonPrivate = Annotated[
    bool, typer.Option("--allow-non-private", help="Let a method without a guarantee answer; the ledger notes it.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout instead of the table.")]


@dataclass(frozen=True)
class Setup:
    """What a command was told about the session it needs."""

    private: str | None
    labels: str | None
    task: str | None
    method: str
    model: str
    adjacency: str
    unit: str | None
    ledger: str | None
    budget: str | None
    device: str | None
    dtype: str | None
    clip: float | None
    noise: str | None
    per_expert: int
    capacity: int | None
    max_characters: int | None
    truncate: bool
    allow_non_private: bool
    caller: str | None = None
    prior_weight: float | None = None
    sampling_probability: float | None = None
    subsamples: int | None = None
    demonstrations: str | None = None
    calibrate: bool = False
    shots: int | None = None

    def longest(self, task: Task) -> int:
        """Characters of the longest field that is read."""
        if task.image and self.truncate:
            raise ParameterError("--truncate", True, "left out: an image cannot be cut")
        if self.max_characters is None:
            return 8_000_000 if task.image else 8_000
        return self.max_characters

    def load_task(self) -> Task:
        """The task, from --task or --labels."""
        from sottovoce.tasks import Task, load_task

        if (self.task is None) == (self.labels is None):
            raise ParameterError(
                "--task and --labels", "both given" if self.task else "both absent", "exactly one of them"
            )
        if self.labels is not None:
            return Task(labels=self.labels.split(","))
        return load_task(str(self.task))

    def session(self, task: Task) -> PrivateICL:
        """Reads the records and opens the ledger; nothing is charged."""
        from sottovoce.experts.partition import Partition
        from sottovoce.methods.base import Reads, make_method
        from sottovoce.models.catalog import load_scorer
        from sottovoce.readers import read_private
        from sottovoce.session import PrivateICL

        shown = self._demonstrations(task)
        method = make_method("demonstrations" if shown else self.method, **self._method_options())
        reads = method.reads is not Reads.NOTHING
        if reads and self.private is None:
            raise ParameterError("--private", None, f"given: the method {self.method!r} answers from private records")
        records = None
        if reads:
            records = read_private(
                str(self.private), unit=self.unit, max_characters=self.longest(task), truncate=self.truncate
            )
        session = PrivateICL(
            records=records,
            task=task,
            method=method,
            model=load_scorer(self.model, **given(device=self.device, dtype=self.dtype)),
            adjacency=self.adjacency,
            budget=self.first_budget(records) if records else None,
            ledger=self.ledger,
            caller=self.caller,
            partition=Partition(units_per_expert=self.per_expert, capacity=self.capacity),
            demonstrations=shown,
            allow_non_private=self.allow_non_private,
        )
        warn_of(session.other_ledger)
        return session

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
        from sottovoce.privacy.known_records import require_public
        from sottovoce.readers import read_public

        rows = read_public(self.demonstrations, max_characters=self.longest(task), truncate=self.truncate)
        require_public(rows, f"--demonstrations {self.demonstrations}")
        shown = [task.example_of(row, rows.source) for row in rows]
        if self.shots is not None and self.shots > len(shown):
            raise ParameterError("--shots", self.shots, f"from 1 to {len(shown)}, the rows of {rows.source!r}")
        return shown[: self.shots]

    def _method_options(self) -> dict[str, Any]:
        return given(
            clip=self.clip,
            noise=self.noise,
            prior_weight=self.prior_weight,
            sampling_probability=self.sampling_probability,
            subsamples=self.subsamples,
            calibrate=self.calibrate or None,
        )

    def first_budget(self, records: PrivateRecords) -> Any:
        """The budget that was named, or the default one where the ledger is new."""
        from sottovoce.privacy.budget import Budget
        from sottovoce.privacy.ledger import Ledger
        from sottovoce.privacy.ledger_address import is_address
        from sottovoce.privacy.ledger_opening import is_new
        from sottovoce.privacy.ledger_registry import default_path

        if self.budget is not None:
            return Budget.parse(self.budget)
        path = self.ledger or default_path(records)
        fresh = not Ledger(path).balances() if is_address(path) else is_new(path)
        return Budget.parse(DEFAULT_BUDGET) if fresh else None


def warn_of(other_ledger: str | None) -> None:
    """Says that the records have another ledger on this machine, if they have."""
    from sottovoce.cli.console import say

    if other_ledger:
        say(
            f"WARNING: these records already have the ledger {other_ledger}. Its budget and this one's add up, and "
            "neither knows of the other. Leave --ledger out to go on with that one."
        )


def given(**values: Any) -> dict[str, Any]:
    """The values that are not ``None``."""
    return {name: value for name, value in values.items() if value is not None}
