"""``sotto models fit-head``: a head for an encoder from labelled public examples, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.cli import run  # noqa: E402
from sottovoce.errors import ParameterError  # noqa: E402
from sottovoce.fitting.fit import Fitting  # noqa: E402
from sottovoce.models.embedded.head_fit import corpora_of, fitted_head  # noqa: E402
from sottovoce.models.registry import load_scorer  # noqa: E402
from sottovoce.records.readers import read_private  # noqa: E402
from sottovoce.tasks import Task  # noqa: E402

KINDS = {
    "weather": "storm cloud sunny frost rain",
    "kitchen": "butter oven onion soup bread",
    "travel": "train ticket harbour luggage border",
}


def rows_of(each=10):
    return [(f"{words} number {place}", label) for place in range(each) for label, words in KINDS.items()]


class Sensible:
    """An encoder to which a kind's name and its texts are alike, whatever else a text says."""

    digest = "d" * 64
    dimension = 16

    def encode(self, texts):
        vectors = np.random.default_rng(len(texts)).normal(size=(len(texts), self.dimension)) * 0.4
        for vector, text in zip(vectors, texts, strict=True):
            for place, (label, words) in enumerate(KINDS.items()):
                vector[place] += 2.0 * (label in text or words in text)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    tiny.sentence_encoder(tmp_path / "encoder")
    rows = [{"text": text, "label": label} for text, label in rows_of()]
    (tmp_path / "public.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def call(capsys, *more, out="head.safetensors"):
    words = ["models", "fit-head", "--encoder", "encoder", "--out", out, "--steps", "3", *more]
    code = run([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_a_head_is_fitted_and_used_behind_its_encoder(place, capsys):
    code, out, err = call(capsys, "--public", "public.jsonl")
    assert (code, out) == (0, "")
    assert "--model encoder:encoder,head=head.safetensors" in err
    assert "Too few rows are held out" in err
    story = json.loads((place / "head.json").read_text())
    assert story["fitted_on"]["public.jsonl"]["rows"] == 30
    headed = load_scorer("encoder:encoder,head=head.safetensors", store=False)
    task = Task(labels=list(KINDS))
    scores = headed.prepare(task, [()]).score([{"text": "rain and a storm"}])[0, 0]
    assert np.ptp(scores) > 0
    before = (place / "head.safetensors").read_bytes()
    code, _, err = call(capsys, "--public", "public.jsonl")
    assert code == 2
    assert "is not overwritten" in err
    code, out, _ = call(capsys, "--public", "public.jsonl", "--json", out="again.safetensors")
    assert (code, json.loads(out)["seed"]) == (0, 0)
    assert (place / "again.safetensors").read_bytes() == before


@pytest.mark.slow
def test_fitting_lowers_the_loss_on_rows_that_were_held_out():
    made = fitted_head(Sensible(), {"kinds": rows_of(40)}, steps=40)
    losses = {kind: (before, after) for _, kind, before, after in made.losses}
    assert len(losses) == 4
    before, after = np.array(list(losses.values())).T
    assert after.mean() < before.mean() - 0.05
    assert made.head.encoder == Sensible.digest
    assert made.story["held_out_losses_nats"][0]["unfitted"] == made.losses[0][2]


def test_no_row_is_both_fitted_on_and_held_out():
    (fitted,), (held_out,) = corpora_of({"kinds": rows_of(9)})
    assert not set(fitted.texts) & set(held_out.texts)
    assert len(fitted.texts) + len(held_out.texts) == 27
    assert fitted.label_names == held_out.label_names == sorted(KINDS)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (rows_of(4), "public examples is 'kinds'; it must be two labels or more with 5 rows each"),
        ([("storm", "weather")] * 60, "two labels or more"),
        ([], "two labels or more"),
        ([("a b", "x"), ("b a", "y")] * 20, "0 words'; it must be 6 different words"),
    ],
)
def test_too_few_examples_are_refused(rows, said):
    with pytest.raises(ParameterError, match=said):
        fitted_head(Sensible(), {"kinds": rows}, steps=1)


def test_what_cannot_be_used_is_refused_and_nothing_is_left(place, capsys):
    (place / "bare.jsonl").write_text('{"text": "a", "label": "b"}\n{"text": "a"}\n')
    code, _, err = call(capsys, "--public", "bare.jsonl")
    assert code == 2
    assert "bare.jsonl, line 2" in err
    assert "'label'" in err
    assert "--label-field" in err
    code, _, err = call(capsys, "--public", "public.jsonl", out="head.bin")
    assert code == 2
    assert "ends in .safetensors" in err
    (place / "head.json").write_text("{}")
    code, _, err = call(capsys, "--public", "public.jsonl")
    assert code == 2
    assert "head.json exists already" in err
    assert not list(place.glob("*.safetensors"))


def test_private_records_are_no_public_examples(place, capsys):
    task = Task(labels=list(KINDS))
    Fitting(read_private("public.jsonl"), task, epsilon=1, method="class-means", model="fake", pool=()).run()
    code, _, err = call(capsys, "--public", "public.jsonl")
    assert code == 2
    assert "--public public.jsonl" in err
    assert not (place / "head.safetensors").exists()
