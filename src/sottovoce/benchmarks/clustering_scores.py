"""How well a clustering matches labels, and k-means without privacy to compare with.

Sources     Hubert and Arabie (1985) for the adjusted Rand index; normalised mutual information by the arithmetic mean
            of the entropies; purity is the share of points that carry their cluster's commonest label.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Names = NDArray[Any]


def scores(labels: Names, clusters: Names) -> dict[str, float]:
    """Number of clusters, purity, adjusted Rand index and normalised mutual information.

    Example:
        >>> found = scores(np.array([0, 0, 1, 1]), np.array([7, 7, 7, 5]))
        >>> {name: round(value, 3) for name, value in found.items()}
        {'clusters': 2, 'purity': 0.75, 'ari': 0.0, 'nmi': 0.344}
    """
    table = contingency(labels, clusters)
    return {
        "clusters": int(table.shape[1]),
        "purity": float(table.max(axis=0).sum() / table.sum()),
        "ari": _adjusted_rand(table),
        "nmi": _mutual_information(table),
    }


def contingency(labels: Names, clusters: Names) -> FloatArray:
    """Points by label and cluster, shape (labels, clusters)."""
    row, column = (np.unique(names, return_inverse=True)[1] for names in (labels, clusters))
    table = np.zeros((int(row.max()) + 1, int(column.max()) + 1))
    np.add.at(table, (row, column), 1)
    return table


def _adjusted_rand(table: FloatArray) -> float:
    together, by_label, by_cluster = (_pairs(part) for part in (table, table.sum(axis=1), table.sum(axis=0)))
    expected = by_label * by_cluster / _pairs(table.sum(keepdims=True))
    most = (by_label + by_cluster) / 2
    return float((together - expected) / (most - expected)) if most != expected else 0.0


def _pairs(counts: FloatArray) -> float:
    return float((counts * (counts - 1) / 2).sum())


def _mutual_information(table: FloatArray) -> float:
    joint = table / table.sum()
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    shared = float((joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])).sum())
    mean = (_entropy(joint.sum(axis=1)) + _entropy(joint.sum(axis=0))) / 2
    return shared / mean if mean > 0 else 0.0


def _entropy(shares: FloatArray) -> float:
    kept = shares[shares > 0]
    return float(-(kept * np.log(kept)).sum())


def k_means(points: FloatArray, clusters: int, seed: int) -> Names:
    """Lloyd's algorithm from spread-out starts; the best of five by squared distance. Not private."""
    from scipy.cluster.vq import kmeans2

    best, least = np.zeros(len(points), dtype=np.int64), np.inf
    for attempt in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an empty cluster is no reason to stop
            centres, names = kmeans2(points, clusters, minit="++", seed=1000 * seed + attempt)
        distance = float(((points - centres[names]) ** 2).sum())
        if distance < least:
            best, least = names, distance
    return np.asarray(best)
