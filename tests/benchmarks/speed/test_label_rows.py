"""Label scoring by the shape of its passes: every shape is timed at every length, and a folder is refused before."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.benchmarks.speed import label_rows  # noqa: E402
from sottovoce.benchmarks.speed.label_rows import SHAPES, WORDS, main  # noqa: E402
from sottovoce.errors import InputError  # noqa: E402
from sottovoce.models.huggingface.label_scorer import LENGTH_STEP, PASS_TOKENS  # noqa: E402


@pytest.mark.slow
def test_every_shape_is_timed_at_every_length_and_the_one_in_use_is_among_them(tmp_path, monkeypatch):
    monkeypatch.setattr(label_rows, "WORDS", WORDS[:2])
    threads = torch.get_num_threads()
    folder = tiny.save(tiny.llama(), tmp_path / "llama")
    out = tmp_path / "rows.json"
    try:
        assert main(["--model", f"hf:{folder}", "--out", str(out), "--repeats", "1", "--questions", "1", "2"]) == 0
    finally:
        torch.set_num_threads(threads)
    report = json.loads(out.read_text())
    assert len(report["cells"]) == 2 * 2 * len(SHAPES)
    for cell in report["cells"]:
        assert cell["seconds_a_question_and_expert"] > 0
        assert cell["share_of_plain"] == pytest.approx(
            cell["tokens_a_second"] / report["plain_tokens_a_second"], abs=1e-2
        )
    assert any((s["pass_tokens"], s["length_step"]) == (PASS_TOKENS, LENGTH_STEP) for s in SHAPES)


def test_a_folder_for_its_file_is_refused_before_a_model_is_opened(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        main(["--model", "hf:nowhere", "--out", str(tmp_path)])
