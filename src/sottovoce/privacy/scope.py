"""What a promise covers and what it does not, in the few sentences that stand beside every statement.

The long form, hazard by hazard, is in docs/guarantees.md and docs/nist-sp-800-226.md.

Sources     specification 1.3 (public inputs), 2.6 (the unit), 8 (not covered by any epsilon).
"""

from __future__ import annotations

from typing import Final

from sottovoce.privacy.unit import Adjacency

OF_AN_ANSWER: Final = ("the set of labels", "the question", "settings and length limits")
"""Public inputs of one answer."""
OF_A_FILE: Final = ("the labels", "the number of texts", "settings and length limits")
"""Public inputs of a file of synthetic rows."""
OF_A_TEXT: Final = (
    "the question", "public examples and what a model wrote from them", "the number of experts",
    "settings and length limits",
)  # fmt: skip
"""Public inputs of an answer that is a text."""
OF_A_TEXT_OF_HIDDEN_EXPERTS: Final = tuple(name for name in OF_A_TEXT if name != "the number of experts")
"""The same where every unit has an expert and their number is private."""
OF_A_FIT: Final = ("the labels", "public texts", "settings and length limits")
"""Public inputs of a fit."""


def scope_of(adjacency: Adjacency, unit: str, public: tuple[str, ...]) -> str:
    """What a promise is about, what it leaves open, and how far a person is protected who is not a unit.

    Args:
        adjacency: The relation that the promise is for; it decides whether the number of units is public.
        unit: Who is protected.
        public: Inputs that are not protected, such as ``OF_AN_ANSWER``.

    Example:
        >>> print(scope_of(Adjacency.REPLACE_ONE, "record", OF_AN_ANSWER))
        It covers what the private records add, not what the model already knew. Not protected: the number of units, \
the set of labels, the question, settings and length limits, time and memory. A person with several records, or named \
in the records of others, is protected one record at a time.
    """
    if adjacency.size_is_public:
        left_open = ("the number of units", *public, "time and memory")
    else:
        left_open = (*public, "time and memory, which may tell the number of units")
    persons = (
        "A person with several records, or named in the records of others, is protected one record at a time."
        if unit == "record"
        else f"A person named in the records of another '{unit}' is protected only as part of those records."
    )
    return (
        f"It covers what the private records add, not what the model already knew. Not protected: "
        f"{', '.join(left_open)}. {persons}"
    )
