"""Synonyms by WordNet's own files, as Debian's package ``wordnet-base`` installs them.

``index.POS`` names the places of a word's meanings in ``data.POS``; a line there names the words of one meaning. Words
are looked up as they stand, without reducing them to a base form.

Sources     Miller (1995); the files' format is that of wndb(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, final

from sottovoce.errors import InputError

FOLDER: Final = Path("/usr/share/wordnet")
PARTS: Final = ("noun", "verb", "adj", "adv")


@final
@dataclass(frozen=True)
class Lemma:
    """A word of a meaning, with the method that NLTK calls."""

    word: str

    def name(self) -> str:
        return self.word


@final
@dataclass(frozen=True)
class Synset:
    """The words of a meaning, likewise."""

    words: tuple[str, ...]

    def lemmas(self) -> list[Lemma]:
        return [Lemma(word) for word in self.words]


@final
class WordNet:
    """Meanings of words.

    Args:
        folder: Where the files lie.

    Raises:
        InputError: They do not.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        missing = [f"{kind}.{part}" for part in PARTS for kind in ("index", "data") if not _file(folder, kind, part)]
        if missing:
            raise InputError(
                f"METEOR's synonyms need WordNet, and {folder} lacks {missing[0]}. Install it with: apt-get install "
                "wordnet-base. Or take 'meteor-exact-stem', which matches words and stems alone."
            )
        self._places: dict[str, list[tuple[str, int]]] = {}
        self._data: dict[str, bytes] = {}
        for part in PARTS:
            self._data[part] = (folder / f"data.{part}").read_bytes()
            for line in (folder / f"index.{part}").read_text("ascii").splitlines():
                if not line.startswith(" "):  # the licence stands first, indented
                    word, _, count, *others = line.split()
                    self._places.setdefault(word, []).extend((part, int(at)) for at in others[-int(count) :])

    def synsets(self, word: str) -> list[Synset]:
        """The meanings of a word in lower case, none where it is unknown."""
        return [self._at(part, place) for part, place in self._places.get(word, ())]

    def _at(self, part: str, place: int) -> Synset:
        data = self._data[part]
        fields = data[place : data.index(b"\n", place)].decode("ascii").split()
        return Synset(tuple(fields[4 + 2 * at].partition("(")[0] for at in range(int(fields[3], 16))))


@final
class NoSynonyms:
    """A dictionary without words, which leaves METEOR's first two stages."""

    def synsets(self, word: str) -> list[Synset]:
        """None."""
        return []


@cache
def wordnet(folder: Path = FOLDER) -> WordNet:
    """The dictionary, read once.

    Raises:
        InputError: It is not there.
    """
    return WordNet(folder)


def _file(folder: Path, kind: str, part: str) -> bool:
    return (folder / f"{kind}.{part}").is_file()
