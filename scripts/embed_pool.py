"""Embeds the bundled public texts once, so that a fit need not: python scripts/embed_pool.py

Writes src/sottovoce/data/pool/vectors.safetensors: for the default encoder the texts' vectors in their 256 leading
directions, four bits a coordinate, and those directions. What is lost is small, and public as the texts are.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from sottovoce.data.bundled import MOST_STEPS, POOL_VECTORS, packed, pool_vectors, public_pool, texts_hash
from sottovoce.models.embedded.label_scorer import EmbeddedScorer
from sottovoce.tasks import Task

DIRECTIONS = 256
REACH = 3.0
"""Deviations of a coordinate that its steps reach to."""


def main() -> None:
    texts = [str(row.values["text"]) for row in public_pool()]
    scorer = EmbeddedScorer(store=False)
    task = Task(labels=["a", "b"])
    vectors = np.concatenate(
        [
            scorer.embed_questions(task, [{"text": text} for text in texts[i : i + 256]])
            for i in range(0, len(texts), 256)
        ]
    )
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    basis = directions[:DIRECTIONS].astype(np.float16)
    coordinates = vectors @ basis.T.astype(np.float64)
    scale = (REACH * coordinates.std(axis=0) / MOST_STEPS).astype(np.float32)
    steps = np.clip(np.rint(coordinates / scale), -MOST_STEPS, MOST_STEPS).astype(np.int64)
    told = {"embedding": scorer.embedding, "texts": texts_hash(texts)}
    Path(str(POOL_VECTORS)).write_bytes(save({"steps": packed(steps), "basis": basis, "scale": scale}, metadata=told))
    restored = pool_vectors(scorer.embedding, texts)
    assert restored is not None
    cosines = (restored * vectors).sum(axis=1)
    print(json.dumps({"texts": len(texts), "mean_cosine": float(cosines.mean()), "least": float(cosines.min())}))


if __name__ == "__main__":
    main()
