"""Planted in the scikit-learn face and its model of numbers: budgets of folds, whose answers are public, rows apart."""

from __future__ import annotations

from mutants.mutant import Mutant

ESTIMATOR = "tests/test_estimator.py"
CLASSIFIER = "sklearn/classifier.py"

MUTANTS = [
    Mutant(
        "paid-rows-go-with-a-failure",
        "rows that were answered and charged are asked and charged again where a later one failed",
        CLASSIFIER,
        "                if value is not None:\n                    self._unfinished",
        "                if value is None:\n                    self._unfinished",
        (f"{ESTIMATOR}::test_answers_that_were_paid_for_are_kept_where_a_later_batch_fails",),
    ),
    Mutant(
        "paid-rows-are-had-again",
        "answers that a failed call left are had any number of times",
        CLASSIFIER,
        "kept.pop() if",
        "kept[-1] if",
        (f"{ESTIMATOR}::test_answers_that_were_paid_for_are_kept_where_a_later_batch_fails",),
    ),
    Mutant(
        "one-answer-afforded-for-all",
        "however many answers are asked for, the price of one is compared with the budget",
        "privacy/ledger/account.py",
        "amount * count, [event], count",
        "amount, [event], count",
        ("tests/test_session.py::test_remaining_is_what_the_ledger_says_afterwards",),
    ),
    Mutant(
        "budget-for-each-fold",
        "every fold gets a budget of its own, where all are to share one",
        "privacy/ledger/ledger.py",
        "                account.check_within(connection, charges)\n"
        "                self._add_version(connection, row, identity)\n",
        "                self._create(connection, identity, budget_of(row), identity.fingerprint[:8])\n",
        (f"{ESTIMATOR}::test_a_search_stops_at_the_budget",),
    ),
    Mutant(
        "jobs-have-budgets-of-their-own",
        "a ledger in memory is a new one, with a budget of its own, where it is unpickled",
        "privacy/ledger/ledger.py",
        "PICKLED if self.path == IN_MEMORY else self.path",
        "self.path",
        (f"{ESTIMATOR}::test_a_classifier_with_a_ledger_is_stored_with_its_path",),
    ),
    Mutant(
        "a-budget-for-each-precision",
        "rows of numbers that are held as 32-bit floats have a budget beside that of the same rows in 64 bits",
        "records/fingerprints.py",
        'values.astype("<f4") + np.float32(0)',
        'values.astype("<f8") + np.float64(0)',
        (f"{ESTIMATOR}::test_rows_of_numbers_have_one_budget_in_whatever_precision_they_are_held",),
    ),
    Mutant(
        "a-budget-for-each-precision-of-a-fraction",
        "tables with a fraction a row, or whose rows were drawn again, have a budget in 32 bits beside that in 64",
        "records/fingerprints.py",
        "        if numbers:  #",
        "        if not numbers:  #",
        (f"{ESTIMATOR}::test_rows_of_few_fractions_or_drawn_again_have_one_budget_too",),
    ),
    Mutant(
        "two-persons-of-one-huge-number",
        "groups whose ids an array of one type rounds to one number are one person",
        "sklearn/inputs.py",
        "        if len(set(map(identity_text, owners.tolist()))) <",
        "        if len(groups) <",
        (f"{ESTIMATOR}::test_groups_that_would_become_one_are_refused",),
    ),
    Mutant(
        "shared-budgets-are-second-ones",
        "records that have a budget in another ledger, or had one in a ledger that was deleted, share a further one",
        "privacy/ledger/ledger.py",
        "        refuse_second(identity, self.path, connection.scalars(sa.select(FINGERPRINT.c.fingerprint)).all())\n",
        "",
        (f"{ESTIMATOR}::test_records_that_have_a_budget_share_no_other",),
    ),
    Mutant(
        "records-join-what-they-cannot-pay",
        "a fit that is refused for its price leaves its records with the ledger's budget",
        "privacy/ledger/ledger.py",
        "                account.check_within(connection, charges)\n",
        "",
        (f"{ESTIMATOR}::test_records_do_not_join_a_budget_that_refuses_them",),
    ),
    Mutant(
        "passwords-in-parameters",
        "the password in a ledger's address is shown by a classifier, and stored with it",
        CLASSIFIER,
        'Secret.of(value) if name == "ledger" else value',
        "value",
        (f"{ESTIMATOR}::test_a_password_in_the_address_of_a_ledger_is_used_and_neither_shown_nor_stored",),
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
