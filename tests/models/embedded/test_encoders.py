"""``encoder:NAME_OR_PATH``: what its folder says is done, with a head or without, from the vectors to a fitted file."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from models import tiny  # noqa: E402
from sottovoce.cli import run  # noqa: E402
from sottovoce.errors import ModelError, ParameterError  # noqa: E402
from sottovoce.fitting.fit import Fitting  # noqa: E402
from sottovoce.models.base import Embedder, Isolation  # noqa: E402
from sottovoce.models.embedded.head import Head, save_head  # noqa: E402
from sottovoce.models.embedded.label_scorer import EmbeddedScorer  # noqa: E402
from sottovoce.models.embedded.recipe import recipe_of  # noqa: E402
from sottovoce.models.embedded.transformer_encoder import TransformerEncoder  # noqa: E402
from sottovoce.models.registry import load_scorer  # noqa: E402
from sottovoce.models.text_vectors import public_texts  # noqa: E402
from sottovoce.records.sealed import PrivateRecords, Row  # noqa: E402
from sottovoce.tasks import Example, Task  # noqa: E402

TEXTS = ["My card was charged twice.", "x", "The lamp by the river does not turn on, " * 10, "Ünïcode 🙂"]
WORDS = {"billing": "a fee was charged twice on the card", "fraud": "zzz QQ 99 somebody stole 123 and ran"}
TASK = Task(labels=list(WORDS))
QUESTIONS = [{"text": text} for text in TEXTS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.sentence_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def scorer(folder) -> EmbeddedScorer:
    return load_scorer(f"encoder:{folder}", store=False)


def states(folder, text, most=64):
    """The last layer, one row a piece."""
    model, tokenizer = (
        transformers.AutoModel.from_pretrained(folder),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    with torch.inference_mode():
        ids = torch.tensor([tokenizer.encode(text)[:most]])
        return model(input_ids=ids).last_hidden_state[0].double().numpy()


POOLED = {
    "mean": lambda rows: rows.mean(axis=0),
    "cls": lambda rows: rows[0],
    "max": lambda rows: rows.max(axis=0),
    "lasttoken": lambda rows: rows[-1],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("mean", {"pooling_mode": "mean"}),
        ("cls", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),
        ("max", {"pooling_mode": ["max"]}),
        ("lasttoken", {"pooling_mode": "lasttoken", "include_prompt": True}),
    ],
)
def test_tokens_are_pooled_as_the_folder_says(tmp_path, mode, said):
    folder = tiny.sentence_encoder(tmp_path / "m", pooling=said)
    found = TransformerEncoder(Path(folder), recipe=recipe_of(tmp_path / "m")).encode(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        expected = POOLED[mode](states(folder, text))
        assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-6)


def test_prompt_limit_and_case_are_the_folders(tmp_path):
    folder = tiny.sentence_encoder(
        tmp_path / "m",
        sentence_bert_config={"max_seq_length": 8, "do_lower_case": True},
        config_sentence_transformers={"default_prompt_name": "query", "prompts": {"query": "Ask: ", "other": "Q"}},
    )
    recipe = recipe_of(tmp_path / "m")
    assert (recipe.pieces, recipe.characters, recipe.prompt, recipe.lowercase) == (8, 128, "Ask: ", True)
    (vector,) = TransformerEncoder(Path(folder), recipe=recipe).encode(["The RIVER and more than eight pieces"])
    expected = states(folder, "Ask: the river and more than eight pieces", most=8).mean(axis=0)
    assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-6)


def test_a_folder_of_the_transformers_library_alone_has_its_mean_taken(tmp_path):
    model = tiny.sentence_encoder(tmp_path / "m")
    for name in ("modules.json", "1_Pooling/config.json"):
        (tmp_path / "m" / name).unlink()
    assert recipe_of(tmp_path / "m").pooling == "mean"
    assert load_scorer(f"encoder:{model}", store=False).dimension == 48


def test_vectors_equal_those_of_the_sentence_transformers_library(folder):
    library = pytest.importorskip("sentence_transformers", reason="the package sentence-transformers is not installed")
    model = library.SentenceTransformer(folder)
    expected = np.stack([model.encode([text])[0] for text in TEXTS])
    assert TransformerEncoder(Path(folder), recipe=recipe_of(Path(folder))).encode(TEXTS) == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"modules": [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]}, "module 'Dense'"),
        ({"pooling": {"pooling_mode": "weightedmean"}}, "pools by 'weightedmean'"),
        ({"pooling": {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}}, r"pools by \['cls', 'max'\]"),
        ({"modules": {"type": "Transformer"}}, "modules.json' cannot be read"),
        (
            {
                "pooling": {"pooling_mode": "mean", "include_prompt": False},
                "config_sentence_transformers": {"default_prompt_name": "q", "prompts": {"q": "Ask: "}},
            },
            "leaves its prompt out",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(tmp_path, files, said):
    folder = tiny.sentence_encoder(tmp_path / "m", **files)
    with pytest.raises(ModelError, match=said):
        load_scorer(f"encoder:{folder}", store=False)


@pytest.mark.parametrize("name", ["modules.json", "1_Pooling/config.json", "config.json"])
def test_a_deep_file_is_refused_by_name(tmp_path, name):
    folder = tiny.sentence_encoder(tmp_path / "m")
    (Path(folder) / name).parent.mkdir(exist_ok=True)
    (Path(folder) / name).write_text("[" * 100_000)
    with pytest.raises(ModelError, match=r"\.json"):
        load_scorer(f"encoder:{folder}", store=False)


@pytest.mark.parametrize(
    "content",
    ['{"prompts": ["x"], "default_prompt_name": "x"}', '{"prompts": {"x": "y"}, "default_prompt_name": ["x"]}'],
)
def test_prompts_of_another_shape_are_none(tmp_path, content):
    folder = Path(tiny.sentence_encoder(tmp_path / "m"))
    (folder / "config_sentence_transformers.json").write_text(content)
    assert recipe_of(folder).prompt == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [("config.json", '{"hidden_size": 1e400}'), ("model.safetensors.index.json", '{"weight_map": {"a": 3}}')],
)
def test_a_file_of_another_shape_is_refused_in_words(tmp_path, name, content):
    folder = Path(tiny.sentence_encoder(tmp_path / "m"))
    if name.endswith("index.json"):
        (folder / "model.safetensors").rename(folder / "kept.safetensors")
    (folder / name).write_text(content)
    with pytest.raises(ModelError):
        _ = load_scorer(f"encoder:{folder}", store=False).embedding


@pytest.mark.parametrize("kind", ["encoder", "hf", "vision"])
@pytest.mark.parametrize("name", ["x" * 300, "~nobody-of-this-name/x", "a\0b", "x" * 300 + ".gguf"], ids=ascii)
def test_a_name_that_no_file_can_have_is_refused_in_words(kind, name):
    with pytest.raises(ModelError):
        load_scorer(f"{kind}:{name}")


def test_a_name_that_is_nowhere_is_refused_with_the_next_step(tmp_path):
    with pytest.raises(ModelError, match="hf download nobody/nothing"):
        load_scorer("encoder:nobody/nothing", store=False)
    with pytest.raises(ModelError, match="is not a folder"):
        load_scorer(f"encoder:{tmp_path / 'absent'}", store=False)
    with pytest.raises(ParameterError, match="device"):
        load_scorer("encoder:nobody/nothing", device="cpu")


def test_no_other_text_changes_a_bit(scorer):
    alone = [scorer.embed_records(TASK, [record])[0].tobytes() for record in QUESTIONS]
    together = scorer.embed_records(TASK, [*QUESTIONS[::-1], {"text": "another " * 50}])
    assert [row.tobytes() for row in together[:4]][::-1] == alone
    assert (scorer.isolation, isinstance(scorer, Embedder)) == (Isolation.BY_CONSTRUCTION, True)


@pytest.mark.slow
def test_without_a_head_names_say_nothing_and_examples_do(scorer, folder):
    mean = TransformerEncoder(Path(folder), recipe=recipe_of(Path(folder))).encode(public_texts()).mean(axis=0)
    assert scorer.head.text_mean == pytest.approx(mean, abs=1e-6)
    bare, shown = scorer.prepare(TASK, [(), [Example({"text": TEXTS[0]}, 1)]]).score(QUESTIONS[:1])[0]
    assert bare.tolist() == pytest.approx([np.log(0.5)] * 2)
    assert shown[1] > np.log(0.99)
    assert not scorer.knows_labels
    assert "has no head: label names mean nothing to it" in scorer.note


def test_a_head_is_named_behind_the_encoder(folder, scorer, tmp_path):
    own = scorer._encoder.digest
    for name, encoder in (("own", own), ("strange", "0" * 64)):
        means = np.random.default_rng(0).normal(size=(2, 48)) / 10
        save_head(Head(9.0, 0.0, 8.0, 0.0, 0.1, 5.0, *means, encoder), tmp_path / f"{name}.safetensors", {})
    headed = load_scorer(f"encoder:{folder},head={tmp_path / 'own.safetensors'}", store=False)
    assert headed.knows_labels
    assert headed.note == ""
    bare = headed.prepare(TASK, [()]).score(QUESTIONS)[:, 0]
    assert np.ptp(bare, axis=1).max() > 0.01
    assert headed.embedding != scorer.embedding
    with pytest.raises(ModelError, match="fitted for another encoder"):
        load_scorer(f"encoder:{folder},head={tmp_path / 'strange.safetensors'}", store=False)


@pytest.mark.slow
def test_what_makes_the_vectors_is_in_the_hash(folder, scorer, tmp_path):
    others = [
        tiny.sentence_encoder(tmp_path / "weights", seed=1),
        tiny.sentence_encoder(tmp_path / "pooling", pooling={"pooling_mode": "cls"}),
        tiny.sentence_encoder(tmp_path / "limit", sentence_bert_config={"max_seq_length": 8}),
    ]
    found = {load_scorer(f"encoder:{other}", store=False).embedding for other in others}
    assert len(found | {scorer.embedding}) == 4
    same = tiny.sentence_encoder(tmp_path / "same")
    assert load_scorer(f"encoder:{same}", store=False).embedding == scorer.embedding


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    rows = [{"text": f"{text} {i}", "label": label} for i in range(60) for label, text in WORDS.items()]
    for name, content in (
        ("private.jsonl", rows),
        ("pool.jsonl", [{"text": f"{text} {end}"} for text in (*WORDS.values(), "a red book") for end in "abcd"]),
        ("new.jsonl", [{"text": f"{text} again", "label": label} for label, text in WORDS.items()]),
    ):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in content))
    return tmp_path


def call(capsys, *arguments):
    code = run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.slow
def test_a_fit_without_a_head_says_so_and_leaves_the_models_answer_out(place, capsys, folder):
    code, out, err = call(
        capsys, "fit", "--private", "private.jsonl", "--labels", ",".join(WORDS), "--model", f"encoder:{folder}",
        "--method", "class-means", "--epsilon", 8, "--public", "pool.jsonl", "--out", "support.sotto",
    )  # fmt: skip
    assert code == 0, err
    assert err.count("has no head: label names mean nothing to it") == 1
    code, out, _ = call(capsys, "predict", "support.sotto", "--queries", "new.jsonl", "--json")
    assert (code, json.loads(out)["accuracy"]) == (0, 1.0)
    code, out, _ = call(capsys, "verify", "certificate", "support.sotto", "--json")
    assert code == 0
    other = tiny.sentence_encoder(place / "other", seed=1)
    code, _, err = call(capsys, "predict", "support.sotto", "--queries", "new.jsonl", "--model", f"encoder:{other}")
    assert code != 0
    assert "was fitted with the vectors of" in err


@pytest.mark.parametrize(
    ("how", "weight"),
    [
        ({"method": "class-means"}, 0.0),
        ({"method": "auto"}, 0.0),
        ({"method": "class-means", "options": {"prior_weight": 1}}, 1.0),
    ],
)
def test_the_models_answer_counts_only_where_it_was_asked_for(monkeypatch, tmp_path, scorer, how, weight):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path))
    rows = [Row(i, {"text": f"{text} {i}", "label": label}) for i in range(9) for label, text in WORDS.items()]
    records = PrivateRecords(rows, source="notes")
    fitting = Fitting(records, TASK, epsilon=8, model=scorer, ledger=":memory:", pool=TEXTS, **how)
    assert fitting.plan.parameters["prior_weight"] == weight


@pytest.mark.slow
def test_an_encoder_is_told_by_its_files_its_reading_its_dtype_and_its_head(tmp_path):
    place = tmp_path / "m"

    def settings(spec="", **options):
        return load_scorer(f"encoder:{place}{spec}", store=False, **options).run_settings

    tiny.sentence_encoder(place)
    first = settings()
    assert settings() == first
    assert {name for name, value in settings(dtype="bfloat16").items() if value != first[name]} == {"dtype"}
    shutil.rmtree(place)
    tiny.sentence_encoder(place, pooling={"pooling_mode": "max"})
    assert {name for name, value in settings().items() if value != first[name]} == {"embedding"}
    shutil.rmtree(place)
    tiny.sentence_encoder(place, seed=1)
    other = settings()
    assert {name for name, value in other.items() if value != first[name]} == {"embedding"}
    encoder = load_scorer(f"encoder:{place}", store=False).head.encoder
    heads = []
    for scale in (1.0, 2.0):
        nothing = np.zeros(48)
        save_head(Head(scale, 0.1, 2.0, 0.1, 0.0, 1.0, nothing, nothing, encoder), tmp_path / "h.safetensors", {})
        heads.append(settings(f",head={tmp_path / 'h.safetensors'}"))
    assert {name for name, value in heads[1].items() if value != heads[0][name]} == {"head"}
    own = tmp_path / "own.safetensors"
    shipped = load_scorer("embedded").head
    save_head(replace(shipped, name_scale=2 * shipped.name_scale), own, {})
    ships, owned = load_scorer("embedded").run_settings, EmbeddedScorer(head=own, store=False).run_settings
    assert {name for name, value in owned.items() if value != ships[name]} == {"head"}


def test_no_setting_of_an_encoder_is_an_attribute_that_stored_ones_lack(scorer):
    """Scorers that earlier builds pickled have these attributes alone."""
    for kept in (scorer, load_scorer("embedded")):
        state = {"_encoder", "name", "head", "_mean", "_cache", "_questions", "_public", "knows_labels", "note"}
        stored = EmbeddedScorer.__new__(EmbeddedScorer)
        stored.__dict__.update({name: value for name, value in vars(kept).items() if name in state})
        assert stored.run_settings == kept.run_settings
