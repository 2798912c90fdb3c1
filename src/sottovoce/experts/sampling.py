"""Which units an expert that writes sees, for every question: all of them in a fixed partition, or a fresh sample.

Guarantee   ``ExpertSampling.change`` is what one change of the data does to the experts' outputs by table 2.2, and a
            sample is amplified by the row of section 7 that is valid for the adjacency, once for everything that is
            released from it. Every other pairing is refused with the reason and with what is allowed.
Assumes     The coins are secret, fresh for every question, and independent of what records say.
Sources     specification 2.2 (assignments), 7 (sampling), T10 to T12, 11 items 9, 10, 16 and 26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, final

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.experts.partition import Partition, shuffled
from sottovoce.parameters import COUNT, Number, OneOf, read_fields
from sottovoce.privacy.accounting.amplification import Sampling, SharedSample
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.unit import SWAP, Adjacency, Assignment, ChangeType, change_type
from sottovoce.randomness import Randomness

ALL: Final = "all"
WITHOUT_REPLACEMENT: Final = "without-replacement"
CATEGORICAL: Final = "categorical"
SAMPLINGS: Final = (ALL, WITHOUT_REPLACEMENT, CATEGORICAL)
CELLS: Final = "cells"
"""A coreset by the cells of a charged clustering (``experts.cells``); no sampling, and nothing is amplified."""
RATE: Final = Number(1e-6, 0.999_999, strict=True)
MOST_EXPERTS: Final = 100_000

_INSTEAD: Final = (
    "Use 'without-replacement' under replace-one, 'categorical' under add-remove or replace-one, or 'all', which is a "
    "fixed partition without amplification"
)
REFUSED: Final[Mapping[str, str]] = {
    "poisson": "a sample of fixed size has no independent coins, so that no Poisson accountant holds for it "
    "(specification 11, item 9)",
    "disjoint": "disjoint samples from what is left have rates that depend on the records and on other coins "
    "(specification 7)",
    "shuffle": "a shuffle with a known seed has no secret coins: its rate is 1 (specification 7)",
    "retrieval": "a choice by likeness to the question reads the records' content: its rate is 1 (specification 7)",
    "stratified": "the sizes of strata by a private label reveal it: their rate is 1 (specification 7)",
    "k-means": "a coreset by k-means on private embeddings follows from every record, and no budget covers it; "
    "allowed are a coreset of public data, a random subset that looks at nothing (--experts), and centres by a "
    "charged private clustering (specification 5.7.2)",
}
"""Samplings that papers and users name, and why they have no guarantee here."""


@final
@dataclass(frozen=True)
class ExpertSampling:
    """How units come to experts that write. Every attribute is public.

    Attributes:
        shots: k, units that an expert sees; the most, where a slot is drawn or hashed.
        experts: m. Without it every unit is used: as many experts as that takes.
        sampling: ``all``: one partition for the whole run, of all units or of a random subset that looks at nothing.
            ``without-replacement``: for every question m times k of n units, replace-one alone. ``categorical``: for
            every question each unit comes into slot 1, ..., m with probability rate / m each, or into none.
            ``cells``: the units nearest to the middles of m released cells, placed by ``WrittenEnsemble.place``.
        rate: The chance that a unit is in a categorical sample.
        max_records: Most records of one unit that its expert sees; the first ones of that unit.
        cached: Whether answers of experts are kept and used again for another question.

    Raises:
        ParameterError: A number is out of range, or given where it means nothing.
        AssignmentError: The sampling has no guarantee at all, or its coins are not fresh.

    Example:
        >>> drawn = ExpertSampling(shots=4, experts=100, sampling="without-replacement")
        >>> drawn.change(Adjacency.REPLACE_ONE).name, drawn.rate_of(2600)
        ('swap', 0.15384615384615385)
    """

    shots: int = 1
    experts: int | None = None
    sampling: Annotated[str, OneOf((*SAMPLINGS, CELLS))] = ALL
    rate: float | None = None
    max_records: int = 16
    cached: bool = False

    def __post_init__(self) -> None:
        read_fields(self, shots=COUNT, max_records=COUNT)
        if self.experts is not None:
            read_fields(self, experts=Number(1, MOST_EXPERTS, whole=True, strict=True))
        if self.sampling in REFUSED:
            reason = REFUSED[str(self.sampling)]
            raise AssignmentError(f"The sampling {self.sampling!r} has no guarantee: {reason}. {_INSTEAD}.")
        OneOf((*SAMPLINGS, CELLS)).read("sampling", self.sampling)
        if self.sampling == CATEGORICAL:
            RATE.read("rate", self.rate)
        elif self.rate is not None:
            raise ParameterError("rate", self.rate, "absent: the sampling 'categorical' alone has one of its own")
        if self.sampling != ALL and self.experts is None:
            raise ParameterError("experts", None, f"given for the sampling {self.sampling!r}: its number of experts")
        if self.is_fresh and self.cached:
            raise AssignmentError(
                f"Answers that are kept from one question to the next share one sample, so that {self.sampling!r} "
                "amplifies nothing (specification 11, item 16). Use 'all', or keep no answers."
            )

    @property
    def is_fresh(self) -> bool:
        """Whether every question has a sample of its own, so that its release is amplified."""
        return self.sampling not in (ALL, CELLS)

    def change(self, adjacency: Adjacency) -> ChangeType:
        """How one change of the data can change the experts' outputs.

        Raises:
            AssignmentError: The combination has no guarantee.
        """
        if self.is_fresh:
            self.shared_sample(adjacency, None)
            return SWAP
        if self.sampling == CELLS:
            return change_type(Assignment.CONTENT, adjacency)
        return self._partition(adjacency).rule(adjacency)[1]

    def count(self, adjacency: Adjacency, units: int | None) -> int | None:
        """The number of experts, where it is public.

        Raises:
            ParameterError: There are fewer units than are needed, and their number is public.
        """
        if self.experts is None:
            return None if units is None else -(-units // self.shots)
        fits = units is None or self.sampling in (CATEGORICAL, CELLS) or self.experts * self.shots <= units
        if adjacency.size_is_public and not fits:
            most = (units or 0) // self.shots
            raise ParameterError("experts", self.experts, f"at most {most}: {units} units, {self.shots} an expert")
        return self.experts

    def rate_of(self, units: int | None) -> float | None:
        """The chance of a unit to be in the sample of one question; ``None`` where nothing is sampled, or every unit
        is in it: then nothing is amplified."""
        if self.sampling == CATEGORICAL:
            return self.rate
        size = (self.experts or 0) * self.shots
        return size / units if self.sampling == WITHOUT_REPLACEMENT and units and size < units else None

    def shared_sample(self, adjacency: Adjacency, units: int | None) -> SharedSample | None:
        """The sample of one question; ``None`` where no sample is drawn for it.

        Everything that is released from it is amplified together, once.

        Args:
            adjacency: What one change is.
            units: n, where it is public.

        Raises:
            AssignmentError: Section 7 has no such combination.
        """
        if self.sampling == WITHOUT_REPLACEMENT:
            size = (self.experts or 0) * self.shots
            return SharedSample(
                Sampling.WITHOUT_REPLACEMENT,
                adjacency,
                change=SWAP,
                grouped=self.shots > 1,
                size=size,
                population=size if units is None else units,
            )
        if self.sampling == CATEGORICAL:
            return SharedSample(Sampling.CATEGORICAL, adjacency, change=SWAP, grouped=True, rate=self.rate)
        return None

    def amplified(self, event: DpEvent, adjacency: Adjacency, units: int | None) -> DpEvent:
        """What a release costs whose sample is drawn so: the event itself where nothing is sampled."""
        sample = self.shared_sample(adjacency, units)
        if sample is None:
            return event
        sample.release(event)
        return sample.amplified()

    def fixed(self, ids: Sequence[str | None], adjacency: Adjacency, randomness: Randomness) -> list[list[int]]:
        """The partition of a whole run: for each expert the indices of its units.

        Raises:
            AssignmentError: The combination has no guarantee, or stable ids are needed and missing.
        """
        if self.experts is None or not adjacency.size_is_public:
            return [list(slot) for slot in self._partition(adjacency).assign(ids, adjacency).members]
        self.count(adjacency, len(ids))
        return self._groups(shuffled(len(ids), randomness))

    def drawn(self, units: int, randomness: Randomness) -> list[list[int]]:
        """A fresh sample for one question: for each expert the indices of its units. Private.

        A categorical slot that is drawn for more than k units keeps k of them, chosen uniformly: what a slot keeps
        follows from who is in it, so that one unit still changes one slot.
        """
        order = shuffled(units, randomness)
        if self.sampling == WITHOUT_REPLACEMENT:
            return self._groups(order)
        slots, rate = self.experts or 0, exact(self.rate or 0)
        members: list[list[int]] = [[] for _ in range(slots)]
        for unit in order:
            if randomness.below(rate.denominator) < rate.numerator:
                members[randomness.below(slots)].append(unit)
        return [slot[: self.shots] for slot in members]

    def _groups(self, order: Sequence[int]) -> list[list[int]]:
        """The first m times k of an order, k by k."""
        return [
            list(order[start : start + self.shots]) for start in range(0, (self.experts or 0) * self.shots, self.shots)
        ]

    def _partition(self, adjacency: Adjacency) -> Partition:
        capacity = None if adjacency.size_is_public else self.experts
        return Partition(self.shots, capacity, self.max_records)
