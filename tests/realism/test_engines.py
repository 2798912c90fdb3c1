"""Engines that other people write, as servers on loopback: what is written and scored, and who gives no probabilities.

They live in an environment of their own, whose folder ``SOTTOVOCE_ENGINES`` names; how it is made is in
``docs/guides/models-over-http.md``.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("httpx2")

from tests.models import tiny  # noqa: E402

from sottovoce.errors import ModelError  # noqa: E402
from sottovoce.models.base import WritingRequest  # noqa: E402
from sottovoce.models.registry import load_scorer, load_writer  # noqa: E402
from sottovoce.tasks import Example, Task  # noqa: E402

ENGINES = Path(os.environ.get("SOTTOVOCE_ENGINES", "no such folder"))
STARTS_S = 300

pytestmark = [
    pytest.mark.slow,
    pytest.mark.realism,
    pytest.mark.skipif(not ENGINES.is_dir(), reason="SOTTOVOCE_ENGINES names no environment with engines"),
]

TASK = Task(labels=["billing", "fraud"], instruction="Route the ticket.")
ALIKE = Task(labels=["bank card", "bank account", "parcel"], instruction="Route the ticket.")
CONTEXTS = [(), (Example({"text": "charged twice"}, 0),), (Example({"text": "not me"}, 1),)]
QUERIES = [{"text": "a fee"}, {"text": "a stranger"}]
SHOTS = [("The parcel came late.", "late parcel")]
REQUESTS = [WritingRequest("Summarize.", SHOTS, text) for text in ("The lamp is off.", "My card was charged twice.")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A tiny model of a width that engines can run."""
    config = transformers.LlamaConfig(
        vocab_size=400, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=256, max_position_embeddings=1024, tie_word_embeddings=False, pad_token_id=0,
        bos_token_id=0, eos_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("engine") / "tiny"
    tiny.save(transformers.LlamaForCausalLM(config), path, chat_template=tiny.CHAT)
    return path


def served(command: list[str], log: Path) -> Iterator[str]:
    """Starts a server on a free port and gives its address when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            stdout=out, stderr=out, env={**os.environ, **settings}, start_new_session=True,
        )  # fmt: skip
    try:
        for _ in range(STARTS_S):
            time.sleep(1)
            if process.poll() is not None:
                pytest.fail(f"the engine ended: {log.read_text('utf-8', 'replace')[-2000:]}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                continue
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def vllm(folder, tmp_path_factory) -> Iterator[str]:
    if not list(ENGINES.glob("lib/python*/site-packages/vllm")):
        pytest.skip("there is no vllm in SOTTOVOCE_ENGINES")
    command = [str(ENGINES / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    settings = ["--served-model-name", "tiny", "--dtype", "float32", "--enforce-eager"]
    for url in served([*command, *settings], tmp_path_factory.mktemp("vllm") / "log"):
        yield f"openai:tiny@{url}"


@pytest.fixture(scope="module")
def plain(folder, tmp_path_factory) -> Iterator[str]:
    if not (ENGINES / "bin" / "transformers").exists():
        pytest.skip("there is no transformers in SOTTOVOCE_ENGINES")
    command = [str(ENGINES / "bin" / "transformers"), "serve", str(folder)]
    for url in served(command, tmp_path_factory.mktemp("serve") / "log"):
        yield f"openai:{folder}@{url}"


@pytest.fixture(params=["vllm", "plain"])
def engine(request) -> str:
    return request.getfixturevalue(request.param)


def alone(folder: Path, text: str) -> torch.Tensor:
    """Logits behind each token of a text, by the library itself, and the tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        return model(ids).logits[0].log_softmax(-1), ids[0]


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_each_api_writes_a_text_a_request_and_the_same_again(engine, api):
    writer = load_writer(f"{engine},api={api},cache=no")
    texts = writer.write([*REQUESTS, REQUESTS[0]], tokens=8)
    assert all(texts)
    assert texts[0] == texts[2] == writer.write(REQUESTS[:1], tokens=8)[0]
    assert texts[0] != texts[1]


def test_a_chat_gives_the_text_of_the_same_model_in_this_process(engine, folder):
    [expected] = load_writer(f"hf:{folder}").write(REQUESTS[:1], tokens=3)
    assert load_writer(f"{engine},cache=no").write(REQUESTS[:1], tokens=3) == [expected]


def test_a_prompt_that_is_too_long_is_its_own_failure(vllm):
    writer = load_writer(f"{vllm},cache=no")
    [expected] = writer.write(REQUESTS[:1], tokens=8)
    long = WritingRequest("Summarize.", [("The parcel came late. " * 400, "late")], "Why?")
    assert writer.write([long, REQUESTS[0]], tokens=8) == [None, expected]


def test_a_model_that_the_server_does_not_have_is_refused(engine):
    with pytest.raises(ModelError, match="does not write with the model 'other'"):
        load_writer(f"openai:other@{engine.rpartition('@')[2]},cache=no").write(REQUESTS, tokens=8)


@pytest.mark.parametrize("task", [TASK, ALIKE], ids=["apart", "alike"])
def test_an_echo_gives_the_models_own_probabilities_of_whole_labels(vllm, folder, task):
    scores = load_scorer(f"{vllm},score=echo,cache=no,timeout_s=300").prepare(task, CONTEXTS).score(QUERIES)
    for query, rows in zip(QUERIES, scores, strict=True):
        for context, row in zip(CONTEXTS, rows, strict=True):
            shots = "".join(f"{task.render_example(example)}\n\n" for example in context)
            prompt = f"{task.instruction}\n\n{shots}{task.render_query(query)}"
            sums = []
            for label in task.labels:
                logs, ids = alone(folder, f"{prompt} {label}\n\n")
                first = len(alone(folder, prompt)[1])
                sums.append(sum(float(logs[place - 1, ids[place]]) for place in range(first, len(ids))))
            assert np.allclose(row, np.array(sums) - np.logaddexp.reduce(sums), atol=2e-3)


def test_likeliest_tokens_are_scored_too(vllm):
    # A random model rarely likes a label: those that it does not name are at the floor, or the expert says nothing.
    scores = load_scorer(f"{vllm},score=top,cache=no").prepare(TASK, CONTEXTS).score(QUERIES)
    assert scores.shape == (2, 3, 2)
    assert ((scores <= 0) | np.isnan(scores)).all()


def test_a_server_that_leaves_log_probabilities_out_is_refused(plain):
    with pytest.raises(ModelError, match="does not give log-probabilities"):
        load_scorer(f"{plain},cache=no").prepare(TASK, [()])
