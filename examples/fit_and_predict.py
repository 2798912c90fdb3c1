"""Learn from private tickets once, then answer for free. Run: python examples/fit_and_predict.py"""

from __future__ import annotations

import tempfile
from pathlib import Path

import sottovoce as sv
from sottovoce.data.bundled import private_tickets, ticket_queries


def main() -> None:
    """One charge, 160 answers."""
    records, task = private_tickets(), sv.load_task("tickets")  # sealed: `print(records)` says how many, not what
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "support.sotto"
        # An in-memory ledger forgets: for invented records only. Name a file for your own.
        fitted = sv.fit(records, task, epsilon=4, delta=1e-6, ledger=":memory:", out=file)
        print(fitted.statement)

        again = sv.Fitted.load(file)  # on another machine: no ledger, no private record
        questions = list(ticket_queries())
        answers = again.predict([task.query_of(row, "queries") for row in questions])
    right = sum(answer == row.values["label"] for answer, row in zip(answers, questions, strict=True))
    print(f"{len(answers)} answers, {100 * right / len(answers):.0f} % right, epsilon 4 spent in all")


if __name__ == "__main__":
    main()
