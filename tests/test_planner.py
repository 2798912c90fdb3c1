"""The planner: prices that really fit, choices that no figure is reported for, flags that run, advice that follows."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy.special import stdtrit

from sottovoce.cli import run
from sottovoce.errors import BudgetExhaustedError, ParameterError
from sottovoce.planner import advise as planner
from sottovoce.planner.advise import Accuracy, affordable_epsilon, make_plan, measured_tasks
from sottovoce.planner.measurements import Grid, Line, Reading, Setting, packaged_grid
from sottovoce.privacy.events import BoundedRange, PureDP
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.ledger.ledger import Identity, Ledger, Reservation
from sottovoce.privacy.unit import Adjacency

# Prices


@pytest.mark.cases(5)
@pytest.mark.parametrize("budget", [Budget(8, 1e-6), Budget(1, 1e-9), Budget(5), Budget(0.3)])
@pytest.mark.parametrize("questions", [1, 7, 250])
@pytest.mark.parametrize("event", [BoundedRange, PureDP])
def test_the_price_fits_for_every_question_and_a_percent_more_does_not(budget, questions, event):
    epsilon = affordable_epsilon(budget, questions, event)
    account = Ledger(":memory:").open(Identity("ab" * 32, Adjacency.REPLACE_ONE, "record"), budget)
    account.reserve([Reservation(f"r{i}", event(epsilon), "") for i in range(questions)])
    other = Ledger(":memory:").open(Identity("cd" * 32, Adjacency.REPLACE_ONE, "record"), budget)
    with pytest.raises(BudgetExhaustedError):
        other.reserve([Reservation(f"r{i}", event(1.01 * epsilon), "") for i in range(questions)])


def test_every_option_of_a_plan_has_its_own_familys_price():
    plan = make_plan(records=100, questions=70, budget=Budget(8, 1e-6))
    for option in plan.options:
        event = PureDP if "permute" in option.method else BoundedRange
        assert option.epsilon == affordable_epsilon(plan.budget, 70, event)
        assert f"--epsilon {option.epsilon:g}" in option.flags


def test_a_whole_number_stays_whole():
    assert affordable_epsilon(Budget(5), 5, PureDP) == 1.0
    assert affordable_epsilon(Budget(1), 10, BoundedRange) == 0.1


@pytest.mark.cases(1)
@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize("event", [BoundedRange, PureDP])
def test_more_budget_and_fewer_questions_never_lower_the_price(delta, event):
    by_budget = [affordable_epsilon(Budget(0.5 * 1.07**step, delta), 30, event) for step in range(40)]
    by_questions = [affordable_epsilon(Budget(8, delta), count, event) for count in (5000, 700, 90, 31, 30, 29, 2, 1)]
    for prices in (by_budget, by_questions):
        assert all(low <= high for low, high in pairwise(prices))
        assert prices[0] < prices[-1]


def test_a_budget_that_pays_for_nothing_says_so():
    plan = make_plan(records=10, questions=10**9, budget=Budget(0.001))
    assert plan.options[0].epsilon is None
    assert "does not pay" in plan.advice


def test_a_price_below_all_that_was_measured_says_so():
    plan = make_plan(records=4, questions=10**5, budget=Budget(1, 1e-9))
    assert plan.options[0].accuracy is None
    assert plan.options[0].epsilon is not None
    assert "nothing was measured" in plan.advice


def test_permute_and_flip_is_dearer_for_many_and_not_for_one():
    many = {o.method: o.epsilon for o in make_plan(records=100, questions=500, budget=Budget(8, 1e-6)).options}
    assert many["rnm --noise permute_and_flip"] < many["poe"]
    one = {o.method: o.epsilon for o in make_plan(records=100, questions=1, budget=Budget(1)).options}
    assert len(set(one.values())) == 1


# Made-up measurements

PRICES = (0.01, 0.1, 1.0, 8.0)
POE, GROUPED, PRIOR = Setting("PoE", 1, 2.3), Setting("PoE", 4, 2.3), Setting("prior x PoE", 1, 1.5)
VOTES, FLIP = Setting("votes, exponential", 1, None), Setting("votes, permute-and-flip", 1, None)
MANY = [Setting("PoE", g, clip) for g in (1, 2, 4) for clip in (0.5, 1.0, 1.5, 2.3, 3.0, 4.0)] + [PRIOR, VOTES, FLIP]


def flat(first, second=None, error=1.0):
    """The same at every price."""
    halves = ([Reading(value, error, error)] * len(PRICES) for value in (first, first if second is None else second))
    return Line(PRICES, tuple(halves))


def grid_of(by_task, zero_shot, *, relation=None, counts=(4, 100)):
    """From settings to lines by task, the same for every number of records and either adjacency."""
    lines = {
        (task, "own", records, adjacency): dict(settings)
        for task, settings in by_task.items()
        for records in counts
        for adjacency in ("add-remove", "replace-one")
        if relation in (None, adjacency)
    }
    floors = {(task, "own"): (Reading(z, 1.0, 0.0), Reading(z, 1.0, 0.0)) for task, z in zero_shot.items()}
    return Grid(lines, floors, dict.fromkeys(by_task, "embedded"), dict.fromkeys(by_task, 25), 5.0)


@pytest.fixture
def planned(monkeypatch):
    def plan(grid, **changes):
        monkeypatch.setattr("sottovoce.planner.advise.packaged_grid", lambda: grid)
        return make_plan(**{"records": 100, "questions": 8, "budget": Budget(8), **changes})

    return plan


def noisy(rng, names, spread, level=50.0):
    """Every setting is right as often in truth; what was measured has independent noise in each half."""
    return {t: {s: flat(*(level + spread * rng.standard_normal(2))) for s in MANY} for t in names}


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [("one",), ("one", "two", "three", "four")])
def test_the_best_of_settings_that_are_all_alike_is_not_reported_as_better(planned, tasks):
    # Truth 50 for all of 21 settings. 300 worlds; false alarm below 1e-4 (four standard errors of their mean).
    rng, reported, naive = np.random.default_rng(5), [], []
    for _ in range(300):
        by_task = noisy(rng, tasks, 3.0)
        best = planned(grid_of(by_task, dict.fromkeys(tasks, 40.0)), budget=Budget(8)).options[0]
        reported.append(best.accuracy.mean)
        naive.append(max(np.mean([[h[2].mean for h in by_task[t][s].halves] for t in tasks]) for s in MANY))
    assert abs(np.mean(reported) - 50) < 4 * np.std(reported) / math.sqrt(300)
    # The mean that a setting was chosen by is two standard deviations of a mean too high.
    assert np.mean(naive) > 50 + 1.5 * 3 / math.sqrt(2 * len(tasks))


@pytest.mark.slow
def test_the_interval_covers_the_mean_of_tasks_where_tasks_differ(planned):
    """Tasks are drawn around 60 with deviation 9, seeds add 1. 400 worlds of five tasks at 95 %.

    Four standard deviations of that share are 4.4 points. The error over seeds alone would cover far less.
    """
    rng, covered, leads, narrow = np.random.default_rng(6), 0, 0, 0
    names = tuple("abcde")
    for _ in range(400):
        level = dict(zip(names, 60 + 9 * rng.standard_normal(5), strict=True))
        by_task = {t: {POE: flat(*(level[t] + rng.standard_normal(2))), VOTES: flat(level[t] - 12)} for t in names}
        floors = {t: level[t] - 15 + 4 * rng.standard_normal() for t in names}
        plan = planned(grid_of(by_task, floors))
        right = plan.options[0].accuracy
        low, high = right.interval
        covered += low <= 60 <= high
        leads += plan.over_zero_shot[1] <= 15 <= plan.over_zero_shot[2]
        narrow += abs(right.mean - 60) <= 2 * 1.0 / math.sqrt(2 * 5)
    assert abs(covered / 400 - 0.95) < 0.044
    assert abs(leads / 400 - 0.95) < 0.044
    assert narrow / 400 < 0.4


def test_a_named_task_is_chosen_on_one_half_of_the_seeds_and_reported_on_the_other(planned):
    lines = {POE: flat(70, 55, error=2.0), VOTES: flat(60, 65)}
    plan = planned(grid_of({"one": lines}, {"one": 50.0}), task="one")
    assert (plan.options[0].method, plan.options[0].accuracy.mean) == ("poe", 55)
    # 12 seeds are left: Student's t with 11 degrees of freedom, 2.201 in any table.
    assert plan.options[0].accuracy.interval == pytest.approx((55 - 2.201 * 2, 55 + 2.201 * 2), abs=0.01)
    assert plan.over_zero_shot == pytest.approx((5, 5 - 2.201 * 2, 5 + 2.201 * 2), abs=0.01)


def test_an_average_reports_every_task_with_the_setting_that_is_best_on_the_others(planned):
    # Worked by hand: PoE is best on b and c together and on a and c, votes on a and b; PoE on all of them.
    by_task = {
        "a": {POE: flat(50), VOTES: flat(60)}, "b": {POE: flat(50), VOTES: flat(50)},
        "c": {POE: flat(90), VOTES: flat(60)},
    }  # fmt: skip
    plan = planned(grid_of(by_task, {"a": 40.0, "b": 40.0, "c": 40.0}))
    assert plan.options[0].method == "poe"
    assert plan.options[0].by_task == {"a": 50, "b": 50, "c": 60}
    assert plan.options[0].accuracy.mean == pytest.approx(160 / 3)
    assert plan.options[0].accuracy.standard_error == pytest.approx(np.std([50, 50, 60], ddof=1) / math.sqrt(3))


def test_all_seeds_of_a_task_count_alike_in_an_average(planned):
    by_task = {name: {POE: flat(50, 75)} for name in "ab"}
    plan = planned(grid_of(by_task, dict.fromkeys("ab", 40.0)))
    assert plan.options[0].accuracy.mean == pytest.approx((13 * 50 + 12 * 75) / 25)


@pytest.mark.parametrize(("price", "right"), [(0.1, 30), (math.sqrt(0.1), 40), (1.0, 50), (40.0, 80)])
def test_accuracy_is_read_off_a_line_over_the_logarithm_of_the_price(planned, price, right):
    line = Line(PRICES, ([Reading(v, 1, 1) for v in (20, 30, 50, 80)],) * 2)
    plan = planned(grid_of({"one": {POE: line}}, {"one": 10.0}), questions=1, budget=Budget(price))
    assert plan.options[0].accuracy.mean == pytest.approx(right, abs=0.01)


def test_records_beyond_a_measured_number_count_as_a_higher_price(planned):
    line = Line(PRICES, ([Reading(v, 1, 1) for v in (20, 30, 50, 80)],) * 2)
    grid = grid_of({"one": {POE: line}}, {"one": 10.0}, counts=(4, 25))
    plan = planned(grid, records=250, questions=10, budget=Budget(1))
    assert (plan.measured_at, plan.options[0].epsilon, plan.options[0].accuracy.mean) == (25, 0.1, 50)
    assert planned(grid, records=24, questions=10, budget=Budget(1)).measured_at == 4
    # Three records are fewer than were ever measured: four at three quarters of the price.
    few = planned(grid, records=3, questions=1, budget=Budget(1))
    assert few.measured_at == 4
    assert few.options[0].accuracy.mean == pytest.approx(50 + 20 * math.log10(0.75))


def test_zero_out_reads_single_records_under_add_remove_and_groups_under_replace_one(planned):
    lines = {
        ("one", "own", 100, "add-remove"): {POE: flat(70), GROUPED: flat(90)},
        ("one", "own", 100, "replace-one"): {POE: flat(60), GROUPED: flat(65)},
    }
    grid = Grid(lines, {("one", "own"): (Reading(9, 1, 0),) * 2}, {"one": "embedded"}, {"one": 25}, 5.0)
    found = {a: planned(grid, adjacency=a).options[0] for a in ("add-remove", "replace-one", "zero-out")}
    right = {a: (option.units_per_expert, option.accuracy.mean) for a, option in found.items()}
    assert right == {"add-remove": (4, 90), "replace-one": (4, 65), "zero-out": (1, 70)}


def test_a_group_larger_than_the_records_is_not_advised(planned):
    grid = grid_of({"one": {POE: flat(60), GROUPED: flat(90)}}, {"one": 10.0})
    assert planned(grid, records=3).options[0].units_per_expert == 1
    assert planned(grid, records=4).options[0].units_per_expert == 4


def test_it_says_when_votes_do_better_and_when_zero_shot_would_do_as_well(planned):
    def advice(poe, votes, zero_shot):
        lines = {"one": {POE: flat(poe), VOTES: flat(votes)}}
        return planned(grid_of(lines, {"one": zero_shot})).advice

    assert "Votes do better at this size: 70 %" in advice(60, 70, 40)
    assert advice(60, 70, 40).startswith("Use --method rnm --noise exponential --epsilon 1")
    assert advice(70, 60, 40).startswith("Use --method poe --clip 2.3 --epsilon 1")
    assert "otes do" not in advice(70, 60, 40)
    # A lead of one point has an interval of 2.2 either way.
    assert advice(70, 60, 69).startswith("Zero-shot would do as well, as far as these figures tell: 69 %")
    assert advice(70, 60, 90).startswith("Zero-shot would do as well, or better: 90 %")
    # Chosen on one half, a tie or worse on the other: nothing better is claimed.
    lines = {"one": {POE: flat(60, 66), VOTES: flat(70, 64)}}
    assert "Votes do as well at this size" in planned(grid_of(lines, {"one": 40.0})).advice


# The packaged measurements


def test_on_few_records_zero_shot_would_do_as_well_and_on_many_with_odd_names_it_would_not():
    few = make_plan(records=8, questions=20, budget=Budget(8, 1e-6))
    assert "Zero-shot would do as well" in few.advice
    taught = make_plan(records=1600, questions=50, budget=Budget(8, 1e-6), labels="made up")
    assert taught.advice.startswith(f"Use {taught.options[0].flags}: expected ")
    assert taught.options[0].accuracy.mean > taught.zero_shot.mean + 20
    assert taught.over_zero_shot[1] > 0


def test_replace_one_promises_no_more_than_add_remove_one_record_an_expert():
    # Half the exponent at the same price. The mean over all places and prices, setting by setting.
    grid = packaged_grid()
    leads: dict[Setting, list[float]] = {}
    for (task, names, records, relation), lines in grid.lines.items():
        if relation != "add-remove":
            continue
        swapped = grid.lines[task, names, records, "replace-one"]
        for setting in (s for s in lines if s.units_per_expert == 1 and s in swapped):
            for half in (0, 1):
                pairs = zip(lines[setting].halves[half], swapped[setting].halves[half], strict=True)
                leads.setdefault(setting, []).extend(one.mean - other.mean for one, other in pairs)
    assert {setting.method for setting in leads} == {family.measured for family in planner._FAMILIES}
    for setting, found in leads.items():
        assert len(found) >= 2 * 10 * 35, setting
        assert 0 < sum(found) / len(found) < 15, setting


def test_a_task_of_another_model_is_read_by_name_alone():
    pictures = make_plan(records=25, questions=20, budget=Budget(8, 1e-6), task="pseudonames")
    assert (pictures.tasks, pictures.model, pictures.labels) == (("pseudonames",), "embedded-image", "made up")
    made_up = make_plan(records=25, questions=20, budget=Budget(8, 1e-6), labels="made up")
    assert "pseudonames" not in made_up.tasks
    assert len(made_up.tasks) == 4


def test_the_packaged_grid_is_whole():
    grid = packaged_grid()
    assert set(measured_tasks()) == {"agnews", "dbpedia", "trec", "tickets", "pseudonames"}
    for (task, names, records, _), lines in grid.lines.items():
        assert len(lines) == 12, (task, names, records)
        for line in lines.values():
            assert len(line.halves[0]) == len(line.halves[1]) == len(line.prices) == 10
            assert all(0 <= r.mean <= 100 and r.standard_error >= 0 for half in line.halves for r in half)
    assert {records for _, _, records, _ in grid.lines} == {4, 8, 25, 100}


def test_the_callers_own_floor_is_used():
    plan = make_plan(records=100, questions=10, budget=Budget(8, 1e-6), zero_shot=Accuracy(99.0, 0.1))
    assert plan.zero_shot == Accuracy(99.0, 0.1)
    assert "Zero-shot would do as well, or better: 99 %" in plan.advice


def test_intervals_are_students():
    for degrees in range(1, 40):
        half = Accuracy(50.0, 1.0, degrees).half_width
        assert half == pytest.approx(float(stdtrit(degrees, 0.975)), rel=1e-12)
    assert Accuracy(50.0, 2.0).half_width == pytest.approx(3.92, abs=1e-3)


@pytest.mark.parametrize(
    "wrong", [{"records": 0}, {"questions": -1}, {"labels": "odd"}, {"task": "poems"}, {"adjacency": "next-door"}]
)
def test_what_cannot_be_planned_is_refused(wrong):
    with pytest.raises(ParameterError):
        make_plan(**{"records": 10, "questions": 10, "budget": Budget(1), **wrong})


# The flags, and the command


@pytest.fixture
def rows(tmp_path):
    """Nine records with ids, and three questions."""
    told = [{"id": f"r{n}", "text": f"made-up story {n}", "label": "ab"[n % 2]} for n in range(9)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, told)), "utf-8")
    asked = [{"id": f"q{n}", "text": f"question {n}"} for n in range(3)]
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, asked)), "utf-8")
    return tmp_path


def classify(rows, flags):
    """Answers with a first budget: in a store that does not know the records yet."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(dir=rows) as store:
        patch.setenv("SOTTOVOCE_HOME", store)
        return run(
            ["classify", "--private", str(rows / "rows.jsonl"), "--queries", str(rows / "asked.jsonl"), "--labels",
             "a,b", "--model", "fake", "--ledger", ":memory:", "--budget", "8,1e-6", *flags.split()]
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", [a.value for a in Adjacency])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_flags_of_every_option_run(planned, rows, adjacency, grouped):
    settings = [POE, PRIOR, VOTES, FLIP]
    if grouped:
        settings = [Setting(s.method, 4, s.clip) for s in settings]
    grid = grid_of({"one": {s: flat(60) for s in settings}}, {"one": 10.0})
    plan = planned(grid, records=9, questions=3, budget=Budget(8, 1e-6), adjacency=adjacency)
    assert len(plan.options) == 4
    for option in plan.options:
        assert ("--capacity 3" in option.flags) == (grouped and adjacency == "add-remove")
        assert classify(rows, option.flags) == 0, option.flags
        # The price is the most: what goes beyond it by a percent is refused, and nothing is charged.
        dearer = option.flags.replace(f"{option.epsilon:g}", f"{1.01 * option.epsilon:g}")
        assert classify(rows, dearer) == 3, dearer


def test_groups_under_add_remove_would_not_run_without_their_capacity(rows):
    assert classify(rows, "--method poe --per-expert 4 --epsilon 1 --adjacency add-remove") == 2


def call(capsys, *arguments):
    code = run(["plan", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, " ".join(err.split())


def test_the_command_prints_one_object_with_setting_and_interval(capsys):
    code, out, _ = call(capsys, "--records", 400, "--questions", 50, "--made-up-labels", "--json")
    told = json.loads(out)
    assert code == 0
    assert told.keys() >= {"records", "questions", "budget", "adjacency", "labels", "options", "zero_shot", "advice",
                           "measured_at", "tasks", "over_zero_shot"}  # fmt: skip
    best = told["options"][0]
    assert best.keys() >= {"method", "epsilon", "accuracy", "g", "clip", "flags"}
    low, high = best["accuracy"]["interval_95"]
    assert low < best["accuracy"]["mean"] < high
    assert f"--per-expert {best['g']} " in best["flags"] if best["g"] > 1 else "--per-expert" not in best["flags"]
    assert best["flags"] in told["advice"]
    assert told["measured_at"] == 100


def test_the_command_shows_every_method_and_on_what_it_was_measured(capsys):
    code, out, err = call(capsys, "--records", 50, "--questions", 40, "--task", "trec")
    out = " ".join(out.split())
    assert (code, err) == (0, "")
    plan = make_plan(records=50, questions=40, budget=Budget(8, 1e-6), task="trec")
    assert plan.advice in out
    assert all(option.method in out and str(option.accuracy) in out for option in plan.options)
    assert "25 records at 2 times the price" in out
    assert "of trec;" in out
    assert "was not measured" not in out


def test_a_task_that_was_not_measured_gets_the_average_and_is_told_so(capsys):
    code, out, _ = call(capsys, "--records", 50, "--questions", 40, "--task", "subj")
    assert code == 0
    assert "The task 'subj' was not measured: what follows is the average over public tasks." in out
    assert make_plan(records=50, questions=40, budget=Budget(8, 1e-6)).advice in out


@pytest.mark.parametrize(
    "wrong",
    [("--records", 0), ("--questions", 0), ("--epsilon", -1), ("--epsilon", "nan"), ("--delta", 2),
     ("--adjacency", "next-door"), ("--records", "many")],
)  # fmt: skip
def test_bad_input_is_an_error_with_its_name(capsys, wrong):
    given = {"--records": 10, "--questions": 10} | dict([wrong])
    code, out, err = call(capsys, *[part for pair in given.items() for part in pair])
    assert (code, out) == (2, "")
    assert wrong[0].strip("-") in err
