"""Pay for each answer from a budget that lasts. Run: python examples/pay_per_answer.py"""

from __future__ import annotations

import tempfile
from pathlib import Path

import sottovoce as sv
from sottovoce.data.bundled import private_tickets
from sottovoce.errors import BudgetExhaustedError
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.store import set_apart

QUESTIONS = ["Where is my parcel?", "I was charged twice.", "Please close my account."]


def main() -> None:
    """Asks until the budget refuses, opens the ledger again, and asks once more."""
    # The tickets are invented: their ledger goes with the folder, and your own store hears nothing of it.
    with tempfile.TemporaryDirectory() as folder, set_apart(Path(folder) / "store"):
        ledger = str(Path(folder) / "tickets.db")
        icl = session(ledger, sv.Budget(epsilon=2, delta=1e-6))
        for question in QUESTIONS:
            try:
                release = icl.ask(question, epsilon=0.5)
            except BudgetExhaustedError as refused:
                print("Refused:", refused)
                break
            left = release.remaining.answers_left(release.event)
            print(f"{question} -> {release.value}; {left} more at this price")

        later = session(ledger)  # another process, another day: the ledger knows the records
        print(f"Spent so far: {rounded_up(later.balance.spent, 3)} of {rounded_down(later.balance.cap, 3)} rho")
        try:
            later.ask(QUESTIONS[0], epsilon=2)
        except BudgetExhaustedError:
            print("epsilon 2 is more than is left; nothing was charged")


def session(ledger: str, budget: sv.Budget | None = None) -> sv.PrivateICL:
    """A session on the bundled tickets; four customers share an expert."""
    return sv.PrivateICL(
        records=private_tickets(),
        task=sv.load_task("tickets"),
        method="prior-poe",
        partition=sv.Partition(units_per_expert=4),
        budget=budget,
        ledger=ledger,
    )


if __name__ == "__main__":
    main()
