"""The lockstep benchmark: every way gets the same tokens, and what is told follows from what was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from sottovoce.benchmarks.speed import (  # noqa: E402
    lockstep,
    lockstep_peers,
)
from sottovoce.benchmarks.speed.lockstep import Case, Ours, bytes_of_step, made_prompts, main, random_model  # noqa: E402
from sottovoce.benchmarks.speed.lockstep_peers import invink, plain_loop  # noqa: E402
from sottovoce.models.lockstep.stepper import TransformersStepper  # noqa: E402

CASE = Case(experts=3, shared=20, own=40, texts=2, tokens=4)
PACKAGES = {
    "invink/__init__.py": "from .generate import generate\n",
    "invink/generate.py": """
from types import SimpleNamespace
def load_hf_model(**given): raise AssertionError("a model is loaded a second time")
load_hf_tokenizer = load_hf_model
def generate(texts, folder, desc, *, batch_size, num, max_toks, **given):
    assert (load_hf_tokenizer().name, load_hf_model().name) == ("tokenizer", "model")
    assert len(texts) == num * (batch_size - 1) == 4
    return SimpleNamespace(lens=[max_toks] * num)
""",
    "torch.py": "float32 = None\ndef set_num_threads(count): assert count == 1\n",
    "transformers.py": """
from types import SimpleNamespace
class AutoTokenizer:
    @staticmethod
    def from_pretrained(folder, **given): return SimpleNamespace(name="tokenizer", encode=list)
class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(folder, **given):
        model = SimpleNamespace(name="model", generation_config=SimpleNamespace(), config=SimpleNamespace(vocab_size=9))
        model.eval = lambda: model
        return model
