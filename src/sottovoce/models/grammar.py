"""A grammar made from a JSON schema: which tokens may come next, so that a text is an object that keeps to it.

Guarantee   It costs nothing. The tokens allowed next are a function of the schema, of the model's vocabulary and of the
            text's tokens so far. The first two are public and the last are released, paid for one by one, so they are
            a public candidate set like any other; no private prompt and no private score is ever looked at here.
Assumes     The bytes of a text are those of its tokens, one after another, but for a blank at its beginning
            (``Stepper.token_bytes``). What was written is validated all the same.
Form        One line, separated as ``json.dumps`` does it, properties in the schema's order; a blank may stand before
            it and line breaks behind it. Keywords that cannot be kept to are refused, not left out.
Dead ends   A vocabulary may lack what a schema asks for, such as capitals. Where it has every byte there is none; where
            it has not, every literal of the schema is held against it, and some texts are walked through.
Sources     specification 5.11 (public candidates); llguidance, which computes the masks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from sottovoce.errors import MissingExtraError, ModelError, ParameterError
from sottovoce.models.stepper import Stepper
from sottovoce.records.sealed import Opaque

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from torch import Tensor

WALKS: Final = 24
STEPS: Final = 96
_FORM: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_BYTES: Final = frozenset(range(0x20, 0xF5)) - {0x7F, 0xC0, 0xC1}
"""All that a line of JSON may be made of."""
_CLOSING: Final = frozenset(b'"}], :0123456789')
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords that hold schemas by name."""
_VALUES: Final = ("enum", "const", "required", "examples", "default")


