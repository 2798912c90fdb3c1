"""A public map of embeddings: row by row, and concentrated where public texts vary by more than the noise."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.experts.public_map import PublicMap

DICE = np.random.default_rng(5)
POOL = DICE.normal(size=(200, 6)) * [3, 2, 1, 0.5, 0.2, 0.05] + 0.7
POOL /= np.linalg.norm(POOL, axis=1, keepdims=True)


def test_a_mapped_row_is_that_of_the_row_alone():
    mapped, _ = PublicMap.concentrating(POOL, 0.1)
    rows = np.vstack([POOL[:7], np.full(6, np.nan), mapped.centre, 1e300 * POOL[:1], np.full(6, np.inf)])
    together = mapped(rows)
    for index, row in enumerate(rows):
        assert mapped(row[None]).tobytes() == together[index].tobytes()
        assert mapped(rows[index:])[0].tobytes() == together[index].tobytes()


def test_what_says_nothing_says_nothing_afterwards_and_the_centre_vanishes():
    mapped, _ = PublicMap.concentrating(POOL, 0.1)
    rows = mapped(np.vstack([np.full(6, np.nan), mapped.centre, POOL[0]]))
    assert np.isnan(rows[0]).all()
    assert not rows[1].any()
    assert np.linalg.norm(rows[2]) == pytest.approx(1)


def test_without_noise_it_is_a_turn_about_the_centre():
    mapped, _ = PublicMap.concentrating(POOL, 0.0)
    centred = POOL - mapped.centre
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    assert mapped(POOL) @ mapped(POOL).T == pytest.approx(centred @ centred.T, abs=1e-9)


@pytest.mark.parametrize("pool", [POOL[:1], np.tile(POOL[3], (7, 1)), np.zeros((2, 6))], ids=["one", "equal", "zeros"])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_pool_that_does_not_vary_turns_nothing_and_takes_nothing_off(pool, noise):
    mapped, variances = PublicMap.concentrating(pool, noise)
    assert mapped(POOL) == pytest.approx(POOL)
    assert variances.tolist() == pytest.approx([1 / 6] * 6)


def test_noise_takes_off_the_coordinates_in_which_public_texts_hardly_vary():
    mapped, variances = PublicMap.concentrating(POOL, 0.3)
    _, plain = PublicMap.concentrating(POOL, 0.0)
    assert variances.sum() == pytest.approx(1) == plain.sum()
    assert variances[-1] > plain[-1]
    assert np.diff(variances).min() >= -1e-12
    assert (mapped(POOL) ** 2).mean(axis=0) == pytest.approx(variances, abs=1e-9)


def test_the_gain_of_a_coordinate_is_the_root_of_its_share_against_the_noise():
    # Worked by hand: second moments 0.8 and 0.2, noise 0.2: gains sqrt(0.8) and sqrt(0.5).
    pool = np.array([[1.0, 0.0], [-1.0, 0.0]] * 4 + [[0.0, 1.0], [0.0, -1.0]])
    mapped, _ = PublicMap.concentrating(pool, 0.2)
    assert np.linalg.svd(mapped.matrix, compute_uv=False) == pytest.approx([0.8**0.5, 0.5**0.5])


def test_one_text_and_equal_texts_make_a_map_of_finite_numbers():
    for pool in (POOL[:1], np.repeat(POOL[:1], 5, axis=0)):
        mapped, variances = PublicMap.concentrating(pool, 0.1)
        assert np.isfinite(mapped.matrix).all()
        assert np.isfinite(variances).all()
        assert np.isfinite(mapped(POOL)).all()
