"""A one-layer encoder with random weights and the default tokenizer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from sottovoce.models.embedded.sentence_encoder import encoder_folder

HERE = Path(__file__).parent / "small"
"""Its configuration, and the graph that ``scripts/encoder_graph.py`` wrote for it."""


def small_encoder(folder: Path, seed: int = 0) -> Path:
    """Makes the encoder in a folder."""
    small = folder / "small"
    small.mkdir(parents=True)
    for file in HERE.iterdir():
        shutil.copy(file, small)
    shutil.copy(encoder_folder(None) / "tokenizer.json", small)
    rng = np.random.default_rng(seed)
    weights = {name: rng.normal(0, 0.5, shape) for name, shape in shapes().items()}
    save_file({name: weight.astype(np.float32) for name, weight in weights.items()}, small / "model.safetensors")
    return small


def shapes() -> dict[str, list[int]]:
    """The shapes of its weights, named as the transformers library names them."""
    config = json.loads((HERE / "config.json").read_text("utf-8"))
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    layer = "encoder.layer.0"
    linear = {
        **{f"{layer}.attention.self.{part}": [hidden, hidden] for part in ("query", "key", "value")},
        f"{layer}.attention.output.dense": [hidden, hidden],
        f"{layer}.intermediate.dense": [wide, hidden],
        f"{layer}.output.dense": [hidden, wide],
    }
    norms = ("embeddings.LayerNorm", f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm")
    return {
        "embeddings.word_embeddings.weight": [config["vocab_size"], hidden],
        "embeddings.position_embeddings.weight": [config["max_position_embeddings"], hidden],
        "embeddings.token_type_embeddings.weight": [config["type_vocab_size"], hidden],
        **{f"{part}.weight": shape for part, shape in linear.items()},
        **{f"{part}.bias": shape[:1] for part, shape in linear.items()},
        **{f"{part}.{name}": [hidden] for part in norms for name in ("weight", "bias")},
    }
