"""Public texts that a model writes: candidates before anything is charged, and variations of texts that were released.

A writer sees labels, templates, texts that ship with the package and texts that were released, and no private record.
The same prompts give the same texts on the same machine: a run that is resumed has the candidates that it began with.

Guarantee   None is needed: a text is a function of public facts and of releases, which is post-processing.
Sources     Xie et al. (2024, arXiv:2403.01749) for the two ways of asking; specification 5.15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, final

import numpy as np

from sottovoce.errors import ModelError, SottoError
from sottovoce.generation import GenerationTemplate
from sottovoce.models.failures import is_models
from sottovoce.models.stepper import Group, Prompt, Stepper
from sottovoce.privacy.checks import canonical
from sottovoce.randomness import Randomness, SeededRandomness
from sottovoce.tasks import Example, Query, Task

if TYPE_CHECKING:
    from torch import Tensor

MOST_CANDIDATES: Final = 10_000
"""Most texts that are written before a fit."""
CANDIDATE_TOKENS: Final = 48
"""Most tokens of each of them."""
LONGEST: Final = 4096
"""Bytes of the longest text that is written, as JSON; a longer one is left out."""
TOGETHER: Final = 32
"""Texts that are written side by side."""
SHOWN_CHARACTERS: Final = 400
"""So much of a text is shown, a field."""
KEPT: Final = 0.4
"""Share of a text's words that every other variation begins with."""
LIKELIEST: Final = 40
"""Tokens that one is drawn from."""
TRIES: Final = 2
"""Texts are asked for so many times as often as they are needed: some come twice or cannot be read."""


class VariationWriter(Protocol):
    """What writes variations of public texts. A text that it does not write is missing, and no error."""

    def variations(self, shown: Sequence[Example], each: int, tokens: int, turn: int) -> Sequence[Query]:
        """Variations of texts that were released.

        Args:
            shown: The texts, with the label that each was chosen for.
            each: Variations of a text that are asked for.
            tokens: Most tokens of one.
            turn: How often was asked before, so that the same texts are varied otherwise.
        """


