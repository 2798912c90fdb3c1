"""A fit from the hidden states of a language model, from the command line: paid, certified, answered, refused."""

from __future__ import annotations

import importlib.util
import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.cli import run  # noqa: E402
from sottovoce.errors import InputError, ModelError  # noqa: E402
from sottovoce.fitting.fit import Fitting  # noqa: E402
from sottovoce.fitting.fit import fit as fit_records  # noqa: E402
from sottovoce.fitting.fitted import Fitted  # noqa: E402
from sottovoce.models.embedded.sentence_encoder import DEFAULT_PACKAGE  # noqa: E402
from sottovoce.models.registry import load_scorer  # noqa: E402
from sottovoce.records.sealed import PrivateRecords, Row  # noqa: E402
from sottovoce.tasks import Task  # noqa: E402

TEXTS = {"billing": "a fee was charged twice on the card", "fraud": "zzz QQ 99 somebody stole 123 and ran"}
QUESTIONS = {"a fee was charged on the card": "billing", "zzz QQ 99 ran 123": "fraud"}
POOL = [f"{text} {i}" for i in range(4) for text in (*TEXTS.values(), "the weather is fine", "a red book")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save(tiny.llama(), tmp_path_factory.mktemp("llama"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    rows = [{"text": f"{text} {i}", "label": label} for i in range(60) for label, text in TEXTS.items()]
    for name, content in (
        ("private.jsonl", rows),
        ("pool.jsonl", [{"text": text} for text in POOL]),
        ("new.jsonl", [{"text": text, "label": label} for text, label in QUESTIONS.items()]),
    ):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in content))
    return tmp_path


def call(capsys, *arguments):
    code = run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def fit(capsys, model, *more):
    return call(
        capsys, "fit", "--private", "private.jsonl", "--labels", ",".join(TEXTS), "--model", model, "--epsilon", 8,
        "--public", "pool.jsonl", "--out", "support.sotto", "-o", "prior_weight=0", "--json", *more,
    )  # fmt: skip


def predict(capsys, *more):
    return call(capsys, "predict", "support.sotto", "--queries", "new.jsonl", "--json", *more)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["class-means", "dp-logistic"])
def test_a_plain_name_fits_the_usual_layer_and_the_file_says_which(place, capsys, folder, method):
    code, out, err = fit(capsys, f"hf:{folder}", "--method", method, "--ledger", "private.db")
    assert code == 0, err
    assert json.loads(out)["model"] == f"hf:{folder},layer=1,pooling=mean,tokens=511"
    assert "experts computed apart: by construction" in json.loads(out)["statement"]
    code, out, _ = predict(capsys)
    assert (code, json.loads(out)["accuracy"]) == (0, 1.0)
    code, out, _ = predict(capsys, "--model", f"hf:{folder}")
    assert (code, json.loads(out)["accuracy"]) == (0, 1.0)
    code, out, _ = call(capsys, "verify", "certificate", "support.sotto", "--ledger", "private.db", "--private",
                        "private.jsonl", "--json")  # fmt: skip
    assert code == 0
    assert {check["holds"] for check in json.loads(out)["checks"]} == {True}


@pytest.mark.slow
def test_another_layer_or_pooling_or_model_is_refused(place, capsys, folder):
    assert fit(capsys, f"hf:{folder},layer=2", "--method", "class-means")[0] == 0
    for other in (f"hf:{folder}", f"hf:{folder},layer=2,pooling=last", f"hf:{folder},layer=2,tokens=9", "fake"):
        code, _, err = predict(capsys, "--model", other)
        assert code != 0
        assert "was fitted with the vectors of" in err
        assert "layer=2,pooling=mean,tokens=511" in err
    changed = tiny.llama()
    with torch.no_grad():
        changed.model.layers[0].mlp.up_proj.weight[0, 0] += 0.5
    other = tiny.save(changed, place / "other")
    with pytest.raises(ModelError, match=r"and the model .* has others"):
        Fitted.load("support.sotto", model=load_scorer(f"hf:{other},layer=2"))


@pytest.mark.slow
def test_another_dtype_is_refused(place, capsys, folder):
    # Its vectors differ by parts in a hundred: a classifier would answer otherwise, and nobody would notice.
    assert fit(capsys, f"hf:{folder},layer=2", "--method", "class-means", "--dtype", "float32")[0] == 0
    code, _, err = predict(capsys, "--dtype", "bfloat16")
    assert code != 0
    assert "in the version and the dtype that it was fitted with" in err
    assert predict(capsys, "--dtype", "float32")[0] == 0


@pytest.mark.slow
def test_a_run_is_not_resumed_with_another_dtype(place, folder):
    def fitted(dtype, *, resume=False, on_units=None):
        rows = [Row(i, {"text": f"{text} {i}", "label": label}) for i in range(9) for label, text in TEXTS.items()]
        return fit_records(
            PrivateRecords(rows, source="notes"), Task(labels=list(TEXTS)), epsilon=8, method="class-means", pool=POOL,
            model=load_scorer(f"hf:{folder},layer=1", dtype=dtype), ledger="private.db", out="out.sotto",
            resume=resume, on_units=on_units,
        )  # fmt: skip

    def stopped(units):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted("float32", on_units=stopped)
    with pytest.raises(InputError, match="embedding"):
        fitted("bfloat16", resume=True)
    assert fitted("float32", resume=True).method == "class-means"


def test_where_bits_of_other_texts_show_the_fit_has_no_guarantee_and_says_so(monkeypatch, folder, tmp_path):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path))
    model = load_scorer(f"hf:{folder},layer=1")
    seen = []

    def remember(module, inputs, output):
        seen.append(1)
        return output + 1e-3 * len(seen)

    model._engine.model.model.get_input_embeddings().register_forward_hook(remember)
    rows = [Row(i, {"text": f"{text} {i}", "label": label}) for i in range(9) for label, text in TEXTS.items()]
    fitting = Fitting(
        PrivateRecords(rows, source="notes"), Task(labels=list(TEXTS)), epsilon=8, method="class-means", model=model,
        ledger=":memory:", pool=POOL,
    )  # fmt: skip
    assert not fitting._isolation.holds


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec(DEFAULT_PACKAGE) is None, reason="the encoder is not installed")
@pytest.mark.parametrize(("model", "embedder"), [("hf:{}", "embedded"), ("hf:{},layer=1", "hf:{},layer=1")])
def test_demonstrations_are_chosen_by_hidden_states_where_a_layer_is_named(
    tmp_path, monkeypatch, folder, model, embedder
):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path))
    rows = [Row(i, {"text": f"{text} {i}", "label": label}) for i in range(9) for label, text in TEXTS.items()]
    fitting = Fitting(
        PrivateRecords(rows, source="notes"), Task(labels=list(TEXTS)), epsilon=8, method="choice",
        model=model.format(folder), ledger=":memory:", pool=POOL,
    )  # fmt: skip
    assert fitting.embedder.name.startswith(embedder.format(folder))
    fitted = fitting.run()
    assert {example.fields["text"] for example in fitted.support.examples} <= set(POOL)
    assert len(fitted.predict(list(QUESTIONS))) == 2
