"""Small GGUF files, written with the ``gguf`` package from models of the transformers library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

PARTS = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def write(
    path: Path,
    model: Any,
    tokenizer: Any,
    architecture: str,
    *,
    quantised: str = "F32",
    pre: str | None = "gpt-2",
    more: dict[str, Any] | None = None,
    left_out: tuple[str, ...] = (),
) -> Path:
    """Writes a model and its byte-level tokenizer as a converter does; returns the path.

    Args:
        path: The file.
        model: Of the transformers library.
        tokenizer: Likewise.
        architecture: As the file names it.
        quantised: Name of the type that matrices are stored in.
        pre: Name of the rule by which texts are cut up.
        more: Further fields, each a number, a text or a list, or other values of the usual ones.
        left_out: Fields and tensors that are not written.
    """
    config, file = model.config, gguf.GGUFWriter(path, architecture)
    fields = {
        "context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
        "block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads, "attention.head_count_kv": config.num_key_value_heads,
    }  # fmt: skip
    if head := getattr(config, "head_dim", None):
        fields["attention.key_length"] = head
    for name, value in fields.items():
        if name not in left_out and f"{architecture}.{name}" not in (more or {}):
            file.add_uint32(f"{architecture}.{name}", value)
    file.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", config.rms_norm_eps)
    file.add_float32(f"{architecture}.rope.freq_base", config.rope_parameters["rope_theta"])
    for name, value in (more or {}).items():
        add = {str: file.add_string, list: file.add_array}.get(type(value), file.add_uint32)
        add(name, value)
    _write_tokenizer(file, tokenizer, pre, model.config.vocab_size)
    for name, weight in model.state_dict().items():
        stored = _stored(name)
        if stored in left_out or (name == "lm_head.weight" and config.tie_word_embeddings):
            continue
        _write_tensor(file, stored, weight.float().numpy(), architecture, config, quantised)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


def _stored(name: str) -> str:
    whole, _, kind = name.rpartition(".")
    if whole in WHOLE:
        return f"{WHOLE[whole]}.{kind}"
    _, _, block, part = whole.split(".", 3)
    return f"blk.{block}.{PARTS[part]}.{kind}"


def _write_tensor(file: Any, name: str, weight: Any, architecture: str, config: Any, quantised: str) -> None:
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    if architecture == "llama" and (count := heads.get(name.split(".")[-2])):
        weight = weight.reshape(count, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
    if architecture == "gemma" and "norm" in name:
        weight = weight + 1
    weight = np.ascontiguousarray(weight, np.float32)
    kind = gguf.GGMLQuantizationType[quantised if weight.ndim == 2 else "F32"]
    file.add_tensor(name, gguf.quants.quantize(weight, kind), raw_dtype=kind)


def _write_tokenizer(file: Any, tokenizer: Any, pre: str | None, size: int) -> None:
    import json

    inner = json.loads(tokenizer.backend_tokenizer.to_str())
    added = {token["id"]: token for token in inner["added_tokens"]}
    words = {number: word for word, number in tokenizer.get_vocab().items()}
    tokens = [words.get(number, f"[PAD{number}]") for number in range(size)]
    kinds = [
        (3 if added[number]["special"] else 4) if number in added else 1 if number in words else 5
        for number in range(size)
    ]
    file.add_tokenizer_model("gpt2")
    if pre is not None:
        file.add_tokenizer_pre(pre)
    file.add_token_list(tokens)
    file.add_token_types(kinds)
    file.add_token_merges([" ".join(pair) for pair in inner["model"]["merges"]])
    file.add_eos_token_id(tokenizer.eos_token_id)
    file.add_pad_token_id(tokenizer.pad_token_id)
    if tokenizer.chat_template:
        file.add_chat_template(tokenizer.chat_template)
