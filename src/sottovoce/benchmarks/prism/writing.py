"""Records without labels, for the experiments on structured generation and slot filling: drawn, written, and controls.

What stands in a record is free text here, so that nothing may be batched by it: there is one nameless kind of text. A
batch writes one text, and all batches write side by side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.benchmarks.harness.public_rows import benchmark_rows, published
from sottovoce.benchmarks.prism.demonstrations import RESERVED, writer_of
from sottovoce.errors import InputError, ParameterError
from sottovoce.generation import NO_LABEL, GenerationTemplate
from sottovoce.methods.decoding.decoder import Decoder
from sottovoce.models.grammar import Grammar
from sottovoce.models.stepper import Group, Prompt, Stepper
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import Row
from sottovoce.synthesis.config import SynthesisConfig

if TYPE_CHECKING:
    from torch import Tensor

FREE, GRAMMAR = "free", "grammar"
"""Whether a text may be anything, or only what keeps to the schema."""

Values = Mapping[str, Any]
"""What stands in a record: field to value."""


def writing_of(schema: Mapping[str, Any], option: str) -> GenerationTemplate:
    """How records of a schema are asked for: ``FREE`` takes any object, so that what is not valid can be counted.

    The two differ in what may be chosen alone: prompts and shown records are the same.
    """
    keep = option == GRAMMAR
    kind = f"Here are records of type {schema['title']}.\n"
    return GenerationTemplate(tuple(schema["properties"]), None, kind, "Record:", schema if keep else None, keep)


def valid_rows(schema: Mapping[str, Any], rows: Sequence[Values]) -> list[Values]:
    """The objects that meet a schema."""
    checked = GenerationTemplate(tuple(schema["properties"]), None, lead="Record:", schema=schema)
    return [row for row in rows if checked.read(json.dumps(row)) is not None]


def one_number(records: Sequence[int]) -> int:
    """The number of private records, where it is not varied.

    Raises:
        ParameterError: There are several.
    """
    if len(records) != 1:
        raise ParameterError("records", tuple(records), "one number: this experiment has one size")
    return records[0]


@final
@dataclass(frozen=True)
class Drawn:
    """What one seed drew.

    Attributes:
        records: That play private ones; the writer was not trained on them.
        questions: Test rows.
    """

    records: Sequence[Values]
    questions: Sequence[Values]


def rows_in(data: Path, folder: str, split: str, most: int | None = None) -> list[dict[str, Any]]:
    """The first rows of one file of the benchmark rows; all by default.

    Raises:
        InputError: It is not there, or holds somebody's private records.
    """
    try:
        return benchmark_rows(data / folder / f"{split}.jsonl.gz", most)
    except (FileNotFoundError, NotADirectoryError):
        missing = f"{folder}/{split}.jsonl.gz"
        raise InputError(f"The benchmark rows {missing!r} are not there. Name their folder with --data.") from None


def draw(
    data: Path, folder: str, seed: int, records: int, questions: int, keep: Callable[[Values], bool] | None = None
) -> Drawn:
    """Records of the reserved training rows, all or those to keep, and test rows, in random order.

    Raises:
        InputError: The rows are not there, or most of those that are drawn are somebody's private records.
        ParameterError: There are not so many records.
    """
    rng = np.random.default_rng(1000 + seed)
    test, train = rows_in(data, folder, "test"), rows_in(data, folder, "train", RESERVED)
    train = [row for row in train if keep is None or keep(row)]
    if not 0 < records <= len(train):
        raise ParameterError("records", records, f"one number up to {len(train)}")
    queries = [test[index] for index in rng.permutation(len(test))[:questions]]
    drawn = [train[index] for index in rng.permutation(len(train))[:records]]
    return Drawn(published(drawn, folder), published(queries, folder))


@final
@dataclass(frozen=True)
class Length:
    """How much is written.

    Attributes:
        texts: In one file, one from every batch.
        tokens: Most tokens of a text.
        inside: Room for a record in an expert's prompt, in tokens.
    """

    texts: int
    tokens: int
    inside: int


@final
@dataclass(frozen=True)
class File:
    """What was written.

    Attributes:
        rows: Those of the texts that can be read.
        tokens: Of all texts together.
    """

    rows: Sequence[Values]
    tokens: int


def written(
    stepper: Stepper,
    writing: GenerationTemplate,
    records: Sequence[Values],
    decoder: Decoder,
    epsilon: float,
    adjacency: Adjacency,
    length: Length,
    name: str,
) -> File:
    """One file of synthetic records."""
    rows = [Row(number, dict(values)) for number, values in enumerate(records, 1)]
    seed = f"{name} {epsilon:g} {adjacency.value} {decoder} {length} {len(rows)}"
    order = SynthesisConfig(
        per_label=length.texts,
        texts_per_batch=1,
        tokens=length.tokens,
        experts=max(1, len(rows) // length.texts),
        max_private_tokens=length.inside,
    )
    writer = writer_of(stepper, writing, rows, order, decoder, epsilon, adjacency, seed)
    rounds = list(writer.rounds())
    return File([row for part in rounds for row in part.rows], sum(part.tokens for part in rounds))


def without_guarantee(
    stepper: Stepper, writing: GenerationTemplate, shown: Sequence[Values | None], length: Length, seed: int
) -> File:
    """Controls: a text for each shown record, drawn from the model as it is; ``None`` for the public prompt alone."""
    opening = writing.opening(NO_LABEL)
    prompts = [Prompt(opening, writing.show(values) if values else "", writing.lead) for values in shown]
    grammar = Grammar(writing.schema, stepper) if writing.grammar and writing.schema else None
    rng = np.random.default_rng(60_000 + seed)
    texts = drawn_texts(stepper, prompts, length.tokens, length.inside, writing.ended, rng, grammar)
    read = [writing.read(text) for text, _ in texts]
    return File([row for row in read if row is not None], sum(tokens for _, tokens in texts))


def drawn_texts(
    stepper: Stepper,
    prompts: Sequence[Prompt],
    tokens: int,
    inside: int,
    ended: Callable[[str], bool],
    rng: np.random.Generator | None,
    grammar: Grammar | None = None,
) -> list[tuple[str, int]]:
    """A text and its number of tokens for each prompt, side by side; nobody is protected.

    Args:
        stepper: The model.
        prompts: Read as they are.
        tokens: Most tokens of a text.
        inside: Room for the inner part of a prompt.
        ended: Whether the rest of a text is not needed.
        rng: For tokens drawn at temperature 1; ``None`` for the likeliest each time.
        grammar: What may be chosen; ``None`` for anything.
    """
    sequences: list[list[int]] = [[] for _ in prompts]
    matchers, forbidden_tokens = [grammar.start() if grammar else None for _ in prompts], stepper.forbidden_tokens
    read = stepper.read([Group(prompt, ()) for prompt in prompts], max_private_tokens=inside, tokens=tokens)
    try:
        decoding = read.write(range(len(prompts)), tokens)
        waiting: dict[int, int | None] = dict.fromkeys(range(len(prompts)))
        while waiting:
            following: dict[int, int | None] = {}
            for step in decoding.step(waiting):
                its, matcher = sequences[step.text], matchers[step.text]
                logits = log_shares(step.public, forbidden_tokens)
                if matcher:
                    may = np.zeros(len(logits), dtype=bool)
                    may[matcher.allowed().numpy()] = True
                    logits = np.where(may, logits, -np.inf)
                if not np.isfinite(logits).any():
                    continue  # the grammar has come to a dead end
                token = int(np.argmax(logits if rng is None else logits + rng.gumbel(size=len(logits))))
                its.append(token)
                if matcher:
                    matcher.accept(token)
                over = token in stepper.eos_tokens or len(its) == tokens or bool(matcher and matcher.over)
                if not over and not ended(text_of(stepper, its)):
                    following[step.text] = token
            waiting = following
        decoding.close()
    finally:
        read.close()
    return [(text_of(stepper, its), len(its)) for its in sequences]


def log_shares(logits: Tensor, forbidden_tokens: Sequence[int]) -> NDArray[np.float64]:
    """Log-probabilities of the next token among those that a text may hold, shape (vocabulary,)."""
    kept = logits.double()
    kept[list(forbidden_tokens)] = -np.inf
    return np.asarray(kept.log_softmax(dim=0).cpu().numpy())


def text_of(stepper: Stepper, tokens: Sequence[int]) -> str:
    """The text of some tokens, without the end."""
    return stepper.decode([token for token in tokens if token not in stepper.eos_tokens])


WORD: Final = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Its words in lower case, without signs."""
    return WORD.findall(text.lower())


def occurs(phrase: str, text: str) -> bool:
    """Whether the words of a phrase stand in a text one after another."""
    phrase_words, text_words = words_of(phrase), words_of(text)
    return bool(phrase_words) and any(
        text_words[at : at + len(phrase_words)] == phrase_words for at in range(len(text_words))
    )
