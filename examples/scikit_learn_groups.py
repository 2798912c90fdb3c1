"""A scikit-learn classifier whose unit is the customer; needs sottovoce[sklearn].

Run: python examples/scikit_learn_groups.py
"""

from __future__ import annotations

import json

from sottovoce.data.bundled import tickets_file
from sottovoce.sklearn.classifier import PrivateICLClassifier
from sottovoce.tasks import load_task


def main() -> None:
    """Fits once, predicts for free, and says who is protected."""
    tickets = rows("private.jsonl")
    classifier = PrivateICLClassifier(
        epsilon=4,
        method="class-means",
        classes=list(load_task("tickets").labels),  # public: which labels occur in private data is itself private
        ledger=":memory:",
        synthetic=True,  # these tickets are invented; of real ones every budget is remembered, and a second is refused
    )
    classifier.fit(
        [ticket["text"] for ticket in tickets],
        [ticket["label"] for ticket in tickets],
        groups=[ticket["group"] for ticket in tickets],  # one customer's tickets are protected together
    )
    print(classifier.statement_)

    questions = rows("queries.jsonl")
    probabilities = classifier.predict_proba([question["text"] for question in questions])  # free, and public
    predicted = classifier.classes_[probabilities.argmax(axis=1)]
    right = sum(label == question["label"] for label, question in zip(predicted, questions, strict=True))
    print(f"{100 * right / len(questions):.0f} % of {len(questions)} questions right")


def rows(name: str) -> list[dict[str, str]]:
    """Bundled rows as they are in the file. The tickets are invented; real ones belong into read_private."""
    return [json.loads(line) for line in tickets_file(name).read_text("utf-8").splitlines()]


if __name__ == "__main__":
    main()
