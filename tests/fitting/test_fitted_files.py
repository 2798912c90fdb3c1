"""Fitted files: read back as they were, refused where they are damaged, foreign, newer or too large; nothing runs."""

from __future__ import annotations

import json
import os
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from fitting.worlds_of_fits import TASK, fit, parts, records, whole
from sottovoce.errors import InputError, ModelError, SottoError
from sottovoce.experts.public_map import PublicMap
from sottovoce.fitting import fitted as fitted_module
from sottovoce.fitting.fitted import HEADER, MOST_BYTES, Fitted
from sottovoce.methods.fitting.support import DemonstrationSupport, LinearSupport
from sottovoce.models.fake import FakeScorer
from sottovoce.tasks import Example

QUESTIONS = ["a fee was charged twice again", "somebody used my card today", "neither"]
POOL = ["a fee", "a card", "the weather", "my bank", "somebody", "twice"]


@pytest.fixture(scope="module")
def plain() -> Fitted:
    return fit()


@pytest.fixture(scope="module")
def mapped() -> Fitted:
    return fit(records(end=" others"), pool=POOL)


def demonstrations(of: Fitted) -> Fitted:
    """Demonstrations in a fitted file, under a certificate that is for them."""
    support = DemonstrationSupport((Example({"text": "my fee"}, 0), Example({"text": "my card \u2028 é"}, 1)))
    shown = replace(of, support=support)
    return replace(shown, certificate=replace(of.certificate, content_sha256=shown.content_sha256))


@pytest.fixture(scope="module", params=["plain", "mapped", "demonstrations"])
def made(request, plain, mapped) -> Fitted:
    return {"plain": plain, "mapped": mapped, "demonstrations": demonstrations(plain)}[request.param]


def certified(fitted: Fitted) -> bytes:
    """The file of a support that somebody made up, under a certificate that names its hash."""
    return replace(fitted, certificate=replace(fitted.certificate, content_sha256=fitted.content_sha256)).to_bytes()


def refused(content: bytes) -> str:
    with pytest.raises(InputError) as failed:
        Fitted.from_bytes(content, "support.sotto")
    assert "support.sotto" in str(failed.value)
    return str(failed.value)


def test_a_file_is_read_back_as_it_was_and_answers_the_same(made, tmp_path):
    made.save(tmp_path / "support.sotto")
    back = Fitted.load(tmp_path / "support.sotto", model=FakeScorer())
    made.use(FakeScorer())
    assert back.to_bytes() == made.to_bytes() == (tmp_path / "support.sotto").read_bytes()
    assert back.task == TASK
    one, other = (it.log_probabilities(QUESTIONS) for it in (made, back))
    assert one.tobytes() == other.tobytes()
    assert [check.holds for check in back.certificate.checks(back.content_sha256)][:8] == [True] * 8


def test_a_file_that_is_there_is_not_overwritten(plain, tmp_path):
    (tmp_path / "a.sotto").write_text("mine")
    with pytest.raises(InputError, match=r"a\.sotto"):
        plain.save(tmp_path / "a.sotto")
    assert (tmp_path / "a.sotto").read_text() == "mine"


def test_a_file_that_is_cut_off_anywhere_is_refused(made):
    content = made.to_bytes()
    for length in [*range(0, 64), *range(64, len(content), 97), len(content) - 1]:
        assert "cut off" in refused(content[:length])


