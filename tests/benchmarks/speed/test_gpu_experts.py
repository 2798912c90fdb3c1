"""The measurement of an accelerator, on a processor with a small shape: what is counted, made, refused and reported."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from sottovoce.benchmarks.speed import gpu_experts  # noqa: E402
from sottovoce.benchmarks.speed.gpu_experts import SHAPES, OperationCount, known_peak, main, random_model  # noqa: E402
from sottovoce.errors import ParameterError  # noqa: E402
from sottovoce.models.huggingface.label_scorer import TransformersScorer  # noqa: E402
from sottovoce.tasks import Example, load_task  # noqa: E402

SMALL = SHAPES["small"]
TASK = load_task("tickets")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Tiny products are slower on several threads than on one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def scorer():
    return TransformersScorer("small", loaded=random_model(SMALL, device="cpu"), rows=2)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """One run: two experts of about 100 and 160 tokens, one question and three."""
    out = tmp_path_factory.mktemp("gpu") / "report.json"
    given = ["--contexts", "100", "160", "--experts", "2", "--questions", "1", "3", "--repeats", "2", "--rows", "2"]
    assert main(["--shape", "small", "--device", "cpu", *given, "--out", str(out)]) == 0
    return json.loads(out.read_text("utf-8"))


@pytest.mark.slow
def test_the_shape_is_that_of_qwen3_4b():
    # Published: 4.02 B parameters. By hand: a tied vocabulary, 36 layers of four projections, three of the MLP, two
    # norms over the width and two over a head; a last norm.
    _, model = random_model(SHAPES["qwen3-4b"], device="meta", dtype="bfloat16")
    layer = 2560 * 128 * (32 + 8 + 8 + 32) + 3 * 2560 * 9728 + 2 * 2560 + 2 * 128
    by_hand = 151_936 * 2560 + 36 * layer + 2560
    assert sum(weight.numel() for weight in model.parameters()) == by_hand == 4_022_468_096
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert {weight.device.type for weight in model.parameters()} == {"meta"}


@pytest.mark.slow
def test_operations_equal_those_that_torch_counts(scorer):
    prefix = [Example({"text": "The parcel came late and the box was wet."}, 2)]
    eager = TransformersScorer("eager", loaded=random_model(SMALL, device="cpu"), rows=2)
    eager.model.model.set_attn_implementation("eager")
    with OperationCount(eager) as ours, FlopCounterMode(display=False) as theirs:
        eager.prepare_in(TASK, [prefix], "queries").close()
    length, layers, width = ours.tokens, SMALL["num_hidden_layers"], SMALL["num_attention_heads"] * SMALL["head_dim"]
    # Torch counts no norms, and it counts products with positions that the mask hides.
    norms = 2 * length * (layers * (2 * 64 + 2 * 16) + 64)
    hidden = 4 * layers * width * (length * length - length * (length + 1) // 2)
    assert ours.operations - norms + hidden == theirs.get_total_flops()


@pytest.mark.parametrize(("before", "length"), [(0, 5), (7, 1), (7, 4)])
def test_a_token_attends_to_all_before_it_and_to_itself(scorer, before, length):
    count = OperationCount(scorer)
    cache = SimpleNamespace(get_seq_length=lambda: before)
    count._note(None, (), {"input_ids": torch.zeros(3, length), "past_key_values": cache})
    attended = 3 * sum(before + place + 1 for place in range(length))
    weights = sum(p.numel() for name, p in scorer.model.body.named_parameters() if "embed" not in name)
    # A product of query and key, and one of weight and value, for each of 2 layers and 4 heads of width 16.
    assert count.operations == 2 * weights * 3 * length + 2 * 2 * 2 * 4 * 16 * attended
    assert (count.rows, count.tokens) == (3, 3 * length)


def test_nothing_is_counted_behind_the_end(scorer):
    with OperationCount(scorer) as count:
        pass
    scorer.prepare_in(TASK, [[]], "queries").close()
    assert count.operations == 0


@pytest.mark.slow
def test_contexts_have_about_the_tokens_that_were_asked_for(report):
    for case, wanted in zip(report["cases"], (100, 160), strict=True):
        assert wanted - 4 <= case["context_tokens"]["least"] <= case["context_tokens"]["most"] <= wanted + 4


@pytest.mark.slow
def test_rates_are_what_was_done_over_the_seconds_it_took(report):
    for case in report["cases"]:
        for found in case["layouts"].values():
            for one, name, things in (
                (found["prefill"], "experts_per_second", 2),
                *((one, "answers_per_second", 2 * one["questions"]) for one in found["scoring"]),
            ):
                assert len(one["seconds"]) == 2
                assert one[name]["most"] == pytest.approx(things / min(one["seconds"]))
                assert one["teraflops"]["least"] == pytest.approx(one["operations"] / max(one["seconds"]) / 1e12)
                assert one["share_of_peak"]["most"] == pytest.approx(
                    one["teraflops"]["most"] / report["peak"]["teraflops"]
                )


@pytest.mark.slow
def test_both_layouts_run_their_constant_rows_and_agree(report):
    for case in report["cases"]:
        assert case["finite"]
        assert case["layouts_differ_by"] < 1e-4
        rows = {layout: [one["rows_run"] for one in found["scoring"]] for layout, found in case["layouts"].items()}
        # Two rows: an expert's three questions take one batch or more by their lengths, two experts one for each.
        assert rows["queries"][0] == 2 * 2
        assert rows["queries"][1] in (2 * 4, 2 * 6)
        assert rows["experts"] == [1 * 2, 3 * 2]
        # Contexts are read one at a time in either.
        assert {found["prefill"]["rows_run"] for found in case["layouts"].values()} == {2}


@pytest.mark.slow
def test_the_report_says_what_it_was_measured_on(report):
    assert (report["device"]["name"], report["device"]["dtype"]) == ("processor", "float32")
    assert report["peak"]["from"].startswith("measured")
    assert report["machine"]["packages"]["torch"]
    assert report["settings"]["rows"] == 2
    tried = {check["name"]: check for check in report["self_test"]["checks"]}
    for layout in gpu_experts.LAYOUTS:
        assert tried[f"isolation, layout {layout}"]["bit_equal"] in (True, False)
    assert report["self_test"]["isolation"] == "BY_CONSTRUCTION"
    assert all(case["peak_memory_gib"] is None for case in report["cases"])


@pytest.mark.parametrize("given", [[], ["--device", "cpu"]])
def test_without_an_accelerator_the_large_shape_is_refused_by_name(given, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(given))
    monkeypatch.setattr(gpu_experts, "random_model", lambda *_, **__: pytest.fail("a model was made"))
    with pytest.raises(SystemExit) as refused:
        main(given)
    assert refused.value.code == 2
    assert "--shape small" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "dtype", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989),
        ("NVIDIA H100 PCIe", "bfloat16", 756),
        ("NVIDIA H200", "float16", 989),
        ("NVIDIA A100-SXM4-80GB", "bfloat16", 312),
        ("NVIDIA H100 NVL", "bfloat16", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "bfloat16", None),
        ("NVIDIA H100 80GB HBM3", "float32", None),
        ("NVIDIA GeForce RTX 4090", "bfloat16", None),
    ],
)
def test_a_peak_is_taken_from_a_data_sheet_only_for_what_it_speaks_of(name, dtype, peak):
    assert known_peak(name, dtype) == peak


@pytest.mark.slow
def test_a_loaded_model_scores_as_it_does_from_its_folder(scorer, tmp_path):
    scorer.model.tokenizer.save_pretrained(tmp_path)
    scorer.model.model.save_pretrained(tmp_path)
    contexts = [[Example({"text": "The box was wet."}, 2)], []]
    scores = [
        one.prepare(TASK, contexts).score([{"text": "Where is it?"}])
        for one in (scorer, TransformersScorer(str(tmp_path), device="cpu", rows=2))
    ]
    assert np.array_equal(*scores)
    assert scorer.name == "hf:small"


@pytest.mark.slow
def test_a_loaded_model_is_never_cast():
    made = random_model(SMALL, device="cpu", dtype="bfloat16")
    assert TransformersScorer("small", loaded=made).model.dtype == torch.bfloat16
    with pytest.raises(ParameterError, match="auto or bfloat16"):
        TransformersScorer("small", loaded=made, dtype="float32")
