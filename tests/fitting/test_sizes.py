"""How large what is drawn can become: known before the charge, whatever is drawn; room for it, and a way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fitting.worlds_of_fits import TASK, WORDS, fitting, records
from sottovoce.errors import InputError
from sottovoce.files.tables import ENDINGS
from sottovoce.fitting import fitted as fitted_module
from sottovoce.fitting.fit import Fitting, begun, finish
from sottovoce.fitting.fitted import Fitted, content_hash
from sottovoce.fitting.rows import RowsCertificate, content_of
from sottovoce.methods.choice import Choice
from sottovoce.methods.class_means import ClassMeans
from sottovoce.methods.dp_logistic import DpLogistic
from sottovoce.methods.evolve import Evolve
from sottovoce.methods.fitting.fitter import registered_fitters
from sottovoce.methods.fitting.support import DemonstrationSupport
from sottovoce.methods.label_public import LabelPublic
from sottovoce.models.fake import FakeScorer, FakeStepper
from sottovoce.privacy.ledger.ledger import Account
from sottovoce.tasks import Example, Task

EXTREMES = {
    "quotes": '"' * 600,
    "backslashes": "\\" * 600,
    "brackets": '{"a": [{}, [""]]}' * 40,
    "Chinese": "公开的长文章内容" * 80,
    "astral": "𝕏🙂" * 300,
    "half characters": "\ud800\udfff" * 300,
    "control characters": "\x00\x1f\x7f\u2028\r\n\t" * 80,
    "one long text": "long" * 25_000,
    "plain": "a fee",
}
METHODS = {
    "class-means": ClassMeans(),
    "dp-logistic": DpLogistic(),
    "choice": Choice(k=4),
    "evolve": Evolve(k=4, rounds=2, variations=1, tokens=2),
    "label-public": LabelPublic(texts=6),
}
LEAVES_TEXTS = [name for name, method in METHODS.items() if method.gives is DemonstrationSupport]


def made(method, text, *, rows=False, **more) -> Fitting:
    """A fit over public texts of which some are as extreme, and some are plain."""
    pool = [f"{i} {text}" for i in range(8)] + [f"plain {i}" for i in range(8)]
    writer = {"writer": FakeStepper()} if method.writes else {}
    return fitting(method=method, pool=() if method.pool == "unused" else pool, rows=rows, **writer, **more)


def test_every_fitter_is_here():
    assert {method.name for method in METHODS.values()} == set(registered_fitters())


@pytest.mark.cases(3)
@pytest.mark.parametrize("text", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("name", METHODS)
def test_a_file_stays_within_its_bound_and_is_read_back_whatever_is_drawn(name, text, monkeypatch):
    one = made(METHODS[name], text)
    fitted = one.run()
    content = fitted.to_bytes()
    most = one._bounds.size
    assert len(content) <= most
    assert int.from_bytes(content[:8], "little") < 2_048, "texts are not in the header, which is short for any reader"
    monkeypatch.setattr(fitted_module, "MOST_UNCOUNTED", 0)
    monkeypatch.setattr(fitted_module, "MOST_PARTS", one._bounds.parts)
    assert Fitted.from_bytes(content, "a.sotto").to_bytes() == content
    assert fitted.certificate.content_sha256 == content_hash(fitted.support, TASK, fitted.model, fitted.embedding)


@pytest.mark.cases(3)
@pytest.mark.parametrize("text", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("name", LEAVES_TEXTS)
def test_the_longest_text_in_every_place_stays_within_the_bound(name, text, monkeypatch):
    """What a draw can lead to at most, however unlikely: also as rows, with their certificate."""
    one = made(METHODS[name], text)
    support = one.run().support
    assert len(support.examples) <= one._texts
    longest = max(one._pool, key=lambda query: len(json.dumps(query)))
    worst = DemonstrationSupport([Example(longest, 1)] * one._texts, support.classifier)
    largest = one._certified(worst, one.new_run_state(), "f" * 64)
    assert len(largest.to_bytes()) <= one._bounds.size
    if len(text) > 50_000:
        assert one._bounds.size < 1.02 * len(largest.to_bytes()), "room that nothing can need is room for nothing"
    alone = one._certified(DemonstrationSupport(worst.examples), one.new_run_state(), "f" * 64)
    rows = max(len(content_of(alone, Path("rows" + ending))) for ending in ENDINGS)
    rows += len(RowsCertificate(alone.certificate, alone.task).text)
    monkeypatch.setattr(one, "_rows", True)
    assert rows <= one._last_room
    monkeypatch.setattr(fitted_module, "MOST_UNCOUNTED", 0)
    monkeypatch.setattr(fitted_module, "MOST_PARTS", one._bounds.parts)
    assert Fitted.from_bytes(largest.to_bytes(), "a.sotto").content_sha256 == largest.content_sha256


@pytest.mark.parametrize(("limit", "what"), [("MOST_BYTES", "size"), ("MOST_PARTS", "parts")])
def test_what_could_become_too_large_to_be_read_is_refused_before_a_ledger_is_opened(
    tmp_path, monkeypatch, limit, what
):
    method = METHODS["choice"]
    most = getattr(made(method, "a text")._bounds, what)
    monkeypatch.setattr(fitted_module, "MOST_UNCOUNTED", 0)
    place, model = tmp_path / "a.db", FakeScorer()
    monkeypatch.setattr(fitted_module, limit, most - 1)
    with pytest.raises(InputError, match=f"{what} of the fitted file"):
        made(method, "a text", ledger=str(place), model=model)
    assert list(tmp_path.iterdir()) == []
    assert model.contexts_read == 0
    monkeypatch.setattr(fitted_module, limit, most)
    fitted = made(method, "a text", ledger=str(place), model=model).run()
    assert Fitted.from_bytes(fitted.to_bytes(), "a.sotto")


def test_what_could_not_be_read_back_is_refused_before_a_ledger_is_opened(tmp_path):
    model = FakeScorer()
    model.name = 5  # is no name in a certificate
    with pytest.raises(InputError, match=r"what is to be fitted holds no certificate.* Nothing was charged\."):
        fitting(model=model, ledger=str(tmp_path / "a.db"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cases(3)
@pytest.mark.parametrize("rows", [False, True], ids=["a support", "rows"])
@pytest.mark.parametrize("name", LEAVES_TEXTS)
def test_room_for_the_draw_and_for_the_output_is_taken_before_the_draw(tmp_path, monkeypatch, name, rows):
    out = tmp_path / ("demos.jsonl" if rows else "demos.sotto")
    task = Task(labels=[*WORDS, "a label that is long " * 40])
    one = made(METHODS[name], EXTREMES["Chinese"], rows=rows, task=task, data=records(30))
    taken, saved, start = {}, {}, Account.begin

    def drawing(account, ids):
        taken.update({path.name: path.stat().st_size for path in out.with_name(out.name + ".partial").iterdir()})
        return start(account, ids)

    def left(account, *given, **isolated):
        saved.update({path.name: path.stat().st_size for path in out.with_name(out.name + ".partial").iterdir()})
        return release(account, *given, **isolated)

    release = Account.mark_released
    monkeypatch.setattr(Account, "begin", drawing)
    monkeypatch.setattr(Account, "mark_released", left)
    with begun(one, out, resume=False) as checkpoint:
        finish(one, checkpoint)
    assert saved["round-fit"] <= taken["room"]
    assert saved["room-out"] == taken["room-out"], "the output's room is kept while what was drawn stands"
    written = [path for path in tmp_path.iterdir() if path.name.startswith("demos")]
    assert sum(path.stat().st_size for path in written) <= taken["room-out"]
    assert len(written) == 1 + rows
