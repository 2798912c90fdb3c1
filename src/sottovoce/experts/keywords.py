"""Keywords of a text: its words in small letters, without the words that every text has.

A word is a run of letters and digits, of any script, with apostrophes and hyphens inside; it is folded to small
letters (``str.casefold`` after NFKC). Words of one letter, numbers of one digit and the words of a public stop list
are no keywords. A word counts once, however often a text has it.

Guarantee   The keywords of a text are a function of that text and of the constants in this file alone.
Sources     specification 5.5 (0 or 1 a keyword), 2.2.4 (no statistic of the data, such as document frequencies).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
LONGEST_WORD: Final = 40
"""Longer runs are no words: identifiers, addresses."""

_STOP: Final = """
about above after again against all also although always am among an and any are aren't around as at be because
been before being below between both but by can can't cannot could couldn't did didn't do does doesn't doing
don't down during each either else ever every few for from further get gets getting go goes going got had hadn't
has hasn't have haven't having he he'd he'll he's her here here's hers herself him himself his how how's however
i'd i'll i'm i've if in into is isn't it it's its itself just let let's like may me might more most much must
mustn't my myself neither no nor not of off often on once one only or other others ought our ours ourselves out
over own per perhaps quite rather really said same say says shall shan't she she'd she'll she's should shouldn't
since so some still such than that that's the their theirs them themselves then there there's these they they'd
they'll they're they've this those though through to too under until up upon us very via was wasn't we we'd
we'll we're we've well were weren't what what's when when's where where's whether which while who who's whom
whose why why's will with within without won't would wouldn't yes yet you you'd you'll you're you've your yours
yourself yourselves
"""
STOP_WORDS: Final = frozenset(_STOP.split())
"""Words that are no keywords. Public and fixed: a list made from records would reveal them."""


def keywords_of(text: str) -> frozenset[str]:
    """The keywords of a text.

    Example:
        >>> sorted(keywords_of("The card was blocked, and the Card is re-issued in 3 days."))
        ['blocked', 'card', 'days', 're-issued']
    """
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return frozenset(
        word for word in _WORD.findall(folded) if 2 <= len(word) <= LONGEST_WORD and word not in STOP_WORDS
    )


def universe_of(public_texts: Iterable[str]) -> tuple[str, ...]:
    """Every keyword of public texts, in the order of the alphabet. Nothing private may be among them.

    Example:
        >>> universe_of(["A lost card.", "Block the card!"])
        ('block', 'card', 'lost')
    """
    return tuple(sorted(frozenset[str]().union(*map(keywords_of, public_texts))))