def test_a_byte_that_flips_is_refused_or_found_by_the_certificate(made):
    content, dice, accepted = made.to_bytes(), random.Random(4), 0
    for at in dice.sample(range(len(content)), 120):
        damaged = content[:at] + bytes([content[at] ^ (1 << dice.randrange(7))]) + content[at + 1 :]
        try:
            read = Fitted.from_bytes(damaged, "support.sotto")
        except InputError:
            continue
        accepted += 1
        checks = [check.holds for check in read.certificate.checks(read.content_sha256)]
        kept = {"data": made.certificate.data, "ledger": made.certificate.ledger}
        same = replace(read.certificate, **kept, asked=made.certificate.asked) == replace(
            made.certificate, labels=list(made.certificate.labels)
        )
        assert False in checks or same, f"byte {at}"
    assert accepted < 120


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 64,
        b"PK\x03\x04" + b"\0" * 60,
        b"\x80\x04cposix\nsystem\n.",
        json.dumps({"labels": ["a"]}).encode(),
        save({"weights": np.zeros((2, 2))}),
        save({"weights": np.zeros((2, 2))}, metadata={"format": "pt"}),
        save({"weights": np.zeros((2, 2))}, metadata={HEADER: "not json"}),
        save({"weights": np.zeros((2, 2))}, metadata={HEADER: "[" * 5_000}),
        save({"weights": np.zeros((2, 2))}, metadata={HEADER: "[]"}),
        save({"weights": np.zeros((2, 2))}, metadata={HEADER: "{}"}),
        save({"weights": np.zeros((2, 2))}, metadata={HEADER: '{"format": "1"}'}),
        save({"weights": np.zeros((2, 2))}, metadata={HEADER: '{"format": 1.5}'}),
        save({"weights": np.zeros((2, 2), dtype=np.float16)}, metadata={HEADER: '{"format": NaN}'}),
    ],
    ids=range(15),
)
def test_what_is_no_fitted_file_is_refused(content):
    assert re.search("no file that 'sotto fit' wrote|nested deeper than 120", refused(content))


def test_a_file_of_the_first_format_is_read_and_answers_the_same(made):
    """Its JSON stood in the header."""
    old = Fitted.from_bytes(whole(*parts(made.to_bytes()), form=1), "support.sotto")
    assert old.to_bytes() == made.to_bytes()
    old.use(FakeScorer())
    made.use(FakeScorer())
    assert old.log_probabilities(QUESTIONS).tobytes() == made.log_probabilities(QUESTIONS).tobytes()


def test_a_file_of_another_format_than_its_parts_is_refused(plain):
    arrays, about = parts(plain.to_bytes())
    told = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    for form in (1, 2.0, "2", None):
        content = save({**arrays, "about": told}, metadata={HEADER: json.dumps({"format": form})})
        assert refused(content)
    for told in (b"[]", b"7", b"", b"\xff"):
        content = save(
            {**arrays, "about": np.frombuffer(told, dtype=np.uint8)}, metadata={HEADER: json.dumps({"format": 2})}
        )
        assert "no file that 'sotto fit' wrote" in refused(content)
    assert "no file that 'sotto fit' wrote" in refused(save(arrays, metadata={HEADER: json.dumps({"format": 2})}))


def test_a_newer_file_asks_for_a_newer_version(plain):
    arrays, about = parts(plain.to_bytes())
    assert "reads up to 2. Update it" in refused(whole(arrays, about, form=3))
    assert "Update sottovoce" in refused(whole(arrays, {**about, "kind": "forest"}))


def test_a_file_that_is_too_large_is_not_read(plain, tmp_path, monkeypatch):
    plain.save(tmp_path / "a.sotto")
    monkeypatch.setattr(fitted_module, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="a fitted file has at most 100"):
        Fitted.load(tmp_path / "a.sotto")
    with (tmp_path / "sparse.sotto").open("wb") as stream:
        stream.truncate(MOST_BYTES + 1)
    monkeypatch.undo()
    with pytest.raises(InputError, match="268,435,457 bytes"):
        Fitted.load(tmp_path / "sparse.sotto")


def test_a_file_that_grows_while_it_is_read_is_refused(plain, tmp_path, monkeypatch):
    plain.save(tmp_path / "a.sotto")
    small = (tmp_path / "a.sotto").stat().st_size
    monkeypatch.setattr(fitted_module, "MOST_BYTES", small)
    open_file = Path.open

    def grown(self, *given):
        with open_file(self, "ab") as stream:
            stream.write(b"\0" * 10_000)
        return open_file(self, *given)

    monkeypatch.setattr(Path, "open", grown)
    with pytest.raises(InputError, match=f"more than {small:,} bytes"):
        Fitted.load(tmp_path / "a.sotto")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_a_pipe_and_a_device_are_refused_without_a_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe.sotto")
    for place in (tmp_path / "pipe.sotto", Path(os.devnull)):
        with pytest.raises(InputError, match="a pipe or a device"):
            Fitted.load(place)


