"""How broad is the bundled pool of public texts?

    python scripts/measure_pool.py --data FOLDER [--pool FILE] [--sets agnews dbpedia trec]

For every set: the mean over 500 of its rows of the cosine to the nearest text of a pool, by the embedded encoder, and
the pool's effective rank, exp of the entropy of its second moment's eigenvalues. Pools: the bundled one, 1,000 rows of
the same set, 500 rows of each of the other sets, and the bundled tickets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from sottovoce.benchmarks.harness.datasets import read_world
from sottovoce.data.bundled import pool_file, tickets_file
from sottovoce.models.base import FloatArray
from sottovoce.models.embedded.sentence_encoder import SentenceEncoder
from sottovoce.records.readers import read_public

ROWS, SAME, OTHER = 500, 1000, 500


def effective_rank(vectors: FloatArray) -> float:
    """Of unit vectors about their mean, between 1 and their dimension."""
    centred = vectors - vectors.mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    values = np.linalg.eigvalsh(centred.T @ centred / len(centred))
    shares = values[values > 1e-12] / values[values > 1e-12].sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def nearest(rows: FloatArray, pool: FloatArray) -> float:
    """The mean of each row's largest cosine to a text of the pool."""
    return float((rows @ pool.T).max(axis=1).mean())


def _vectors(encoder: SentenceEncoder, texts: list[str]) -> FloatArray:
    return encoder.encode(texts).astype(np.float64)


def main() -> None:
    """Prints one line for each set and pool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pool", type=Path, default=pool_file())
    parser.add_argument("--sets", nargs="+", default=["agnews", "dbpedia", "trec"])
    arguments = parser.parse_args()
    encoder, sets = SentenceEncoder(), {}
    for name in arguments.sets:
        examples = read_world(arguments.data, name).train
        drawn = np.random.default_rng(0).permutation(len(examples))[: ROWS + SAME]
        sets[name] = _vectors(encoder, [" ".join(examples[index].fields.values()) for index in drawn])
    pools = {
        path.name: _vectors(encoder, [row.values["text"] for row in read_public(path)])
        for path in (arguments.pool, tickets_file("private.jsonl"))
    }
    for name, rows in sets.items():
        others = [vectors[-OTHER:] for other, vectors in sets.items() if other != name]
        beside = {"same set": rows[ROWS:]} | ({"other sets": np.concatenate(others)} if others else {})
        for pool, vectors in (pools | beside).items():
            near, rank = nearest(rows[:ROWS], vectors), effective_rank(vectors)
            print(
                f"{name:10} {pool:16} {len(vectors):5,} texts  nearest {near:.3f}  effective rank {rank:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
