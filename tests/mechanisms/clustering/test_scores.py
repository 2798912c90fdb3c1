"""Scores of clusterings against another library's, and k-means on what cannot be missed."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.benchmarks.studies.clustering import k_means, made_up, scores


def test_scores_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    source = np.random.default_rng(1)
    for labels, clusters in [(3, 5), (4, 1), (1, 4), (6, 6)]:
        a, b = source.integers(labels, size=200), source.integers(clusters, size=200)
        b[:80] = a[:80] % clusters
        found = scores(a, b)
        assert found["ari"] == pytest.approx(metrics.adjusted_rand_score(a, b), abs=1e-12)
        if labels > 1:
            assert found["nmi"] == pytest.approx(metrics.normalized_mutual_info_score(a, b), abs=1e-12)
        assert found["purity"] == metrics.cluster.contingency_matrix(a, b).max(axis=0).sum() / 200


def test_k_means_finds_tight_clusters():
    vectors, labels = made_up(300, 4, 0.1)
    assert scores(labels, k_means(vectors, 4, 0))["ari"] == 1.0
