"""What tells a model from another one of its name: its weights, its dtype, its chat template."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.models.base import settings_of  # noqa: E402
from sottovoce.models.fake import FakeScorer  # noqa: E402
from sottovoce.models.registry import load_scorer, load_stepper, load_writer  # noqa: E402


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


def test_a_model_without_settings_is_told_by_its_name_alone():
    assert settings_of(FakeScorer()) == {}
