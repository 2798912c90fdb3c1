"""Tiny vision-language models with random weights, saved as real checkpoints are."""

from __future__ import annotations

import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

FAMILIES = ["qwen2_5_vl", "internvl", "idefics3", "smolvlm"]

# As published with Qwen2.5-VL-3B-Instruct, without its branches for videos and picture numbers.
QWEN = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As in the library's conversion script for InternVL3.
INTERNVL = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n'}}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' %}{{ '<IMG_CONTEXT>\n' }}"
    "{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}{% endfor %}{{'<|im_end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n' }}{% endif %}"
)
# As in the library for SmolVLM, and with Idefics3 but for its first token.
IDEFICS = (
    "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
    "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
    "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
TEMPLATES = {"qwen2_5_vl": QWEN, "internvl": INTERNVL, "idefics3": IDEFICS, "smolvlm": IDEFICS}

_TILES = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
_FENCED = ["<fake_token_around_image>", "<image>", "<end_of_utterance>", "<global-img>", *_TILES]
TOKENS = {
    "qwen2_5_vl": ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"],
    "internvl": ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"],
    "idefics3": _FENCED,
    "smolvlm": _FENCED,
}
NAMED = {
    "qwen2_5_vl": {},
    "internvl": {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    },
    "idefics3": {},
    "smolvlm": {"image_token": "<image>", "fake_image_token": "<fake_token_around_image>"},
}
PREPROCESSORS: dict[str, dict[str, Any]] = {
    "qwen2_5_vl": {
        "image_processor_type": "Qwen2VLImageProcessor",
        "patch_size": 4,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "min_pixels": 256,
        "max_pixels": 4096,
    },
    "internvl": {
        "image_processor_type": "GotOcr2ImageProcessorFast",
        "size": {"height": 16, "width": 16},
        "max_patches": 4,
        "crop_to_patches": False,
    },
    "idefics3": {
        "image_processor_type": "Idefics3ImageProcessor",
        "size": {"longest_edge": 32},
        "max_image_size": {"longest_edge": 16},
    },
    "smolvlm": {
        "image_processor_type": "SmolVLMImageProcessor",
        "size": {"longest_edge": 32},
        "max_image_size": {"longest_edge": 16},
    },
}
_WORDS = [
    "Each picture has a made-up name. Name the last picture.",
    "Name: dax Name: blicket Name: perpo Name: slation shously dax tree",
    "You are a helpful assistant. user assistant system User Assistant System",
]
_TEXT: dict[str, Any] = {
    "vocab_size": 420,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def picture(seed: int, size: tuple[int, int] = (40, 30), kind: str = "PNG", **options: Any) -> str:
    """A made-up picture: a disc and a bar on a coloured ground, as a file in base64."""
    colours = [tuple(map(int, row)) for row in np.random.default_rng(seed).integers(0, 256, (3, 3))]
    drawn = Image.new("RGB", size, colours[0])
    pen = ImageDraw.Draw(drawn)
    left = min(2 + seed % 9, size[0] // 3)
    pen.ellipse((left, 1, size[0] // 2 + seed % 5, max(1, size[1] - 3)), fill=colours[1])
    pen.rectangle((size[0] // 2, 3, size[0] - 2, 3 + size[1] // 3), fill=colours[2])
    return packed(drawn, kind, **options)


def packed(drawn: Image.Image, kind: str = "PNG", **options: Any) -> str:
    file = BytesIO()
    drawn.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode()


def tokenizer(family: str) -> Any:
    """A byte-level tokenizer with a few merges, the control tokens of a chat, and the family's image tokens."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *TOKENS[family]]
    trainer = trainers.BpeTrainer(
        vocab_size=256 + len(special) + 60,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(_WORDS, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        model_max_length=100_000,
        extra_special_tokens=NAMED[family],
    )


def build(family: str, words: Any, **text: Any) -> Any:
    """The model; ``text`` changes its language part."""
    torch.manual_seed(0)
    sizes = {**_TEXT, **text}
    token = words.convert_tokens_to_ids
    if family == "qwen2_5_vl":
        config = transformers.Qwen2_5_VLConfig(
            text_config={
                **sizes,
                "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 100.0},
            },
            vision_config={
                "depth": 2,
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_heads": 4,
                "out_hidden_size": 32,
                "patch_size": 4,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
                "window_size": 16,
                "fullatt_block_indexes": [1],
                "initializer_range": 0.3,
            },
            image_token_id=token("<|image_pad|>"),
            video_token_id=token("<|video_pad|>"),
            vision_start_token_id=token("<|vision_start|>"),
            vision_end_token_id=token("<|vision_end|>"),
        )
        return _lively(transformers.Qwen2_5_VLForConditionalGeneration(config))
    vision: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 16,
        "patch_size": 4,
        "initializer_range": 0.3,
    }
    if family == "internvl":
        config = transformers.InternVLConfig(
            text_config={"model_type": "qwen2", **sizes},
            vision_config=vision,
            image_token_id=token("<IMG_CONTEXT>"),
            image_seq_length=4,
        )
        return _lively(transformers.InternVLForConditionalGeneration(config))
    kind = {"idefics3": "Idefics3", "smolvlm": "SmolVLM"}[family]
    config = getattr(transformers, f"{kind}Config")(
        text_config={"model_type": "llama", **sizes},
        vision_config=vision,
        image_token_id=token("<image>"),
        scale_factor=2,
    )
    return _lively(getattr(transformers, f"{kind}ForConditionalGeneration")(config))


def save(family: str, folder: Path, **text: Any) -> str:
    """Saves a checkpoint; returns the folder."""
    words = tokenizer(family)
    build(family, words, **text).save_pretrained(folder)
    words.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSORS[family]))
    if family == "internvl":
        (folder / "chat_template.jinja").write_text(TEMPLATES[family])
    else:
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATES[family]}))
    return str(folder)


def _lively(model: Any) -> Any:
    """Weights large enough that a wrong position or picture moves a score by far more than rounding does."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    return model
