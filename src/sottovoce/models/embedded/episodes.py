"""Random in-context tasks from embedded public corpora, for fitting a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor

FEWEST: Final = 5
"""Rows of a label that may be part of a task."""


@final
@dataclass(frozen=True, eq=False)
class Material:
    """Everything embedded: for each corpus the rows of each label, train and held out, and its labels' names."""

    train: dict[str, list[Tensor]]
    held_out: dict[str, list[Tensor]]
    names: dict[str, Tensor]
    made_up: Tensor
    strings: tuple[Tensor, Tensor]


Episode = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Names, examples, owners, questions, targets."""


@final
class Episodes:
    """Draws random tasks with examples and questions from embedded corpora.

    Args:
        material: What the corpora share.
        rows: Rows of each label, by corpus.
        corpora: Names of those that tasks are drawn from.
        rng: A seeded generator of numpy.
    """

    def __init__(self, material: Material, rows: Mapping[str, list[Tensor]], corpora: Sequence[str], rng: Any) -> None:
        self.material, self.rows, self.corpora = material, rows, corpora
        self.rng = rng

    def draw(
        self,
        *,
        batch: int = 24,
        questions: int = 6,
        shots: int | None = None,
        made_up: float = 0.5,
        strings: float = 0.12,
    ) -> Episode:
        """One corpus, ``batch`` tasks with the same number of labels and examples.

        Args:
            batch: Number of tasks.
            questions: Questions a task.
            shots: Examples a task; ``None`` for a random number, mostly one.
            made_up: Chance that the labels have made-up names.
            strings: Chance that some examples and questions are random strings, as canaries are.
        """
        rng = self.rng
        corpus = self.corpora[int(rng.integers(len(self.corpora)))]
        groups = self.rows[corpus]
        usable = [label for label, group in enumerate(groups) if len(group) >= FEWEST]
        labels = int(rng.integers(2, min(len(usable), 10) + 1))
        shots = int(rng.choice([0, 1, 1, 1, 1, 2, 3, 4, 8, 16, 25])) if shots is None else shots
        renamed, planted = rng.random() < made_up, shots > 0 and rng.random() < strings
        drawn = [self._task(groups, usable, labels, shots, questions, corpus, renamed, planted) for _ in range(batch)]
        names, examples, owners, asked, targets = (torch.stack(part) for part in zip(*drawn, strict=True))
        return names, examples, owners, asked, targets

    def _task(
        self,
        groups: list[Tensor],
        usable: list[int],
        labels: int,
        shots: int,
        questions: int,
        corpus: str,
        renamed: bool,
        planted: bool,
    ) -> Episode:
        rng = self.rng
        chosen = rng.choice(usable, labels, replace=False)
        names = (
            self.material.made_up[rng.choice(len(self.material.made_up), labels, replace=False)]
            if renamed
            else self.material.names[corpus][chosen]
        )
        owners = rng.integers(labels, size=shots)
        targets = rng.integers(labels, size=questions)
        if shots:  # half of the questions share a label with an example, so that one example is worth reading
            hit = rng.random(questions) < 0.5
            targets = np.where(hit, owners[rng.integers(shots, size=questions)], targets)
        examples = [self._row(groups[chosen[label]]) for label in owners]
        asked = [self._row(groups[chosen[label]]) for label in targets]
        if planted:
            bank = self.material.strings[rng.integers(2)]
            drawn = bank[rng.choice(len(bank), shots + questions, replace=False)]
            examples = [drawn[i] if i == 0 or rng.random() < 0.5 else row for i, row in enumerate(examples)]
            for j in range(questions):
                same = rng.random() < 0.6
                asked[j] = drawn[0] if same else drawn[shots + j]
                targets[j] = owners[0] if same else rng.integers(labels)
        width = names.shape[1]
        seen = torch.stack(examples) if shots else torch.zeros(0, width)
        return names, seen, torch.from_numpy(owners), torch.stack(asked), torch.from_numpy(targets)

    def _row(self, group: Tensor) -> Tensor:
        return group[int(self.rng.integers(len(group)))]
