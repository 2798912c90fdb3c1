"""A folder of pictures is a file of rows: one for each picture, its label the folder it lies in."""

from __future__ import annotations

import base64
import io
import json

import pytest

from sottovoce.errors import RecordError
from sottovoce.readers import read_private, read_public
from sottovoce.records import unseal
from sottovoce.tasks import load_task

Image = pytest.importorskip("PIL.Image")
ImageDraw = pytest.importorskip("PIL.ImageDraw")


def drawing(kind: str, shift: int = 0) -> bytes:
    picture = Image.new("L", (60, 60), 255)
    pen = ImageDraw.Draw(picture)
    if kind == "dax":
        pen.ellipse((8 + shift, 8, 48 + shift, 50), outline=0, width=4)
    else:
        pen.line((8 + shift, 8, 50, 50), fill=0, width=4)
        pen.line((50, 8 + shift, 8, 50), fill=0, width=4)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def folder(tmp_path):
    for kind in ("dax", "blicket"):
        (tmp_path / "pictures" / kind).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "pictures" / kind / f"{number}.png").write_bytes(drawing(kind, number))
    (tmp_path / "pictures" / "notes.txt").write_text("not a picture")
    return tmp_path / "pictures"


def test_every_picture_becomes_a_row_with_its_folder_as_label(folder):
    rows = list(read_public(folder, max_characters=10**6))
    assert [(row.values["id"], row.values["label"]) for row in rows] == [
        *((f"blicket/{n}.png", "blicket") for n in range(3)),
        *((f"dax/{n}.png", "dax") for n in range(3)),
    ]
    task = load_task("pseudonames")
    assert [task.label_of(row, "f") for row in rows] == [1, 1, 1, 0, 0, 0]
    assert base64.b64decode(task.query_of(rows[3], "f")["image"]) == drawing("dax")


def test_private_pictures_are_sealed_and_known_by_their_content(folder):
    first = read_private(folder, max_characters=10**6)
    assert "dax" not in repr(first)
    assert sum(len(unit) for unit in unseal(first)) == 6
    before = first.fingerprint
    (folder / "dax" / "0.png").write_bytes(drawing("dax", 5))
    assert read_private(folder, max_characters=10**6).fingerprint != before


def test_pictures_without_folders_have_no_label(folder, tmp_path):
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / "a.JPG").write_bytes(b"\xff\xd8\xff and so on")
    (row,) = read_public(tmp_path / "asked")
    assert "label" not in row.values


def test_a_folder_without_pictures_says_what_is_needed(tmp_path):
    with pytest.raises(RecordError, match=r"without pictures.*\.png"):
        read_private(tmp_path)


def test_a_picture_that_is_none_is_named_by_its_number_and_not_by_its_name(folder):
    (folder / "dax" / "secret-name.png").write_bytes(b"no picture")
    task = load_task("pseudonames")
    rows = list(read_public(folder, max_characters=10**6))
    with pytest.raises(RecordError, match="line 7, field 'image'") as caught:
        [task.query_of(row, "pictures") for row in rows]
    assert "secret" not in str(caught.value)


def test_the_command_line_learns_names_from_a_folder(folder, tmp_path, monkeypatch, capsys):
    from sottovoce.cli import main

    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    arguments = [
        "classify", "--private", str(folder), "--queries", str(folder), "--task", "pseudonames",
        "--model", "embedded-image", "--epsilon", "30", "--budget", "1000", "--out", str(tmp_path / "out.jsonl"),
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["sotto", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    # Six easy drawings, each an example itself: epsilon 30 leaves hardly any noise.
    assert sum(row["value"] == row["id"].split("/")[0] for row in rows) >= 5