@final
class Grammar:
    """A schema in the tokens of one model, compiled and tried out once.

    Args:
        schema: JSON schema of an object; public.
        model: That writes.

    Raises:
        ParameterError: The schema asks for something else than an object, or for what no grammar can be made of.
        ModelError: The model has no tokens for what the schema asks for.
        MissingExtraError: llguidance is not installed.

    Example:
        >>> from sottovoce.models.fake import FakeStepper
        >>> model = FakeStepper(pieces=['{"', "yes", "no", '": ', "1", "2", "}"])
        >>> schema = {"properties": {"no": {"enum": [2]}}, "required": ["no"], "additionalProperties": False}
        >>> text = Grammar(schema, model).start()
        >>> for token in model.encode('{"no": 2'):
        ...     text.accept(token)
        >>> [model.decode([token]) for token in text.allowed().tolist()], text.over
        (['}'], False)
    """

    def __init__(self, schema: Mapping[str, Any], model: Stepper) -> None:
        try:
            import llguidance
        except ModuleNotFoundError:
            raise MissingExtraError("llguidance", "schema") from None
        self._schema, self._model = _of_object(schema), model
        silent = {*model.eos_tokens, *model.forbidden_tokens}
        # What has no bytes is never allowed: no unwritable token, and no end but where ``Matcher`` says so.
        self._tokens = [b"" if token in silent else bytes(its) for token, its in enumerate(model.token_bytes())]
        # Without "no_forcing" a text would have to be cut into tokens as the tokenizer itself would do it.
        rules = json.dumps({**self._schema, "x-guidance": _FORM})
        lark = f'%llguidance {{"no_forcing": true}}\nstart: " "? object "\\n"*\nobject: %json {rules}\n'
        limits = llguidance.LLParserLimits(verbose_errors=False)
        self._first = llguidance.LLMatcher(
            llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Words(self._tokens)), slices=_slices()),
            lark,
            log_level=0,
            limits=limits,
        )
        if self._first.is_error():
            reason = self._first.get_error().strip().partition("\n")[0].rpartition("JSON schema: ")[2][:200]
            raise ParameterError("schema", "the file given", f"one that a grammar can be made of, but: {reason}")
        self._try_out()

    def start(self) -> Matcher:
        """For a new text."""
        return Matcher(self._first.deep_copy(), self._model.vocabulary, self._model.eos_tokens)

    # Whether the model can write what the schema asks for

    def _try_out(self) -> None:
        singles = {token[0] for token in self._different if len(token) == 1}
        if singles >= _BYTES:
            return
        for literal in dict.fromkeys(_literals(self._schema)):
            if not self._can_write(literal.encode("utf-8")):
                raise ModelError(
                    f"The model {self._model.name} has no tokens for {literal.strip()}, which the schema asks for. "
                    "Rename it in what this model can write, such as lower case, or use another model."
                )
        for walk in range(WALKS):
            self._walk(walk)

    def _walk(self, number: int) -> None:
        """Writes a text of tokens that are picked by number, half of them such as may bring it to its end."""
        text, tokens = self.start(), list[int]()
        for step in range(STEPS):
            allowed = text.allowed().numpy()
            if not len(allowed):
                raise ModelError(
                    f"The model {self._model.name} cannot write objects of this schema: none of its tokens may follow "
                    f"{self._model.decode(tokens)[-80:]!r}."
                )
            picked = int.from_bytes(hashlib.sha256(f"{number} {step}".encode("ascii")).digest()[:8], "big")
            closing = allowed[self._closing[allowed]]
            choices = closing if len(closing) and picked % 2 else allowed
            tokens.append(int(choices[picked // 2 % len(choices)]))
            text.accept(tokens[-1])
            if text.over:
                return

    @cached_property
    def _closing(self) -> Any:
        """Which tokens may bring a text to its end."""
        return np.array([_CLOSING.issuperset(token) for token in self._tokens])

    @cached_property
    def _different(self) -> frozenset[bytes]:
        return frozenset(self._tokens) - {b""}

    @cached_property
    def _edges(self) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """Beginnings and ends of all tokens."""
        whole = self._different
        cut = [(token[:at], token[at:]) for token in whole for at in range(1, len(token))]
        return whole | {first for first, _ in cut}, whole | {last for _, last in cut}

    def _can_write(self, literal: bytes) -> bool:
        """Whether some tokens in a row hold a literal; the first and the last of them may reach beyond it."""
        begins, finishes = self._edges
        length = len(literal)
        reached = {0} | {at for at in range(1, length + 1) if literal[:at] in finishes}
        for at in range(length):
            if at in reached:
                reached |= {end for end in range(at + 1, length + 1) if literal[at:end] in self._different}
                if literal[at:] in begins:
                    return True
        return length in reached or any(literal in token for token in self._different)


@final
class Matcher(Opaque):
    """The state of one text, which follows from its tokens alone and is as private as they are until they leave.

    Attributes:
        over: Whether the object is complete. Nothing but its end can follow.
    """

    def __init__(self, matcher: LLMatcher, vocabulary: int, eos_tokens: Sequence[int]) -> None:
        self._matcher, self._vocabulary, self._eos_tokens, self.over = matcher, vocabulary, tuple(eos_tokens), False

    def allowed(self) -> Tensor:
        """Tokens that may come next, ascending, int64; ends among them exactly where the object is complete.

        None at all where the text has come to a dead end.
        """
        import torch

        # llguidance answers whatever goes wrong with its own end, which stands behind the vocabulary.
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        may = np.unpackbits(bits, count=self._vocabulary, bitorder="little")
        if self.over:
            may[list(self._eos_tokens)] = 1
        return torch.from_numpy(np.flatnonzero(may))

    def accept(self, token: int) -> None:
        """Goes on with a token that was allowed.

        Raises:
            ParameterError: It was not; the text has come to a dead end.
        """
        if self.over and token in self._eos_tokens:
            return
        if not self._matcher.consume_token(int(token)):
            raise ParameterError("token", int(token), "one that the grammar allows")
        self.over = bool(self._matcher.is_accepting())


class _Words:
    """Tokens as llguidance takes them. It knows of no end: which tokens end a text is decided in ``Matcher``."""

    eos_token_id = None
    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes]) -> None:
        self.tokens = tokens

    def __call__(self, text: bytes) -> list[int]:
        """Not needed where nothing is forced."""
        return []


def _slices() -> list[str]:
    """What makes masks of texts in JSON quick."""
    import llguidance

    return list(llguidance.LLTokenizer.json_slices())


def _of_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, for objects alone."""
    kind = schema.get("type", "object")
    if "object" not in ([kind] if isinstance(kind, str) else kind):
        raise ParameterError("schema's type", kind, "'object': a row is an object")
    return {**schema, "type": "object"}


def _literals(schema: Any) -> Iterator[str]:
    """What texts of a schema may have to hold word by word: names of properties, and values."""
    if isinstance(schema, list):
        for part in schema:
            yield from _literals(part)
    if not isinstance(schema, dict):
        return
    for name in [*schema.get("properties", {}), *schema.get("required", [])]:
        yield json.dumps(name, ensure_ascii=False) + ":"
    values = [*schema.get("enum", []), *([schema["const"]] if "const" in schema else [])]
    yield from (json.dumps(value, ensure_ascii=False) for value in values)
    for keyword, inner in schema.items():
        if keyword in _NAMED and isinstance(inner, dict):
            yield from _literals(list(inner.values()))
        elif keyword not in _VALUES:
            yield from _literals(inner)
