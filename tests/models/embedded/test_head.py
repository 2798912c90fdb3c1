"""The head file: read back as written, refused where damaged."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import ModelError
from sottovoce.models.embedded import head as module
from sottovoce.models.embedded.head import Head, load_head, save_head
from sottovoce.models.embedded.sentence_encoder import DEFAULT_PACKAGE


def some_head(dimension: int = 5, encoder: str = "abc") -> Head:
    text_mean, name_mean = np.random.default_rng(0).normal(size=(2, dimension))
    return Head(12.0, 0.25, 8.5, -0.125, 0.5, 3.0, text_mean, name_mean, encoder)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "head.safetensors"
    save_head(some_head(), path, {"date": "today"})
    return path


def test_continuous_integration_has_the_encoder():
    # Elsewhere its tests are skipped where it is missing; there they must run.
    if os.environ.get("CI"):
        assert importlib.util.find_spec(DEFAULT_PACKAGE) is not None


def test_a_head_is_read_back_as_it_was_written(saved):
    written, read = some_head(), load_head(saved)
    assert [getattr(read, name) for name in module.NUMBERS] == [getattr(written, name) for name in module.NUMBERS]
    for mean in module.MEANS:
        assert np.abs(getattr(read, mean) - getattr(written, mean)).max() < 2e-3  # half precision
    assert (read.encoder, read.dimension) == ("abc", 5)


def test_the_story_beside_it_says_where_it_came_from(saved):
    story = json.loads(saved.with_suffix(".json").read_text())
    assert story["date"] == "today"
    assert story["numbers"]["example_scale"] == 8.5


def test_the_shipped_head_is_small_and_says_what_it_was_fitted_on():
    head = load_head()
    assert head.dimension == 384
    folder = module.resources.files("sottovoce") / "data" / "embedded"
    assert len((folder / "head.safetensors").read_bytes()) < 4096
    fitted_on = json.loads((folder / "head.json").read_text())["fitted_on"]
    # Tasks that the model is measured on, and the bundled tickets, stay out of the fit.
    assert set(fitted_on) == {"dbpedia", "film genres", "medical questions", "medical answers", "subjectivity"}


def test_a_changed_head_file_is_refused(saved):
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    saved.write_bytes(content)
    with pytest.raises(ModelError, match="not the one that"):
        load_head(saved)


@pytest.mark.parametrize("name", ["head.safetensors", "head.json"])
def test_a_missing_or_garbled_file_is_refused(saved, name):
    file = saved.with_name(name)
    for content in (b"\xff not a head", b"[" * 100_000):
        file.write_bytes(content)
        with pytest.raises(ModelError, match="cannot be read"):
            load_head(saved)
    file.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        load_head(saved)


def test_a_story_that_is_no_object_is_refused(saved):
    saved.with_suffix(".json").write_text("[]")
    with pytest.raises(ModelError, match="describes"):
        load_head(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sharpness": np.float64("nan")}, "not finite"),
        ({"name_mean": np.zeros(4)}, "wrong shape"),
        ({"name_scale": np.zeros(2)}, "wrong shape"),
        ({"text_mean": np.zeros((5, 1))}, "wrong shape"),
        ({"surplus": np.zeros(1)}, "needs name_scale"),
        ({"sharpness": None}, "needs name_scale"),
    ],
)
def test_a_head_with_wrong_parts_is_refused(change, message):
    parts = {name: np.asarray(getattr(some_head(), name)) for name in (*module.NUMBERS, *module.MEANS)} | change
    with pytest.raises(ModelError, match=message):
        module._head_of({name: part for name, part in parts.items() if part is not None}, "abc", "head")


@pytest.fixture
def fit_head(monkeypatch):
    """The script that fits the head, as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "scripts"))
    import fit_head

    yield fit_head
    for name in ("fit_head", "_corpora"):
        sys.modules.pop(name, None)


def test_the_formula_that_is_fitted_is_the_formula_that_runs(fit_head):
    import torch

    from sottovoce.models.embedded.label_scorer import EmbeddedContexts, _unit
    from sottovoce.tasks import Task

    head, rng = load_head(), np.random.default_rng(0)
    names, questions, examples = (_unit(rng.normal(size=(count, 384))) for count in (4, 5, 9))
    owners = rng.integers(4, size=9)

    class StandIn:
        def __init__(self) -> None:
            self.head = head

        def embed_queries(self, texts):
            return questions[[int(text) for text in texts]]

    task = Task(labels=["a", "b", "c", "d"])
    contexts = EmbeddedContexts(StandIn(), task, _unit(names - head.name_mean), examples, owners, [9])
    ours = contexts.score([{"text": str(number)} for number in range(5)])[:, 0]
    fitted = fit_head.TorchHead(torch.zeros(384), torch.zeros(384))
    fitted.set(head)
    tensors = [torch.from_numpy(part).float()[None] for part in (names, examples)]
    theirs = fitted(*tensors, torch.from_numpy(owners)[None], torch.from_numpy(questions).float()[None])[0]
    assert np.abs(ours - theirs.detach().numpy()).max() < 1e-4


def test_fitting_without_the_corpora_says_where_to_name_them(fit_head, tmp_path, monkeypatch, capsys):
    out = tmp_path / "head.safetensors"
    monkeypatch.setattr(sys, "argv", ["fit_head.py", "--out", str(out), "--data", str(tmp_path)])
    assert fit_head.main() == 2
    assert "--data" in capsys.readouterr().err
    assert not out.exists()


def test_made_up_names_hold_no_word_of_the_benchmarks(fit_head):
    import random

    from sottovoce.benchmarks.studies.in_context import MADE_UP

    names = {name for seed in range(20) for name in fit_head.made_up.names(random.Random(seed), ["word"] * 200)}
    assert not names & {word for words in MADE_UP.values() for word in words}
