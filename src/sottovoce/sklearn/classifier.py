"""The scikit-learn face of PrivateICL: ``fit`` seals the examples, and every predicted row is a charged release.

Guarantee   As for ``PrivateICL``: each predicted row is covered by ``statement_``, and the ledger bounds all of them.
Assumes     The declared classes, every parameter and the rows to predict are public. Three habits of scikit-learn break
            that, and nothing here can see them: a transformer fitted on the private rows, folds stratified by private
            labels, and a score against private labels. ``PrivateICLClassifier`` says what to do instead.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import (
    LedgerMismatchError,
    MissingExtraError,
    OpaqueError,
    ParameterError,
    RecordError,
)
from sottovoce.experts.partition import Partition
from sottovoce.methods.base import Method, Reads, make_method
from sottovoce.models.base import LabelScorer
from sottovoce.models.features import VectorScorer, vector_text
from sottovoce.parameters import Kind
from sottovoce.privacy.ledger.balance import Balance
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import IN_MEMORY, Identity, Ledger
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.readers import MAX_CHARACTERS
from sottovoce.records.sealed import PrivateRecords
from sottovoce.session import PrivateICL
from sottovoce.sklearn import inputs as data
from sottovoce.tasks import Task

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise MissingExtraError("scikit-learn", "sklearn") from None

FROM_Y: Final = "from_y"
"""Value of ``classes`` that declares the labels present in ``y`` to be public."""


@final
class PrivateICLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn classifier that learns in context from private examples, within a budget.

    There is no ``predict_proba`` and no ``decision_function``: a probability is computed from the private examples,
    and only the drawn label of a row is released. Two calls of ``predict`` draw twice and are charged twice.

    Four things to know before using it inside scikit-learn's tools:

    - ``score`` and cross-validation charge every row they predict, take it as public, and compare it with the labels
      you pass. Validate on public rows: an accuracy on private ones is a statistic that no ledger covers.
    - A fold is another data set with a fingerprint of its own, so a ledger refuses it. ``share_budget=True``, with a
      path or one ``Ledger`` for all, in memory too, lets all draw on one budget. The sum
      of charges covers folds cut by position (``KFold``) from single records whose number is public. It does not
      cover ``StratifiedKFold``, the default for classifiers: one changed label moves other records between folds.
    - A transformer fitted on the private rows (a scaler, a vocabulary) mixes every row into every other and voids
      the guarantee. Put only stateless ones, or ones fitted on public rows, in front.
    - In a pipeline or a search, ``groups`` reaches ``fit`` only when passed on; ``statement_`` names the unit.

    Args:
        epsilon: Price of one predicted row.
        classes: The public label set, texts or whole numbers, at least two. ``None`` is refused by ``fit``: which
            labels occur in private data is itself private. ``"from_y"`` declares that it is not: the labels present
            in ``y`` become public for every reader of ``classes_``, without noise.
        method: A method, or its name.
        model: A model, or its name. ``"embedded"`` is the sentence encoder for texts and ``VectorScorer`` for numbers.
        adjacency: What one change of the data is.
        budget_epsilon: Epsilon of the data set's whole budget; ``None`` where the ledger knows it already.
        budget_delta: Delta of that budget; 0 for a pure guarantee.
        budget_failure_delta: The share of it for methods whose answers can fail, such as ``pbs``.
        ledger: A ledger, its path, or ``":memory:"``, which is new and empty at every ``fit``, so that a second fit on
            these rows or most of them is refused; ``Ledger(":memory:")`` serves many. ``None`` is refused:
            scikit-learn fits again and again, and each time must find what was spent. Clones share a ledger; jobs in
            other processes need a path.
        caller: Who asks, where the ledger's owner allotted each caller a part of the budget.
        share_budget: Lets every data set fitted with this ledger (folds, later versions) draw on its one budget.
        delta: Delta of one row, for methods that need one; by default the budget's.
        clip: Short for the method's option ``clip``.
        noise: Short for the method's option ``noise``.
        method_options: Options of a method that is given by its name, as ``sotto methods`` lists them.
        units_per_expert: Units an expert sees.
        capacity: Under add-remove: a public number of experts; needs ``groups``.
        max_characters: Longest text of a row.
        length_scale: For ``VectorScorer``: ``None`` compares directions, as suits embeddings centred on a public mean;
            a number compares positions, in the features' own unit. Public: not to be tuned on private rows.
        allow_non_private: Lets methods without a guarantee predict; the ledger notes every such answer.

    Attributes:
        classes_: The declared labels, sorted, shape (classes,).
        n_features_in_: Columns of a numeric ``X``; absent after a fit on texts.
        remaining_: How the ledger stands.
        statement_: The guarantee of one predicted row.

    Example:
        >>> classifier = PrivateICLClassifier(
        ...     classes=["billing", "fraud"], epsilon=2, model="fake", ledger=":memory:"
        ... )
        >>> texts = [f"note {i}" for i in range(40)]
        >>> classifier.fit(texts, ["billing"] * 40).predict(["My card was charged twice."]).tolist()
        ['billing']
        >>> classifier.remaining_.answers
        1
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        classes: Sequence[str] | Sequence[int] | NDArray[Any] | str | None = None,
        method: Method | str = "poe",
        model: LabelScorer | str = "embedded",
        adjacency: Adjacency | str = "replace-one",
        budget_epsilon: float | None = 8.0,
        budget_delta: float = 1e-6,
        budget_failure_delta: float = 0.0,
        ledger: Ledger | str | os.PathLike[str] | None = None,
        caller: str | None = None,
        share_budget: bool = False,
        delta: float | None = None,
        clip: float | None = None,
        noise: str | None = None,
        method_options: Mapping[str, Any] | None = None,
        units_per_expert: int = 1,
        capacity: int | None = None,
        max_characters: int = MAX_CHARACTERS,
        length_scale: float | None = None,
        allow_non_private: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.classes = classes
        self.method = method
        self.model = model
        self.adjacency = adjacency
        self.budget_epsilon = budget_epsilon
        self.budget_delta = budget_delta
        self.budget_failure_delta = budget_failure_delta
        self.ledger = ledger
        self.caller = caller
        self.share_budget = share_budget
        self.delta = delta
        self.clip = clip
        self.noise = noise
        self.method_options = method_options
        self.units_per_expert = units_per_expert
        self.capacity = capacity
        self.max_characters = max_characters
        self.length_scale = length_scale
        self.allow_non_private = allow_non_private

    def fit(self, X: Any, y: Any, groups: Any = None) -> PrivateICLClassifier:
        """Seals the examples. No model reads them yet, and nothing is charged.

        Args:
            X: Texts, shape (rows,): a list, an array or a pandas series; or numbers, shape (rows, features).
            y: Labels, shape (rows,), all of them among the declared classes.
            groups: Whom each row belongs to (a patient, a user), shape (rows,). Then a group is what is protected;
                else a single row is.

        Returns:
            The estimator itself.

        Raises:
            UnusableDataError: ``X``, ``y`` and ``groups`` do not fit together, or are not texts, numbers and labels.
            RecordError: A single row is not usable; it is named by its number.
            ParameterError: A parameter is not usable.
            BudgetError: The ledger does not fit these records, or cannot be written.
            ModelError: The model could not be loaded.
        """
        field, cells = self._cells(X)
        labels = data.labels(y, "y", len(cells))
        classes = self._declared_classes(labels)
        task = data.task(field, classes)
        records = data.sealed(field, cells, data.names(labels, classes, task), groups)
        session = self._open(records, task)
        session.terms(self.epsilon, self.delta)
        self._forget()
        if field == data.NUMBERS:
            validate_data(self, X, skip_check_array=True)
        self.classes_, self._field, self._session = classes, field, session
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Releases one label a row, each charged at ``epsilon``: all rows, or none when the budget does not hold them.

        Args:
            X: Public rows of the kind that ``fit`` was given, shape (rows,) or (rows, features).

        Returns:
            Labels from ``classes_``, shape (rows,).

        Raises:
            NotFittedError: ``fit`` was not called.
            BudgetExhaustedError: The rows cannot all be paid for; nothing was charged and no model was asked.
            UnusableDataError: ``X`` is of another kind or width than in ``fit``.
            RecordError: A single row is not usable; nothing was charged.
            ModelError: The model failed; what was charged stays charged.
        """
        check_is_fitted(self)
        field, cells = self._cells(X)
        if field != self._field:
            raise data.UnusableDataError(f"X holds {field}, but this classifier was fitted on {self._field}.")
        if field == data.NUMBERS:
            validate_data(self, X, skip_check_array=True, reset=False)
        session: PrivateICL = self._session
        queries = [session.task.query_of(row, "X") for row in data.rows({field: cells})]
        session.affords(len(queries), epsilon=self.epsilon, delta=self.delta)
        places = {name: place for place, name in enumerate(session.task.labels)}
        releases = session.classify(queries, epsilon=self.epsilon, delta=self.delta)
        return np.asarray(self.classes_[[places[release.value] for release in releases]])

    @property
    def remaining_(self) -> Balance | None:
        """How the ledger stands; ``None`` where the method reads nothing private."""
        check_is_fitted(self)
        return self._session.balance

    @property
    def statement_(self) -> str:
        """The guarantee of one predicted row, in one sentence."""
        check_is_fitted(self)
        return self._session.terms(self.epsilon, self.delta).statement

    def __sklearn_is_fitted__(self) -> bool:
        return "_session" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def __sklearn_clone__(self) -> PrivateICLClassifier:
        """Shares the ledger and the model with its clones, so that one budget stays one budget."""
        twin = PrivateICLClassifier(**self.get_params(deep=False))
        for name in ("_metadata_request", "_skl_callbacks"):
            if name in vars(self):
                setattr(twin, name, copy.copy(vars(self)[name]))
        return twin

    def __getstate__(self) -> Any:
        if self.__sklearn_is_fitted__():
            raise OpaqueError(
                "A fitted PrivateICLClassifier cannot be pickled, copied or stored: it holds private data. Store the "
                "records where they are safe, and fit a clone again; the ledger knows what was spent."
            )
        return super().__getstate__()

    def _cells(self, X: Any) -> tuple[str, list[Any]]:
        """The kind of a data set, and its rows as texts."""
        Kind(int, "a whole number").read("max_characters", self.max_characters)
        texts = data.texts(X)
        if texts is None:
            table = check_array(data.table(X), estimator=self, input_name="X")
            return data.NUMBERS, [vector_text(row) for row in table]
        for line, text in enumerate(texts, 1):
            if isinstance(text, str) and len(text) > self.max_characters:
                raise RecordError(
                    f"the text is longer than {self.max_characters:,} characters",
                    file="X",
                    line=line,
                    hint="Shorten it, or raise max_characters.",
                )
        return data.TEXT, texts

    def _declared_classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        if self.classes is None:
            raise ParameterError(
                "classes",
                None,
                "the public list of labels: which of them occur in private data is itself private. If the labels "
                f"present in y may be known to everybody, say so with classes={FROM_Y!r}",
            )
        declared = labels
        Kind((str, Collection, np.ndarray), "a list of labels, or 'from_y'").read("classes", self.classes)
        if isinstance(self.classes, str):
            if self.classes != FROM_Y:
                raise ParameterError("classes", self.classes, f"a list of labels, or {FROM_Y!r}")
        else:
            declared = data.labels(self.classes, "classes")
        classes = np.unique(declared)
        if len(classes) < len(declared) and declared is not labels:
            raise data.UnusableDataError("classes names a label twice.")
        if len(classes) < 2:
            raise data.UnusableDataError(f"A classifier needs at least 2 classes; {len(classes)} class is declared.")
        return classes

    def _open(self, records: PrivateRecords, task: Task) -> PrivateICL:
        method = self._method()
        numeric = task.name == data.NUMBERS and self.model == "embedded"
        budget = (
            None
            if self.budget_epsilon is None
            else Budget(self.budget_epsilon, self.budget_delta, self.budget_failure_delta)
        )
        ledger = self._ledger() if method.reads is not Reads.NOTHING else None
        if ledger and self.share_budget:
            _share(ledger, Identity.of(records, Adjacency.parse(self.adjacency)), budget)
        try:
            return PrivateICL(
                records=records,
                task=task,
                method=method,
                model=VectorScorer(self.length_scale) if numeric else self.model,
                adjacency=self.adjacency,
                budget=budget,
                ledger=ledger,
                caller=self.caller,
                partition=Partition(units_per_expert=self.units_per_expert, capacity=self.capacity),
                allow_non_private=self.allow_non_private,
            )
        except LedgerMismatchError as error:
            if not self.share_budget:
                error.add_note("A fold is other records than the rest; share_budget=True lets all draw on one budget.")
            raise

    def _method(self) -> Method:
        options = {name: value for name, value in (("clip", self.clip), ("noise", self.noise)) if value is not None}
        Kind((Method, str), "a method or its name").read("method", self.method)
        for name, value in dict(self.method_options or {}).items():
            if name in options:
                raise ParameterError(name, value, "set once: as a parameter, or in method_options")
            options[name] = value
        if isinstance(self.method, str):
            return make_method(self.method, **options)
        if options:
            name, value = options.popitem()
            raise ParameterError(name, value, "set on the method itself, which is not given by its name")
        return self.method

    def _ledger(self) -> Ledger:
        if isinstance(self.ledger, Ledger):
            return self.ledger
        if self.ledger is None:
            raise ParameterError(
                "ledger",
                None,
                "a file name, a Ledger or ':memory:': scikit-learn fits again and again, and every fit must find what "
                "the others spent",
            )
        Kind((str, os.PathLike), "a file name, a Ledger or ':memory:'").read("ledger", self.ledger)
        path = os.fspath(self.ledger)
        if path == IN_MEMORY and self.share_budget:
            raise ParameterError("share_budget", True, "used with a file or a Ledger: ':memory:' is new at every fit")
        return Ledger(path)

    def _forget(self) -> None:
        if self.__sklearn_is_fitted__():
            self._session.close()
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)


def _share(ledger: Ledger, identity: Identity, budget: Budget | None) -> None:
    """Lets a further data set draw on the budget of the only one that the ledger keeps."""
    try:
        ledger.open(identity, budget)
    except LedgerMismatchError:
        kept = ledger.balances()
        if len(kept) != 1:
            raise
        ledger.grant(identity, None, continues=kept[0].name)
