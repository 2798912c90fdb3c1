"""Planted in the scikit-learn face and its model of numbers: budgets of folds, whose answers are public, rows apart."""

from __future__ import annotations

from mutants.mutant import Mutant

ESTIMATOR = "tests/test_estimator.py"
CLASSIFIER = "sklearn/classifier.py"

MUTANTS = [
    Mutant(
        "budget-for-each-fold",
        "every fold gets a budget of its own, where all are to share one",
        CLASSIFIER,
        "    if len(kept) == 1:\n"
        "        ledger.grant(identity, None, continues=kept[0].name)\n"
        "    return len(kept) == 1\n",
        "    ledger.grant(identity, kept[0].budget, name=f'fold-{len(kept)}')\n    return True\n",
        (f"{ESTIMATOR}::test_a_search_stops_at_the_budget",),
    ),
    Mutant(
        "probabilities-row-by-row",
        "a classifier that answers row by row offers probabilities, which are computed from private rows",
        CLASSIFIER,
        "    return _is_fitter(classifier.method)\n",
        "    return True\n",
        (f"{ESTIMATOR}::test_a_pipeline_has_probabilities_where_its_last_step_has",),
    ),
    Mutant(
        "rows-scaled-by-each-other",
        "rows of numbers are divided by the mean length of all, so one record moves every other's vector",
        "models/features.py",
        "                    vector[...] = self._embedded(numbers)\n        return vectors\n",
        "                    vector[...] = self._embedded(numbers)\n"
        "        return vectors / np.sqrt(np.mean(np.nan_to_num(vectors) ** 2) * self.dimension)\n",
        (f"{ESTIMATOR}::test_a_row_that_cannot_be_embedded_touches_no_other_and_is_refused_as_a_question",),
    ),
]
