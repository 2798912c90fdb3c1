"""A GGUF file as a model and a tokenizer of the transformers library.

Every field and every tensor has to be understood: a file with one that is not known here is refused by its name, since
a model that lacks a part of itself still writes.

Sources     ``convert_hf_to_gguf.py`` of https://github.com/ggml-org/llama.cpp for names of tensors, for the order of
            rows of queries and keys (llama) and for norms that are stored as one more (gemma).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import transformers
from transformers.utils import cached_file

from sottovoce.errors import ModelError
from sottovoce.models.gguf.file import GGUFFile, damaged
from sottovoce.models.gguf.tokenizer import special_words, token_id, tokenizer_of
from sottovoce.models.weights import place_of

ENDING: Final = ".gguf"
ARCHITECTURES: Final = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "gemma": (transformers.GemmaConfig, transformers.GemmaForCausalLM),
}
_PARTS: Final = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}  # fmt: skip
_WHOLE: Final = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_FIELDS: Final = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
_NEEDED: Final = ("block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count")
_OTHER: Final = ("attention.key_length", "rope.freq_base", "vocab_size")
_FREQUENCIES: Final = 10_000.0
"""Base of rotary frequencies, where a file does not say."""
_REAL: Final = ("attention.layer_norm_rms_epsilon", "rope.freq_base")
"""Fields that are positive numbers; the others are positive whole ones."""
MOST: Final = 1 << 31
"""Above every size in a model."""


def gguf_path(name: str) -> Path | None:
    """The GGUF file that a model's name stands for; ``None`` for a name of another kind.

    Args:
        name: A path that ends in ``.gguf``, or ``REPO:FILE.gguf`` for a file of a repository on the hub.

    Raises:
        ModelError: There is no such file.
    """
    if not name.lower().endswith(ENDING):
        return None
    path = place_of(name)
    if path.is_file():
        return path
    repository, colon, file = name.partition(":")
    if not colon or not repository or name.startswith((".", "/", "~")):
        raise ModelError(f"There is no model file {name!r}. Check its name.")
    try:
        found = cached_file(repository, file)
    except Exception:
        found = None
    if found is None:
        raise ModelError(
            f"The model file {name!r} is neither on this machine nor could it be fetched. Check the name and the "
            f"network, or fetch it first: hf download {repository} {file}",
            retryable=True,
        )
    return Path(found)


def load_gguf(path: Path, dtype: torch.dtype) -> tuple[Any, Any]:
    """A tokenizer and a model.

    Args:
        path: The file.
        dtype: In which the model computes. Weights are unpacked to float32 first.

    Raises:
        ModelError: The file is damaged, or holds something that is not known here, which it names.
    """
    file = GGUFFile(path)
    try:
        config = _config(file)
        made = _tokenizer(file, config)
        weights = {name: torch.from_numpy(tensor) for name, tensor in _weights(file, config)}
    except ModelError:
        raise
    except Exception:
        raise damaged(path.name, "a field or a tensor") from None
    kind = ARCHITECTURES[file.fields["general.architecture"]][1]
    try:
        model, report = kind.from_pretrained(
            None, config=config, state_dict=weights, dtype=dtype, attn_implementation="sdpa", output_loading_info=True
        )
    except Exception:
        raise ModelError(f"The weights of the GGUF file {path.name!r} do not fit its own fields.") from None
    if wrong := sorted({*report.get("missing_keys", ()), *report.get("unexpected_keys", ())}):
        raise ModelError(f"The GGUF file {path.name!r} lacks a part of the model, or has one too many: {wrong[0]}.")
    return made, model


def _tokenizer(file: GGUFFile, config: Any) -> Any:
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of(file.fields, file.path.name),
        model_max_length=config.max_position_embeddings,
        **special_words(file.fields, file.path.name),
    )
    template = file.fields.get("tokenizer.chat_template")
    if not isinstance(template, str | None):
        raise damaged(file.path.name, "the field tokenizer.chat_template")
    if template:
        made.chat_template = template
    return made


def _config(file: GGUFFile) -> Any:
    fields, name = file.fields, file.path.name
    architecture = fields.get("general.architecture")
    if not isinstance(architecture, str):
        raise damaged(name, "the field general.architecture")
    if architecture not in ARCHITECTURES:
        raise ModelError(
            f"The GGUF file {name!r} holds a model of the architecture {architecture!r:.60}. Read are "
            f"{', '.join(ARCHITECTURES)}: use such a file, or the model's folder."
        )
    parts = fields.get("split.count", 0)
    if not isinstance(parts, int):
        raise damaged(name, "the field split.count")
    if parts > 1:
        raise ModelError(f"The GGUF file {name!r} is one part of several. Join them first: llama-gguf-split --merge")
    own = {
        field.removeprefix(f"{architecture}."): value
        for field, value in fields.items()
        if field.startswith(f"{architecture}.")
    }
    if lacking := next((field for field in _NEEDED if field not in own), None):
        raise ModelError(f"The GGUF file {name!r} lacks the field {architecture}.{lacking}.")
    named = f"The GGUF file {name!r} has the field {architecture}."
    if uneven := next((field for field, value in own.items() if isinstance(value, list | np.ndarray)), None):
        raise ModelError(f"{named}{uneven} with a number for every layer, which is not known here.")
    for field in (field for field in (*_FIELDS, *_OTHER) if field in own):
        _require_number(own[field], name, f"{architecture}.{field}", real=field in _REAL)
    heads, width = own["attention.head_count"], own["embedding_length"]
    head = own.get("attention.key_length", width // heads)
    _refuse_unknown(own, head, named)
    for tensor in file.tensors:
        if _target(tensor) is None:
            raise ModelError(
                f"The GGUF file {name!r} holds {tensor}, a part of a model that is not known here. Use another file, "
                "or the model's folder."
            )
        file.require_readable(tensor)
    _require_sizes(file, own, head)
    settings: dict[str, Any] = {_FIELDS[field]: _plain(value) for field, value in own.items() if field in _FIELDS}
    settings.setdefault("num_key_value_heads", heads)
    tokens = {
        f"{role}_token_id": token
        for role, field in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))
        if (token := token_id(fields, field, name)) is not None
    }
    table = file.tensors.get("token_embd.weight")
    config = ARCHITECTURES[architecture][0](
        **settings,
        **{"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, **tokens},
        head_dim=head,
        vocab_size=table.shape[0] if table else own.get("vocab_size", 0),
        rope_parameters={"rope_type": "default", "rope_theta": float(own.get("rope.freq_base", _FREQUENCIES))},
        tie_word_embeddings="output.weight" not in file.tensors,
    )
    config.architectures = [ARCHITECTURES[architecture][1].__name__]
    return config


def _refuse_unknown(own: Mapping[str, Any], head: int, named: str) -> None:
    """Refuses a field that changes what the model computes, in a way that is not known here."""
    usual = {"attention.value_length": head, "rope.dimension_count": head, "rope.scaling.type": "none"}
    for field, value in own.items():
        known = field in _FIELDS or field in _OTHER or value == usual.get(field, 0)
        if not known:
            raise ModelError(f"{named}{field}, which is not known here. Use another file, or the model's folder.")


def _require_sizes(file: GGUFFile, own: Mapping[str, Any], head: int) -> None:
    """Sizes that fields state are those of the table, before anything of that size is made."""
    name, heads, width = file.path.name, own["attention.head_count"], own["embedding_length"]
    blocks = {number for tensor in file.tensors if (number := _block_of(tensor)) is not None}
    if len(blocks) != own["block_count"] or max(blocks, default=0) >= own["block_count"]:
        raise damaged(name, f"the field block_count with {len(blocks)} blocks in the table")
    groups = own.get("attention.head_count_kv", heads)
    within = {"attn_q": heads * head, "attn_k": groups * head, "ffn_up": own["feed_forward_length"]}
    for tensor, entry in file.tensors.items():
        part = tensor.split(".")[-2]
        rows = entry.shape[0] if part == "token_embd" else within.get(part, entry.shape[0])
        if tensor.endswith(".weight") and part in ("token_embd", *within) and entry.shape != (rows, width):
            raise ModelError(
                f"The weights of the GGUF file {name!r} do not fit its own fields: {tensor} has the shape "
                f"{entry.shape}, and {rows, width} is stated."
            )


def _require_number(value: Any, file: str, field: str, *, real: bool) -> None:
    kind = isinstance(value, int | float) if real else isinstance(value, int)
    if not kind or isinstance(value, bool) or not 0 < value < MOST:
        raise damaged(file, f"the field {field}")


def _plain(value: float) -> float:
    """A number as it was written before it became one of 32 bits."""
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _weights(file: GGUFFile, config: Any) -> list[tuple[str, np.ndarray[Any, np.dtype[np.float32]]]]:
    architecture, found = file.fields["general.architecture"], []
    for name in file.tensors:
        tensor = file.read(name)
        if architecture == "llama" and ".attn_q." in name:
            tensor = _in_halves(tensor, config.num_attention_heads)
        if architecture == "llama" and ".attn_k." in name:
            tensor = _in_halves(tensor, config.num_key_value_heads)
        if architecture == "gemma" and "norm" in name:
            tensor = tensor - 1
        found.append((str(_target(name)), np.ascontiguousarray(tensor)))
    return found


def _target(name: str) -> str | None:
    """A tensor's name in the transformers library."""
    if name in _WHOLE:
        return _WHOLE[name]
    block, rest = _block_of(name), name.split(".", 2)[-1]
    part, _, kind = rest.rpartition(".")
    known = block is not None and part in _PARTS and kind in ("weight", "bias")
    return f"model.layers.{block}.{_PARTS[part]}.{kind}" if known else None


def _block_of(name: str) -> int | None:
    """The number of the block that a tensor is of; ``None`` for those of no block."""
    found = re.match(r"blk\.(0|[1-9][0-9]{0,8})\.", name)
    return int(found[1]) if found else None


def _in_halves(rows: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Rows of queries or keys whose pairs stood side by side, with the pairs' second halves behind the first ones."""
    return rows.reshape(heads, -1, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
