"""Planted in what is printed: bounds that are rounded to the nearest digit, what is left rounded up, silent limits."""

from __future__ import annotations

from mutants.mutant import Mutant

NUMBERS = ("tests/privacy/test_numbers.py",)
SCOPE = ("tests/test_scope.py",)
PRINTED = ("tests/test_printed_bounds.py",)

MUTANTS = [
    Mutant(
        "printed-bound-to-the-nearest",
        "a printed upper bound is rounded to the nearest digit, so that it may be below the bound",
        "privacy/numbers.py",
        "return _rounded(value, digits, ROUND_CEILING)",
        "return _rounded(value, digits, ROUND_HALF_EVEN)",
        NUMBERS,
    ),
    Mutant(
        "what-is-left-rounded-up",
        "what is left of a budget is printed as more than is left",
        "privacy/numbers.py",
        "return _rounded(value, digits, ROUND_FLOOR)",
        "return _rounded(value, digits, ROUND_CEILING)",
        NUMBERS,
    ),
    Mutant(
        "factor-to-the-nearest",
        "the factor of a promise is exp(epsilon) to the nearest of four digits",
        "release.py",
        "a factor of {factor_up(self.price.epsilon)}",
        "a factor of {2.718281828459045 ** self.price.epsilon:.4g}",
        (*SCOPE, *PRINTED),
    ),
    Mutant(
        "report-printed-to-the-nearest",
        "a report prints its epsilon rounded to the nearest digit",
        "privacy/accounting/accountant.py",
        'f"epsilon {rounded_up(self.epsilon)} at',
        'f"epsilon {self.epsilon:.4g} at',
        ("tests/privacy/test_numbers.py::test_a_printed_report_is_not_below_its_bound", *PRINTED),
    ),
    Mutant(
        "number-of-units-called-protected",
        "a statement is silent about the number of units where it is public",
        "privacy/scope.py",
        "    if adjacency.size_is_public:\n",
        "    if not adjacency.size_is_public:\n",
        SCOPE,
    ),
    Mutant(
        "scope-without-a-guarantee",
        "an answer without a guarantee is said to cover what the records add",
        "release.py",
        "if self.method.reads is Reads.NOTHING or not self.is_private:",
        "if self.method.reads is Reads.NOTHING:",
        SCOPE,
    ),
    Mutant(
        "group-scaled-in-floating-point",
        "the price of k units is a product in floating point, which may be below k times the price",
        "privacy/accounting/groups.py",
        "return float_above(count * exact(value)) if",
        "return count * value if",
        ("tests/privacy/accounting/test_groups.py",),
    ),
]
