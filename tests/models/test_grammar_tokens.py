"""Grammars in the tokens of a model: what they let through, where they end, and what cannot be written at all."""

from __future__ import annotations

import json
import pickle
import random
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("llguidance")
pytest.importorskip("jsonschema")

import jsonschema
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers

from models import tiny
from sottovoce.errors import MissingExtraError, ModelError, OpaqueError, ParameterError
from sottovoce.models.fake import CHARACTERS, FakeStepper
from sottovoce.models.grammar import Grammar
from sottovoce.models.huggingface.token_bytes import token_bytes
from sottovoce.models.lockstep.stepper import TransformersStepper
from sottovoce.models.registry import load_stepper

NOTE = {
    "title": "note",
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 8},
        "n": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"enum": ["two words", "cd", None]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
    },
    "required": ["title", "kind"],
    "additionalProperties": False,
    "$defs": {"tag": {"type": "string", "minLength": 1, "maxLength": 3}},
}
MADE = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def fake(extra: str = '{}[]\\_"', **options) -> FakeStepper:
    return FakeStepper(pieces=list(dict.fromkeys([*CHARACTERS, *extra])), **options)


@pytest.fixture(scope="module")
def embedded():
    return load_stepper("embedded")


@pytest.fixture(scope="module")
def byte_level():
    return TransformersStepper("tiny", loaded=(tiny.tokenizer(), tiny.llama()))


def with_fallback():
    """A tokenizer of the sentencepiece school: blanks are marks, and what it does not know is written byte by byte."""
    letters = sorted({letter for sentence in tiny.SENTENCES for letter in sentence.replace(" ", "▁")} - {"\n"})
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, "th", "▁th", "▁the"]
    merges = [("t", "h"), ("▁", "th"), ("▁th", "e")]
    vocabulary = {word: number for number, word in enumerate(words)}
    inner = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    made.add_tokens(["<tool>"])
    return made


def texts(model, schema, count: int, seed: int = 1, most: int = 300) -> list[tuple[str, bool]]:
    """Texts of tokens drawn among those that are allowed, and whether they came to their end."""
    grammar, chance, found = Grammar(schema, model), random.Random(seed), []
    for _ in range(count):
        text, tokens = grammar.start(), []
        while not text.over and len(tokens) < most:
            tokens.append(chance.choice(text.allowed().tolist()))
            text.accept(tokens[-1])
        found.append((model.decode(tokens), text.over))
    return found


# What is let through


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["fake", "embedded", "byte_level"])
def test_every_text_is_an_object_of_the_schema_on_one_line_as_rows_are_shown(name, request):
    model = fake() if name == "fake" else request.getfixturevalue(name)
    found = texts(model, NOTE, 40)
    assert all(over for _, over in found)
    for text, _ in found:
        line = text.strip()
        assert "\n" not in line
        jsonschema.validate(json.loads(line), NOTE)
        # What json.dumps makes of it again is what was written: separators, order and escapes are those of shown rows.
        assert json.dumps(json.loads(line), ensure_ascii=False) == line


@pytest.mark.slow
def test_an_end_is_allowed_where_the_object_is_complete_and_nowhere_else():
    model, chance = fake(), random.Random(2)
    eos_tokens, line = set(model.eos_tokens), model.encode("\n")[0]
    for _ in range(20):
        text = Grammar(MADE | {"additionalProperties": False}, model).start()
        while not text.over:
            allowed = set(text.allowed().tolist())
            assert not allowed & eos_tokens
            text.accept(chance.choice(sorted(allowed)))
        assert set(text.allowed().tolist()) == {*eos_tokens, line}
        text.accept(line)
        assert text.over
        assert set(text.allowed().tolist()) == {*eos_tokens, line}
        text.accept(model.eos_tokens[0])


def test_one_blank_may_stand_before_the_object_and_no_more():
    text, model = Grammar(MADE, fake()).start(), fake()
    blank, brace = model.encode(" {")
    assert text.allowed().tolist() == sorted([blank, brace])
    text.accept(blank)
    assert text.allowed().tolist() == [brace]


def test_a_token_that_no_text_may_hold_is_never_allowed_though_the_grammar_knows_its_bytes():
    class Barred(FakeStepper):
        @property
        def forbidden_tokens(self):
            return (*super().forbidden_tokens, *self.encode("xyz"))

    model = Barred(pieces=fake().pieces)
    forbidden_tokens, chance, seen = set(model.forbidden_tokens), random.Random(3), set()
    text = Grammar(MADE, model).start()
    for _ in range(300):
        allowed = text.allowed().tolist()
        assert not set(allowed) & forbidden_tokens
        seen.update(allowed)
        text.accept(chance.choice([token for token in allowed if token != model.encode('"')[0]] or allowed))
    assert len(seen) > len(model.pieces) // 2
    text = Grammar(MADE, model).start()
    with pytest.raises(ParameterError):
        text.accept(model.forbidden_tokens[0])
    assert text.allowed().tolist() == []
    text = Grammar(MADE, model).start()
    for token in model.encode('{"a": "'):
        text.accept(token)
    with pytest.raises(ParameterError):
        text.accept(model.encode("x")[0])