""",
}
"""Stand-ins, so that the other Python starts at once."""


@pytest.fixture(scope="module")
def stepper():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield TransformersStepper("small", loaded=random_model("small", device="cpu"), layout="rows")
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def ids(stepper):
    group = made_prompts(stepper, CASE)
    read = [stepper.parts.tokens(prompt, CASE.own) for prompt in (group.public, *group.experts)]
    return [[*one.prefix, *one.own] for one in read]


@pytest.mark.slow
def test_it_reports_every_way_with_its_spread(tmp_path, capsys):
    given = ["--shape", "small", "--device", "cpu", "--experts", "2", "--prompt-tokens", "40", "--shared", "0", "16"]
    given += ["--texts", "2", "--tokens", "3", "--recompute-tokens", "1", "--repeats", "2", "--out"]
    assert main([*given, str(tmp_path / "report.json")]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert json.loads(capsys.readouterr().out) == report
    assert len(report["cases"]) == 2
    for case in report["cases"]:
        assert case["ways"]["invink"] == {"left_out": "no Python was named with --invink"}
        for name, tokens in (("ours", 3), ("plain", 3), ("recompute", 1)):
            way = case["ways"][name]
            assert way["tokens_timed"] == tokens
            spread = way["clock"]["seconds_per_step"]
            assert 0 < spread["least"] <= spread["median"] <= spread["most"]
        ratio = case["times_as_fast_as"]["plain"]["writing"]["clock"]
        by_hand = [case["ways"][name]["clock"]["seconds_per_step"]["median"] for name in ("plain", "ours")]
        assert ratio == pytest.approx(by_hand[0] / by_hand[1])
    assert report["model"]["vocab_size"] == 9000


@pytest.mark.slow
def test_prompts_have_the_lengths_that_were_asked_for_and_the_beginning_in_common(ids):
    assert all(each[:20] == ids[0][:20] for each in ids)
    assert all(50 <= len(each) <= 61 for each in ids)
    assert len({tuple(each) for each in ids}) == 4


@pytest.mark.slow
def test_the_plain_loop_and_recomputing_give_the_logits_that_ours_gives(stepper, ids, monkeypatch):
    # The same tokens are forced on all three ways; then they must see the same logits.
    seen, forced = {}, [[5, 6], [7, 8], [9, 10], [11, 12]]

    def sampling(name):
        def sampled(self, logits):
            seen.setdefault(name, []).append(logits.float().view(4, 2, -1).clone())
            return torch.tensor(forced[len(seen[name]) - 1]).expand(4, -1).reshape(-1, 1)

        return sampled

    for name, cached in (("plain", True), ("recompute", False)):
        monkeypatch.setattr(lockstep_peers._Loop, "_sampled", sampling(name))
        loop = plain_loop(stepper.engine.model.model, ids, 2, 4, 1.0, cached=cached)
        loop.read()
        loop.write()
        loop.close()

    prompts = stepper.read([made_prompts(stepper, CASE)], max_private_tokens=CASE.own, tokens=4)
    decoding = prompts.write([0, 0], 4)
    for step in range(4):
        given = {text: forced[step - 1][text] if step else None for text in range(2)}
        for one in decoding.step(given):
            rows = torch.cat([one.public[None], *one.blocks])
            for name in ("plain", "recompute"):
                torch.testing.assert_close(rows, seen[name][step][:, one.text], atol=1e-4, rtol=0)
    prompts.close()


@pytest.mark.slow
def test_ours_reads_writes_and_frees(stepper):
    ours = Ours(stepper, made_prompts(stepper, CASE), CASE)
    ours.read()
    assert stepper.workspace.memory.used > 0
    ours.write()
    ours.close()
    assert stepper.workspace.memory.used == 0


def test_the_bytes_of_a_step_are_those_worked_out_by_hand(stepper):
    # Weights: 9000 x 32 shared by both ends; a layer has 32 x 32 (queries), 2 x 32 x 16, 32 x 32 (out), 3 x 32 x 64 and
    # two norms of 32; one last norm. Kept: 2 layers x 1 key head x 16 x 2 numbers a position, 4 bytes each.
    weights = 9000 * 32 + 2 * (32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 64 + 2 * 32) + 32
    positions = 20 + 4 * (40 + 2 * 4 // 2)
    assert bytes_of_step(stepper, CASE) == 4 * weights + positions * 2 * 16 * 2 * 4


def test_rates_scale_what_was_timed_for_fewer_tokens():
    case = Case(experts=1, shared=0, own=1, texts=2, tokens=10)
    told = lockstep._rates({"read": [(1.0, 0.5)], "write": [(4.0, 2.0)]}, case, 2)
    assert told["clock"]["seconds_per_step"]["median"] == 2.0
    assert told["clock"]["tokens_per_second"]["median"] == 1.0
    assert told["clock"]["seconds_in_all"]["median"] == 21.0
    assert told["processor"]["seconds_in_all"]["median"] == 10.5


def test_the_package_is_timed_in_a_python_of_its_own(stepper, tmp_path, monkeypatch):
    (tmp_path / "invink").mkdir()
    for name, text in PACKAGES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = stepper.engine.model.tokenizer, stepper.engine.model.model
    asked = {"texts": 2, "tokens": 3, "threads": 1, "repeats": 2}
    found = invink(Path(sys.executable), made, [("a ", "b"), ("a ", "c"), ("a ", "d")], asked)
    assert len(found["read"]) == len(found["write"]) == 2
    assert found["lengths"] == [3, 3, 3]


def test_the_package_is_left_out_with_a_reason(stepper, tmp_path):
    made = stepper.engine.model.tokenizer, stepper.engine.model.model
    asked = {"texts": 1, "tokens": 3, "threads": 1, "repeats": 1}
    assert "--invink" in invink(None, made, [("", "b")], asked)["left_out"]
    assert "could not run it" in invink(tmp_path / "none", made, [("", "b")], asked)["left_out"]


def test_shapes_have_the_sizes_that_they_are_named_after():
    sizes = {}
    for name in ("11m", "135m"):
        shape = lockstep.SHAPES[name]
        width, layers, inner = shape["hidden_size"], shape["num_hidden_layers"], shape["intermediate_size"]
        heads, key_heads = shape["num_attention_heads"], shape["num_key_value_heads"]
        layer = width * shape["head_dim"] * 2 * (heads + key_heads) + 3 * width * inner
        sizes[name] = shape["vocab_size"] * width + layers * layer
    assert sizes["11m"] == pytest.approx(11.3e6, rel=0.01)
    assert sizes["135m"] == pytest.approx(134.5e6, rel=0.01)


def test_it_can_be_run_by_its_name():
    from sottovoce.cli.bench import OTHERS

    assert OTHERS["lockstep"][0] == "speed.lockstep"
    with pytest.raises(SystemExit):
        main(["--shape", "unknown"])
