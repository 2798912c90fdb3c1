"""Planted in the shipped contracts of mechanisms, and in what they notice of the mechanisms of other entries."""

from __future__ import annotations

from mutants.mutant import Mutant

WRONG = "tests/contracts/test_wrong_entries.py"
TAPE = "tests/contracts/test_draw_tape.py"

MUTANTS = [
    Mutant(
        "endless-runs-pass",
        "the contract of a threshold test asks no run again after its yes",
        "testing/mechanisms.py",
        "            if asked(1) != asked(-1):\n",
        "            if asked(1) != asked(1):\n",
        (f"{WRONG}::test_a_wrong_mechanism_is_noticed[Endless--]",),
    ),
    Mutant(
        "one-yes-is-paid",
        "the contract counts a run of threshold tests once, however often it says yes",
        "testing/draw_losses.py",
        " for _ in range(yeses[run] - 1)]",
        " for _ in range(0)]",
        (TAPE, f"{WRONG}::test_a_wrong_answerer_is_noticed[EveryCommon--]"),
    ),
    Mutant(
        "runs-that-go-on-are-one-run",
        "the contract of a decoder counts a run once that is asked again after its yes",
        "testing/draw_tape.py",
        "            self.others.append(kept.mechanism)\n",
        "            pass\n",
        (TAPE,),
    ),
    Mutant(
        "answers-of-other-runs-unnoted",
        "the contract overlooks answers of a run that has a method of its own for them",
        "testing/draw_tape.py",
        '        if getattr(type(run), "above", None) is not ThresholdRun.above:\n',
        "        if False:\n",
        (TAPE,),
    ),
    Mutant(
        "one-count-of-many-is-paid",
        "the contract prices noisy counts by the one that moves furthest, whatever others move",
        "testing/draw_losses.py",
        "return math.fsum(times * float(",
        "return max(float(",
        (TAPE,),
    ),
]
