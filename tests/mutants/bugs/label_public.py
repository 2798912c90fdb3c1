"""Planted where public texts are labelled privately: what answers cost, and by which law they are drawn."""

from __future__ import annotations

from mutants.mutant import Mutant

_FILE = "tests/methods/test_label_public.py::"
PRICE = (_FILE + "test_the_price_is_that_of_all_answers_together",)
LAW = (_FILE + "test_labels_are_drawn_by_the_law_that_is_charged",)
METHOD = "methods/label_public.py"

MUTANTS = [
    Mutant(
        "answers-charged-as-one",
        "one answer is charged, whatever number of texts is labelled",
        METHOD,
        "return SelfComposedDpEvent(self._answer(setting.change), int(self.texts or 0))",
        "return SelfComposedDpEvent(self._answer(setting.change), 1)",
        PRICE,
    ),
    Mutant(
        "rate-of-one-answer",
        "the rate that a price allows is that of a single answer",
        METHOD,
        "            return SelfComposedDpEvent(answer, texts)",
        "            return SelfComposedDpEvent(answer, 1)",
        PRICE,
    ),
    Mutant(
        "labels-drawn-at-the-price-of-all",
        "every answer is drawn as if it had the whole price",
        METHOD,
        "mechanism = Exponential(self._answer(plan.setting.change).eta)",
        "mechanism = Exponential(plan.report.epsilon)",
        LAW,
    ),
    Mutant(
        "label-width-without-the-change",
        "an answer is charged for an expert that vanishes, and drawn for one that is exchanged",
        METHOD,
        "mechanism = Exponential(self._answer(plan.setting.change).eta)",
        "change = plan.setting.change\n        mechanism = Exponential(self._answer(change).eta * change.widths)",
        LAW,
    ),
    Mutant(
        "texts-asked-twice",
        "a text that stands in the pool twice is labelled twice, beside texts that are not",
        METHOD,
        "    kept = np.array(sorted(places.values()))",
        "    kept = np.arange(len(pool))",
        (_FILE + "test_texts_are_far_from_each_other_and_a_text_counts_once",),
    ),
]
