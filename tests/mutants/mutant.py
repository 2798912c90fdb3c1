"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes:
        name: What it is called.
        bug: What it does, in words.
        file: The module it is planted in, below ``src/sottovoce``.
        before: Text that stands in the module exactly once.
        after: What is put in its place.
        tests: Test files, or single tests, that should notice.
    """

    name: str
    bug: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    def apply(self, text: str) -> str:
        """The module with the bug in it."""
        if text.count(self.before) != 1:
            raise ValueError(
                f"{self.name}: the text to be changed stands {text.count(self.before)} times in {self.file}"
            )
        return text.replace(self.before, self.after)
