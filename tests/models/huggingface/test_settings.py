"""What tells a model from another one of its name: its weights, its dtype, its chat template."""

from __future__ import annotations

import json
import pickle

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.errors import ModelError  # noqa: E402
from sottovoce.models.base import settings_of  # noqa: E402
from sottovoce.models.fake import FakeScorer  # noqa: E402
from sottovoce.models.huggingface import files  # noqa: E402
from sottovoce.models.registry import load_scorer, load_stepper, load_writer, model_catalog  # noqa: E402


@pytest.mark.cases(1)
@pytest.mark.parametrize("load", [load_scorer, load_stepper, load_writer])
def test_a_model_is_told_by_its_weights_its_dtype_and_its_template(tmp_path, load):
    tiny.save(tiny.llama(), tmp_path / "m", chat_template=tiny.CHAT)
    name = f"hf:{tmp_path / 'm'}"

    def settings(**options):
        return settings_of(load(name, **options))

    first = settings(chat=True)
    assert set(first) >= {"model's weights", "model's dtype", "model's chat"}
    assert first == settings(chat=True, dtype="float32")
    assert first != settings(chat=False)
    assert first != settings(chat=True, dtype="bfloat16")
    if load is load_scorer:
        assert first == settings()
        assert first != settings(score="vocabulary")
        assert first == settings_of(load(f"{name},layer=1", chat=True))
    model = tiny.llama()
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    tiny.save(model, tmp_path / "m", chat_template=tiny.CHAT)
    again = settings(chat=True)
    assert {word for word in first if first[word] != again[word]} == {"model's weights"}
    template, plain = tmp_path / "m" / "chat_template.jinja", settings(chat=False)
    template.write_text(template.read_text().replace("assistant", "assistant says"))
    other = settings(chat=True)
    assert {word for word in first if again[word] != other[word]} == {"model's prompts"}
    assert settings(chat=False) == plain
    stated = tmp_path / "m" / "generation_config.json"
    ends = json.loads(stated.read_text())
    stated.write_text(json.dumps({**ends, "eos_token_id": [*range(8)]}))
    assert (settings(chat=True) == other) == (load is load_scorer)


@pytest.mark.cases(1)
@pytest.mark.parametrize("load", [load_scorer, load_stepper, load_writer])
def test_a_model_is_told_by_the_files_that_were_loaded(tmp_path, monkeypatch, load):
    for folder, factor in (("here", 1.0), ("there", 1.5)):
        model = tiny.llama()
        with torch.no_grad():
            next(model.parameters()).mul_(factor)
        tiny.save(model, tmp_path / folder / "m", chat_template=tiny.CHAT)
    monkeypatch.chdir(tmp_path / "here")
    expected = settings_of(load("hf:m"))
    loaded, late = load("hf:m"), load("hf:m")
    monkeypatch.chdir(tmp_path / "there")
    assert settings_of(loaded) == expected != settings_of(load("hf:m"))
    tiny.save(model, tmp_path / "here" / "m", chat_template=tiny.CHAT)
    with pytest.raises(ModelError, match="changed after it was loaded"):
        settings_of(late)


def vision(folder):
    from models.vision import worlds_of_pictures as worlds

    return worlds.save("qwen2_5_vl", folder)


FOLDERS = {
    "hf": lambda folder: tiny.save(tiny.llama(), folder),
    "encoder": tiny.sentence_encoder,
    "vision": vision,
}
"""A model in a folder for each kind that opens one."""


@pytest.mark.slow
def test_every_kind_of_model_in_a_folder_is_told_by_more_than_its_name(tmp_path):
    kinds = {entry.spec.partition(":")[0]: entry for entry in model_catalog() if "PATH" in entry.spec}
    load = {"LabelScorer": load_scorer, "Stepper": load_stepper, "Writer": load_writer}
    for kind, entry in kinds.items():
        name = f"{kind}:{FOLDERS[kind](tmp_path / kind)}"
        for capability in entry.capabilities:
            told = settings_of(load[capability](name))
            assert any(isinstance(value, str) and len(value) == 64 for value in told.values()), (kind, capability)


def test_a_model_without_settings_is_told_by_its_name_alone():
    class OwnSettings:
        def __init__(self):
            self.settings = {"api_key": "sk-live"}

    assert settings_of(FakeScorer()) == settings_of(OwnSettings()) == {}


@pytest.mark.parametrize(
    "given",
    ["float32", {"dtype": torch.float32}, {3: "x"}, [("dtype", "float32")], {"k": float("nan")}, {"k": 10**5000}],
)
def test_settings_that_no_file_could_hold_are_refused_by_kind(given):
    class Own:
        run_settings = given

    with pytest.raises(ModelError, match="run_settings of Own must be a dict"):
        settings_of(Own())


def test_a_name_on_the_hub_is_told_by_the_revision_that_was_loaded(tmp_path, monkeypatch):
    for revision, factor in (("a", 1.0), ("b", 1.5)):
        model = tiny.llama()
        with torch.no_grad():
            next(model.parameters()).mul_(factor)
        tiny.save(model, tmp_path / revision)
    leads_to = ["a"]
    monkeypatch.setattr(files, "cached_file", lambda _, file, **__: str(tmp_path / leads_to[0] / file))
    first, other = (files.later_digest("org/m") for _ in range(2))
    expected = files.model_digest(str(tmp_path / "a"))
    leads_to[0] = "b"
    assert first() == other() == expected != files.later_digest("org/m")()


def test_settings_that_fail_are_refused_and_not_taken_for_none():
    class Own:
        @property
        def run_settings(self):
            return {"weights": self.digest}

    class Inside:
        def __getattr__(self, name):
            return getattr(FakeScorer(), name)

    with pytest.raises(ModelError, match="run_settings of Own raised AttributeError"):
        settings_of(Own())
    assert settings_of(Inside()) == {}


@pytest.mark.parametrize("load", [load_scorer, load_stepper, load_writer])
def test_a_loaded_model_is_stored_with_what_tells_it(tmp_path, load):
    model = load(f"hf:{tiny.save(tiny.llama(), tmp_path / 'm')}")
    told = settings_of(model)
    assert model._digest() == pickle.loads(pickle.dumps(model._digest))() == told["model's weights"]
