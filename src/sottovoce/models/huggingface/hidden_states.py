"""Hidden states of a causal language model as vectors of texts: ``hf:NAME_OR_PATH,layer=N``.

The bare text of a record is read behind a start token, in one pass of its own, cut off behind a public number of
tokens. Its vector is the mean of a layer's numbers over the text's tokens, or its numbers at the last one, off a public
mean and of length one (``TextVectors``). The start token has no part in the mean: models put numbers there that are
many times larger than everything else and say nothing of the text.

Isolation   By construction: no pass holds two texts, nothing is padded, and no cache is kept. ``isolation`` compares
            bits of public texts before and behind another one all the same, and ``self_test`` more of them.
Sources     specification 1.2, 5.13, 9.6 (i); Skean et al. (2025, arXiv:2502.02013) for layers below the last.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, cast, final

import numpy as np
import torch

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.base import (
    Context,
    FloatArray,
    Isolation,
    LabelScorer,
    PreparedContexts,
    require_text,
    run_settings_of,
)
from sottovoce.models.huggingface.causal_model import CausalModel, quiet
from sottovoce.models.huggingface.engine import Engine
from sottovoce.models.huggingface.prompts import Piece, PromptWriter, any_start, leading_tokens
from sottovoce.models.huggingface.selftest import SelfTestCheck, SelfTestReport, run_self_test
from sottovoce.models.text_vectors import TextVectors, centre_rule, unit
from sottovoce.parameters import Number, OneOf
from sottovoce.tasks import Query, Task

POOLINGS: Final = ("mean", "last")
TOKENS: Final = 512
"""Tokens of a text that are read, unless another number is given."""
AUTO: Final = "auto"
DEPTH: Final = 2 / 3
"""Where the layer lies that is read, unless another one is given: so far up."""
_TASK: Final = Task(labels=["yes", "no"], name="vectors")
_NAMED: Final = re.compile(r"^(?P<path>.+?)(?P<options>(?:,(?:layer|pooling|tokens)=[^,]*)*)$", re.DOTALL)
_TEXTS: Final = (
    "Seven boats came home before the storm, and one did not; the harbour lamps stayed lit until morning.",
    "Blue.",
    "A lamp and three more of them.",
)


def read_name(name: str) -> tuple[str, dict[str, str]]:
    """A folder or a name on the hub, and the options that follow it.

    Raises:
        ParameterError: An option is given twice.

    Example:
        >>> read_name("Qwen/Qwen3-4B,layer=24,pooling=last")
        ('Qwen/Qwen3-4B', {'layer': '24', 'pooling': 'last'})
    """
    match = _NAMED.match(name)
    if match is None:
        return name, {}
    options: dict[str, str] = {}
    for part in match["options"].split(",")[1:]:
        option, _, value = part.partition("=")
        if option in options:
            raise ParameterError("model", f"hf:{name}", f"given {option}= once")
        options[option] = value
    return match["path"], options


@final
class HiddenStates:
    """A causal language model that embeds texts, and scores labels as it does without.

    Args:
        scorer: The model as a label scorer.
        engine: How it is run.
        path: The folder or the name on the hub.
        digest: Gives a hash of everything that the model is made of.
        reopened: The model's options, by which another process opens it; ``None`` where it is in memory alone.
        layer: From 1 to the number of layers; by default, or for ``auto``, two thirds of the way up.
        pooling: ``mean`` over the text's tokens, or the ``last`` one.
        tokens: How many tokens of a text are read at most; by default 512, or as many as the model can read.

    Attributes:
        name: ``hf:``, the path, and what is read.
        layer: The layer.
        layers: How many there are.

    Raises:
        ParameterError: There is no such layer or pooling, or the model cannot read so many tokens.
        ModelError: The model gives no hidden states, or its chat template cannot be used.
    """

    reads = "texts"

    def __init__(
        self,
        scorer: LabelScorer,
        engine: Engine[CausalModel],
        path: str,
        digest: Callable[[], str],
        reopened: Mapping[str, Any] | None = None,
        *,
        layer: int | str | None = None,
        pooling: str = "mean",
        tokens: int | str | None = None,
    ) -> None:
        self._scorer, self._engine, self._model, self._digest = scorer, engine, engine.model, digest
        self._reopened = reopened
        self._writer = PromptWriter(self._model.tokenizer, _TASK)
        self._start = leading_tokens(self._model.tokenizer) or (any_start(self._model.tokenizer),)
        self.pooling = OneOf(POOLINGS).read("pooling", pooling)
        self.layers = len(self._states([*self._start, *self._start])) - 1
        usual = max(1, round(DEPTH * self.layers))
        self.layer = int(Number(1, self.layers, whole=True).read("layer", usual if layer in (None, AUTO) else layer))
        room = None if self._model.limit is None else self._model.limit - len(self._start)
        most = Number(1, whole=True) if room is None else Number(1, room, whole=True)
        usual = TOKENS if room is None else min(TOKENS, room)
        self.tokens = int(most.read("tokens", usual if tokens is None else tokens))
        self.name = f"hf:{path},layer={self.layer},pooling={self.pooling},tokens={self.tokens}"
        self._vectors = TextVectors(self.name, self._width, self._read)

    def __repr__(self) -> str:
        return f"HiddenStates({self.name!r})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self._reopened is None:
            raise ModelError(f"The model {self.name!r} is in memory and cannot be opened in another process.")
        return _reopen, (self.name, dict(self._reopened))

    @cached_property
    def embedding(self) -> str:
        """SHA-256 over the model's files, its dtype, the layer, the pooling, the tokens and the public mean."""
        read = f"{self._model.dtype} {self.layer} {self.pooling} {self.tokens}"
        rule = f"hidden states 2: {self._digest()} {read} {centre_rule()}"
        return hashlib.sha256(rule.encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._vectors.dimension

    @property
    def isolation(self) -> Isolation:
        """By construction, unless bits of public texts, or the scores of labels, say otherwise."""
        return self._vectors.isolation if self._scorer.isolation.holds else self._scorer.isolation

    @property
    def run_settings(self) -> dict[str, Any]:
        """Those of the label scorer; ``embedding`` tells the vectors from any others."""
        return {**run_settings_of(self._scorer)}

    def prepare(self, task: Task, contexts: Sequence[Context]) -> PreparedContexts:
        """Reads demonstrations, as the label scorer does."""
        return self._scorer.prepare(task, contexts)

    def embed_records(self, task: Task, records: Sequence[Query]) -> FloatArray:
        """Private texts as unit vectors, shape (records, dimension), float64.

        A record that is blank, or cannot be kept apart from control tokens, or whose numbers are not finite, has NaN in
        its row; a longer one than ``tokens`` is cut off there.

        Raises:
            ModelError: The device ran out of memory.
        """
        require_text(task, self.name)
        with self._engine.lock:
            return self._vectors.of([task.text_of(record) for record in records])

    def embed_questions(self, task: Task, queries: Sequence[Query]) -> FloatArray:
        """Public texts likewise."""
        return self.embed_records(task, queries)

    def self_test(self, *, quick: bool = False, told: Callable[[str], None] | None = None) -> SelfTestReport:
        """The label scorer's checks, and those of the vectors: equal to a plain pass, in every bit the same whatever
        other texts are read, finite and of length one.

        Args:
            quick: Of the label scorer's checks, those of the layout in use alone.
            told: Is given a line before each check.
        """
        with self._engine.lock:
            if told is not None:
                told("embedding texts: comparing with a plain forward pass, and with other texts beside")
            checks = (self._equals_plain(), self._isolated(), self._finite())
            return SelfTestReport((*run_self_test(self._engine, quick=quick, told=told).checks, *checks))

    @cached_property
    def _width(self) -> int:
        return int(self._states([*self._start, *self._start])[self.layer].shape[-1])

    def _read(self, text: str) -> FloatArray:
        """The vector of one text, float64.

        Raises:
            ValueError: It is blank, cannot be kept apart from control tokens, or holds a token that the model lacks.
        """
        return self.pooled_states(text, [self.layer], (self.pooling,))[0]

    def pooled_states(self, text: str, layers: Sequence[int], poolings: Sequence[str] = POOLINGS) -> list[FloatArray]:
        """What one pass over a text gives at several layers, each pooled in several ways; layers outermost.

        Raises:
            ValueError: It is blank, cannot be kept apart from control tokens, or holds a token that the model lacks.
        """
        ids = self._ids(text)
        with quiet():
            states = self._states([*self._start, *ids])
        rows = [np.asarray(states[layer][0, len(self._start) :].double().cpu().numpy()) for layer in layers]
        return [cast(FloatArray, row.mean(axis=0) if how == "mean" else row[-1]) for row in rows for how in poolings]

    def _ids(self, text: str) -> Sequence[int]:
        valid = text.encode("utf-8", "replace").decode("utf-8")
        ids = (self._writer.encode([Piece(valid, trusted=False)], first=True) or ())[: self.tokens]
        if not text.strip() or not ids or max(ids) >= self._model.words:
            raise ValueError("a text that cannot be read")
        return ids

    def _states(self, ids: Sequence[int]) -> Sequence[torch.Tensor]:
        """What every layer gives at every token, the embeddings first: each of shape (1, tokens, width)."""
        with self._model.no_gradient():
            inputs = torch.tensor([list(ids)], device=self._model.device)
            found = self._model.body(input_ids=inputs, use_cache=False, output_hidden_states=True)
        states = getattr(found, "hidden_states", None)
        if states is None or len(states) < 2:
            raise ModelError("The model gives no hidden states, so it cannot embed texts.")
        return cast(Sequence[torch.Tensor], states)

    # What it does on this machine, on public texts

    def _equals_plain(self) -> SelfTestCheck:
        """Against the whole model's own forward pass with a mask."""
        gap = 0.0
        for text in _TEXTS:
            ids = [*self._start, *self._ids(text)]
            with self._model.no_gradient(), quiet():
                inputs = torch.tensor([ids], device=self._model.device)
                found = self._model.model(
                    input_ids=inputs, attention_mask=torch.ones_like(inputs), output_hidden_states=True
                )
            states = found.hidden_states[self.layer][0].double().cpu()[len(self._start) :]
            plain = unit((states.mean(dim=0) if self.pooling == "mean" else states[-1]).numpy())
            gap = max(gap, float(np.abs(plain - unit(self._read(text))).max()))
        allowed = 1e-4 if self._model.dtype == torch.float32 else 5e-2
        wording = f"Vectors differ from the model's own plain pass by {gap:.1e} at most; {allowed:.0e} allowed."
        return SelfTestCheck("hidden states, plain forward pass", gap <= allowed, gap, None, wording)

    def _isolated(self) -> SelfTestCheck:
        long = "The road went on and on. " * (self.tokens // 4 + 1)
        alone = self._vectors.of(_TEXTS[:1])
        worlds = ([*_TEXTS], [*_TEXTS[::-1]], [long, "", _TEXTS[0]], [_TEXTS[0]] * 3)
        rows = [self._vectors.of(world)[world.index(_TEXTS[0])] for world in worlds]
        equal = all(row.tobytes() == alone[0].tobytes() for row in rows)
        gap = max(float(np.abs(row - alone[0]).max()) for row in rows)
        wording = "A text's vector is equal in every bit whatever other texts are read."
        if not equal:
            wording = f"A text's vector changes by up to {gap:.1e} with other texts: no formal guarantee."
        return SelfTestCheck("hidden states, isolation", equal, gap, equal, wording)

    def _finite(self) -> SelfTestCheck:
        lengths = np.linalg.norm(self._vectors.of(_TEXTS), axis=1)
        gap = float(np.abs(lengths - 1).max())
        fine = bool(np.isfinite(gap)) and gap < 1e-9
        wording = "Vectors of made-up texts are finite and of length one."
        return SelfTestCheck(
            "hidden states, finite numbers", fine, gap, None, wording if fine else wording.replace("are", "are not", 1)
        )


def _reopen(name: str, options: Mapping[str, Any]) -> LabelScorer:
    from sottovoce.models.registry import load_scorer

    return load_scorer(name, **options)
