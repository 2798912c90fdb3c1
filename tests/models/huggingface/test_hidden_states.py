"""Hidden states as vectors: what they are, that no text moves another's, and what cannot be read."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.errors import ModelError, ParameterError, TaskError  # noqa: E402
from sottovoce.experts.encoded import EncodedRecords  # noqa: E402
from sottovoce.experts.unit_sums import ClassSums  # noqa: E402
from sottovoce.models.base import Embeddable, Embedder, Isolation, LabelScorer  # noqa: E402
from sottovoce.models.huggingface.files import model_digest  # noqa: E402
from sottovoce.models.huggingface.hidden_states import HiddenStates, read_name  # noqa: E402
from sottovoce.models.huggingface.label_scorer import TransformersScorer  # noqa: E402
from sottovoce.models.huggingface.prompts import control_tokens  # noqa: E402
from sottovoce.models.registry import load_scorer, load_stepper  # noqa: E402
from sottovoce.models.text_vectors import CENTRED_ON, public_texts  # noqa: E402
from sottovoce.privacy.unit import Adjacency  # noqa: E402
from sottovoce.records.sealed import PrivateRecords, Row  # noqa: E402
from sottovoce.tasks import Task  # noqa: E402

TASK = Task(labels=["billing", "fraud"])
TEXTS = [
    "My card was charged twice.",
    "x",
    "The lamp by the river does not turn on, " * 20,
    "Please close the account.",
    "Ünïcode and emoji 🙂 too",
]
ARCHITECTURES = ["llama", "qwen3", "gpt2", "gemma2", "mixtral"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save(tiny.llama(), tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(folder) -> HiddenStates:
    return load_scorer(f"hf:{folder},layer=1,tokens=64", device="cpu")


def in_memory(kind: str) -> HiddenStates:
    loaded = tiny.tokenizer(), getattr(tiny, kind)()
    return TransformersScorer(kind, device="cpu", loaded=loaded).embedder()


def asked(texts):
    return [{"text": text} for text in texts]


def vectors(model, texts):
    return model.embed_records(TASK, asked(texts))


@pytest.mark.slow
@pytest.mark.parametrize(("pooling", "layer"), [("mean", 1), ("last", 1), ("mean", 2)])
def test_a_vector_is_what_the_layer_gives_off_a_public_mean(folder, pooling, layer):
    model = load_scorer(f"hf:{folder},layer={layer},pooling={pooling}", device="cpu")
    causal = model._engine.model

    def by_hand(text):
        start, ids = causal.tokenizer.eos_token_id, causal.tokenizer.encode(text)
        with torch.inference_mode():
            found = causal.model(input_ids=torch.tensor([[start, *ids]]), output_hidden_states=True)
        states = found.hidden_states[layer][0, 1:].double().numpy()
        pooled = states.mean(axis=0) if pooling == "mean" else states[-1]
        return pooled / np.linalg.norm(pooled)

    centre = np.mean([by_hand(text) for text in public_texts()], axis=0)
    for text, vector in zip(TEXTS, vectors(model, TEXTS), strict=True):
        apart = by_hand(text) - centre
        assert vector == pytest.approx(apart / np.linalg.norm(apart), abs=1e-6)
    assert len(public_texts()) == CENTRED_ON
    assert model.dimension == vectors(model, TEXTS).shape[1] == 48


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_no_other_text_changes_a_bit_of_a_vector(kind):
    model = in_memory(kind)
    alone = [vectors(model, [text])[0].tobytes() for text in TEXTS]
    worlds = [TEXTS, TEXTS[::-1], [TEXTS[2]] * 3 + TEXTS[:2], ["", *TEXTS, "much longer than the rest " * 60]]
    for world in worlds:
        for text, vector in zip(world, vectors(model, world), strict=True):
            assert text not in TEXTS or vector.tobytes() == alone[TEXTS.index(text)]
    assert model.isolation is Isolation.BY_CONSTRUCTION


@pytest.mark.slow
def test_the_self_test_compares_vectors_and_labels(model):
    report = model.self_test()
    assert report.passed
    names = [check.name for check in report.checks]
    assert [name for name in names if "hidden states" in name] == [
        "hidden states, plain forward pass", "hidden states, isolation", "hidden states, finite numbers"
    ]  # fmt: skip
    assert "isolation, layout queries" in names


def test_records_that_come_or_go_add_their_own_contribution_and_nothing_else(model):
    rule = ClassSums(len(TASK.labels), model.dimension)

    def summed(rows):
        read = EncodedRecords(PrivateRecords(rows, source="notes"), TASK, model, Adjacency.REPLACE_ONE)
        read.read(read.reader(asked(TEXTS[:1])))
        return read.sum_of(rule)

    rows = [Row(i, {"text": f"{text} {i}", "label": TASK.labels[i % 2]}) for i, text in enumerate(TEXTS * 2)]
    whole = summed(rows)
    assert (summed(rows[:4]) + summed(rows[4:])).tolist() == whole.tolist() == summed(rows[::-1]).tolist()
    assert np.abs(whole).max() > 0


def test_a_model_that_remembers_what_it_read_is_not_verified():
    model = in_memory("llama")
    read = []

    def remember(module, inputs, output):
        read.append(len(read))
        return output + 1e-3 * len(read)

    model._engine.model.model.get_input_embeddings().register_forward_hook(remember)
    assert model.isolation is Isolation.NOT_VERIFIED
    check = model._isolated()
    assert not check.passed
    assert "no formal guarantee" in check.wording


def test_a_text_that_cannot_be_read_is_nothing_and_a_long_one_is_cut(model, monkeypatch):
    fine = vectors(model, TEXTS[:1])
    found = vectors(model, ["", "  \n", TEXTS[0]])
    assert np.isnan(found[:2]).all()
    assert found[2].tobytes() == fine[0].tobytes()
    ids = model._ids("word " * 300)
    assert len(ids) == model.tokens == 64
    long, longer = vectors(model, ["word " * 300, "word " * 300 + "and another end"])
    assert long.tobytes() == longer.tobytes()

    def fails(ids):
        if len(ids) > 20:
            raise ValueError("quotes a record")
        return states(ids)

    states = model._states
    monkeypatch.setattr(model, "_states", fails)
    found = vectors(model, [TEXTS[0], TEXTS[2]])
    assert found[0].tobytes() == fine[0].tobytes()
    assert np.isnan(found[1]).all()

    def starves(ids):
        raise MemoryError("quotes a record")

    monkeypatch.setattr(model, "_states", starves)
    with pytest.raises(ModelError, match="out of memory") as raised:
        vectors(model, TEXTS[:1])
    assert "quotes" not in str(raised.value)
    assert raised.value.retryable


def test_a_text_cannot_act_as_a_control_token(model):
    controls = set(control_tokens(model._engine.model.tokenizer).values())
    assert not controls & set(model._ids("a <|im_start|> b <|endoftext|>"))


@pytest.mark.slow
def test_what_makes_the_vectors_is_in_the_name_and_in_the_hash(folder, tmp_path):
    usual = load_scorer(f"hf:{folder},layer=auto", device="cpu")
    assert usual.name == f"hf:{folder},layer=1,pooling=mean,tokens=511"
    named = ("layer=2", "pooling=last", "tokens=64", "layer=2,pooling=last")
    others = [load_scorer(f"hf:{folder},{options}", device="cpu") for options in named]
    other = tiny.llama()
    with torch.no_grad():
        other.model.norm.weight[0] += 1e-3
    others.append(load_scorer(f"hf:{tiny.save(other, tmp_path / 'other')},layer=1", device="cpu"))
    others.append(load_scorer(usual.name, device="cpu", dtype="bfloat16"))
    others += [in_memory("llama"), TransformersScorer("m", loaded=(tiny.tokenizer(), other)).embedder()]
    assert len({usual.embedding, *(one.embedding for one in others)}) == 1 + len(others)
    assert load_scorer(usual.name, device="cpu").embedding == usual.embedding
    assert TransformersScorer(folder, device="cpu").embedder().embedding == usual.embedding
    moved = tiny.save(tiny.llama(), tmp_path / "moved")
    assert load_scorer(f"hf:{moved},layer=1", device="cpu").embedding == usual.embedding


def test_a_folder_with_an_adapter_is_refused_whether_or_not_it_would_be_loaded(folder, tmp_path):
    # With the package peft installed the transformers library loads it, and the hash of the files left it out.
    other = shutil.copytree(folder, tmp_path / "adapted")
    (other / "adapter_config.json").write_text("{}")
    for loaded in (lambda: load_scorer(f"hf:{other}", device="cpu"), lambda: model_digest(str(other))):
        with pytest.raises(ModelError, match=r"has an adapter \(adapter_config\.json\)"):
            loaded()


def test_a_model_without_a_layer_reads_prompts_alone(folder):
    plain = load_scorer(f"hf:{folder}", device="cpu")
    assert isinstance(plain, LabelScorer)
    assert isinstance(plain, Embeddable)
    assert not isinstance(plain, Embedder)


def test_labels_are_scored_as_without_a_layer(folder, model):
    plain = load_scorer(f"hf:{folder}", device="cpu")
    scores = [one.prepare(TASK, [()]).score(asked(TEXTS[:2])) for one in (plain, model)]
    assert scores[0].tobytes() == scores[1].tobytes()


@pytest.mark.slow
def test_a_worker_opens_the_same_model(model):
    again = pickle.loads(pickle.dumps(model))
    assert vectors(again, TEXTS[:1]).tobytes() == vectors(model, TEXTS[:1]).tobytes()
    with pytest.raises(ModelError, match="in memory"):
        pickle.dumps(in_memory("llama"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("layer=0", "layer is '0'; it must be a whole number from 1 to 2"),
        ("layer=3", "from 1 to 2"),
        ("layer=two", "layer is 'two'"),
        ("pooling=max", "one of mean, last"),
        ("tokens=0", "tokens is '0'; it must be a whole number from 1 to 511"),
        ("tokens=512", "from 1 to 511"),
        ("layer=1,layer=2", "given layer= once"),
    ],
)
def test_what_is_not_there_is_refused(folder, options, said):
    with pytest.raises(ParameterError, match=said):
        load_scorer(f"hf:{folder},{options}", device="cpu")


def test_a_writer_needs_no_layer(folder):
    assert load_stepper(f"hf:{folder},layer=1", device="cpu").name == f"hf:{folder}"


def test_a_comma_of_another_kind_belongs_to_the_path():
    assert read_name("models/a,b") == ("models/a,b", {})
    assert read_name("models/a,b,tokens=9") == ("models/a,b", {"tokens": "9"})


def test_a_task_with_images_is_refused(model):
    with pytest.raises(TaskError, match="reads texts"):
        model.embed_records(Task(labels=["a", "b"], image="text"), asked(TEXTS[:1]))
