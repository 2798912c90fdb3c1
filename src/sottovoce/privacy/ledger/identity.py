"""What a ledger knows of a data set: never its content."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords


@final
@dataclass(frozen=True)
class Identity:
    """A data set as its ledger is to find it.

    Attributes:
        fingerprint: Of the records and their units, whatever their order or file format.
        adjacency: The relation that the budget is kept in.
        unit: Who is protected.
        records: The sealed records, where they are at hand: single ones can then be recognised.
    """

    fingerprint: str
    adjacency: Adjacency
    unit: str
    records: PrivateRecords | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, records: PrivateRecords, adjacency: Adjacency) -> Identity:
        """The identity of sealed records."""
        return cls(records.fingerprint, adjacency, records.unit, records)

    def names(self) -> Iterator[str]:
        """The fingerprint, then those that earlier versions of this package knew the same records by."""
        if self.records is None:
            yield self.fingerprint
        else:
            yield from self.records.fingerprints()
