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
    Mutant(
        "one-item-a-unit",
        "the contract of a stability histogram looks at units of one item alone",
        "testing/mechanisms.py",
        "CAPS: Final = (1, 4)",
        "CAPS: Final = (1,)",
        (f"{WRONG}::test_a_wrong_mechanism_is_noticed[NoCapInScale--]",),
    ),
    Mutant(
        "histograms-of-one-changed-unit",
        "the contract of a stability histogram lets one unit change alone",
        "testing/mechanisms.py",
        "        rows = change.change.rows\n",
        "        rows = 1\n",
        (f"{WRONG}::test_a_wrong_mechanism_is_noticed[OneNewUnit--]",),
    ),
    Mutant(
        "items-drawn-one-a-unit",
        "the contract draws stability histograms of units of one item alone",
        "testing/mechanisms.py",
        "in itertools.product((1, 3), ITEM_CHANGES):",
        "in itertools.product((1,), ITEM_CHANGES):",
        (f"{WRONG}::test_a_wrong_mechanism_is_noticed[DrawsWithoutCap--]",),
    ),
    Mutant(
        "failures-at-six-deltas",
        "the contract compares a profile at six deltas, and not at the event's own",
        "testing/claims.py",
        "_points(accountant, cost_of(event).delta)",
        "_points(accountant)",
        (f"{WRONG}::test_a_wrong_mechanism_is_noticed[OneNewUnitMoreOften--]",),
    ),
    Mutant(
        "own-generators-pass",
        "the contract draws a mechanism from no equal sources",
        "testing/mechanisms.py",
        "        if draw(seeded(number)) != first:\n",
        "        if False:\n",
        (f"{WRONG}::test_a_wrong_mechanism_is_noticed[OwnNoise--]",),
    ),
    Mutant(
        "other-sources-unasked",
        "the contract does not count how often two sources of noise give the same",
        "testing/mechanisms.py",
        "        pool.note(TWO_SOURCES, {}, chance, int(draw(seeded(number + 1)) == first), 1, world)\n",
        "        pass\n",
        (f"{WRONG}::test_a_wrong_mechanism_is_noticed[OwnNoiseOfEachSource--]",),
    ),
    Mutant(
        "noise-of-the-numbers-passes",
        "the contract releases the same numbers once alone",
        "testing/mechanisms.py",
        'int(again(source) == noise[0]), 1, f"{at}, {values!r}")',
        '0, 0, f"{at}, {values!r}")',
        (f"{WRONG}::test_a_wrong_mechanism_is_noticed[NoiseOfTheNumbers--]",),
    ),
    Mutant(
        "sources-unasked-in-fits",
        "the contract takes a release for noisy that asked the source of noise nothing",
        "testing/draw_tape.py",
        "            if not noise.asked:\n",
        "            if False:\n",
        (TAPE,),
    ),
]
