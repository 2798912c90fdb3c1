"""The in-context benchmark: exact selection laws, and a small table from hand-made rows."""

from __future__ import annotations

import gzip
import importlib.util
import itertools
import json
import math

import numpy as np
import pytest

from sottovoce.benchmarks.harness.evaluation import selection_law
from sottovoce.benchmarks.studies import in_context
from sottovoce.benchmarks.studies.in_context import main
from sottovoce.models.embedded.sentence_encoder import DEFAULT_PACKAGE


def flipped_in_every_order(utilities: list[float], rate: float) -> list[float]:
    """The law of permute-and-flip by enumeration: each order of candidates, each coin in turn."""
    count, best = len(utilities), max(utilities)
    heads = [math.exp(rate * (utility - best)) for utility in utilities]
    law = [0.0] * count
    for order in itertools.permutations(range(count)):
        left = 1.0 / math.factorial(count)
        for candidate in order:
            law[candidate] += left * heads[candidate]
            left *= 1 - heads[candidate]
    return law


@pytest.mark.parametrize("utilities", [[7, 2, 1], [3, 3, 0, 0], [0, 5], [4, 1, 4, 2, 0, 3]])
@pytest.mark.parametrize("rate", [0.25, 1.0, 4.0])
def test_permute_and_flip_follows_its_law_by_enumeration(utilities, rate):
    law = selection_law(np.array([utilities], float), rate, "permute-and-flip")[0]
    assert law == pytest.approx(flipped_in_every_order(utilities, rate), abs=1e-12)


def test_exponential_odds_are_exp_of_rate_times_lead():
    law = selection_law(np.array([[4.0, 0.0]]), 0.5, "exponential")[0]
    assert law[0] / law[1] == pytest.approx(math.exp(2))


def test_equally_good_labels_share_the_credit():
    assert in_context._right(np.array([[2.0, 2.0, 0.0], [0.0, 1.0, 0.0]]), np.array([0, 1])) == 0.75


def test_without_the_data_it_says_so(tmp_path, capsys):
    assert main(["--data", str(tmp_path)]) == 2
    assert "--data" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec(DEFAULT_PACKAGE) is None, reason="the encoder is not installed")
def test_a_table_and_a_json_file_come_out(tmp_path, capsys):
    topics = ["The minister met the ambassador", "The team won the match", "The bank cut its rates", "A new chip"]
    rows = [{"text": f"{topics[n % 4]} on day {n}", "label": n % 4} for n in range(120)]
    (tmp_path / "agnews").mkdir()
    for split, part in (("train", rows), ("test", rows[:8])):
        with gzip.open(tmp_path / "agnews" / f"{split}.jsonl.gz", "wt") as out:
            out.writelines(json.dumps(row) + "\n" for row in part)
    out = tmp_path / "report.json"
    assert (
        main(["--data", str(tmp_path), "--tasks", "agnews", "--seeds", "2", "--questions", "4", "--out", str(out)]) == 0
    )
    report = json.loads(out.read_text())
    by = {(c["names"], c["records"], c["method"], c["adjacency"], c["epsilon"]): c["mean"] for c in report["cells"]}
    assert len(by) == len(report["cells"]) == 2 * (1 + 4 * (3 + 2 * len(in_context.EPSILONS) * 3))
    assert by["made up", 100, "one context", None, None] == 100
    # Replace-one at twice the epsilon is add-remove, for every selection here.
    for method in ("PoE", "votes, exponential", "votes, permute-and-flip"):
        for names in ("own", "made up"):
            assert by[names, 8, method, "replace-one", 4.0] == by[names, 8, method, "add-remove", 2.0]
    assert "zero-shot" in capsys.readouterr().out
