"""Small worlds for methods that answer with a label: what experts may say, data sets, their neighbours, and the road.

A record's text names what its expert says, so that a data set is a list of units, each a list of such names. Experts'
outputs come through the package's own road: records, partition, model, sealed outputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.partition import Partition
from sottovoce.experts.subsample import SampledEnsemble
from sottovoce.methods.base import Method, Subsampling
from sottovoce.models.fake import FakeScorer
from sottovoce.privacy.unit import CHANGE_TYPES, Adjacency, ChangeType
from sottovoce.randomness import Randomness, SeededRandomness
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import CONTENT_FREE, Query, Task
from sottovoce.testing.ladders import counted, ladders

FloatArray = NDArray[np.float64]
NAN: Final = math.nan
INF: Final = math.inf

ROWS: Final[Mapping[int, tuple[tuple[float, ...], ...]]] = {
    2: ((0.0, -50.0), (-50.0, 0.0), (0.0, 0.0), (-0.3, -1.5), (-INF, 0.0), (NAN, NAN)),
    3: ((0.0, -50.0, -50.0), (-50.0, 0.0, -50.0), (0.0, -1.0, -9.0), (-INF, -INF, 0.0), (0.0, 0.0, 0.0), (NAN,) * 3),
    5: (
        (0.0, *(-50.0,) * 4),
        (-50.0, 0.0, *(-50.0,) * 3),
        (*(-50.0,) * 4, 0.0),
        (0.0, -1.0, -2.0, -4.0, -9.0),
        (NAN,) * 5,
    ),
}
"""What an expert may say, by the number of labels: sharp, flat, as the public model, impossible labels, nothing."""

PUBLIC: Final[Mapping[int, tuple[float, ...]]] = {
    2: (-0.3, -1.5),
    3: (-0.1, -3.0, -3.5),
    5: (-0.2, -3.0, -3.5, -3.5, -4.0),
}
"""What the model says without any record."""


LONG: Final = (12, 60)
"""Numbers of labels so large that many labels move at once."""


def long_rows(labels: int) -> tuple[tuple[float, ...], ...]:
    """Rows of many labels, of which an expert is sure of a half, of the other, of every second or third, or of none."""
    half = labels // 2
    sure = [
        [label < half for label in range(labels)],
        [label >= half for label in range(labels)],
        [label % 2 == 0 for label in range(labels)],
        [label % 3 == 0 for label in range(labels)],
    ]
    rows = [tuple(0.0 if its else -50.0 for its in each) for each in sure]
    return (*rows, (0.0,) * labels, (NAN,) * labels)


def sure_rows(labels: int) -> tuple[tuple[float, ...], ...]:
    """One row for each label, which is sure of it."""
    return tuple(tuple(0.0 if i == label else -50.0 for i in range(labels)) for label in range(labels))


def public_rows(labels: int) -> tuple[tuple[float, ...], ...]:
    """The public rows of worlds: that of ``PUBLIC``, a flat one, leads from short to long, one sure of each label."""
    leads = ((1, 0.4), (0, 5.0), (labels - 1, 9.0), (1, 20.0))
    leading = [tuple(0.0 if i == label else -lead for i in range(labels)) for label, lead in leads]
    return (PUBLIC[labels], (0.0,) * labels, *leading, *sure_rows(labels))


QUESTION: Final[Query] = {"text": "which?"}
SECRET: Final = "private words"
"""Stands in every private text, for checks of what a model is shown."""


@final
@dataclass(frozen=True)
class Change:
    """An adjacency with a change type of table 2.2.

    Attributes:
        adjacency: The relation.
        change: What it does to the experts.
    """

    adjacency: Adjacency
    change: ChangeType

    def __str__(self) -> str:
        return f"{self.adjacency.value}, {self.change.name}"


CHANGES: Final = tuple(dict.fromkeys(Change(adjacency, change) for (_, adjacency), change in CHANGE_TYPES.items()))
"""Every adjacency with every change type that the package knows for it."""


def outputs(
    rows: Sequence[Sequence[float]], labels: int, change: Change, public: Sequence[float] | None = None
) -> ExpertOutputs:
    """Sealed outputs of experts that say these rows.

    The public row is that of ``PUBLIC``, or flat where there are other numbers of labels, unless another is given.
    """
    array = np.array(rows, dtype=np.float64).reshape(len(rows), labels)
    beside = PUBLIC.get(labels, (0.0,) * labels) if public is None else public
    return ExpertOutputs(array, change.change, change.adjacency, np.array(beside))


Rows = tuple[tuple[float, ...], ...]


def random_rows(dice: Randomness, *, sharp: bool) -> tuple[Rows, tuple[float, ...]]:
    """What experts say of two to five labels, and the public row: ties, long leads and crowds among them, of both.

    Experts say one of a few rows, some of which are others turned round; one in ten says nothing. Mostly there are
    twelve at most, else up to forty.

    Args:
        dice: Chooses them.
        sharp: Whether they are mostly certain, for prices at which a short lead cannot be seen.
    """
    labels, experts = 2 + dice.below(4), dice.below((13, 13, 13, 41)[dice.below(4)])
    scale = (60.0, 60.0, 60.0 if sharp else 0.3, 3.0 if sharp else 0.03)[dice.below(4)]

    def drawn_row(scale: float) -> tuple[float, ...]:
        return tuple(-scale * dice.below(1001) / 1000 for _ in range(labels))

    distinct = [drawn_row(scale) for _ in range(1 + dice.below(3))]
    distinct += [row[::-1] for row in distinct if dice.below(2)]
    if scale > 50 and dice.below(2):
        distinct.append((-INF,) * (labels - 1) + (0.0,))
    null = (NAN,) * labels
    rows = tuple(null if dice.below(10) == 0 else distinct[dice.below(len(distinct))] for _ in range(experts))
    return rows, drawn_row((50.0, 0.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0)[dice.below(8)])


def groups_of_neighbours(labels: int, change: Change, most: int) -> Iterator[tuple[list[Rows], list[tuple[int, int]]]]:
    """Sets of worlds with the pairs among them that are neighbours, small worlds first.

    The rows that stay are every multiset of up to ``most``, then crowds of one opinion, where leads are long.
    """
    rows = ROWS[labels]
    crowds = [(row,) * size for row in rows[:3] for size in (5, 13)]
    for rest in [*_multisets(rows, most), *crowds]:
        yield _group(rest, rows, change)


def _group(rest: Rows, rows: Rows, change: Change) -> tuple[list[Rows], list[tuple[int, int]]]:
    """Worlds in which these experts stay, with the pairs of neighbours."""
    null = rows[-1]
    if change.change.widths == 1:
        worlds = [(*rest, row) for row in rows[:-1]]
        without = [rest, (*rest, null)] if change.adjacency is Adjacency.ADD_REMOVE else [(*rest, null)]
        return [*worlds, *without], [(i, len(worlds) + j) for i in range(len(worlds)) for j in range(len(without))]
    if change.change.rows == 1:
        worlds = [(*rest, row) for row in rows]
    else:
        worlds = [(*rest, *two) for two in itertools.combinations_with_replacement(rows[:2], change.change.rows)]
    return worlds, [(i, j) for i in range(len(worlds)) for j in range(i)]


def groups_of_pairs(labels: int, change: Change) -> Iterator[tuple[list[Rows], list[tuple[int, int]]]]:
    """Those of ``groups_of_neighbours`` with one expert beside those that change, which says one of three rows."""
    return itertools.islice(groups_of_neighbours(labels, change, 1), 1, 4)


def groups_in_crowds(labels: int, change: Change) -> Iterator[tuple[list[Rows], list[tuple[int, int]]]]:
    """Those with five experts of one opinion beside those that change, and with four of several opinions."""
    rows = ROWS[labels]
    for rest in ((rows[0],) * 5, (rows[1],) * 5, (*rows[:3], rows[0])):
        yield _group(rest, rows, change)


def groups_of_many(labels: int, change: Change) -> Iterator[tuple[list[Rows], list[tuple[int, int]]]]:
    """Sets of worlds of many labels, with the pairs among them that are neighbours: alone, and beside three experts."""
    rows = long_rows(labels)
    for rest in ((), rows[:1] * 3):
        yield _group(rest, rows, change)


def climbed(labels: int, change: Change) -> Iterator[list[Rows]]:
    """Crowds in which fewer and fewer experts are sure of the first label; neighbours in the list differ by one."""
    said, other, *_, null = ROWS[labels]
    swaps = change.change.widths > 1
    yield from ladders(said, other, null, swaps=swaps, comes=change.adjacency is Adjacency.ADD_REMOVE and not swaps)


def _multisets(rows: Rows, most: int) -> Iterator[Rows]:
    for size in range(most + 1):
        yield from itertools.combinations_with_replacement(rows, size)


# Data sets, and the road from them to experts' outputs

Unit = tuple[str, ...]
DataSet = tuple[Unit, ...]
"""Units, each the names of what its records say."""

SAYINGS: Final[Mapping[str, tuple[float, float]]] = {
    "no": (-50.0, 0.0),
    "yes": (0.0, -50.0),
    "maybe": (-0.3, -1.5),
    "nothing": (NAN, NAN),
}
LEANINGS: Final[Mapping[str, tuple[float, float]]] = {
    "no": (0.0, -40.0),
    "yes": (-40.0, 0.0),
    "maybe": (-0.1, -1.5),
    "nothing": (NAN, NAN),
}
"""What a record says to a question without content: sharp, and against what it says to others."""
FAILURES: Final = ("nothing", "never", "raises", "longer")
"""Ways in which a model can fail on one prompt: not a number, minus infinity, an exception, a row of another length."""

TASK: Final = Task(labels=["l0", "l1"])


@final
@dataclass(frozen=True)
class Road:
    """How records come to experts.

    Attributes:
        adjacency: The relation to be protected under.
        partition: How units are shared out.
        grouped: Whether a unit may have several records.
        calibrated: Whether each expert is calibrated by its own content-free answers.
    """

    adjacency: Adjacency
    partition: Partition
    grouped: bool = False
    calibrated: bool = False

    def __str__(self) -> str:
        partition = f"{self.partition.units_per_expert} units an expert"
        if self.partition.capacity:
            partition += f", {self.partition.capacity} slots"
        more = f"{', several records a unit' if self.grouped else ''}{', calibrated' if self.calibrated else ''}"
        return f"{self.adjacency.value}, {partition}{more}"


def roads(method: Method, *, calibrated: bool) -> list[Road]:
    """Every road that a method's records may take.

    Args:
        method: Whose.
        calibrated: Whether roads with contextual calibration are among them.
    """
    key = b"a key that is fixed, for tests..."[:32]
    result = []
    for adjacency in Adjacency:
        partitions = [Partition()]
        if not isinstance(method, Subsampling):
            capacities = [None] if adjacency.size_is_public else [3]
            partitions += [Partition(2, capacity, _key=key) for capacity in capacities]
            partitions += [Partition(1, 3, _key=key)] if not adjacency.size_is_public else []
        result += [Road(adjacency, partition) for partition in partitions]
        result.append(Road(adjacency, Partition(), grouped=True))
        result += [Road(adjacency, Partition(), calibrated=True)] if calibrated else []
    return result


def data_sets(
    road: Road, sayings: Sequence[str], most: int = 3
) -> Iterator[tuple[list[DataSet], list[tuple[int, int]]]]:
    """Data sets with the pairs among them that are neighbours under a road's adjacency, small ones first.

    Args:
        road: How records come to experts.
        sayings: What a record may say.
        most: Most units that stay as they are.
    """
    units: list[Unit] = [(name,) for name in sayings]
    if road.grouped:
        units += [(first, second) for first, second in itertools.product(sayings[:2], repeat=2)]
    rests: list[DataSet] = [(), *((unit,) for unit in units[:3]), ((sayings[0],),) * 3, ((sayings[1],),) * 3]
    if road.partition.units_per_expert > 1 and road.adjacency.size_is_public:
        # Who shares an expert is drawn: only where all others say the same is the law the same in every draw.
        rests = [(unit,) * size for unit in units[:2] for size in (1, 3)]
    for rest in (rest for rest in rests if len(rest) <= most):
        worlds: list[DataSet] = [(*rest, unit) for unit in units]
        if road.adjacency is Adjacency.REPLACE_ONE:
            yield worlds, [(i, j) for i in range(len(worlds)) for j in range(i)]
        elif road.adjacency is Adjacency.ZERO_OUT:
            blank: DataSet = (*rest, ("",))
            yield [*worlds, blank], [(i, len(worlds)) for i in range(len(worlds))]
        elif rest:
            yield [*worlds, rest], [(i, len(worlds)) for i in range(len(worlds))]


def records_of(data: DataSet, *, grouped: bool = False) -> PrivateRecords:
    """Sealed records. An empty name is a blank row."""
    rows: list[Row] = []
    for number, unit in enumerate(data):
        for name in unit:
            values: dict[str, object] = {"text": f"{SECRET}: {name}", "label": "l0"} if name else {}
            values |= {"group": f"g{number}"} if grouped else {"id": f"r{number}"}
            rows.append(Row(len(rows) + 1, values))
    return PrivateRecords(rows, source="a world", synthetic=True)


def says(task: Task, context: Sequence[Any], query: Query) -> Sequence[float]:
    """What an expert says: the sum of what its records say, whatever their order; the public row without any."""
    names = [example.fields["text"].rpartition(" ")[2] for example in context]
    if "raises" in names:
        raise RuntimeError("the model cannot read this prompt")
    if "longer" in names:
        return [0.0] * (len(task.labels) + 1)
    if "never" in names:
        return [-INF] * len(task.labels)
    if not names:
        return PUBLIC[2]
    said = LEANINGS if query["text"] in CONTENT_FREE else SAYINGS
    return [float(x) for x in np.sum([said[name] for name in names], axis=0)]


def road_outputs(method: Method, data: DataSet, road: Road, randomness: Randomness) -> ExpertOutputs:
    """Experts' sealed outputs for the question, by the package's own road."""
    records = records_of(data, grouped=road.grouped)
    records = records.with_public_size() if road.adjacency.size_is_public else records
    empty = TASK.content_free_queries() if road.calibrated else []
    public = FakeScorer(says).prepare(TASK, [()]).score([QUESTION, *empty])[:, 0]
    ensemble: Ensemble | SampledEnsemble
    if isinstance(method, Subsampling):
        ensemble = SampledEnsemble(
            records,
            TASK,
            FakeScorer(says),
            road.adjacency,
            sampling_probability=method.sampling_probability,
            subsamples=method.subsamples,
            randomness=randomness,
            max_records=road.partition.max_records,
            content_free=empty,
        )
    else:
        ensemble = Ensemble(records, TASK, FakeScorer(says), road.partition, road.adjacency, content_free=empty)
    return ensemble.ask([QUESTION], public)[0]


def seeded(seed: int) -> Randomness:
    """A repeatable source."""
    return SeededRandomness(seed)


def shown(data: DataSet) -> str:
    """A data set in words."""
    return "{" + ", ".join("+".join(name or "blank" for name in unit) for unit in data) + "}"


def shown_rows(rows: Rows, public: Sequence[float] | None = None) -> str:
    """Experts' rows in words, with the public row unless it is that of ``PUBLIC``."""
    said = "[" + counted((counted(f"{x:g}" for x in row) for row in rows), "; ") + "]"
    if public is None or tuple(public) == PUBLIC.get(len(public)):
        return said
    return f"{said} beside the public row ({counted(f'{x:g}' for x in public)})"
