"""GGUF files: the logits of the model that they were written from, their own tokenizer, and what is refused by name."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
gguf = pytest.importorskip("gguf")

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: E402

from models import tiny  # noqa: E402
from models.huggingface import gguf_files  # noqa: E402
from sottovoce.errors import ModelError  # noqa: E402
from sottovoce.models.gguf import checkpoint  # noqa: E402
from sottovoce.models.gguf.blocks import KINDS, numbers  # noqa: E402
from sottovoce.models.gguf.checkpoint import load_gguf  # noqa: E402
from sottovoce.models.gguf.file import GGUFFile  # noqa: E402
from sottovoce.models.gguf.tokenizer import RULES, tokenizer_of  # noqa: E402
from sottovoce.models.huggingface.files import model_digest  # noqa: E402
from sottovoce.models.registry import load_scorer, load_stepper  # noqa: E402
from sottovoce.tasks import Example, Task  # noqa: E402

SIZES = {
    "vocab_size": 400, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 96, "max_position_embeddings": 512, "initializer_range": 0.3, "pad_token_id": 0,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
IDS = torch.tensor([[31, 348, 7, 60, 112, 5]])
TEXTS = (
    "My card was charged twice for one order.",
    "Order 20871 of 11 May, it's £3½ — don't\n\n  wait\t²",
    "<|im_start|>user\nHello<|im_end|> <think>x",
    "  two blanks, ５ wide digits, ة letters, e\u0301 marks",
)


def model_of(architecture):
    """A model with random weights, norms and biases, small rotary frequencies included."""
    kind = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma": "Gemma"}[architecture]
    further = {"head_dim": 32} if architecture in ("qwen3", "gemma") else {}
    config = getattr(transformers, f"{kind}Config")(
        **SIZES, **further, rope_parameters={"rope_type": "default", "rope_theta": 5e4},
        tie_word_embeddings=architecture in ("qwen3", "gemma"),
    )  # fmt: skip
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or "bias" in name:
                weight.add_(0.2 * torch.randn_like(weight))
    return model


def logits_of(model):
    with torch.inference_mode():
        return model(IDS).logits


@pytest.fixture(scope="module")
def file_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gguf")

    def of(architecture="llama", **given):
        name = f"{architecture}{len(list(folder.iterdir()))}.gguf"
        return gguf_files.write(folder / name, model_of(architecture), tiny.tokenizer(), architecture, **given)

    return of


# Weights


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma"])
def test_a_file_gives_the_logits_of_the_model_it_was_written_from(file_of, architecture):
    _, found = load_gguf(file_of(architecture), torch.float32)
    # Norms of gemma are stored as one more, which costs their last bit.
    torch.testing.assert_close(
        logits_of(found.eval()), logits_of(model_of(architecture)), atol=1e-4 if architecture == "gemma" else 0, rtol=0
    )
    assert found.config.tie_word_embeddings == (architecture in ("qwen3", "gemma"))


@pytest.mark.cases(2)
@pytest.mark.parametrize("quantised", ["F16", "Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_quantised_weights_are_those_of_the_gguf_package_in_every_bit(file_of, quantised):
    _, found = load_gguf(file_of("llama", quantised=quantised), torch.float32)
    kind = gguf.GGMLQuantizationType[quantised]
    plain = model_of("llama").state_dict()
    for name, weight in found.state_dict().items():
        honest = plain[name].numpy()
        if honest.ndim == 2:
            honest = gguf.quants.dequantize(gguf.quants.quantize(honest, kind), kind)
        assert weight.numpy().tobytes() == honest.tobytes(), name


@pytest.mark.cases(2)
@pytest.mark.parametrize("code", sorted(KINDS))
def test_blocks_are_unpacked_as_the_gguf_package_unpacks_them(code):
    kind, named = KINDS[code], gguf.GGMLQuantizationType(code)
    assert (kind.name, (kind.numbers, kind.bytes)) == (named.name, gguf.GGML_QUANT_SIZES[named])
    raw = np.random.default_rng(code).integers(0, 256, (20_000, kind.bytes), dtype=np.uint8)
    # Scales that are finite: no exponent of all ones.
    scales = {"Q6_K": [209]}.get(kind.name, [1, 3] if kind.numbers > 1 else [kind.bytes - 1])
    raw[:, [at for at in scales if at < kind.bytes]] &= 0xBB
    if kind.name == "F32":
        raw[:, 2:] &= 0x3F
    found = numbers(b"front" + raw.tobytes(), 5, (20_000, kind.numbers), code)
    truth = gguf.quants.dequantize(raw, named)
    assert np.isfinite(truth).all()
    assert found.tobytes() == np.ascontiguousarray(truth, np.float32).tobytes()


# Tokenizers


def tokens_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


def with_rule(rule):
    """The tiny tokenizer with texts cut up by this rule, as the transformers library writes such a tokenizer."""
    made = tiny.tokenizer()
    bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if rule in ("smollm", "starcoder", "refact", "command-r"):
        made.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    elif rule != "gpt-2":
        from tokenizers import Regex

        most = {"llama-bpe": r"\p{N}{1,3}", "qwen2": r"\p{N}"}[rule]
        published = (
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
            + most
            + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )
        split = pre_tokenizers.Split(Regex(published), behavior="isolated")
        made.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_alone])
        if rule == "qwen2":
            made.backend_tokenizer.normalizer = normalizers.NFC()
    return made


@pytest.mark.cases(2)
@pytest.mark.parametrize("rule", RULES)
def test_the_files_tokenizer_reads_texts_as_the_models_own_does(file_of, rule):
    found, _ = load_gguf(file_of("llama", pre=rule), torch.float32)
    own = with_rule(rule)
    for text in TEXTS:
        assert tokens_of(found, text) == tokens_of(own, text)
        assert found.decode(tokens_of(found, text)) == own.decode(tokens_of(own, text))
    assert (found.eos_token, found.pad_token) == ("<|endoftext|>", "<|endoftext|>")
    assert {*found.all_special_tokens} >= {"<|endoftext|>"}
    assert found.added_tokens_decoder[1].special
    assert not next(token for token in found.added_tokens_decoder.values() if token.content == "<think>").special


def test_the_rule_smollm_parts_digits(file_of):
    plain, parted = (load_gguf(file_of("llama", pre=rule), torch.float32)[0] for rule in ("gpt-2", "smollm"))
    cut = parted.backend_tokenizer.pre_tokenizer.pre_tokenize_str("No 2087")
    assert [word for word, _ in cut] == ["No", "Ġ", "2", "0", "8", "7"]
    cut = plain.backend_tokenizer.pre_tokenizer.pre_tokenize_str("No 2087")
    assert [word for word, _ in cut] == ["No", "Ġ2087"]


@pytest.mark.parametrize("leads", [True, False])
def test_pieces_with_scores_are_merged_by_their_rank_and_other_letters_are_bytes(leads):
    letters = [*"▁abcdeo", "ab", "▁ab", "cd", "abcd", "▁abcd"]
    pairs = [("a", "b"), ("c", "d"), ("▁", "ab"), ("ab", "cd"), ("▁ab", "cd"), ("▁", "abcd")]
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    kinds = [2, 3, 3, *[6] * 256, *[1] * len(letters)]
    scores = [0.0] * 266 + [-1.0, -3.0, -2.0, -4.0, -5.0]
    fields = {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": words, "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": scores, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.add_space_prefix": leads,
    }  # fmt: skip
    found = tokenizer_of(fields, "small.gguf")
    own = Tokenizer(
        models.BPE(
            vocab={word: place for place, word in enumerate(words)}, merges=pairs, unk_token="<unk>", fuse_unk=True,
            byte_fallback=True,
        )
    )  # fmt: skip
    own.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always" if leads else "never", split=False)
    for text in ("abcd", "ab cd", "cab ab abcd", "b é z", "aé"):
        ids = found.encode(text).ids
        assert ids == [1, *own.encode(text).ids]
        assert found.decode(ids) == text
    assert found.encode("ab").ids == [1, words.index("▁ab" if leads else "ab")]


# Opened by name


def test_a_file_scores_labels_and_writes_as_the_folder_does(file_of, tmp_path):
    path = file_of("llama")
    folder = tiny.save(model_of("llama"), tmp_path / "folder")
    task = Task(labels=["billing", "fraud"], instruction="Say which.")
    rows = []
    for name in (f"hf:{path}", f"hf:{folder}"):
        scorer = load_scorer(name)
        assert scorer.name == name
        prepared = scorer.prepare(task, [[Example({"text": "My card was charged twice."}, 0)], []])
        rows.append(prepared.score([{"text": "The parcel came late."}]))
    assert rows[0].tobytes() == rows[1].tobytes()
    assert load_stepper(f"hf:{path}").eos_tokens == load_stepper(f"hf:{folder}").eos_tokens
    vectors = load_scorer(f"hf:{path},layer=1")
    assert vectors.embed_records(task, [{"text": "The parcel came late."}]).shape == (1, 64)


def test_a_files_hash_names_the_model(file_of):
    import hashlib

    path = file_of("qwen3")
    assert model_digest(str(path)) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_of_a_repository_comes_from_the_hubs_cache(file_of, monkeypatch):
    asked, path = [], file_of("llama")
    monkeypatch.setattr(checkpoint, "cached_file", lambda *names: asked.append(names) or str(path))
    assert load_scorer("hf:some/repo:small-q8_0.gguf").name == "hf:some/repo:small-q8_0.gguf"
    assert {*asked} == {("some/repo", "small-q8_0.gguf")}


def test_a_file_that_is_not_there_is_a_model_error(tmp_path, monkeypatch):
    with pytest.raises(ModelError, match="There is no model file"):
        load_scorer(f"hf:{tmp_path}/none.gguf")

    def unreachable(*names):
        raise OSError("no network")

    monkeypatch.setattr(checkpoint, "cached_file", unreachable)
    with pytest.raises(ModelError, match=r"hf download some/repo none\.gguf"):
        load_scorer("hf:some/repo:none.gguf")


# Refusals by name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"architecture": "llama", "pre": "deepseek-llm"}, "the rule 'deepseek-llm', which is not known"),
        ({"architecture": "llama", "pre": None}, "the rule None"),
        ({"architecture": "llama", "more": {"llama.expert_count": 4}}, "llama.expert_count"),
        ({"architecture": "llama", "more": {"llama.feed_forward_length": [96, 64]}}, "a number for every layer"),
        ({"architecture": "llama", "more": {"llama.rope.scaling.type": "yarn"}}, "llama.rope.scaling.type"),
        ({"architecture": "llama", "more": {"llama.rope.dimension_count": 8}}, "llama.rope.dimension_count"),
        ({"architecture": "qwen2", "more": {"qwen2.attention.sliding_window": 16}}, "qwen2.attention.sliding_window"),
        ({"architecture": "llama", "more": {"split.count": 2}}, "one part of several"),
        ({"architecture": "llama", "left_out": ("block_count",)}, "lacks the field llama.block_count"),
        ({"architecture": "llama", "left_out": ("blk.1.ffn_up.weight",)}, "lacks a part of the model"),
    ],
)
def test_what_is_not_known_here_is_refused_by_its_name(file_of, given, words):
    with pytest.raises(ModelError, match=words):
        load_gguf(file_of(**given), torch.float32)


def test_fields_that_say_what_is_usual_are_fine(file_of):
    more = {"llama.expert_count": 0, "llama.rope.dimension_count": 16, "llama.rope.scaling.type": "none"}
    load_gguf(file_of("llama", more=more), torch.float32)


def other_file(path, architecture="llama", tensor="token_embd.weight", kind="F32"):
    file = gguf.GGUFWriter(path, architecture)
    named = gguf.GGMLQuantizationType[kind]
    _, size = gguf.GGML_QUANT_SIZES[named]
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list(["a"] * 4)
    for name in ("context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"):
        file.add_uint32(f"{architecture}.{name}", 1)
    file.add_tensor(tensor, np.zeros((4, size), np.uint8) if kind != "F32" else np.zeros((4, 2), np.float32),
                    raw_dtype=named)  # fmt: skip
    for write in (file.write_header_to_file, file.write_kv_data_to_file, file.write_tensors_to_file, file.close):
        write()
    return path


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"architecture": "mamba"}, "of the architecture 'mamba'. Read are llama, qwen2, qwen3, gemma"),
        ({"kind": "Q2_K"}, r"the type number 10 \(token_embd.weight\)"),
        ({"tensor": "rope_freqs.weight"}, "holds rope_freqs.weight"),
        ({"tensor": "blk.0.ssm_in.weight"}, "holds blk.0.ssm_in.weight"),
    ],
)
def test_other_architectures_quantisations_and_parts_are_refused_by_name(tmp_path, given, words):
    with pytest.raises(ModelError, match=words):
        load_gguf(other_file(tmp_path / "other.gguf", **given), torch.float32)


def test_a_tokenizer_of_another_kind_is_refused_by_name():
    with pytest.raises(ModelError, match=r"of the kind 't5'\. Read are gpt2 and llama"):
        tokenizer_of({"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": ["a"]}, "x.gguf")
    with pytest.raises(ModelError, match="holds no tokenizer"):
        tokenizer_of({}, "x.gguf")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda raw: b"PK" + raw, "is not a GGUF file"),
        (lambda raw: raw[:4] + struct.pack("<I", 1) + raw[8:], "has version 1; versions 2 and 3"),
        (lambda raw: raw[:-200], "is damaged or cut off"),
        (lambda raw: raw[:100], "is damaged or cut off"),
        (lambda raw: raw[:8] + struct.pack("<QQ", 1 << 40, 1 << 40) + raw[24:], "is damaged or cut off"),
    ],
)
def test_a_damaged_file_is_refused_before_anything_is_built(file_of, tmp_path, damage, words):
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damage(file_of("llama").read_bytes()))
    with pytest.raises(ModelError, match=words):
        load_gguf(path, torch.float32)


@pytest.fixture(scope="module")
def llama_file(file_of):
    return file_of("llama")


DAMAGED_FIELDS = {
    "llama.attention.head_count": (0, "four", 1 << 31),
    "llama.attention.head_count_kv": ("two",),
    "llama.embedding_length": ("long", 0),
    "llama.block_count": ("two", 1, 3, (1 << 32) - 1),
    "llama.context_length": (0,),
    "llama.vocab_size": ("many",),
    "split.count": ("one", [1, 1]),
    "tokenizer.chat_template": (3,),
    "tokenizer.ggml.bos_token_id": ("q", [0, 1]),
    "tokenizer.ggml.unknown_token_id": ([0],),
    "tokenizer.ggml.add_bos_token": ("yes", [1, 1]),
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in DAMAGED_FIELDS.items() for value in values]
)
def test_a_field_of_another_type_or_range_is_a_damaged_file(llama_file, monkeypatch, field, value):
    made = GGUFFile(llama_file)
    made.fields[field] = np.array(value) if isinstance(value, list) else value
    monkeypatch.setattr(checkpoint, "GGUFFile", lambda path: made)
    with pytest.raises(ModelError, match=rf"'llama\d+\.gguf' is damaged: the field .*{field.rpartition('.')[-1]}"):
        load_gguf(llama_file, torch.float32)


@pytest.mark.parametrize("field", ["embedding_length", "feed_forward_length", "attention.head_count"])
def test_sizes_that_the_table_does_not_have_are_refused_before_any_of_that_size_is_made(llama_file, monkeypatch, field):
    made = GGUFFile(llama_file)
    made.fields[f"llama.{field}"] = 1 << 24
    monkeypatch.setattr(checkpoint, "GGUFFile", lambda path: made)
    monkeypatch.setattr(transformers.LlamaForCausalLM, "from_pretrained", None)
    with pytest.raises(ModelError, match=r"do not fit its own fields: .* has the shape"):
        load_gguf(llama_file, torch.float32)


GOOD = {
    "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": ["a", "b", "ab"],
    "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.token_type": np.array([1, 1, 1]),
}  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"token_type": np.array([1])}, {"token_type": 3}, {"token_type": ["x"] * 3}, {"tokens": [["a"], ["b"], ["c"]]},
        {"merges": ["ab"]}, {"merges": ["q r"]}, {"merges": 7}, {"merges": [3]}, {"model": ["gpt2"]}, {"pre": 4},
        {"bos_token_id": "a"}, {"bos_token_id": 3, "add_bos_token": True}, {"model": "llama", "scores": 1.0},
        {"model": "llama", "scores": [math.nan] * 3}, {"model": "llama", "unknown_token_id": 9},
    ],
    ids=str,
)  # fmt: skip
def test_a_tokenizer_that_cannot_be_right_is_a_damaged_file(changed):
    tokenizer_of(GOOD, "x.gguf")
    fields = {**GOOD, **{f"tokenizer.ggml.{name}": value for name, value in changed.items()}}
    with pytest.raises(ModelError, match=rf"'x\.gguf' is damaged: the field .*({'|'.join(changed)})"):
        tokenizer_of(fields, "x.gguf")


def test_a_long_token_is_refused_before_it_is_taken_apart():
    # Every way to cut 20,000 letters in two takes 400 MB.
    fields = {**GOOD, "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["a", "b", "a" * 20_000]}
    with pytest.raises(ModelError, match="a token of 20000 letters"):
        tokenizer_of(fields, "x.gguf")
    tokenizer_of({**fields, "tokenizer.ggml.tokens": ["a", "b", "a" * 256]}, "x.gguf")


def packed(*tensors, field=b""):
    """A file with a field and a table, as bytes; a tensor is a name, a shape, and a place."""
    raw = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1 if field else 0) + field
    for name, shape, place in tensors:
        raw += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        raw += b"".join(struct.pack("<Q", size) for size in shape) + struct.pack("<IQ", 0, place)
    return raw + bytes(256)


def nested(depth):
    return (
        struct.pack("<Q", 1) + b"x" + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 4, 0)
    )


ALIGNED = struct.pack("<Q", 17) + b"general.alignment"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (packed(field=nested(5_000)), "lists within lists"),
        (packed(field=ALIGNED + struct.pack("<II", 4, 0)), "the field general.alignment"),
        (packed(field=ALIGNED + struct.pack("<IIQII", 9, 4, 2, 32, 32)), "the field general.alignment"),
        (packed((b"a", (), 0)), "'a' with 0 dimensions"),
        (packed((b"a", (2, 2, 2), 0)), "'a' with 3 dimensions"),
        (packed((b"a", (0, 1 << 62), 0)), "'a' without a number"),
        (packed((b"a", (2,), 0), (b"a", (2,), 32)), "in its table twice"),
        (packed((b"\x1b[31m", (2,), 0)), "the name of a field or a tensor"),
        (packed(*((str(at).encode(), (50,), 0) for at in range(9))), "damaged or cut off"),
    ],
)
def test_a_table_that_cannot_be_right_is_a_damaged_file(tmp_path, content, words):
    path = tmp_path / "small.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=words) as raised:
        GGUFFile(path)
    assert str(raised.value).isprintable()


def test_lists_within_lists_of_a_known_depth_are_read(tmp_path):
    path = tmp_path / "small.gguf"
    path.write_bytes(packed(field=nested(1)))
    assert len(GGUFFile(path).fields["x"]) == 1
