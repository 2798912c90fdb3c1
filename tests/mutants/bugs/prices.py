"""Planted where a method says its price: a charge that is not what is drawn, or not what is explained."""

from __future__ import annotations

from mutants.mutant import Mutant

_FILE = "tests/explain/test_one_price.py::"
ANSWERS = (_FILE + "test_an_answer_is_explained_as_it_is_charged",)
TEXTS = (_FILE + "test_a_batch_of_texts_is_explained_as_it_is_charged",)

MUTANTS = [
    Mutant(
        "charged-for-a-drop",
        "an answer's noise is set for the change that there is, and its charge worked out for a vanished expert",
        "methods/base.py",
        "charged = self.step_at(price, change, adjacency).event(change)",
        "charged = self.step_at(price, change, adjacency).event(\n"
        "            change_type(Assignment.OWN_SLOT, Adjacency.ADD_REMOVE))",
        ANSWERS,
    ),
    Mutant(
        "charge-and-draw-not-compared",
        "a method whose mechanism costs more than what is charged is let through",
        "methods/base.py",
        "        if charged != drawn:",
        "        if charged is None:",
        (_FILE + "test_a_method_whose_charge_and_draw_differ_is_never_charged",),
    ),
    Mutant(
        "rate-for-one-width",
        "the rate that a price sets is that of one width, where a replaced expert moves two",
        "privacy/step_costs.py",
        "return cls(rate=WorkedOut(exact(epsilon) / (exact(width) * change.widths)), **public)",
        "return cls(rate=WorkedOut(exact(epsilon) / exact(width)), **public)",
        ANSWERS,
    ),
    Mutant(
        "texts-explained-once",
        "the steps of a batch are told for one text, whatever number of texts it writes",
        "explain/subjects.py",
        "Part(self._with_further(part.row), part.steps * self._texts.texts)",
        "Part(self._with_further(part.row), part.steps)",
        TEXTS,
    ),
    Mutant(
        "moves-between-batches-unpriced",
        "a replaced unit that changes batches is explained as if it stayed in its own",
        "explain/subjects.py",
        "t.labels_public, change.joins)",
        "True, change.joins)",
        (_FILE + "test_a_unit_that_changes_batches_is_priced_where_labels_are_private",),
    ),
    Mutant(
        "sampled-steps-charged-whole",
        "a charge that is one point of a profile is taken for a refundable sum",
        "methods/decoding/decoder.py",
        "return self.event(setting) if self.refundable else ApproximateDP(report.epsilon, report.delta)",
        "return self.event(setting)",
        (_FILE + "test_a_fresh_sample_for_every_token_is_charged_as_one_point",),
    ),
]
