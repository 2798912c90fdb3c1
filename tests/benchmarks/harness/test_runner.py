"""Runs that are killed and go on, runs that ask a model nothing twice, and the command that prints a table."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from benchmarks.tiny_rows import reader, write_news
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness import runner
from sottovoce.benchmarks.harness.experiment import Experiment, Key, Piece, Result, Settings
from sottovoce.benchmarks.harness.results import ReportSection, Table
from sottovoce.benchmarks.harness.runner import load_experiment, run
from sottovoce.benchmarks.poetry import clip as poetry_clip
from sottovoce.benchmarks.poetry import table1 as poetry_table1
from sottovoce.benchmarks.reporting.collect import family_of
from sottovoce.errors import InputError, ParameterError

SETTINGS = Settings(model="fake", seeds=3, queries=4, tasks=("tickets",), records=(2,), epsilons=(1.0,))


HUGE = json.dumps(
    {
        "piece": {field.name: "a" for field in fields(Piece)},
        "numbers": [[{field.name: None for field in fields(Key)}, 10**400]],
        "seconds": 1.0,
        "asked": 0,
        "found": 0,
    }
)
"""A piece with a number that no float holds."""


class Broken(Exception):
    """A run that was killed."""


class Trial:
    """An experiment on the bundled tickets that notes what it measured and breaks when it is told to."""

    def __init__(self, *, breaks_at: int | None = None, whole: bool = False) -> None:
        self.measured: list[str] = []
        self.breaks_at = breaks_at
        self.experiment = Experiment(
            "trial", "A trial", "nothing", SETTINGS, self.measure, self.section, self.whole if whole else None
        )

    def measure(self, bench, piece):
        if len(self.measured) == self.breaks_at:
            raise Broken
        episode = bench.world(piece.task).episode(piece.seed, bench.settings.queries, piece.names)
        said = e.ask(bench.scorer, episode, [[0], [1]])
        self.measured.append(piece.name)
        yield Key(piece.task, piece.names, "sum"), float(said.sum())
        yield Key(piece.task, piece.names, "third", records=2, epsilon=1.0), 100 / 3 + piece.seed
        yield Key(piece.task, piece.names, "rare"), 0.0001234567

    def whole(self, bench, pieces):
        said = e.ask_public(bench.scorer, bench.world("tickets").episode(0, 5, "own"))
        return {"pieces": [piece.name for piece in pieces], "said": said.shape[0]}

    def section(self, result):
        return ReportSection(
            "trial", "A trial", "nothing", [], [Table("Sums", ("cell",), [(str(result.cells[0]),)])], [], []
        )


@pytest.fixture
def model(monkeypatch):
    """One model for all runs, so that its calls can be counted."""
    one = reader()
    monkeypatch.setattr(runner, "open_model", lambda spec, store: one)
    return one


def run_in(folder: Path, trial: Trial, settings: Settings = SETTINGS, *, cache: str = "cache", **options) -> Path:
    return run(trial.experiment, settings, results=folder / "results", cache=folder / cache, **options)


def cells_of(file):
    return [(cell.key, cell.values) for cell in Result.read(file).cells]


def partial(folder: Path) -> Path:
    return folder / "results" / "trial-fake.partial"


@pytest.fixture
def uninterrupted(tmp_path, model):
    """The cells of a run that nobody disturbed."""
    return cells_of(run_in(tmp_path / "quiet", Trial()))


# A whole run


def test_a_run_writes_its_cells_by_seed_and_what_it_was_measured_with(tmp_path, model):
    file = run_in(tmp_path, Trial())
    result = Result.read(file)
    assert file.name == "trial-fake.json"
    assert result.settings == SETTINGS
    assert [len(cell.values) for cell in result.cells] == [3] * 6
    third = result.cell(task="tickets", names="made up", method="third", records=2, epsilon=1.0)
    assert third.values == (33.333, 34.333, 35.333)
    assert result.cell(task="tickets", names="own", method="rare").values == (0.000123,) * 3
    assert set(result.machine) >= {"processor", "packages", "commit"}
    assert result.seconds >= 0
    # 3 seeds, 2 kinds of names, 4 questions, 2 prompts.
    assert result.scores == {"asked": 48, "found": 0}
    assert model.calls == 48
    assert not partial(tmp_path).exists()
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_what_is_worked_out_from_all_pieces_is_kept_and_its_asks_are_counted(tmp_path, model):
    result = Result.read(run_in(tmp_path, Trial(whole=True)))
    assert result.extra["said"] == 5
    assert len(result.extra["pieces"]) == 6
    assert result.scores == {"asked": 48 + 5, "found": 0}
    again = Result.read(run_in(tmp_path, Trial(whole=True)))
    assert again.scores == {"asked": 0, "found": 48 + 5}
    assert model.calls == 53


# Interrupted


@pytest.mark.cases(3)
@pytest.mark.parametrize("done", range(6))
def test_a_killed_run_goes_on_where_it_stopped_and_ends_as_if_undisturbed(tmp_path, model, uninterrupted, done):
    first = Trial(breaks_at=done)
    with pytest.raises(Broken):
        run_in(tmp_path, first)
    assert len(first.measured) == done
    second = Trial()
    file = run_in(tmp_path, second)
    assert len(second.measured) == 6 - done
    assert not set(first.measured) & set(second.measured)
    assert cells_of(file) == uninterrupted
    assert Result.read(file).scores == {"asked": 48, "found": 0}
    assert not partial(tmp_path).exists()


def test_a_run_may_be_killed_again_and_again(tmp_path, model, uninterrupted):
    measured = []
    for _ in range(5):
        trial = Trial(breaks_at=1)
        with pytest.raises(Broken):
            run_in(tmp_path, trial)
        measured += trial.measured
    last = Trial(breaks_at=1)
    assert cells_of(run_in(tmp_path, last)) == uninterrupted
    measured += last.measured
    assert len(measured) == len(set(measured)) == 6


@pytest.mark.cases(1)
@pytest.mark.parametrize("kept", [0, 1, 20, 200, -2, -1])
def test_a_torn_last_line_costs_that_piece_alone(tmp_path, model, uninterrupted, kept):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=4))
    *lines, last = partial(tmp_path).read_text("utf-8").splitlines(keepends=True)
    torn = last[:kept]
    partial(tmp_path).write_text("".join(lines) + torn, "utf-8")
    second = Trial()
    file = run_in(tmp_path, second)
    # Of a line that lacks just its end, nothing is missing.
    assert len(second.measured) == (2 if kept == -1 else 3)
    assert cells_of(file) == uninterrupted


def test_a_run_that_goes_on_can_be_torn_once_more(tmp_path, model, uninterrupted):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=2))
    with partial(tmp_path).open("a", encoding="utf-8") as out:
        out.write('{"piece": {"task"')
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=2))
    third = Trial()
    assert cells_of(run_in(tmp_path, third)) == uninterrupted
    assert len(third.measured) == 2


@pytest.mark.parametrize("name", ["trial-fake.partial", "trial-fake.rewritten"])
@pytest.mark.parametrize("restart", [False, True])
def test_nothing_is_written_through_a_link(tmp_path, model, name, restart):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=2))
    target = tmp_path / "results" / "kept"
    partial(tmp_path).rename(target)  # even where it leads to what an interrupted run left
    before = target.read_bytes()
    (tmp_path / "results" / name).symlink_to(target)
    if name == "trial-fake.partial":
        with pytest.raises(InputError, match="is a link"):
            run_in(tmp_path, Trial(), restart=restart)
    else:
        run_in(tmp_path, Trial(), restart=restart)
    assert target.read_bytes() == before
    assert (tmp_path / "results" / name).is_symlink()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("text", ["my notes\n", "my notes", '{"mine": 1}\n', "\n"])
def test_what_is_of_no_run_is_left_as_it_is(tmp_path, model, text, restart):
    partial(tmp_path).parent.mkdir()
    partial(tmp_path).write_text(text)
    with pytest.raises(InputError, match="Move it away"):
        run_in(tmp_path, Trial(), restart=restart)
    assert partial(tmp_path).read_text() == text


@pytest.mark.cases(1)
@pytest.mark.parametrize("damage", ["x", "[]", "", '{"piece": {}}', '{"piece": {"task": "t"', HUGE])
def test_a_damaged_piece_is_refused_and_no_other_is_thrown_away(tmp_path, model, uninterrupted, damage):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=4))
    lines = partial(tmp_path).read_text("utf-8").splitlines()
    lines[2] = damage
    partial(tmp_path).write_text("\n".join(lines) + "\n", "utf-8")
    before, trial = partial(tmp_path).read_bytes(), Trial()
    with pytest.raises(InputError, match=r"partial, line 3: .*--restart"):
        run_in(tmp_path, trial)
    assert (trial.measured, partial(tmp_path).read_bytes()) == ([], before)
    del lines[2]  # as the message says
    partial(tmp_path).write_text("\n".join(lines) + "\n", "utf-8")
    assert cells_of(run_in(tmp_path, trial)) == uninterrupted
    assert len(trial.measured) == 3


def test_two_processes_do_not_write_one_run(tmp_path, model):
    class Twice(Trial):
        def measure(self, bench, piece):
            with pytest.raises(InputError, match="Another process"):
                run_in(tmp_path, Trial(), cache="other")
            yield from super().measure(bench, piece)

    assert len(Result.read(run_in(tmp_path, Twice())).cells) == 6


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "other",
    [{"seeds": 4}, {"queries": 5}, {"epsilons": (1.0, 2.0)}, {"records": (3,)}, {"names": ("own",)}],
    ids=lambda other: next(iter(other)),
)
def test_other_settings_do_not_go_on_and_say_how_to_start_over(tmp_path, model, other):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=2))
    before, calls = partial(tmp_path).read_bytes(), model.calls
    trial = Trial()
    with pytest.raises(InputError, match=r"trial-fake\.partial.*other settings.*--restart"):
        run_in(tmp_path, trial, replace(SETTINGS, **other))
    assert (trial.measured, model.calls) == ([], calls)
    assert partial(tmp_path).read_bytes() == before
    again = Trial()
    result = Result.read(run_in(tmp_path, again, replace(SETTINGS, **other), restart=True))
    assert result.settings == replace(SETTINGS, **other)
    assert len(again.measured) == len(again.experiment.pieces(result.settings))


def test_restart_measures_everything_again(tmp_path, model, uninterrupted):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=4))
    trial = Trial()
    assert cells_of(run_in(tmp_path, trial, restart=True)) == uninterrupted
    assert len(trial.measured) == 6


@pytest.mark.parametrize("left", [None, "", '{"experiment": "tri'], ids=["head", "empty", "torn head"])
def test_a_run_that_was_killed_before_its_first_piece_stands_in_nobodys_way(tmp_path, model, left):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=0))
    if left is not None:
        partial(tmp_path).write_text(left)
    result = Result.read(run_in(tmp_path, Trial(), replace(SETTINGS, seeds=2)))
    assert result.settings.seeds == 2


def test_missing_rows_are_said_before_the_first_piece(tmp_path, model):
    trial = Trial()
    with pytest.raises(InputError, match="--data"):
        run_in(tmp_path, trial, replace(SETTINGS, tasks=("tickets", "trec")), data=tmp_path)
    assert trial.measured == []


# Nothing is asked twice


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "settings", "other"),
    [
        (poetry_clip.EXPERIMENT, {"records": (6,)}, {"clips": (0.7, 4.0)}),
        (poetry_clip.EXPERIMENT, {"records": (6,)}, {"epsilons": (3.0,)}),
        (poetry_table1.EXPERIMENT, {"records": (4,)}, {"epsilons": (0.5, 2.0)}),
        (poetry_table1.EXPERIMENT, {"records": (4,)}, {"adjacencies": ("replace-one",)}),
    ],
    ids=["clip", "epsilon of the clips", "epsilon", "adjacency"],
)
def test_a_sweep_over_prices_or_clips_never_calls_the_model_twice(tmp_path, model, experiment, settings, other):
    write_news(tmp_path)
    chosen = replace(
        experiment.settings, model="fake", seeds=2, queries=5, tasks=("agnews",), epsilons=(1.0,),
        clips=experiment.settings.clips[:2], **settings,
    )  # fmt: skip
    places = {"results": tmp_path / "results", "cache": tmp_path / "cache", "data": tmp_path}
    first = Result.read(run(experiment, chosen, **places))
    calls = model.calls
    assert first.scores["asked"] == calls > 0
    with pytest.raises(InputError, match="is a result with other settings"):
        run(experiment, replace(chosen, **other), **places)
    second = Result.read(run(experiment, replace(chosen, **other), **places, restart=True))
    assert model.calls == calls
    assert second.scores["asked"] == 0
    assert second.scores["found"] > 0
    assert {cell.key for cell in first.cells} != {cell.key for cell in second.cells}
    # Kept scores give the figures of a model that is asked afresh.
    elsewhere = {**places, "cache": tmp_path / "other"}
    fresh = Result.read(run(experiment, replace(chosen, **other), **elsewhere))
    assert model.calls == 2 * calls
    assert [(c.key, c.values) for c in fresh.cells] == [(c.key, c.values) for c in second.cells]


def test_a_result_of_other_settings_is_replaced_when_that_is_said_alone(tmp_path, model):
    more = replace(SETTINGS, queries=6)
    before = run_in(tmp_path, Trial()).read_bytes()
    for _ in range(2):
        with pytest.raises(
            InputError, match=r"result with other settings\. .* throws away what is in trial-fake\.partial"
        ):
            run_in(tmp_path, Trial(), more)
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=2), more, restart=True)
    file = tmp_path / "results" / "trial-fake.json"
    assert file.read_bytes() == before
    asked = model.calls
    assert Result.read(run_in(tmp_path, Trial(), more)).settings.queries == 6, "it goes on, as it was begun"
    assert model.calls > asked

    class Meanwhile(Trial):
        def measure(self, bench, piece):
            file.write_bytes(before)
            return super().measure(bench, piece)

    file.unlink()
    with pytest.raises(InputError, match="is not overwritten"):
        run_in(tmp_path, Meanwhile(), more)
    assert file.read_bytes() == before
    with pytest.raises(InputError, match="is a result with other settings"):
        run_in(tmp_path, Trial(), more)  # nor by a repetition
    assert file.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [0, 2])
def test_restart_is_said_for_the_result_that_is_there_then(tmp_path, model, pieces):
    more = replace(SETTINGS, queries=6)
    file, mine = tmp_path / "results" / "trial-fake.json", tmp_path / "mine.json"
    run_in(tmp_path, Trial()).rename(mine)
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=pieces), more)  # begun where no result was
    before = mine.rename(file).read_bytes()
    with pytest.raises(InputError, match="is a result with other settings"):
        run_in(tmp_path, Trial(), more)
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=pieces), more, restart=True)
    file.write_bytes(before + b" ")
    with pytest.raises(InputError, match="is a result with other settings"):
        run_in(tmp_path, Trial(), more)  # another one than then
    file.write_bytes(before)
    trial = Trial()
    assert Result.read(run_in(tmp_path, trial, more)).settings == more
    assert len(trial.measured) == 6 - pieces


def test_pairs_asked_and_found_are_counted_over_all_runs(tmp_path, model):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=2))
    # 4 of 6 pieces are left, 8 pairs each; a run with more questions knows the first four of every piece.
    assert Result.read(run_in(tmp_path, Trial())).scores == {"asked": 48, "found": 0}
    (tmp_path / "results" / "trial-fake.json").unlink()
    more = Result.read(run_in(tmp_path, Trial(), replace(SETTINGS, queries=6)))
    assert more.scores == {"asked": 24, "found": 48}
    assert model.calls == 72


# The command


COMMAND = ["--model", "fake", "--tasks", "agnews", "--seeds", "2", "--queries", "6", "--records", "4", "8", "--epsilon",
           "1", "--adjacency", "add-remove", "replace-one"]  # fmt: skip


def command(tmp_path, *more, name="poetry-table1"):
    places = ["--data", str(tmp_path), "--results", str(tmp_path / "results"), "--cache", str(tmp_path / "cache")]
    runner.main(name, [*COMMAND, *places, *more])


@pytest.mark.slow
def test_table_1_runs_from_the_command_line_and_prints_markdown(tmp_path, capsys):
    write_news(tmp_path)
    command(tmp_path)
    out, err = capsys.readouterr()
    for adjacency in ("add-remove", "replace-one"):
        assert f"**Percent right at epsilon 1 an answer, {adjacency}**" in out
    heads = [line for line in out.splitlines() if line.startswith("| task")]
    assert len(heads) == 6
    for name in ("zero-shot", "full context", "PoE", "prior x PoE", "votes, Gaussian", "PbS"):
        assert name in heads[0]
    rows = [line for line in out.splitlines() if line.startswith("| agnews")]
    # Two kinds of names and two numbers of records in each of six tables.
    assert len(rows) == 6 * 4
    assert all(len(row.split("|")) == len(heads[0].split("|")) for row in rows[:4])
    # The fake model knows nothing without records: all four labels are equally good.
    assert all(re.search(r"\| +25\.0 ± 0\.0 \|", row) for row in rows[:4])
    assert "nan" not in out.lower()
    assert "Written: " in err
    file = tmp_path / "results" / "poetry-table1-fake.json"
    result = Result.read(file)
    assert result.settings.records == (4, 8)
    assert len(result.cells) == 2 * (1 + 2 * 3 + 2 * 2 * len(poetry_table1.METHODS))
    assert all(math.isfinite(value) for cell in result.cells for value in cell.values)


@pytest.mark.slow
def test_the_command_says_what_was_asked_and_a_second_time_nothing_is(tmp_path, capsys):
    write_news(tmp_path)
    command(tmp_path)
    first = capsys.readouterr().out
    command(tmp_path)
    assert capsys.readouterr().out == first
    assert Result.read(tmp_path / "results" / "poetry-table1-fake.json").scores["asked"] == 0


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        (["--epsilon", "-1"], "epsilons", -1.0),
        (["--epsilon", "nan"], "epsilons", "nan"),
        (["--seeds", "0"], "seeds", 0),
        (["--adjacency", "zero-out"], "adjacencies", "zero-out"),
        (["--tasks", "weather"], "tasks", "weather"),
        (["--clip", "2"], "clips", (2.0,)),
        (["--model", "crystal-ball"], "model", "crystal-ball"),
    ],
)
def test_a_bad_option_is_refused_with_name_and_value_before_anything_is_kept(tmp_path, given, name, value):
    write_news(tmp_path)
    with pytest.raises(ParameterError) as caught:
        command(tmp_path, *given)
    assert caught.value.name == name
    assert caught.value.value == value or str(caught.value.value) == value
    assert not list(tmp_path.glob("results/*.json"))


def test_an_unknown_experiment_is_refused_by_name():
    with pytest.raises(ParameterError, match=r"'poetry-table9'.*poetry-table1"):
        load_experiment("poetry-table9")


@pytest.mark.parametrize("name", ["poetry-table1", "poetry-table2", "poetry-table3", "poetry-soft-hard", "poetry-clip"])
def test_an_experiment_has_the_name_it_is_loaded_by(name):
    assert load_experiment(name).name == name


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("model", "suffix"),
    [
        ("embedded", ""),
        ("embedded-image", ""),
        ("fake", "-fake"),
        ("hf:Qwen/Qwen2.5-0.5B", "-Qwen2-5-0-5B"),
        ("hf:gpt2", "-hf-gpt2"),
        ("vision:folder/some_model", "-some-model"),
    ],
)
def test_a_result_of_another_model_has_a_file_of_its_own(tmp_path, model, suffix, monkeypatch):
    monkeypatch.setattr(runner, "open_model", lambda spec, store: reader(spec))
    settings = replace(SETTINGS, model=model, seeds=1, names=("own",))
    file = run_in(tmp_path, Trial(), settings)
    assert file.name == f"trial{suffix}.json"
    assert Result.read(file).settings.model == model


def test_in_a_run_of_everything_an_experiment_keeps_its_own_settings():
    given = {"model": "fake", "seeds": 2, "queries": None, "adjacencies": None, "epsilons": [2.0], "records": [3],
             "tasks": ["trec"], "groups": None, "clips": None, "names": None, "writer": None}  # fmt: skip
    table, images = (load_experiment(name) for name in ("poetry-table1", "poetry-table3"))
    chosen = table.settings.changed(**runner._suited(table, given, alone=False))
    assert chosen == replace(table.settings, model="fake", seeds=2, epsilons=(2.0,))
    assert images.settings.changed(**runner._suited(images, given, alone=False)).model == "embedded-image"
    assert table.settings.changed(**runner._suited(table, given, alone=True)).tasks == ("trec",)


def test_the_diary_holds_no_text_of_a_row(tmp_path, model):
    with pytest.raises(Broken):
        run_in(tmp_path, Trial(breaks_at=3))
    head, *lines = partial(tmp_path).read_text("utf-8").splitlines()
    assert json.loads(head)["experiment"] == "trial"
    assert [set(json.loads(line)) for line in lines] == [{"piece", "numbers", "seconds", "asked", "found"}] * 3


def test_the_name_of_a_paper_runs_its_experiments():
    assert list(runner._named("prism-kshot")) == ["prism-kshot"]
    prism, poetry = list(runner._named("prism")), list(runner._named("poetry"))
    assert len(prism) == 7
    assert {name.partition("-")[0] for name in prism} == {"prism"}
    assert {name.partition("-")[0] for name in poetry} == {"poetry", "prior"}


def test_a_report_is_titled_by_what_is_in_it():
    shown = [ReportSection(name, "?", "?", [], [], [], []) for name in ("prism-kshot", "poetry-table1")]
    assert [family_of([one])[0] for one in shown] == [
        "Private synthetic examples, measured",
        "Private PoEtry, measured",
    ]
    title, lines = family_of(shown)
    assert title == "All experiments, measured"
    assert lines == [*family_of(shown[:1])[1], *family_of(shown[1:])[1]]
