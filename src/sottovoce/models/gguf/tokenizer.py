"""The tokenizer that a GGUF file holds, as one of the ``tokenizers`` library.

How a text is cut up before tokens are merged is not in the file, only the rule's name is. Rules under another name are
refused: under a wrong one a model reads other tokens than it was trained on, and nobody would notice.

Sources     ``llama-vocab.cpp`` of https://github.com/ggml-org/llama.cpp for the rules by name, and the published
            ``tokenizer.json`` of SmolLM2, Llama 3 and Qwen2 for the same rules in this library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from sottovoce.errors import ModelError

_UNKNOWN, _CONTROL, _OWN, _BYTE = 2, 3, 4, 6
"""Types of tokens."""
_REST: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SHORT: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_DIGITS: Final = ("smollm", "starcoder", "refact", "command-r")
"""Rules that part digits from each other before they do as GPT-2 does."""
_PATTERNS: Final = {"llama-bpe": _SHORT + _REST % "{1,3}", "qwen2": _SHORT + _REST % ""}
RULES: Final = ("gpt-2", *_DIGITS, *_PATTERNS)


def tokenizer_of(fields: Mapping[str, Any], file: str) -> Tokenizer:
    """The tokenizer of a file with these fields.

    Args:
        fields: Of the file, those of the tokenizer under ``tokenizer.ggml.``.
        file: Its name, for errors.

    Raises:
        ModelError: The file holds none, or one of a kind or with a rule that is not known here.
    """
    kind = fields.get("tokenizer.ggml.model")
    words = fields.get("tokenizer.ggml.tokens")
    if not isinstance(words, list) or not words:
        raise ModelError(f"The GGUF file {file!r} holds no tokenizer, so it cannot be used by itself.")
    kinds = [int(of) for of in fields.get("tokenizer.ggml.token_type", [1] * len(words))]
    if kind == "gpt2":
        made = _byte_level(fields, words, file)
    elif kind == "llama":
        made = _pieces(fields, words, kinds)
    else:
        raise ModelError(f"The GGUF file {file!r} has a tokenizer of the kind {kind!r}. Read are gpt2 and llama.")
    special = [word for word, of in zip(words, kinds, strict=True) if of == _CONTROL]
    own = [word for word, of in zip(words, kinds, strict=True) if of == _OWN]
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in special])
    made.add_tokens([AddedToken(word, normalized=False) for word in own])
    start = fields.get("tokenizer.ggml.bos_token_id")
    # Files without the field: tokenizers of the kind llama put the token there, the others do not.
    if start is not None and fields.get("tokenizer.ggml.add_bos_token", kind == "llama"):
        word = words[int(start)]
        template = processors.TemplateProcessing(single=f"{word} $A", special_tokens=[(word, int(start))])
        before = made.post_processor
        made.post_processor = template if before is None else processors.Sequence([before, template])
    return made


def special_words(fields: Mapping[str, Any]) -> dict[str, str]:
    """Start, end, padding and unknown token, under the names of the transformers library."""
    words = fields["tokenizer.ggml.tokens"]
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    found = {name: fields.get(f"tokenizer.ggml.{field}_token_id") for name, field in names.items()}
    return {name: words[int(token)] for name, token in found.items() if token is not None and int(token) < len(words)}


def _byte_level(fields: Mapping[str, Any], words: Sequence[str], file: str) -> Tokenizer:
    rule = fields.get("tokenizer.ggml.pre")
    if rule not in RULES:
        raise ModelError(
            f"The GGUF file {file!r} cuts texts up by the rule {rule!r}, which is not known here. Known are "
            f"{', '.join(RULES)}: use such a file, or the model's folder."
        )
    merges = [tuple(pair.split(" ", 1)) for pair in fields.get("tokenizer.ggml.merges", [])]
    vocabulary = {word: token for token, word in enumerate(words)}
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


def _pieces(fields: Mapping[str, Any], words: Sequence[str], kinds: Sequence[int]) -> Tokenizer:
    """A tokenizer of the SentencePiece library: pieces are merged by their scores, letters fall back to bytes."""
    vocabulary = {word: token for token, word in enumerate(words)}
    scores = fields.get("tokenizer.ggml.scores", [0.0] * len(words))
    mergeable = {word: token for word, token in vocabulary.items() if kinds[token] not in (_UNKNOWN, _CONTROL, _BYTE)}
    ranked = []
    for word, token in mergeable.items():
        parts = [(word[:at], word[at:]) for at in range(1, len(word))]
        ranked += [
            (-float(scores[token]), vocabulary[left], vocabulary[right], (left, right))
            for left, right in parts
            if left in mergeable and right in mergeable
        ]
    unknown = fields.get("tokenizer.ggml.unknown_token_id")
    model = models.BPE(
        vocab=vocabulary,
        merges=[pair for *_, pair in sorted(ranked)],
        unk_token=None if unknown is None else words[int(unknown)],
        fuse_unk=True,
        byte_fallback=True,
    )
    made = Tokenizer(model)
    leads = bool(fields.get("tokenizer.ggml.add_space_prefix", True))
    blank = normalizers.Replace(" ", "▁")
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), blank]) if leads else blank
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if leads else steps)
    return made
