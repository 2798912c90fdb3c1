"""Tiny models with random weights and a tokenizer trained on made-up text, built in seconds and saved to a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

CHAT = """{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content | trim }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}"""

CHAT_WITHOUT_SYSTEM = (
    "{%- if messages[0].role == 'system' -%}{{ raise_exception('no system role here') }}{%- endif -%}" + CHAT
)

SENTENCES = [
    "The parcel came late and the box was wet.",
    "My card was charged twice for one order.",
    "Please close the account before the month ends.",
    "The lamp by the river does not turn on.",
    "Read the text and answer with its label.",
    "Text:\nLabel: Route the ticket.",
    "billing fraud shipping returns account technical north east south wind rain",
]

SIZES: dict[str, Any] = {"vocab_size": 400, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
"""Shared by all the models."""


def tokenizer(chat_template: str | None = None) -> Any:
    """A byte-level tokenizer with a few merges and the control tokens of a chat."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=395, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(SENTENCES, trainer)
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|endoftext|>", pad_token="<|endoftext|>", model_max_length=100_000
    )
    made.add_tokens(["<think>"])
    made.chat_template = chat_template
    return made


def metaspace_tokenizer() -> Any:
    """A tokenizer of the other school: it writes a blank as part of a word and puts one before a text's first word."""
    inner = Tokenizer(models.BPE(unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    inner.decoder = decoders.Metaspace(prepend_scheme="first")
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    inner.train_from_iterator(SENTENCES * 3, trainer)
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="</s>"
    )


def llama(**changes: Any) -> Any:
    config = transformers.LlamaConfig(
        **SIZES,
        intermediate_size=96,
        num_key_value_heads=2,
        max_position_embeddings=changes.pop("max_position_embeddings", 512),
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
        **changes,
    )
    return _random(transformers.LlamaForCausalLM, config)


def loud() -> Any:
    """States between its layers are as large as those of trained models, and are taken off again before the head."""
    model = llama(mlp_bias=True)
    large = 3e4 * torch.linspace(-1, 1, SIZES["hidden_size"])
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.bias += large
        model.model.layers[1].mlp.down_proj.bias -= large
        model.lm_head.weight *= 3
    return model


def qwen3() -> Any:
    config = transformers.Qwen3Config(
        **SIZES,
        intermediate_size=96,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    return _random(transformers.Qwen3ForCausalLM, config)


def gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=400,
        n_embd=48,
        n_layer=2,
        n_head=4,
        n_positions=512,
        initializer_range=0.3,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return _random(transformers.GPT2LMHeadModel, config)


def gemma2() -> Any:
    """Soft-capped logits, soft-capped attention, and layers that look back over a short window."""
    config = transformers.Gemma2Config(
        **SIZES,
        intermediate_size=96,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        sliding_window=16,
        final_logit_softcapping=3.0,
        attn_logit_softcapping=20.0,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    return _random(transformers.Gemma2ForCausalLM, config)


def mixtral() -> Any:
    """A mixture of experts, whose routing mixes the rows of a batch."""
    config = transformers.MixtralConfig(
        **SIZES,
        intermediate_size=96,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=512,
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.3,
    )
    return _random(transformers.MixtralForCausalLM, config)


def sentence_encoder(folder: Path, *, pooling: dict[str, Any] | None = None, seed: int = 0, **files: Any) -> str:
    """Saves an encoder as the sentence-transformers library lays it out; returns the folder.

    Args:
        folder: Where to.
        pooling: What ``1_Pooling/config.json`` says.
        seed: Of the weights.
        files: Further JSON files by their names without ending; ``modules`` in place of the usual ones.
    """
    config = transformers.BertConfig(
        **SIZES, intermediate_size=96, max_position_embeddings=64, initializer_range=0.3, pad_token_id=0
    )
    torch.manual_seed(seed)
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (kind, path) in enumerate(kinds.items())
    ]
    files.setdefault("modules", modules)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": 48, **(pooling or {"pooling_mode": "mean"})})
    )
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return str(folder)


def save(model: Any, folder: Path, *, chat_template: str | None = None) -> str:
    """Saves a model and its tokenizer; returns the folder."""
    model.save_pretrained(folder)
    tokenizer(chat_template).save_pretrained(folder)
    return str(folder)


def _random(kind: Any, config: Any) -> Any:
    torch.manual_seed(0)
    return kind(config)