@pytest.mark.parametrize("form", [1, 2])
def test_long_json_of_many_parts_is_not_parsed_and_that_of_long_texts_is(plain, monkeypatch, form):
    marks = '\\"\\\\"[{"a": "b"}, {}]\n' * 1_000  # what stands inside a text is no part of the JSON
    support = DemonstrationSupport((Example({"text": marks}, 0), Example({"text": marks + "\\"}, 1)))
    shown = replace(plain, support=support)
    arrays, about = parts(certified(shown))
    monkeypatch.setattr(fitted_module, "MOST_UNCOUNTED", 1_000)
    monkeypatch.setattr(fitted_module, "MOST_PARTS", 400)
    back = Fitted.from_bytes(whole(arrays, about, form), "support.sotto")
    assert back.content_sha256 == shown.content_sha256
    many = [
        whole(arrays, {**about, "more": more}, form)
        for more in ([{}] * 400, [[]] * 400, [""] * 400, {str(i): i for i in range(400)})
    ]
    many += [
        save(arrays, metadata={HEADER: json.dumps({"format": form}), "more": "", **{str(i): "" for i in range(400)}})
    ]
    parse = json.loads
    monkeypatch.setattr(json, "loads", lambda text: pytest.fail("parsed") if '"more"' in text else parse(text))
    for content in many:
        assert "parts" in refused(content)


