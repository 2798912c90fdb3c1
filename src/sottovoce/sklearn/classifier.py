"""The scikit-learn face: ``fit`` pays once and rows are predicted for free, or every predicted row is charged.

Which of the two holds is the method's: a fitter (``sottovoce.fitting``) is charged by ``fit``; of the others ``fit``
seals the examples, and each predicted row is a release of ``PrivateICL``.

Guarantee   ``statement_`` covers the fit and whatever is computed from it, or else one predicted row; the ledger bounds
            all fits, or rows, together.
Assumes     The declared classes, every parameter and the rows to predict are public. Three habits of scikit-learn break
            that, and nothing here can see them: a transformer fitted on the private rows, folds stratified by private
            labels, and a score against private labels. ``PrivateICLClassifier`` says what to do instead.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import (
    LedgerMismatchError,
    MissingExtraError,
    OpaqueError,
    ParameterError,
    RecordError,
    SottoError,
)
from sottovoce.experts.partition import Partition
from sottovoce.fitting.auto import AUTO
from sottovoce.fitting.fit import Fitting
from sottovoce.fitting.fitted import Fitted
from sottovoce.methods.base import Method, Price, Reads, make_method, registered_methods
from sottovoce.methods.fitting.fitter import Fitter, make_fitter, registered_fitters
from sottovoce.models.base import FloatArray, LabelScorer
from sottovoce.models.features import VectorScorer, vector_text
from sottovoce.parameters import Kind, nearest
from sottovoce.privacy.ledger.balance import Balance
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import IN_MEMORY, Account, Identity, Ledger
from sottovoce.privacy.ledger.location import Secret
from sottovoce.privacy.ledger.opening import is_new
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.readers import MAX_CHARACTERS
from sottovoce.records.sealed import PrivateRecords
from sottovoce.session import PrivateICL
from sottovoce.sklearn import inputs as data
from sottovoce.tasks import Query, Task

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise MissingExtraError("scikit-learn", "sklearn") from None

FROM_Y: Final = "from_y"
"""Value of ``classes`` that declares the labels present in ``y`` to be public."""
FIT_DELTA: Final = 1e-6
"""Delta of a fit, where none is given."""
_COLUMNS: Final = ("n_features_in_", "feature_names_in_")
_LEARNED: Final = ("_session", "fitted_", "resolved_", "_account", "_scorer", *_COLUMNS)

_OF_THIS_PROCESS: Final = ("_account", "_unfinished")
"""What is neither stored nor copied."""


def _is_fitter(method: object) -> bool:
    return isinstance(method, Fitter) or (isinstance(method, str) and method in {AUTO, *registered_fitters()})


def _answers_are_public(classifier: PrivateICLClassifier) -> bool:
    """Whether all that is computed at a question is: as it was fitted, or before that by its method."""
    if classifier.__sklearn_is_fitted__():
        return "fitted_" in vars(classifier)
    return _is_fitter(classifier.method)


@final
class PrivateICLClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn classifier that learns from private examples, within a budget.

    The method says what is paid for. A fitter, such as ``class-means``, is charged ``epsilon`` once, by ``fit``. What
    it learned, with its noise, is then public: ``predict``, ``predict_proba`` and ``decision_function`` are free, and
    the fitted classifier can be pickled. A method that answers row by row, such as ``poe``, is charged ``epsilon`` for
    each predicted row, and again when it predicts the row again. It has no ``predict_proba`` and no
    ``decision_function``: a probability is computed from the private examples, and only the drawn label of a row is
    released.

    Four things to know before using it inside scikit-learn's tools:

    - ``score`` and cross-validation compare rows with the labels you pass; row by row, they charge every row. Validate
      on public rows: an accuracy on private ones is a statistic that no ledger covers.
    - A fold is another data set with a fingerprint of its own, so a ledger refuses it. ``share_budget=True``, with a
      path or one ``Ledger`` for all, in memory too, lets all of them use one budget; with a fitter every fold and
      candidate is one more charge, and the first one that exceeds the budget is refused. The sum of charges covers
      folds cut by position (``KFold``) from single records whose number is public. It does not cover
      ``StratifiedKFold``, the default for classifiers: one changed label moves other records between folds.
    - A transformer fitted on the private rows (a scaler, a vocabulary) mixes every row into every other and voids
      the guarantee. Use only stateless transformers, or ones fitted on public rows. Rows of numbers, such as embeddings
      made elsewhere, are each scaled to unit length; no column is centred or scaled.
    - In a pipeline or a search, ``groups`` reaches ``fit`` only when passed on; ``statement_`` names the unit.

    Args:
        epsilon: Price of the fit where the method is a fitter, else of one predicted row.
        classes: The public label set, texts or whole numbers, at least two. ``None`` is refused by ``fit``: which
            labels occur in private data is itself private. ``"from_y"`` declares that it is not: the labels present
            in ``y`` become public for every reader of ``classes_``, without noise.
        method: A fitter such as ``"class-means"``, which pays once; ``"auto"`` for the fitter that suits the public
            numbers; or a method that answers row by row. By name or as an object.
        model: A model, or its name. ``"embedded"`` is the sentence encoder for texts and ``VectorScorer`` for numbers.
        adjacency: What one change of the data is.
        budget_epsilon: Epsilon of the data set's whole budget, of which every fit or row takes its part, a repeated fit
            too. ``None`` where the ledger knows it already. For records that the ledger does not know, ``None`` makes a
            fitter's own (epsilon, delta) the whole budget: this one fit uses all of it, with a little less noise.
        budget_delta: Delta of that budget; 0 for a pure guarantee.
        budget_failure_delta: The share of it for methods whose answers can fail, such as ``pbs``.
        ledger: A ledger, its path, or ``":memory:"``, which is new and empty at every ``fit``, so that a second fit on
            these rows or most of them is refused; ``Ledger(":memory:")`` serves many. ``None`` is refused:
            scikit-learn fits repeatedly, and each fit must see what was spent before. Clones share a ledger; jobs in
            other processes need a path. A password in an address is used, and is neither shown nor pickled; a pickled
            ``Ledger`` is its path or address; one in memory stays in its process, and a fit elsewhere is refused.
            Whoever fits again, in another process too, states the password anew or has it in PGPASSWORD.
        caller: Who asks, where the ledger's owner allotted each caller a part of the budget.
        share_budget: Lets every data set fitted with this ledger (folds, later versions) draw on its one budget. Rows
            that have, or had, a budget in another ledger are refused: a second one is their owner's decision.
        delta: Delta of the fit, by default 1e-6; or of one row, for methods that need one, by default the budget's.
        clip: Short for the method's option ``clip``.
        noise: Short for the method's option ``noise``.
        method_options: Options of a method that is given by its name, as ``sotto methods`` lists them.
        units_per_expert: Units an expert sees; row by row only.
        capacity: Under add-remove: a public number of experts; needs ``groups``; row by row only.
        calibrate: Contextual calibration: subtracts from each expert's scores its own scores of questions without
            content, for no further epsilon. It helps language models, which often repeat the label of an example. Row
            by row and for texts only.
        max_characters: Longest text of a row.
        length_scale: For ``VectorScorer``: ``None`` compares directions, as suits embeddings centred on a public mean;
            a number compares positions, in the features' own unit. Public: not to be tuned on private rows.
        allow_non_private: Lets methods without a guarantee predict; the ledger notes every such answer.
        pool: Public rows without labels, of the kind of ``X``, for fitters that use some. By default those that
            ``sottovoce.fitting`` takes for texts, and none for numbers.
        synthetic: Declares that the rows are made up or published, as for ``read_private``: they may have any number
            of budgets.

    Attributes:
        classes_: The declared labels, sorted, shape (classes,).
        n_features_in_: Columns of a numeric ``X``; absent after a fit on texts.
        remaining_: The balance of the ledger. Absent from a classifier that was pickled, which holds only public
            values.
        statement_: The guarantee of the fit, or of one predicted row.
        fitted_: What a fitter released, a ``Fitted``: ``fitted_.save(file)`` keeps it for ``sotto predict``.
        resolved_: The method that ``auto`` stands for, and why; absent otherwise.

    Example:
        Paid once: four fifths of this budget, then any number of rows.

        >>> classifier = PrivateICLClassifier(
        ...     classes=["down", "up"], method="class-means", epsilon=4, budget_epsilon=5, ledger=":memory:"
        ... )
        >>> rows = [[1.0, 0.1 * (i % 3)] for i in range(100)] + [[-1.0, 0.1 * (i % 3)] for i in range(100)]
        >>> classifier.fit(rows, ["up"] * 100 + ["down"] * 100).predict([[2.0, 0.1], [-0.5, 0.0]]).tolist()
        ['up', 'down']
        >>> classifier.predict_proba([[2.0, 0.1]]).shape, classifier.remaining_.answers
        ((1, 2), 1)

        Row by row.

        >>> classifier = PrivateICLClassifier(
        ...     classes=["billing", "fraud"], epsilon=2, model="fake", ledger=":memory:"
        ... )
        >>> texts = [f"note {i}" for i in range(40)]
        >>> classifier.fit(texts, ["billing"] * 40).predict(["My card was charged twice."]).tolist()
        ['billing']
        >>> classifier.remaining_.answers
        1
    """

    fitted_: Fitted
    _session: PrivateICL
    _unfinished: dict[Any, list[str]]
    """Labels of rows, each drawn at a price, that no call has handed over."""
    _account: Account

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        classes: Sequence[str] | Sequence[int] | NDArray[Any] | str | None = None,
        method: Method | Fitter | str = "poe",
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
        calibrate: bool = False,
        max_characters: int = MAX_CHARACTERS,
        length_scale: float | None = None,
        allow_non_private: bool = False,
        pool: Any = None,
        synthetic: bool = False,
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
        self.calibrate = calibrate
        self.max_characters = max_characters
        self.length_scale = length_scale
        self.allow_non_private = allow_non_private
        self.pool = pool
        self.synthetic = synthetic

    def fit(self, X: Any, y: Any, groups: Any = None) -> PrivateICLClassifier:
        """Learns from the examples and pays for it; or, for a method that answers row by row, seals them for free.

        Args:
            X: Texts, shape (rows,): a list, an array or a pandas series; or numbers, shape (rows, features).
            y: Labels, shape (rows,), all of them among the declared classes.
            groups: The person each row belongs to (a patient, a user), shape (rows,). A group is then the unit that is
                protected; without groups it is a single row.

        Returns:
            The estimator itself. What an earlier fit learned stays until this one has succeeded.

        Raises:
            UnusableDataError: ``X``, ``y``, ``groups`` and ``pool`` do not fit together, or are not texts, numbers and
                labels. Nothing was charged.
            RecordError: A single row is not usable; it is named by its number. Nothing was charged.
            ParameterError: A parameter is not usable. Nothing was charged.
            BudgetError: The ledger does not fit these records, or cannot be written or pay for the fit.
            ModelError: The model could not be loaded, or it failed; what was charged stays charged.
        """
        field, cells = self._cells(X)
        labels = data.labels(y, "y", len(cells))
        classes = self._declared_classes(labels)
        task = data.task(field, classes)
        for flag in ("synthetic", "share_budget", "calibrate", "allow_non_private"):
            Kind((bool, np.bool_), "True or False").read(flag, getattr(self, flag))
        names = data.names(labels, classes, task)
        records = data.sealed(field, cells, names, groups, synthetic=bool(self.synthetic))
        columns = _columns_of(X) if field == data.NUMBERS else {}
        self._require_method()
        if _is_fitter(self.method):
            learned = self._learned(records, task, columns.get("n_features_in_"))
        else:
            learned = self._sealed(records, task)
        self._forget()
        self.__dict__.update(columns, **learned)
        self.classes_, self._field = classes, field
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """One label a row: the most probable, for free; or, row by row, a release each, charged at ``epsilon``.

        Row by row, nothing is charged unless the budget suffices for all rows; then they are charged and answered 32 at
        a time. Where that is cut short, labels that were drawn are kept: this classifier gives them, at this price and
        once each, to the next call that asks for their rows, fitted again on the same records or not.

        Args:
            X: Public rows of the kind that ``fit`` was given, shape (rows,) or (rows, features).

        Returns:
            Labels from ``classes_``, shape (rows,).

        Raises:
            NotFittedError: ``fit`` was not called.
            BudgetExhaustedError: The rows cannot all be paid for; nothing was charged and no model was asked, unless
                the budget was spent elsewhere meanwhile: the message says how many rows were answered before.
            UnusableDataError: ``X`` is of another kind or width than in ``fit``.
            RecordError: A single row is not usable; nothing was charged.
            ModelError: The model failed; what was charged stays charged, and the message says how many rows were
                answered before.
        """
        queries = self._queries(X)
        if _answers_are_public(self):
            return np.asarray(self.classes_[self.fitted_.log_probabilities(queries).argmax(axis=1)])
        places = {name: place for place, name in enumerate(self._session.task.labels)}
        return np.asarray(self.classes_[[places[value] for value in self._answers(queries)]])

    def _answers(self, queries: Sequence[Query]) -> list[str]:
        """The label of each row, charged; a row that an earlier call left answered has that label, and is not charged.

        Raises:
            SottoError: As of ``predict``. Labels that were drawn are kept.
        """
        epsilon, delta = self.epsilon, self.delta
        self._session.terms(epsilon, delta)  # refuses what is no price
        same = (*self._words(), epsilon, delta)
        asked = [(tuple(query.items()), *same) for query in queries]
        values = [kept.pop() if (kept := self._unfinished.get(row)) else None for row in asked]
        waiting = [place for place, value in enumerate(values) if value is None]
        try:
            self._session.affords(len(waiting), epsilon=epsilon, delta=delta)
            following = iter(waiting)
            for batch in self._session.batches([queries[at] for at in waiting], epsilon=epsilon, delta=delta):
                for release in batch:
                    values[next(following)] = release.value
        except BaseException as error:
            for row, value in zip(asked, values, strict=True):
                if value is not None:
                    self._unfinished.setdefault(row, []).append(value)
            drawn = sum(value is not None for value in values)
            if drawn and isinstance(error, SottoError):
                words = (
                    f"Before that {drawn} of {len(queries)} rows were answered and their labels kept: this classifier"
                )
                error.args = (f"{error} {words} gives them at this price without a further charge.",)
            raise
        return [value for value in values if value is not None]

    def _words(self) -> tuple[Any, ...]:
        """What a label follows from, besides its row and its price: fitted again on the same, it is the same one."""
        session = self._session
        own = (self.units_per_expert, self.capacity, bool(self.calibrate))
        whose = (*session.origin.values(), session.adjacency, repr(session.method))
        return (*whose, session.model.name, repr(session.task), *own)

    @available_if(_answers_are_public)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Natural-log probabilities of the classes, shape (rows, classes), for free. Fitters only.

        Raises:
            NotFittedError: ``fit`` was not called.
            UnusableDataError: ``X`` is of another kind or width than in ``fit``.
            RecordError: A single row is not usable.
            ModelError: The model failed.
        """
        queries = self._queries(X)
        return self.fitted_.log_probabilities(queries)

    @available_if(_answers_are_public)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the classes, shape (rows, classes); otherwise as ``predict_log_proba``."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_if(_answers_are_public)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds of the second of two classes, shape (rows,), or log-probabilities of more, shape (rows, classes)."""
        scores: FloatArray = self.predict_log_proba(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    @property
    def remaining_(self) -> Balance | None:
        """How the ledger stands; ``None`` where the method reads nothing private."""
        check_is_fitted(self)
        if "_session" in vars(self):
            return self._session.balance
        if "_account" not in vars(self):
            raise AttributeError(
                "A copy or stored form of a classifier knows no ledger. Ask the ledger itself: sotto ledger show LEDGER"
            )
        return self._account.balance()

    @property
    def statement_(self) -> str:
        """The guarantee of the fit, or of one predicted row, in one sentence."""
        check_is_fitted(self)
        if "fitted_" in vars(self):
            return self.fitted_.statement
        return self._session.terms(self.epsilon, self.delta).statement

    def __sklearn_is_fitted__(self) -> bool:
        return not vars(self).keys().isdisjoint({"_session", "fitted_"})

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

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, Secret.of(value) if name == "ledger" else value)

    def __getstate__(self) -> Any:
        """Parameters and what a fitter released, which is public; without the ledger's account, or a password."""
        if "_session" in vars(self):
            raise OpaqueError(
                "A fitted PrivateICLClassifier cannot be pickled, copied or stored: it holds private data. Store the "
                "records where they are safe, and fit a clone again; the ledger knows what was spent. A method that is "
                "paid once, such as class-means, leaves a classifier that can be stored."
            )
        state = {name: value for name, value in super().__getstate__().items() if name not in _OF_THIS_PROCESS}
        if "fitted_" in state:
            state["fitted_"] = self.fitted_.to_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = {"synthetic": False, **state, "ledger": Secret.of(state["ledger"])}  # as of earlier builds, too
        if "fitted_" in state:
            state["fitted_"] = Fitted.from_bytes(state["fitted_"], "the stored classifier")
            if state["_scorer"] is not None:
                state["fitted_"].use(state["_scorer"])
        super().__setstate__(state)

    def _cells(self, X: Any, name: str = "X") -> tuple[str, list[Any]]:
        """The kind of a data set, and its rows as texts."""
        Kind(int, "a whole number").read("max_characters", self.max_characters)
        texts = data.texts(X)
        if texts is None:
            return data.NUMBERS, [vector_text(row) for row in data.checked(X, name, self)]
        for line, text in enumerate(texts, 1):
            if isinstance(text, str) and len(text) > self.max_characters:
                raise RecordError(
                    f"the text is longer than {self.max_characters:,} characters",
                    file=name,
                    line=line,
                    hint="Shorten it, or raise max_characters.",
                )
        return data.TEXT, texts

    def _queries(self, X: Any) -> list[Query]:
        """Rows to be predicted, as questions."""
        check_is_fitted(self)
        field, cells = self._cells(X)
        if field != self._field:
            raise data.UnusableDataError(f"X holds {field}, but this classifier was fitted on {self._field}.")
        if field == data.NUMBERS:
            _require_columns(self, X, reset=False)
        task = self.fitted_.task if "fitted_" in vars(self) else self._session.task
        return [task.query_of(row, "X") for row in data.rows({field: cells})]

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
            declared = data.labels([*self.classes] if isinstance(self.classes, Set) else self.classes, "classes")
        classes = np.unique(declared)
        if len(classes) < len(declared) and declared is not labels:
            raise data.UnusableDataError("classes names a label twice.")
        if len(classes) < 2:
            raise data.UnusableDataError(f"A classifier needs at least 2 classes; {len(classes)} class is declared.")
        return classes

    # A fit that is paid once

    def _learned(self, records: PrivateRecords, task: Task, columns: int | None) -> dict[str, Any]:
        """What a fitter leaves; it is charged here."""
        for name, default in (("units_per_expert", 1), ("capacity", None), ("calibrate", False)):
            if not _is_same(getattr(self, name), default):
                raise ParameterError(
                    name, getattr(self, name), "left out: a fit that is paid once asks no such experts"
                )
        price = Price(self.epsilon, FIT_DELTA if self.delta is None else self.delta)
        pool = self._public_rows(task, columns)
        method, budget, model = self._fitter(), self._budget(), self._model(columns)

        def fitting(ledger: Ledger | str, shared: Budget | None = None) -> Fitting:
            made = Fitting(
                records,
                task,
                epsilon=price.epsilon,
                delta=price.delta,
                method=method,
                model=model,
                adjacency=self.adjacency,
                pool=pool,
                budget=shared or budget,
                ledger=ledger,
                caller=self.caller,
            )
            fitter = made.plan.fitter
            if budget is not None and fitter.needs_delta and budget.delta == 0:
                raise ParameterError("budget_delta", 0, f"above 0 for the method {fitter.name!r}, such as 1e-6")
            return made

        made = fitting(self._ledger_given())
        try:
            made.affords()  # opens the ledger, where it fits these records
        except LedgerMismatchError as error:
            identity = Identity.of(records, Adjacency.parse(self.adjacency))
            ledger = self._shared(error, identity, budget)
            kept = ledger.balances()
            if len(kept) != 1:
                raise
            made = fitting(ledger, kept[0].budget)  # in its currency
            ledger.join(identity, budget, caller=self.caller, charges=[made.charge])
            made.affords()
        learned: dict[str, Any] = {"_scorer": None if isinstance(model, str | VectorScorer) else model}
        if made.advice:
            learned["resolved_"] = made.advice
        return {**learned, "_account": made.account, "fitted_": made.run()}

    def _fitter(self) -> Fitter | str:
        """The method; ``auto`` is left to the fit, which knows the pool and the model."""
        options = self._options()
        if isinstance(self.method, str) and self.method != AUTO:
            return make_fitter(self.method, **options)
        if options:
            name, value = options.popitem()
            raise ParameterError(name, value, "set on the method itself, or of one that is given by its own name")
        return self.method  # type: ignore[return-value]

    def _model(self, columns: int | None) -> LabelScorer | str:
        """The model that reads rows of so many numbers, or texts."""
        if columns is not None and isinstance(self.model, str) and self.model == "embedded":
            return VectorScorer(self.length_scale, columns)
        if columns is not None and isinstance(self.model, VectorScorer):
            return replace(self.model, columns=columns)
        return self.model

    def _public_rows(self, task: Task, columns: int | None) -> list[Query] | None:
        """The pool; of numbers none is taken by default."""
        if self.pool is None:
            return None if columns is None else []
        if hasattr(self.pool, "__len__") and len(self.pool) == 0:
            raise data.UnusableDataError("pool is empty. Leave it out, or give public rows of the kind of X.")
        field, cells = self._cells(self.pool, "pool")
        (expected,) = task.fields
        if field != expected:
            raise data.UnusableDataError(f"pool holds {field}, and X holds {expected}.")
        width = np.shape(self.pool)[1] if columns is not None else None
        if width != columns:
            raise data.UnusableDataError(f"pool has {width} columns, and X has {columns}.")
        return [task.query_of(row, "pool") for row in data.rows({field: cells})]

    # Answers row by row

    def _sealed(self, records: PrivateRecords, task: Task) -> dict[str, Any]:
        """A session that holds the examples."""
        if self.pool is not None:
            raise ParameterError(
                "pool", type(self.pool).__name__, "left out: a method that answers row by row reads none"
            )
        session = self._open(records, task)
        session.terms(self.epsilon, self.delta)
        return {"_session": session, "_unfinished": vars(self).get("_unfinished", {})}

    def _open(self, records: PrivateRecords, task: Task) -> PrivateICL:
        method = self._method()
        numeric = task.name == data.NUMBERS and _is_same(self.model, "embedded")
        budget = self._budget()
        ledger = self._ledger() if method.reads is not Reads.NOTHING else None

        def opened() -> PrivateICL:
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
                calibrate=bool(self.calibrate),
                allow_non_private=bool(self.allow_non_private),
            )

        try:
            return opened()
        except LedgerMismatchError as error:
            identity = Identity.of(records, Adjacency.parse(self.adjacency))
            self._shared(error, identity, budget).join(identity, budget, caller=self.caller)
            return opened()

    def _method(self) -> Method:
        options = self._options()
        if not isinstance(self.method, Method):
            return make_method(str(self.method), **options)
        if options:
            name, value = options.popitem()
            raise ParameterError(name, value, "set on the method itself, which is not given by its name")
        return self.method

    # What both share

    def _require_method(self) -> None:
        Kind((Method, Fitter, str), "a method or its name").read("method", self.method)
        names = sorted({AUTO, *registered_fitters(), *registered_methods()})
        if isinstance(self.method, str) and self.method not in names:
            raise ParameterError("method", self.method, f"one of {', '.join(names)}{nearest(self.method, names)}")

    def _options(self) -> dict[str, Any]:
        options = {name: value for name, value in (("clip", self.clip), ("noise", self.noise)) if value is not None}
        more: Mapping[str, Any] = {} if self.method_options is None else self.method_options
        for name, value in Kind(Mapping, "a mapping of options").read("method_options", more).items():
            Kind(str, "a mapping of options by their names").read("method_options", name)
            if name in options:
                raise ParameterError(name, value, "set once: as a parameter, or in method_options")
            options[name] = value
        return options

    def _budget(self) -> Budget | None:
        if self.budget_epsilon is None:
            return None
        return Budget(self.budget_epsilon, self.budget_delta, self.budget_failure_delta)

    def _ledger(self) -> Ledger:
        given = self._ledger_given()
        return given if isinstance(given, Ledger) else Ledger(given)

    def _ledger_given(self) -> Ledger | str:
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
        return path

    def _shared(self, error: LedgerMismatchError, identity: Identity, budget: Budget | None) -> Ledger:
        """The ledger that these records may ask to join; where there is none, or sharing is not chosen, the error."""
        given = self._ledger_given()
        new = not isinstance(given, Ledger) and is_new(given)
        if self.share_budget and not new:
            return self._ledger()
        if not new and self._ledger().admits(identity, budget):
            error.add_note("A fold is other records than the rest; share_budget=True lets all draw on one budget.")
        raise error

    def _forget(self) -> None:
        if "_session" in vars(self):
            self._session.close()
        for name in _LEARNED:
            self.__dict__.pop(name, None)


def _is_same(given: object, default: object) -> bool:
    try:
        return bool(given == default)
    except (ValueError, TypeError):  # of an array
        return False


def _columns_of(X: Any) -> dict[str, Any]:
    """What scikit-learn keeps of columns of numbers: how many there are, and their names where they have some."""
    seen = PrivateICLClassifier()
    _require_columns(seen, X, reset=True)
    return {name: vars(seen)[name] for name in _COLUMNS if name in vars(seen)}


def _require_columns(classifier: PrivateICLClassifier, X: Any, *, reset: bool) -> None:
    """Notes the number and the names of columns, which are public, or compares them with those that were noted.

    Raises:
        UnusableDataError: They are others, or only some of them are texts.
    """
    try:
        validate_data(classifier, X, skip_check_array=True, reset=reset)
    except (ValueError, TypeError) as error:
        raise data.UnusableDataError(str(error)) from None
