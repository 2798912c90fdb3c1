"""Write rows like the private ones, and answer with them for free. Run: python examples/synthetic_rows.py

Takes minutes: the model that ships writes token by token with every customer's tickets at its side.
"""

from __future__ import annotations

import sottovoce as sv
from sottovoce.data.bundled import private_tickets, ticket_queries
from sottovoce.records.sealed import Row


def main() -> None:
    """One short row for each of the eight labels, then free answers from them."""
    task = sv.load_task("tickets")
    writer = sv.Synthesizer(
        private_tickets(),
        task,
        sv.SynthesisConfig(per_label=1, tokens=8),
        epsilon=4,
        delta=1e-6,
        budget=sv.Budget(epsilon=8, delta=1e-6),
        ledger=":memory:",  # for invented records only: it forgets
    )
    rows = [row for round_ in writer.rounds() for row in round_.rows]
    for row in rows:
        print(f"{row['label']}: {row['text']}")
    print(f"{float(writer.balance.spent):.3f} of {float(writer.balance.cap):.3f} rho spent")

    # Free from here on: the rows are public, and no private record is opened.
    shown = [task.example_of(Row(number, row), "rows") for number, row in enumerate(rows, start=1)]
    icl = sv.PrivateICL(records=None, task=task, method="demonstrations", demonstrations=shown)
    question = next(iter(ticket_queries()))
    print(icl.ask(task.query_of(question, "queries"), epsilon=1).value)


if __name__ == "__main__":
    main()
