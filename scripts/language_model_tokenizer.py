"""The tokenizer of the embedded language model: the encoder's word pieces, cut down and made lossless for lower case.

A text is put into lower case, accents are dropped, curly quotes and dashes become plain, and what is not among the
known characters becomes the replacement character. It is then cut at blanks and around line breaks only, so that every
token says whether a blank precedes it: ``don't,`` is ``don ‿' ‿t ‿,``. Pieces are single digits, single marks, or
letters. Blanks in a row, and blanks beside a line break, are one; all else is restored by decoding.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

PAD, END, UNREADABLE = "[PAD]", "[END]", "\ufffd"
JOIN = "‿"  # opens a piece that no blank precedes; no normalised text holds it
ENCODER_JOIN = "##"
MARKS = string.punctuation + "£€§°©·•×±²³µ¢¥½¼®™→"
LETTERS = string.ascii_lowercase + "ßæøðþłđıœ" + "αβγδεζηθικλμνξοπρστυφχψως" + "абвгдежзиклмнопрстуфхцчшщъыьэюя"
KNOWN = MARKS + LETTERS + string.digits
LONGEST_WORD = 48


def pieces_of(word: str) -> list[str]:
    """Runs of letters, single digits and single marks of a word without blanks."""
    return re.findall(r"[^\W\d_]+|.", word)


def normalizer() -> normalizers.Normalizer:
    """Lower case, no accents, plain quotes and dashes, known characters only."""
    plain = [
        normalizers.Replace(Regex(old), new) for old, new in (("[‘’‚‛`´]", "'"), ("[“”„«»]", '"'), ("[‐‑‒–—―−]", "-"))
    ]
    allowed = "".join(re.escape(character) for character in KNOWN)
    return normalizers.Sequence(
        [
            *plain,
            normalizers.NFKD(),
            normalizers.Lowercase(),
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Replace(Regex(f"[^{allowed}\\s]"), UNREADABLE),
        ]
    )  # fmt: skip


def vocabulary(texts: Iterable[str], encoder: Tokenizer, size: int) -> dict[str, int]:
    """Chooses the tokens: every known character at both places, then the encoder's pieces that the texts use most.

    Args:
        texts: Training texts.
        encoder: Tokenizer of the encoder.
        size: Number of tokens.
    """
    known, rule = encoder.get_vocab(), normalizer()
    words: Counter[str] = Counter()
    for text in texts:
        words.update(rule.normalize_str(text).split())
    pieces: Counter[str] = Counter()
    runs: Counter[tuple[str, bool]] = Counter()
    for word, count in words.items():
        for place, run in enumerate(pieces_of(word)):
            if len(run) > 1:
                runs[run, place == 0] += count
    for (run, first), count in runs.items():
        for place, token in enumerate(encoder.encode(run, add_special_tokens=False).tokens):
            plain = token.removeprefix(ENCODER_JOIN)
            if len(plain) > 1 and token in known and plain.isalpha():
                pieces[plain if first and place == 0 else f"{JOIN}{plain}"] += count
    always = [PAD, END, UNREADABLE, "\n", *KNOWN, *(f"{JOIN}{c}" for c in KNOWN + UNREADABLE)]
    chosen = [*always, *(piece for piece, _ in pieces.most_common(size))]
    return {token: number for number, token in enumerate(dict.fromkeys(chosen[:size]))}


def build(tokens: Mapping[str, int]) -> Tokenizer:
    """The tokenizer with these tokens."""
    model = models.WordPiece(
        dict(tokens), unk_token=UNREADABLE, max_input_chars_per_word=2 * LONGEST_WORD, continuing_subword_prefix=JOIN
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", "isolated"),
            pre_tokenizers.Split(Regex(r"[^\S\n]+"), "removed"),
            pre_tokenizers.Split(Regex(f"\\S{{{LONGEST_WORD}}}"), "isolated"),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.WordPiece(prefix=JOIN, cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(" ?\n ?"), "\n"),
            decoders.Replace(JOIN, ""),  # of a piece that a text begins with
        ]
    )
    tokenizer.add_special_tokens([PAD, END])
    return tokenizer


def origin(token: str, known: Mapping[str, int]) -> int | None:
    """The encoder's token whose vector a token begins with, or ``None``.

    Example:
        >>> origin(f"{JOIN},", {",": 7})
        7
    """
    special = {PAD: "[PAD]", END: "[SEP]", UNREADABLE: "[UNK]", JOIN + UNREADABLE: "[UNK]", "\n": "[SEP]"}
    plain = token.removeprefix(JOIN)
    joined = ENCODER_JOIN + plain
    for candidate in (special[token],) if token in special else (plain, joined) if plain == token else (joined, plain):
        if candidate in known:
            return known[candidate]
    return None


def wrapped(tokenizer: Tokenizer, positions: int) -> Any:
    """The tokenizer as the transformers library saves it."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, model_max_length=positions,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip
