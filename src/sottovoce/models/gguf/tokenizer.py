"""The tokenizer that a GGUF file holds, as one of the ``tokenizers`` library.

How a text is cut up before tokens are merged is not in the file, only the rule's name is. Rules under another name are
refused: under a wrong one a model reads other tokens than it was trained on, and nobody would notice.

Sources     ``llama-vocab.cpp`` of https://github.com/ggml-org/llama.cpp for the rules by name, and the published
            ``tokenizer.json`` of SmolLM2, Llama 3 and Qwen2 for the same rules in this library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from sottovoce.errors import ModelError
from sottovoce.models.gguf.file import damaged

_UNKNOWN, _CONTROL, _OWN, _BYTE = 2, 3, 4, 6
"""Types of tokens."""
_REST: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_DIGITS: Final = ("smollm", "starcoder", "refact", "command-r")
"""Rules that part digits from each other before they do as GPT-2 does."""
_PATTERNS: Final = {"llama-bpe": _SHORT + _REST % "{1,3}", "qwen2": _SHORT + _REST % ""}
RULES: Final = ("gpt-2", *_DIGITS, *_PATTERNS)
_LONGEST: Final = 1024
"""Letters of a token that is merged of others. Longer ones are in no known file, and each is taken apart everywhere."""


def tokenizer_of(fields: Mapping[str, Any], file: str) -> Tokenizer:
    """The tokenizer of a file with these fields.

    Args:
        fields: Of the file, those of the tokenizer under ``tokenizer.ggml.``.
        file: Its name, for errors.

    Raises:
        ModelError: The file holds none, or one of a kind or with a rule that is not known here.
    """
    kind = _word(fields, "model", file)
    words = fields.get("tokenizer.ggml.tokens")
    if not isinstance(words, list) or not words:
        raise ModelError(f"The GGUF file {file!r} holds no tokenizer, so it cannot be used by itself.")
    if not all(isinstance(word, str) for word in words):
        raise damaged(file, "the field tokenizer.ggml.tokens")
    kinds = _numbers(fields, "token_type", len(words), 1, file)
    if kind == "gpt2":
        made = _byte_level(fields, words, file)
    elif kind == "llama":
        made = _pieces(fields, words, kinds, file)
    else:
        raise ModelError(f"The GGUF file {file!r} has a tokenizer of the kind {kind!r:.60}. Read are gpt2 and llama.")
    special = [word for word, of in zip(words, kinds, strict=True) if of == _CONTROL]
    own = [word for word, of in zip(words, kinds, strict=True) if of == _OWN]
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in special])
    made.add_tokens([AddedToken(word, normalized=False) for word in own])
    start = token_id(fields, "bos", file)
    # Files without the field: tokenizers of the kind llama put the token there, the others do not.
    leads = _switch(fields, "add_bos_token", file, usual=kind == "llama")
    if start is not None and leads:
        if start >= len(words):
            raise damaged(file, "the field tokenizer.ggml.bos_token_id")
        word = words[start]
        template = processors.TemplateProcessing(single=f"{word} $A", special_tokens=[(word, start)])
        before = made.post_processor
        made.post_processor = template if before is None else processors.Sequence([before, template])
    return made


def special_words(fields: Mapping[str, Any], file: str) -> dict[str, str]:
    """Start, end, padding and unknown token, under the names of the transformers library.

    Raises:
        ModelError: One of them is no token's number.
    """
    words = fields["tokenizer.ggml.tokens"]
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    found = {name: token_id(fields, field, file) for name, field in names.items()}
    return {name: words[token] for name, token in found.items() if token is not None and token < len(words)}


def token_id(fields: Mapping[str, Any], role: str, file: str) -> int | None:
    """The number of the token of a role such as ``bos``; ``None`` where the file names none.

    Raises:
        ModelError: It is no number of a token.
    """
    found = fields.get(f"tokenizer.ggml.{role}_token_id")
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 32:
        raise damaged(file, f"the field tokenizer.ggml.{role}_token_id")
    return found


def _word(fields: Mapping[str, Any], field: str, file: str) -> str | None:
    found = fields.get(f"tokenizer.ggml.{field}")
    if not isinstance(found, str | None):
        raise damaged(file, f"the field tokenizer.ggml.{field}")
    return found


def _switch(fields: Mapping[str, Any], field: str, file: str, *, usual: bool) -> bool:
    found = fields.get(f"tokenizer.ggml.{field}", usual)
    if not isinstance(found, int) or found not in (0, 1):
        raise damaged(file, f"the field tokenizer.ggml.{field}")
    return bool(found)


def _numbers(fields: Mapping[str, Any], field: str, count: int, usual: float, file: str) -> Sequence[Any]:
    """One number for every token."""
    found = fields.get(f"tokenizer.ggml.{field}")
    if found is None:
        return [usual] * count
    listed: Sequence[Any] = found.tolist() if isinstance(found, np.ndarray) else found
    whole = isinstance(listed, list) and len(listed) == count
    if not whole or not all(isinstance(number, int | float) and math.isfinite(number) for number in listed):
        raise damaged(file, f"the field tokenizer.ggml.{field}")
    return listed


def _byte_level(fields: Mapping[str, Any], words: Sequence[str], file: str) -> Tokenizer:
    rule = _word(fields, "pre", file)
    if rule not in RULES:
        raise ModelError(
            f"The GGUF file {file!r} cuts texts up by the rule {rule!r:.60}, which is not known here. Known are "
            f"{', '.join(RULES)}: use such a file, or the model's folder."
        )
    vocabulary = {word: token for token, word in enumerate(words)}
    merges = _merges(fields.get("tokenizer.ggml.merges", []), vocabulary, file)
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=rule == "llama-bpe"))
    if rule in _PATTERNS:
        cut = [pre_tokenizers.Split(Regex(_PATTERNS[rule]), "isolated")]
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [*cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        if rule == "qwen2":
            made.normalizer = normalizers.NFC()
    else:
        digits = [pre_tokenizers.Digits(individual_digits=True)] if rule in _DIGITS else []
        made.pre_tokenizer = pre_tokenizers.Sequence([*digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    return made


def _merges(found: Any, vocabulary: Mapping[str, int], file: str) -> list[tuple[str, str]]:
    """Pairs of tokens that make a token."""
    merges = []
    for line in found if isinstance(found, list) else [None]:
        left, _, right = line.partition(" ") if isinstance(line, str) else ("", "", "")
        if not {left, right, left + right} <= vocabulary.keys():
            raise damaged(file, "the field tokenizer.ggml.merges")
        merges.append((left, right))
    return merges


def _pieces(fields: Mapping[str, Any], words: Sequence[str], kinds: Sequence[int], file: str) -> Tokenizer:
    """A tokenizer of the SentencePiece library: pieces are merged by their scores, letters fall back to bytes."""
    vocabulary = {word: token for token, word in enumerate(words)}
    scores = _numbers(fields, "scores", len(words), 0.0, file)
    mergeable = {word: token for word, token in vocabulary.items() if kinds[token] not in (_UNKNOWN, _CONTROL, _BYTE)}
    ranked = []
    for word, token in mergeable.items():
        if len(word) > _LONGEST:
            raise damaged(file, f"a token of {len(word)} letters")
        parts = ((word[:at], word[at:]) for at in range(1, len(word)))
        ranked += [
            (-float(scores[token]), vocabulary[left], vocabulary[right], (left, right))
            for left, right in parts
            if left in mergeable and right in mergeable
        ]
    unknown = token_id(fields, "unknown", file)
    if unknown is not None and unknown >= len(words):
        raise damaged(file, "the field tokenizer.ggml.unknown_token_id")
    model = models.BPE(
        vocab=vocabulary,
        merges=[pair for *_, pair in sorted(ranked)],
        unk_token=None if unknown is None else words[unknown],
        fuse_unk=True,
        byte_fallback=True,
    )
    made = Tokenizer(model)
    leads = _switch(fields, "add_space_prefix", file, usual=True)
    blank = normalizers.Replace(" ", "▁")
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), blank]) if leads else blank
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if leads else steps)
    return made
