"""Beside jax-privacy 2.0, to four decimals, where functions correspond.

It runs in an environment of its own, whose interpreter ``SOTTOVOCE_JAX_PRIVACY`` names.
"""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache

import pytest

from sottovoce.audits.bounds import Rates, epsilon_of_one_run, epsilon_of_rates
from sottovoce.audits.one_run import epsilon_of_gaussian_run
from sottovoce.intervals import upper_limit

PYTHON = os.environ.get("SOTTOVOCE_JAX_PRIVACY", "")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="SOTTOVOCE_JAX_PRIVACY names no interpreter with jax-privacy 2.0 installed"
)

RUNS = [
    (100, 100, 90, 0.0), (1000, 100, 74, 1e-5), (1000, 100, 100, 1e-5), (1000, 1000, 700, 1e-5), (500, 50, 45, 1e-6),
    (200, 200, 120, 1e-3),
]  # fmt: skip
COUNTS = [(3, 200, 120, 200, 0.0), (5, 500, 250, 500, 0.0), (3, 200, 120, 200, 0.05), (60, 100, 2, 150, 1e-5)]
LIMITS = [(0, 10), (3, 200), (250, 500), (10, 10)]

SCRIPT = """
import json, sys
import numpy as np
from jax_privacy import auditing as a
asked = json.load(sys.stdin)
found = {"one_run": [], "curve": [], "rates": [], "limits": []}
for m, r, v, delta in asked["runs"]:
    found["one_run"].append(float(a._epsilon_one_run(0.0, m, r, v, 0.05, delta)))
    found["curve"].append(float(a._epsilon_one_run_fdp(1e-6, m, r, v, 0.05, delta)) if delta else None)
for fp, absent, fn, present, delta in asked["counts"]:
    inside = np.r_[np.zeros(fn), np.ones(present - fn)]
    outside = np.r_[np.ones(fp), np.zeros(absent - fp)]
    auditor = a.CanaryScoreAuditor(inside, outside)
    strategy = a.Explicit(0.5)
    bound = auditor.epsilon_clopper_pearson(0.05, delta, one_sided=False, threshold_strategy=strategy)
    found["rates"].append(float(bound))
for k, n in asked["limits"]:
    found["limits"].append(float(a._clopper_pearson_upper(np.array([k]), n, 0.025)[0]))
print(json.dumps(found))
"""


@cache
def theirs() -> dict[str, list[float]]:
    asked = {"runs": RUNS, "counts": COUNTS, "limits": LIMITS}
    environment = {**os.environ, "PYTHONPATH": "", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [PYTHON, "-c", SCRIPT], input=json.dumps(asked), capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_one_run_of_a_pair():
    assert [epsilon_of_one_run(*run) for run in RUNS] == pytest.approx(theirs()["one_run"], abs=5e-5)


def test_one_run_of_a_gaussian_curve():
    ours = [epsilon_of_gaussian_run(*run) if run[3] else None for run in RUNS]
    for own, other in zip(ours, theirs()["curve"], strict=True):
        assert own is None or own == pytest.approx(other, abs=5e-5)


def test_rates_at_a_threshold():
    ours = [epsilon_of_rates(Rates(*counts[:4]), counts[4]) for counts in COUNTS]
    assert ours == pytest.approx(theirs()["rates"], abs=5e-5)


def test_limits_of_a_rate():
    assert [upper_limit(*limit, 0.025) for limit in LIMITS] == pytest.approx(theirs()["limits"], abs=5e-5)