@pytest.mark.parametrize("name", ["", "absent.sotto"])
def test_a_folder_and_a_file_that_is_absent_are_refused(name, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        Fitted.load(tmp_path / name)


NUMBERS = {
    "a label more": lambda a: {**a, "weights": np.zeros((3, 16))},
    "one label less": lambda a: {**a, "offset": a["offset"][:1]},
    "one dimension": lambda a: {**a, "weights": a["weights"].ravel()},
    "three dimensions": lambda a: {**a, "weights": np.zeros((2, 4, 4))},
    "no label": lambda a: {**a, "weights": np.zeros((0, 16)), "offset": np.zeros(0), "bias": np.zeros(0)},
    "a spread less": lambda a: {**a, "spread": a["spread"][:-1]},
    "a spread below zero": lambda a: {**a, "spread": -1 - a["spread"]},
    "two prior weights": lambda a: {**a, "prior_weight": np.ones(2)},
    "a prior weight alone": lambda a: {**a, "prior_weight": np.ones(())},
    "not a number": lambda a: {**a, "bias": np.array([np.nan, 0.0])},
    "infinite": lambda a: {**a, "weights": np.full((2, 16), np.inf)},
    "halves": lambda a: {**a, "weights": a["weights"].astype(np.float32)},
    "whole numbers": lambda a: {**a, "bias": np.zeros(2, dtype=np.int64)},
    "a part less": lambda a: {name: array for name, array in a.items() if name != "bias"},
    "a part more": lambda a: {**a, "another": np.zeros(2)},
    "half a map": lambda a: {**a, "centre": np.zeros(16)},
    "a map of another length": lambda a: {**a, "centre": np.zeros(15), "matrix": np.zeros((16, 16))},
    "a flat map": lambda a: {**a, "centre": np.zeros(16), "matrix": np.zeros(16)},
    "a deep centre": lambda a: {**a, "centre": np.zeros((4, 4)), "matrix": np.zeros((16, 16))},
}


@pytest.mark.parametrize("change", NUMBERS.values(), ids=NUMBERS)
def test_numbers_that_do_not_fit_are_refused_in_words(change, plain):
    arrays, about = parts(plain.to_bytes())
    said = refused(whole(change(arrays), about))
    assert any(reason in said for reason in ("do not suit", "not finite", "lacks a part"))


def test_a_consistent_file_for_other_labels_or_vectors_is_refused(plain):
    support = plain.support
    for length in (0, 4):
        narrow = LinearSupport(support.weights[:, :length], support.offset, support.spread[:length], support.bias, 1.0)
        assert "do not suit the vectors" in refused(certified(replace(plain, support=narrow)))
    turned = replace(narrow, mapped=PublicMap(np.zeros(9), np.zeros((4, 9))))
    assert "do not suit the vectors" in refused(certified(replace(plain, support=turned)))
    shown = demonstrations(plain)
    classified = replace(shown.support, classifier=turned)
    assert "do not suit the vectors" in refused(certified(replace(shown, support=classified)))
    labels = replace(TASK, labels=["billing", "theft"])
    assert "for other labels" in refused(certified(replace(plain, task=labels)))


HEADERS = {
    "no task": lambda a: {**a, "task": None},
    "a task of other fields": lambda a: {**a, "task": {**a["task"], "more": 1}},
    "one label": lambda a: {**a, "task": {**a["task"], "labels": ["a"]}},
    "labels that are no texts": lambda a: {**a, "task": {**a["task"], "labels": [1, 2]}},
    "a template that is none": lambda a: {**a, "task": {**a["task"], "query": "{text!r:>{width}}"}},
    "another support": lambda a: {**a, "model": "oracle"},
    "other vectors": lambda a: {**a, "embedding": "0" * 64},
    "no certificate": lambda a: {**a, "certificate": None},
    "a certificate for another": lambda a: {**a, "certificate": {**a["certificate"], "content_sha256": "0" * 64}},
    "a damaged certificate": lambda a: {**a, "certificate": {**a["certificate"], "epsilon": "4"}},
    "a newer certificate": lambda a: {**a, "certificate": {**a["certificate"], "format": 2}},
}


@pytest.mark.parametrize("change", HEADERS.values(), ids=HEADERS)
def test_a_header_that_does_not_fit_is_refused(change, plain):
    arrays, about = parts(plain.to_bytes())
    assert refused(whole(arrays, change(about)))


@pytest.mark.parametrize(
    "rows",
    [None, {}, [1], [{}], [{"fields": {"text": "a"}}], [{"fields": {"text": 1}, "label": 0}],
     [{"fields": [], "label": 0}], [{"fields": {"text": "a"}, "label": 2}], [{"fields": {"text": "a"}, "label": -1}],
     [{"fields": {"text": "a"}, "label": True}], [{"fields": {"text": "a"}, "label": 0.0}]],
    ids=range(11),
)  # fmt: skip
def test_demonstrations_that_cannot_be_read_are_refused(rows, plain):
    arrays, about = parts(demonstrations(plain).to_bytes())
    assert "demonstration" in refused(whole(arrays, {**about, "rows": rows}))


def test_a_model_with_other_vectors_is_refused_for_a_classifier_and_welcome_for_demonstrations(plain):
    back = Fitted.from_bytes(plain.to_bytes(), "support.sotto")
    with pytest.raises(ModelError, match="Load that model, in the version and the dtype that it was fitted with"):
        back.use(FakeScorer(name="another"))
    shown = Fitted.from_bytes(demonstrations(plain).to_bytes(), "support.sotto")
    shown.use(FakeScorer(name="another"))
    assert shown.predict(QUESTIONS[:1]) == ["billing"]


@pytest.mark.parametrize("queries", ["a text", {"text": "a"}, [1], [None], [{"words": "a"}], [{"text": ""}]], ids=repr)
def test_questions_that_are_none_are_refused(queries, plain):
    with pytest.raises(SottoError):
        plain.predict(queries)


def test_no_question_has_no_answer_and_many_are_answered_as_one_by_one(plain, monkeypatch):
    assert plain.predict([]) == []
    assert plain.log_probabilities([]).shape == (0, 2)
    many = [f"question {i}" for i in range(7)]
    whole_lot = plain.predict(many)
    monkeypatch.setattr(fitted_module, "TOGETHER", 3)
    assert plain.predict(many) == whole_lot == [plain.predict([one])[0] for one in many]


def test_answering_reads_no_record_and_charges_nothing():
    model = FakeScorer()
    made = fit(model=model)
    read = model.contexts_read
    assert read == 40 == len(records(40).with_public_size())
    made.predict(QUESTIONS * 20)
    assert model.contexts_read == read


def test_numbers_that_are_not_finite_are_said_with_the_questions(plain):
    back = Fitted.from_bytes(plain.to_bytes(), "support.sotto")
    blind = FakeScorer(vectors=lambda text: [np.nan] * 16)
    back.use(blind)
    with pytest.raises(ModelError, match="not finite for one of the questions 1 to 3"):
        back.predict(QUESTIONS)


def test_a_file_that_is_nested_too_deep_is_refused_with_the_limit(plain):
    deep: list = []
    for _ in range(200):
        deep = [deep]
    nested = replace(plain.certificate, asked={**plain.certificate.asked, "labels": deep})
    assert "nested deeper than 120" in refused(replace(plain, certificate=nested).to_bytes())