@final
@dataclass(frozen=True)
class ModelWriter:
    """A writer that asks a model, at a fixed seed.

    Attributes:
        task: Labels and fields.
        model: That writes token by token.

    Example:
        >>> from sottovoce.models.fake import FakeStepper
        >>> writer = ModelWriter(Task(labels=["fee", "theft"]), FakeStepper())
        >>> len(writer.variations([Example({"text": "a fee was charged"}, 0)], each=2, tokens=8, turn=0)) <= 2
        True
    """

    task: Task
    model: Stepper

    def candidates(self, count: int) -> list[Query]:
        """Texts from the public prompt: as many as were written, each once, and at most ``count``.

        Every label is asked for in turn. Every other text begins as one that ships with the package does, for variety.

        Raises:
            ModelError: The model failed, or wrote nothing that can be used.
        """
        template, labels = self._template, self.task.labels
        openings = [*_openings()] if not template.structured else [""]
        prompts = [
            (template.opening(labels[number % len(labels)]), openings[number * 7919 % len(openings)] * (number % 2))
            for number in range(TRIES * count)
        ]
        found: list[Query] = []
        chance = SeededRandomness(0)
        with self._refused():
            for part in _parts(prompts):
                found = once([*found, *self._texts(part, CANDIDATE_TOKENS, chance)])
                if len(found) >= count:
                    break
        if not found:
            raise ModelError(
                f"The model {self.model.name} wrote no text that can be used. Nothing was charged. Name another one "
                "with --writer, or give texts with --public."
            )
        return found[:count]

    def rehearse(self, texts: Sequence[Query]) -> None:
        """Writes a little after each of some public texts, and keeps nothing of it.

        Raises:
            ModelError: The model failed.
        """
        with self._refused():
            for text in texts:
                list(self._texts([(self._before(Example(text, 0)), "")], 2, SeededRandomness(0)))

    def variations(self, shown: Sequence[Example], each: int, tokens: int, turn: int) -> list[Query]:
        """Variations of texts that were released; what the model fails to write is missing."""
        template = self._template
        prompts = [
            (
                self._before(example),
                "" if template.structured or number % 2 == 0 else _beginning(example.fields[template.fields[0]]),
            )
            for example in shown
            for number in range(each)
        ]
        written: list[Query] = []
        chance = SeededRandomness(1 + turn)
        for part in _parts(prompts):
            try:
                written += self._texts(part, tokens, chance)
            except BaseException as error:  # behind the draw, where nothing may fail
                if not is_models(error):
                    raise
        return once(written)

    def _before(self, shown: Example) -> str:
        """What stands before a variation: the label's opening, and the text."""
        template = self._template
        cut = {name: text[:SHOWN_CHARACTERS] for name, text in shown.fields.items()}
        return template.opening(self.task.labels[shown.label]) + template.show(cut)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Before anything is charged a failure is said."""
        try:
            yield
        except SottoError:
            raise
        except BaseException as error:
            if not is_models(error):
                raise
            raise ModelError(
                f"The model {self.model.name} failed as it wrote public texts ({type(error).__name__}). Nothing was "
                "charged. Name another one with --writer."
            ) from error

    @property
    def _template(self) -> GenerationTemplate:
        return GenerationTemplate.of(self.task)

    def _texts(self, prompts: Sequence[tuple[str, str]], tokens: int, chance: Randomness) -> Iterator[Query]:
        """What can be read of the texts that follow public openings, each with the words that it begins with."""
        lead = self._template.lead
        groups = [
            Group(Prompt(f"{before}{lead}{f' {begun}' if begun else ''}", "", ""), ()) for before, begun in prompts
        ]
        for (_, begun), text in zip(prompts, self._written(groups, tokens, chance), strict=True):
            if not self.model.decode(text).strip():  # the words that it was given are not its own
                continue
            values = self._template.read(self.model.decode([*self.model.encode(begun), *text]))
            if values is not None and len(canonical(values)) <= LONGEST:
                yield {name: str(value) for name, value in values.items()}

    def _written(self, groups: Sequence[Group], tokens: int, chance: Randomness) -> list[list[int]]:
        """Tokens of texts that are written side by side, each until its end, its line's end or its last token."""
        model, template = self.model, self._template
        texts: list[list[int]] = [[] for _ in groups]
        read = model.read(groups, max_private_tokens=1, tokens=tokens)
        try:
            decoding = read.write(range(len(groups)), tokens)
            try:
                going: dict[int, int | None] = dict.fromkeys(range(len(groups)))
                while going:
                    for step in list(decoding.step(going)):
                        token = self._drawn(step.public, chance)
                        if token in model.eos_tokens:
                            del going[step.text]
                            continue
                        texts[step.text].append(token)
                        going[step.text] = token
                        if len(texts[step.text]) >= tokens or template.ended(model.decode(texts[step.text])):
                            del going[step.text]
            finally:
                decoding.close()
        finally:
            read.close()
        return texts

    def _drawn(self, logits: Tensor, chance: Randomness) -> int:
        """A token by the model's own probabilities among the likeliest."""
        row = logits.detach().cpu().numpy().astype(np.float64)
        row[list(self.model.forbidden_tokens)] = -np.inf
        row[np.isnan(row)] = -np.inf
        best = np.argsort(-row, kind="stable")[:LIKELIEST]
        weights = np.exp(row[best] - row[best[0]])
        place = np.searchsorted(np.cumsum(weights / weights.sum()), chance.below(1 << 53) / (1 << 53), side="right")
        return int(best[min(int(place), len(best) - 1)])


def _parts(prompts: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    """Prompts whose texts are written side by side."""
    return (prompts[start : start + TOGETHER] for start in range(0, len(prompts), TOGETHER))


def _openings() -> Iterator[str]:
    """First words of texts that ship with the package."""
    from sottovoce.data.bundled import public_pool

    for row in public_pool():
        yield " ".join(str(row.values["text"]).split()[:2])


def _beginning(text: str) -> str:
    """The first words of a text, for the model to go on from."""
    words = text[:SHOWN_CHARACTERS].split()
    return " ".join(words[: max(1, round(KEPT * len(words)))])


def once(texts: Iterable[Query]) -> list[Query]:
    """Texts without repetitions; the first one of equals stays."""
    first: dict[str, Query] = {}
    for text in texts:
        first.setdefault(canonical(dict(text)), text)
    return list(first.values())
