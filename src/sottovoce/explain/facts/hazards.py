"""The hazards of NIST SP 800-226, as docs/nist-sp-800-226.md has them: which of them the package handles.

A test holds this list against that page, which says what is done and where.
"""

from __future__ import annotations

from typing import Final

HAZARDS: Final = (
    (
        "The guarantee: parameters and unit",
        "the unit is not stated, or is a row although persons have many rows",
        "partly",
    ),
    ("The guarantee: parameters and unit", "persons named in somebody else's record, correlated records", "partly"),
    ("The guarantee: parameters and unit", "epsilon is too large to mean anything", "partly"),
    ("The guarantee: parameters and unit", "epsilons of different relations or variants are compared", "yes"),
    ("The guarantee: parameters and unit", "delta is too large, or a chance of total failure", "partly"),
    ("The guarantee: parameters and unit", "printed figures are rounded to look better", "yes"),
    (
        "The guarantee: parameters and unit",
        "the number of units is treated as public under a relation that hides it",
        "yes",
    ),
    ("The guarantee: parameters and unit", "group privacy is overlooked", "partly"),
    ("Algorithms", "sensitivity is wrong, or grows with the data", "yes"),
    ("Algorithms", "clips and bounds are taken from the private data", "partly"),
    ("Algorithms", "averages divide by a private count", "yes"),
    ("Algorithms", "groups, labels or histogram bins that occur only in the data are shown", "yes"),
    ("Algorithms", "post-processing is trusted too far, or looks at the data again", "yes"),
    ("Algorithms", "composition is forgotten: many questions, several analysts, restarts", "yes"),
    ("Algorithms", "two ledgers, or an edited data set, start a new budget", "partly"),
    ("Algorithms", "amplification is claimed where sampling does not allow it", "yes"),
    ("Algorithms", "parameters of a learning algorithm are tuned on private data without a charge", "no"),
    ("Algorithms", "a model that was trained on public data may know the records already", "no"),
    ("Algorithms", "unstructured text has no clear unit, and redaction is mistaken for privacy", "partly"),
    ("Algorithms", "synthetic data are assumed to be private by nature", "yes"),
    ("Utility and bias", "accuracy is reported without uncertainty, or without the cost of privacy", "yes"),
    ("Utility and bias", "small groups lose more accuracy than large ones", "no"),
    ("Utility and bias", "noise and clipping bias results", "partly"),
    ("Implementation", "floating-point noise reveals records", "yes"),
    ("Implementation", "weak or repeated randomness", "yes"),
    ("Implementation", "bugs in the algorithm", "partly"),
    ("Implementation", "timing and other side channels", "no"),
    ("Implementation", "batches couple records through the arithmetic of a model", "yes"),
    ("Implementation", "private values in errors, logs and files", "yes"),
    ("Implementation", "crashes hand out a release twice, or lose a charge", "yes"),
    ("Trust, access, collection", "the trust model is not stated", "yes"),
    ("Trust, access, collection", "the curator, or whoever runs the model, is not trusted", "no"),
    ("Trust, access, collection", "raw data are copied, kept too long or shared", "partly"),
    ("Trust, access, collection", "access to the query interface is not limited", "partly"),
    ("Trust, access, collection", "the ledger itself reveals something, or is forged", "partly"),
    ("Trust, access, collection", "data were collected without consent, or more of them than needed", "no"),
)
"""Section, hazard, and whether it is handled: ``yes``, ``partly`` (something is left to the owner) or ``no``."""