def test_texts_of_one_grammar_do_not_touch_each_other():
    model = fake()
    grammar = Grammar(MADE, model)
    one, other = grammar.start(), grammar.start()
    for token in model.encode('{"a": "b'):
        one.accept(token)
    assert other.allowed().tolist() == grammar.start().allowed().tolist() != one.allowed().tolist()


def test_a_schema_that_does_not_say_what_it_describes_is_of_objects():
    # {"properties": ...} alone is met by the number 3 as well, which is no row.
    assert all(text.strip().startswith("{") for text, _ in texts(fake(), {"properties": {"a": {"const": 1}}}, 5))
    with pytest.raises(ParameterError, match="a row is an object"):
        Grammar({"type": "array", "properties": {"a": {}}}, fake())


# What cannot be written


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"Name": {"type": "string"}}},
        {"properties": {"a": {"enum": ["low", "High"]}}},
        {"properties": {"a": {"anyOf": [{"const": "É"}, {"type": "null"}]}}},
        {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"properties": {"eN": {}}, "type": "object"}}},
        {"properties": {"a": {"type": "string", "pattern": "^[A-Z]+$"}}, "required": ["a"]},
    ],
    ids=lambda schema: json.dumps(schema)[16:40],
)
def test_what_a_model_of_lower_case_cannot_write_is_refused(embedded, byte_level, schema):
    with pytest.raises(ModelError, match=r"no tokens for|cannot write"):
        Grammar(schema, embedded)
    Grammar(schema, byte_level)


def test_a_model_without_braces_is_told_so():
    with pytest.raises(ModelError, match="none of its tokens"):
        Grammar({"properties": {"a": {"type": "string"}}}, FakeStepper())


def test_a_dead_end_that_was_not_foreseen_allows_nothing_not_even_the_end(monkeypatch):
    monkeypatch.setattr(Grammar, "_try_out", lambda grammar: None)
    model = FakeStepper(pieces=['{"', "a", '"'])
    text = Grammar({"properties": {"Name": {}}, "required": ["Name"]}, model).start()
    text.accept(0)
    assert (text.allowed().tolist(), text.over) == ([], False)
    assert text.allowed().tolist() == [], "asked again"


@pytest.mark.parametrize(
    "keyword", [{"not": {"type": "string"}}, {"uniqueItems": True}, {"format": "no such"}], ids=str
)
def test_a_keyword_that_cannot_be_kept_to_is_refused_and_not_left_out(keyword):
    with pytest.raises(ParameterError, match="a grammar can be made of"):
        Grammar({"properties": {"a": {"type": ["string", "array"], **keyword}}}, fake())


def test_a_missing_package_is_named_with_its_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(MissingExtraError, match=r"llguidance.*sottovoce\[schema\]"):
        Grammar(MADE, fake())


# The bytes of tokens


@pytest.mark.parametrize("made", [tiny.tokenizer, with_fallback, tiny.metaspace_tokenizer])
def test_the_bytes_of_tokens_put_together_are_what_a_tokenizer_decodes(made):
    tokenizer, chance = made(), random.Random(4)
    silent = set(tokenizer.all_special_ids)
    found = token_bytes(tokenizer, len(tokenizer) + 3, silent)
    assert len(found) == len(tokenizer) + 3
    # 0xff is a token of its own in a tokenizer of bytes; no text has it.
    without = {token for token, its in enumerate(found[:-3]) if not its and tokenizer.decode([token]) != "\ufffd"}
    assert without == silent | set(tokenizer.get_added_vocab().values())
    assert found[-3:] == [b""] * 3
    plain = [token for token, its in enumerate(found) if its and its.isascii()]
    for _ in range(50):
        tokens = [chance.choice(plain) for _ in range(12)]
        together = b"".join(found[token] for token in tokens).decode("ascii")
        assert together.lstrip(" ") == tokenizer.decode(tokens, clean_up_tokenization_spaces=False).lstrip(" ")
    if made is not tiny.metaspace_tokenizer:  # which knows no other letters
        tokens = tokenizer.encode("Ærø then", add_special_tokens=False)
        assert b"".join(found[token] for token in tokens).strip() == "Ærø then".encode()


@pytest.mark.slow
def test_the_bytes_of_the_embedded_models_tokens_carry_their_blanks(embedded):
    found, tokens = embedded.token_bytes(), embedded.encode('{"name": "two words"}')
    assert b"".join(found[token] for token in tokens) == b' {"name": "two words"}'
    assert not any(found[token] for token in (*embedded.eos_tokens, *embedded.forbidden_tokens))


def test_a_tokenizer_that_does_not_decode_token_by_token_is_refused():
    class Backwards:
        def __init__(self):
            self.inner = tiny.metaspace_tokenizer()

        def __len__(self):
            return len(self.inner)

        def get_added_vocab(self):
            return {}

        def encode(self, text, **options):
            return self.inner.encode(text, **options)

        def decode(self, tokens, **options):
            return self.inner.decode([*tokens[:1], *reversed(tokens[1:])], **options)

    with pytest.raises(ModelError, match="token by token"):
        token_bytes(Backwards(), 200, set())


def test_the_state_of_a_text_that_has_not_left_is_sealed():
    state = Grammar(MADE, fake()).start()
    assert repr(state) == "Matcher(sealed)"
    with pytest.raises(OpaqueError, match="pickled"):
        pickle.dumps(state)
