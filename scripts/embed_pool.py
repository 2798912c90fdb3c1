"""Embeds the bundled public texts once, so that a fit need not: python scripts/embed_pool.py

Writes src/sottovoce/data/pool/vectors.safetensors: for the default encoder the texts' vectors in their 128 leading
directions, one byte a coordinate, and those directions. What is lost is small and public: the file stands for the texts.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from sottovoce.data.bundled import POOL_VECTORS, public_pool, texts_hash
from sottovoce.models.embedded.label_scorer import EmbeddedScorer
from sottovoce.tasks import Task

DIRECTIONS = 128


def main() -> None:
    texts = [str(row.values["text"]) for row in public_pool()]
    scorer = EmbeddedScorer(store=False)
    task = Task(labels=["a", "b"])
    vectors = np.concatenate(
        [scorer.embed_questions(task, [{"text": text} for text in texts[i : i + 256]]) for i in range(0, len(texts), 256)]
    )
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    basis = directions[:DIRECTIONS]
    coordinates = vectors @ basis.T
    scale = np.abs(coordinates).max(axis=0) / 127
    steps = np.rint(coordinates / scale).astype(np.int8)
    told = {
        "embedding": scorer.embedding,
        "texts": texts_hash(texts),
        "directions": str(DIRECTIONS),
    }
    parts = {"steps": steps, "basis": basis.astype(np.float16), "scale": scale.astype(np.float32)}
    Path(str(POOL_VECTORS)).write_bytes(save(parts, metadata=told))
    restored = steps * scale @ basis.astype(np.float16).astype(np.float64)
    restored /= np.linalg.norm(restored, axis=1, keepdims=True)
    cosines = (restored * vectors).sum(axis=1)
    print(json.dumps({"texts": len(texts), "mean_cosine": float(cosines.mean()), "least": float(cosines.min())}))


if __name__ == "__main__":
    main()
