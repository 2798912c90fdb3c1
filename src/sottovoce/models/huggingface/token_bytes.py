"""The bytes that each token of a tokenizer adds to a text.

Byte-level and sentencepiece tokenizers are read by llguidance, token by token. Of any other, what a token adds is what
is there more when it is decoded behind a letter; that such pieces put together are what the tokenizer decodes is tried
out, and a tokenizer of which it is not true is refused. What stands for part of a character there is left out. So are
words that were added to a vocabulary: decoders put blanks around them, or take them away, in ways of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sottovoce.errors import MissingExtraError, ModelError

_SPECIAL = b"\xff"
"""No text has this byte; llguidance marks control tokens with it."""
_TRIED = 64


def token_bytes(tokenizer: Any, words: int, silent: Collection[int]) -> list[bytes]:
    """For each of ``words`` tokens its bytes; none for those that are ``silent`` or stand for nothing.

    Raises:
        MissingExtraError: llguidance is not installed.
        ModelError: What the tokenizer decodes is not made of pieces.
    """
    try:
        import llguidance.hf
    except ModuleNotFoundError:
        raise MissingExtraError("llguidance", "schema") from None
    known, silent = min(words, len(tokenizer)), {*silent, *tokenizer.get_added_vocab().values()}
    try:
        read = llguidance.hf.from_tokenizer(tokenizer, slices=[])
    except ValueError:  # neither byte-level nor sentencepiece, or written in Python
        return _by_decoding(tokenizer, words, known, silent)
    return [
        b"" if token in silent or token >= read.vocab_size else _of(read.decode_bytes([token]), token)
        for token in range(words)
    ]


def _of(raw: bytes, token: int) -> bytes:
    """What llguidance calls ``<[7]>`` has no bytes."""
    return b"" if raw.startswith(_SPECIAL) or raw == f"<[{token}]>".encode("ascii") else bytes(raw)


def _by_decoding(tokenizer: Any, words: int, known: int, silent: Collection[int]) -> list[bytes]:
    def decoded(tokens: Sequence[int]) -> str:
        return str(tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))

    letter = tokenizer.encode("a", add_special_tokens=False)[-1:]
    before = decoded(letter)
    pieces = [""] * words
    for token in range(known):
        text = decoded([*letter, token])
        if token not in silent and text.startswith(before) and "\ufffd" not in text:
            pieces[token] = text[len(before) :]
    inline = [token for token, piece in enumerate(pieces) if piece and "\n" not in piece]
    for start in range(0, min(len(inline), _TRIED)):
        sample = inline[start::_TRIED][:_TRIED]
        if decoded([*letter, *sample]) != before + "".join(pieces[token] for token in sample):
            raise ModelError("This model's tokenizer does not decode token by token, so no grammar can be kept to.")
    return [piece.encode("utf-8") for piece in pieces]
