"""What a fit leaves: a support with its task, its model's name and its certificate, in one file that runs nothing.

The file is in the safetensors format: numbers as arrays, and everything else as JSON in one more array of bytes. The
header names the format alone, so that its length follows neither from public texts nor from what was drawn; files of
format 1 have the JSON in it. A file is read up to a size limit, every part is checked, and nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, final

import numpy as np

from sottovoce.errors import InputError, ModelError, ParameterError, TaskError
from sottovoce.experts.public_map import PublicMap
from sottovoce.files.outputs import new_file
from sottovoce.fitting.certificate import FitCertificate
from sottovoce.methods.fitting.support import DemonstrationSupport, LinearSupport, Support
from sottovoce.models.base import Embedder, FloatArray, LabelScorer, PreparedContexts, embedding_model
from sottovoce.models.registry import load_scorer
from sottovoce.parameters import FILE_NAME, Able, Kind, is_several
from sottovoce.privacy.checks import canonical, read_json
from sottovoce.privacy.numbers import rounded_up
from sottovoce.records.sealed import Row
from sottovoce.release import figures_of
from sottovoce.tasks import Example, Query, Task

FORMAT: Final = 2
HEADER: Final = "sottovoce"
MOST_BYTES: Final = 256 << 20
"""Files of more bytes are refused."""
MOST_UNCOUNTED: Final = 32 << 20
"""Longer JSON is read where it is long texts, and refused before it is parsed where it is many parts."""
MOST_PARTS: Final = 1 << 22
"""Brackets and texts of longer JSON. In memory a part takes many times as much as its letters in the file."""
TOGETHER: Final = 256
"""Questions that are read together."""
LINEAR, DEMONSTRATIONS = "linear", "demonstrations"
_ABOUT: Final = "about"
"""The array that holds the JSON."""
_COUNT: Final = "count"
_FRAME: Final = 4096
"""Bytes of a file at most that are neither numbers nor JSON: its header, and what fills it up."""
_ROW: Final = 64
"""Bytes of a demonstration's JSON at most, beside its fields'."""
_PART: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]', re.DOTALL)
"""A part of JSON: a text with all that is in it, or a bracket."""
_NUMBERS: Final = ("weights", "offset", "spread", "bias")
_MAP: Final = ("centre", "matrix")
_TASK: Final = ("labels", "name", "instruction", "query", "example", "label_field", "answer", "image")


@final
@dataclass(eq=False)
class Fitted:
    """A support that answers any number of questions, without a ledger and without a private record.

    Attributes:
        support: What was released.
        task: Labels and templates.
        model: Name of the model that it was fitted with.
        embedding: Identifies the model's vectors; empty where none were used.
        certificate: The price that was paid, and the guarantee.

    Example:
        >>> from sottovoce.fitting.fit import fit
        >>> from sottovoce.models.fake import FakeScorer
        >>> from sottovoce.privacy.ledger.budget import Budget
        >>> from sottovoce.records.sealed import PrivateRecords, Row
        >>> words = {"billing": "a fee was charged twice", "fraud": "somebody used my card"}
        >>> rows = [Row(i, {"text": f"{words[label]} {i}", "label": label}) for i in range(300) for label in words]
        >>> fitted = fit(
        ...     PrivateRecords(rows, source="notes"), Task(labels=list(words)), epsilon=8, delta=1e-6,
        ...     method="class-means", model=FakeScorer(), ledger=":memory:",
        ... )
        >>> fitted.predict(["a fee was charged twice again", "somebody used my card today"])
        ['billing', 'fraud']
    """

    support: Support
    task: Task
    model: str
    embedding: str
    certificate: FitCertificate
    _scorer: Any = field(default=None, repr=False)
    _prepared: PreparedContexts | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        c = self.certificate
        figures = f"epsilon={rounded_up(c.epsilon, 6)}, delta={rounded_up(c.delta, 6)}"
        cost = "no privacy guarantee" if figures_of(c)["epsilon"] is None else figures
        return f"Fitted({c.method!r}, {len(self.task.labels)} labels, {cost})"

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return self.certificate.statement

    @property
    def method(self) -> str:
        """Name of the fitter."""
        return self.certificate.method

    def use(self, model: LabelScorer | str, **options: Any) -> None:
        """Answers with this model from now on: demonstrations suit any model, a classifier only its own.

        Where the support holds demonstrations and a classifier, the classifier answers if the model has the embedding
        that it was fitted for; otherwise the demonstrations are shown to the model.

        Raises:
            ParameterError: There is no such model.
            ModelError: Its vectors are not those that the classifier was fitted for, or it cannot be loaded.
        """
        Able("prepare", "a model that scores labels, or its name").read("model", model)
        scorer = load_scorer(model, **options) if isinstance(model, str) else model
        if isinstance(self.support, LinearSupport):
            scorer = embedding_model(scorer)
            found = scorer.embedding if isinstance(scorer, Embedder) else None
            if found != self.embedding:
                raise ModelError(
                    f"This was fitted with the vectors of {self.model!r} ({self.embedding[:12]}...), and the model "
                    f"{scorer.name!r} has {'others' if found else 'none'}{f' ({found[:12]}...)' if found else ''}. "
                    "Load that model, in the version and the dtype that it was fitted with, or fit again."
                )
        self._scorer, self._prepared = scorer, None

    def predict(self, queries: Sequence[str | Query]) -> list[str]:
        """The most probable label of every question."""
        best = self.log_probabilities(queries).argmax(axis=1)
        return [self.task.labels[index] for index in best.tolist()]

    def log_probabilities(self, queries: Sequence[str | Query]) -> FloatArray:
        """Natural-log probabilities of the labels, shape (questions, labels). Public, like everything computed from a
        support is.

        Raises:
            ParameterError: A question is not a text or a mapping of the task's fields.
            ModelError: The model cannot be loaded, is another one, or fails.
        """
        parts = list(self.batches(queries))
        return np.concatenate(parts) if parts else np.empty((0, len(self.task.labels)))

    def batches(self, queries: Sequence[str | Query]) -> Iterator[FloatArray]:
        """As ``log_probabilities``, in batches of questions."""
        if not is_several(queries):
            raise ParameterError("queries", type(queries).__name__, "several questions, such as a list of texts")
        return self._in_batches([question_of(self.task, query) for query in queries])

    def _in_batches(self, queries: Sequence[Query]) -> Iterator[FloatArray]:
        if self._scorer is None:
            self.use(self.model)
        for start in range(0, len(queries), TOGETHER):
            part = queries[start : start + TOGETHER]
            scores = self._scored(part)
            if not np.isfinite(scores).all():
                raise ModelError(
                    f"The model {self._scorer.name} gave numbers that are not finite for one of the questions "
                    f"{start + 1} to {start + len(part)}. Shorten or mend it."
                )
            yield scores

    def _scored(self, queries: Sequence[Query]) -> FloatArray:
        classifier = self._classifier
        if self._prepared is None:
            self._prepared = self._scorer.prepare(self.task, [_shown(self.support) if classifier is None else ()])
        if classifier is None:
            return np.array(self._prepared.score(queries)[:, 0], dtype=np.float64)
        vectors = self._scorer.embed_questions(self.task, queries)
        flat = np.zeros((len(queries), len(self.task.labels)))
        prior = self._prepared.score(queries)[:, 0] if classifier.prior_weight else flat
        return classifier.log_probabilities(vectors, prior)

    @property
    def _classifier(self) -> LinearSupport | None:
        """What answers in place of demonstrations: where there is one, and the model has its embedding."""
        if isinstance(self.support, LinearSupport):
            return self.support
        same = isinstance(self._scorer, Embedder) and self._scorer.embedding == self.embedding
        return self.support.classifier if same else None

    # The file

    @property
    def content_sha256(self) -> str:
        """Hash of the support with its task and model. It identifies the content in the certificate."""
        return content_hash(self.support, self.task, self.model, self.embedding)

    def to_bytes(self) -> bytes:
        """As the file holds it."""
        from safetensors.numpy import save

        about = _described(self.support, self.task, self.model, self.embedding)
        about["certificate"] = self.certificate.as_dict
        told = np.frombuffer(json.dumps(about).encode("ascii"), dtype=np.uint8)
        return bytes(save({**_arrays(self.support), _ABOUT: told}, metadata={HEADER: json.dumps({"format": FORMAT})}))

    def save(self, file: str | Path) -> None:
        """Writes the file. An existing file is not overwritten.

        Raises:
            InputError: A file is there already, or it cannot be written.
        """
        path, content = FILE_NAME.read("file", file), self.to_bytes()
        with new_file(path) as stream:
            stream.write(content)

    @classmethod
    def load(cls, file: str | Path, *, model: LabelScorer | str | None = None) -> Fitted:
        """Reads a file. Nothing in it is executed, and no model is loaded before the first question.

        Args:
            file: What ``save`` or ``sotto fit`` wrote.
            model: To answer with; by default the one that it names.

        Raises:
            InputError: It cannot be read, is too large, cut off, damaged or of a newer version, or its certificate is
                for another support.
        """
        path = FILE_NAME.read("file", file)
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                raise InputError(
                    f"{path} cannot be read: it is a folder, a pipe or a device. Name a file of 'sotto fit'."
                )
            if found.st_size > MOST_BYTES:
                raise InputError(f"{path.name} has {found.st_size:,} bytes; a fitted file has at most {MOST_BYTES:,}.")
            with path.open("rb") as stream:
                content = stream.read(MOST_BYTES + 1)  # it may have grown meanwhile
            if len(content) > MOST_BYTES:
                raise InputError(f"{path.name} has more than {MOST_BYTES:,} bytes, the most that a fitted file has.")
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}). Check the path.") from None
        fitted = cls.from_bytes(content, path.name)
        if model is not None:
            fitted.use(model)
        return fitted

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Fitted:
        """Reads what ``to_bytes`` gave.

        Args:
            content: The file.
            name: Of the file, for errors.

        Raises:
            InputError: As for ``load``.
        """
        arrays, about = _parts(Kind(bytes, "the bytes of a fitted file").read("content", content), name)
        support = _support_of(about, arrays, name)
        fitted = cls(
            support,
            _task_of(about, name),
            str(about.get("model")),
            str(about.get("embedding")),
            FitCertificate.from_dict(about.get("certificate"), name),
        )
        classifier = support if isinstance(support, LinearSupport) else support.classifier
        if classifier is not None and len(classifier.weights) != len(fitted.task.labels):
            raise _damaged(name, "its numbers do not suit its labels")
        if isinstance(support, DemonstrationSupport):
            for example in support.examples:
                if not 0 <= example.label < len(fitted.task.labels):
                    raise _damaged(name, "a demonstration has a label that is none")
        if fitted.content_sha256 != fitted.certificate.content_sha256:
            raise _damaged(name, "its certificate is for another support")
        if list(fitted.certificate.labels) != list(fitted.task.labels):
            raise _damaged(name, "its certificate is for other labels")
        if classifier is not None and classifier.reads != fitted.certificate.dimension:
            raise _damaged(name, "its numbers do not suit the vectors that its certificate is for")
        return fitted


@final
@dataclass(frozen=True)
class Bounds:
    """How large a file can become, whatever is drawn: public, and worked out before anything is charged.

    Attributes:
        size: Bytes.
        parts: Of its JSON.
    """

    size: int
    parts: int

    @classmethod
    def of(cls, head: Fitted, *, texts: int, longest: int, numbers: int) -> Self:
        """The largest file with everything of ``head`` and so much more.

        Args:
            head: A file without a text and without a number.
            texts: Demonstrations.
            longest: Bytes of the longest one's fields, as JSON in plain characters.
            numbers: Of a classifier.
        """
        about = json.dumps([_described(head.support, head.task, head.model, head.embedding), head.certificate.as_dict])
        parts = sum(1 for _ in _PART.finditer(about))
        row = 4 + 2 * len(head.task.fields)  # two brackets, two names, and every field's name and text
        return cls(_FRAME + len(about) + 8 * numbers + texts * (longest + _ROW), parts + texts * row)

    def require(self) -> None:
        """Refuses what could not be written, or not be read back.

        Raises:
            ParameterError: The file could become too large, or have too many parts.
        """
        if self.size > MOST_BYTES:
            limit = f"at most {MOST_BYTES:,} bytes: give fewer or shorter public texts, or fewer labels"
            raise ParameterError("size of the fitted file", f"up to {self.size:,} bytes", limit)
        if self.size > MOST_UNCOUNTED and self.parts > MOST_PARTS:
            limit = f"at most {MOST_PARTS:,} labels and texts: give fewer labels, or leave fewer texts"
            raise ParameterError("parts of the fitted file", f"up to {self.parts:,}", limit)


def question_of(task: Task, query: str | Query) -> Query:
    """A question as the task's fields.

    Raises:
        ParameterError: It is none.
        RecordError: A field is missing or empty.
    """
    Kind((str, Mapping), "a text, or a mapping of the task's fields").read("question", query)
    if isinstance(query, Mapping):
        return task.query_of(Row(1, query), "the question")
    if len(task.fields) != 1:
        raise ParameterError("question", "a text", f"a mapping with the fields {', '.join(task.fields)}")
    return task.query_of(Row(1, {task.fields[0]: query}), "the question")


def content_hash(support: Support, task: Task, model: str, embedding: str) -> str:
    """SHA-256 of a support with its task and model."""
    arrays = {
        name: [list(array.shape), str(array.dtype), hashlib.sha256(array.tobytes()).hexdigest()]
        for name, array in _arrays(support).items()
    }
    described = {**_described(support, task, model, embedding), "arrays": arrays}
    return hashlib.sha256(canonical(described).encode("utf-8")).hexdigest()


def _shown(support: Support) -> Sequence[Example]:
    return support.examples if isinstance(support, DemonstrationSupport) else ()


def _arrays(support: Support) -> dict[str, Any]:
    if isinstance(support, DemonstrationSupport):
        further = {} if support.classifier is None else _arrays(support.classifier)
        return {_COUNT: np.array([len(support.examples)], dtype=np.int64), **further}
    parts = {name: getattr(support, name) for name in _NUMBERS}
    parts["prior_weight"] = np.array([support.prior_weight])
    if support.mapped is not None:
        parts |= {name: getattr(support.mapped, name) for name in _MAP}
    return {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in parts.items()}


def words_of(task: Task) -> dict[str, Any]:
    """A task as a file holds it."""
    return {name: list(task.labels) if name == "labels" else getattr(task, name) for name in _TASK}


def task_of(words: object) -> Task:
    """A task from the words that a file holds.

    Raises:
        TypeError: They are not those of a task.
        TaskError: They make none.
        ParameterError: They make none.
    """
    if not isinstance(words, dict) or set(words) != set(_TASK):
        raise TypeError
    return Task(**words)


def _described(support: Support, task: Task, model: str, embedding: str) -> dict[str, Any]:
    return {
        "kind": DEMONSTRATIONS if isinstance(support, DemonstrationSupport) else LINEAR,
        "task": words_of(task),
        "model": model,
        "embedding": embedding,
        "rows": [{"fields": dict(example.fields), "label": example.label} for example in _shown(support)],
    }


def _parts(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and the JSON of a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    foreign = _damaged(name, "it is cut off, or no file that 'sotto fit' wrote")
    length = int.from_bytes(content[:8], "little")
    try:
        header = _json(content[8 : 8 + length], name)
        arrays = load(content)
        about = _json(header["__metadata__"][HEADER], name)
        if isinstance(about["format"], int) and about["format"] > FORMAT:
            raise InputError(
                f"{name} has format {about['format']}; this version of sottovoce reads up to {FORMAT}. Update it."
            )
        if about["format"] == FORMAT:
            about = {**_json(arrays.pop(_ABOUT).tobytes(), name), **about}
    except (SafetensorError, KeyError, ValueError, TypeError):
        raise foreign from None
    if not isinstance(about, dict) or not isinstance(about.get("format"), int):
        raise foreign
    return arrays, about


def _json(text: str | bytes, name: str) -> Any:
    """Reads JSON that is not too many parts for its length; what stands inside a text is no part.

    Raises:
        ValueError: It is none.
        InputError: It has too many parts, or is nested too deep.
    """
    plain = text if isinstance(text, str) else text.decode("utf-8")
    if len(plain) > MOST_UNCOUNTED and next(islice(_PART.finditer(plain), MOST_PARTS, None), None) is not None:
        raise InputError(
            f"{name} has {len(plain):,} characters of JSON in more than {MOST_PARTS:,} parts; a fitted file has at "
            f"most {MOST_UNCOUNTED:,} characters, or {MOST_PARTS:,} parts. Restore it from a copy, or fit again."
        )
    return read_json(plain, name)


def _support_of(about: Mapping[str, Any], arrays: Mapping[str, Any], name: str) -> Support:
    kind = about.get("kind")
    if kind == LINEAR:
        return _linear(arrays, name)
    if kind != DEMONSTRATIONS:
        raise InputError(f"{name} holds a support of a kind that this version does not know. Update sottovoce.")
    rows, numbers = about.get("rows"), {part: array for part, array in arrays.items() if part != _COUNT}
    try:
        if not isinstance(rows, list):
            raise TypeError
        examples = tuple(
            Example({str(key): _text(value) for key, value in row["fields"].items()}, _index(row["label"]))
            for row in rows
        )
    except (KeyError, TypeError, AttributeError):
        raise _damaged(name, "a demonstration cannot be read") from None
    if not np.array_equal(arrays.get(_COUNT, ()), [len(examples)]):
        raise _damaged(name, "it has not as many demonstrations as it says")
    return DemonstrationSupport(examples, _linear(numbers, name) if numbers else None)


def _linear(arrays: Mapping[str, Any], name: str) -> LinearSupport:
    expected = {*_NUMBERS, "prior_weight"}
    if set(arrays) not in (expected, expected | set(_MAP)):
        raise _damaged(name, "it lacks a part")
    if not all(array.dtype == np.float64 and np.isfinite(array).all() for array in arrays.values()):
        raise _damaged(name, "a number of it is not finite")
    weights = arrays["weights"]
    labels, dimension = weights.shape if weights.ndim == 2 else (0, 0)
    shapes: dict[str, tuple[int, ...]] = {
        "offset": (labels,),
        "bias": (labels,),
        "spread": (dimension,),
        "prior_weight": (1,),
    }
    mapped = None
    if set(_MAP) <= set(arrays):
        mapped = PublicMap(arrays["centre"], arrays["matrix"])
        shapes |= {"matrix": (dimension, len(np.atleast_1d(arrays["centre"]))), "centre": (arrays["centre"].size,)}
    if not labels or (arrays["spread"] < 0).any() or any(arrays[part].shape != shape for part, shape in shapes.items()):
        raise _damaged(name, "its numbers do not suit each other")
    numbers = {part: arrays[part] for part in _NUMBERS}
    return LinearSupport(**numbers, prior_weight=float(arrays["prior_weight"][0]), mapped=mapped)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _index(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _task_of(about: Mapping[str, Any], name: str) -> Task:
    try:
        return task_of(about.get("task"))
    except TypeError:
        raise _damaged(name, "its task cannot be read") from None
    except (TaskError, ParameterError) as error:
        raise InputError(f"{name}: {error}") from None


def _damaged(name: str, why: str) -> InputError:
    return InputError(f"{name} cannot be used: {why}. Restore it from a copy, or fit again.")
