"""A folder of pictures is a file of rows: one for each picture, its label the folder it lies in."""

from __future__ import annotations

import base64
import io
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import RecordError
from sottovoce.records.fingerprints import marks_of, same_text
from sottovoce.records.pictures import silence, upright
from sottovoce.records.readers import read_private, read_public
from sottovoce.records.sealed import Row, unseal
from sottovoce.tasks import load_task

Image = pytest.importorskip("PIL.Image")
ImageDraw = pytest.importorskip("PIL.ImageDraw")
PngImagePlugin = pytest.importorskip("PIL.PngImagePlugin")


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


def draw_into(folder, shift: int = 0):
    for kind in ("dax", "blicket"):
        (folder / kind).mkdir(parents=True)
        for number in range(3):
            (folder / kind / f"{number}.png").write_bytes(drawing(kind, number + shift))


@pytest.fixture
def folder(tmp_path):
    draw_into(tmp_path / "pictures")
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
    draw_into(tmp_path / "asked", shift=3)
    arguments = [
        "classify", "--private", str(folder), "--queries", str(tmp_path / "asked"), "--task", "pseudonames",
        "--model", "embedded-image", "--epsilon", "30", "--budget", "1000", "--out", str(tmp_path / "out.jsonl"),
    ]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["sotto", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in (0, None)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    # Six easy drawings, each close to an example: epsilon 30 leaves hardly any noise.
    assert sum(row["value"] == row["id"].split("/")[0] for row in rows) >= 5


# A picture that is saved again


def saved(pixels, kind: str = "PNG", **options) -> str:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return base64.b64encode(out.getvalue()).decode("ascii")


def known(rows, others) -> list[bool]:
    """Which rows share a text with the others."""
    mine, theirs = (same_text(marks_of(table, b"a key for pictures")[:, 1:]) for table in (rows, others))
    return ((mine != 0) & np.isin(mine, theirs[theirs != 0])).any(axis=1).tolist()


def test_a_picture_that_is_saved_again_without_loss_is_the_same_record_and_another_one_of_its_name_is_not(caplog):
    caplog.set_level("DEBUG")
    note = PngImagePlugin.PngInfo()
    note.add_text("Camera", "secret place")
    drawn = [np.random.default_rng(seed).integers(0, 255, (9, 7, 3), np.uint8) for seed in range(6)]
    rows = [{"id": f"dax/holiday of anna {n}.png", "image": saved(drawn[n], pnginfo=note)} for n in range(3)]
    for options in ({"compress_level": 1}, {"compress_level": 9, "optimize": True}, {}):
        again = [{"id": f"{n}.png", "image": saved(drawn[n], **options)} for n in range(3)]
        assert all(row["image"] != other["image"] for row, other in zip(rows, again, strict=True))
        assert known(again, rows) == [True] * 3
    others = [{"id": row["id"], "image": saved(drawn[3 + n])} for n, row in enumerate(rows)]
    assert known(others, rows) == [False] * 3
    assert not [record for record in caplog.records if record.name.startswith("PIL")]


def test_a_jpeg_without_its_notes_is_the_same_record_and_what_nothing_decodes_is_known_by_its_file():
    drawn = np.random.default_rng(7).integers(0, 255, (16, 24, 3), np.uint8)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x010F], exif[0x0112] = "secret camera", orientation
        whole, bare = saved(drawn, "JPEG", exif=exif), saved(drawn, "JPEG")
        assert (whole != bare, known([{"image": bare}], [{"image": whole}])) == (True, [True]), orientation
        with silence():
            turned = np.asarray(upright(base64.b64decode(whole)))
        assert known([{"image": saved(turned)}], [{"image": whole}]) == [True], orientation
    assert known([{"image": saved(255 - drawn, "JPEG")}], [{"image": whole}]) == [False]
    torn = whole[: len(whole) // 8 * 4]
    assert known([{"image": torn}], [{"image": torn}]) == [True]
    assert known([{"image": torn}], [{"image": whole}]) == [False]


TURNED = json.loads(Path(__file__).with_name("turned_jpegs.json").read_text("utf-8"))["files"]


@pytest.mark.parametrize("way", ["turned by 90", "turned by 180", "mirrored", "transposed"])
@pytest.mark.parametrize("colours", ["4:4:4", "4:2:0"])
def test_a_jpeg_that_is_turned_without_loss_is_the_same_record(colours, way):
    first, turned = TURNED[colours]["as saved"], TURNED[colours][way]
    assert known([{"image": turned}], [{"image": first}]) == [True]
    assert known([{"image": turned}], [{"image": TURNED["4:4:4" if colours == "4:2:0" else "4:2:0"][way]}]) == [False]


@pytest.mark.slow
def test_a_picture_is_one_however_it_is_turned_and_whatever_is_alike_in_it():
    source = np.random.default_rng(5)
    for case in range(60):
        shape = (2 + case % 5, 2 + case % 3)
        pixels = source.integers(0, 2, (*shape, 3), np.uint8) * 255  # few colours: many rows are alike
        if case % 4 == 0:
            pixels = np.concatenate([pixels, pixels[::-1]])
        ways = [np.rot90(side, turn) for side in (pixels, pixels[:, ::-1]) for turn in range(4)]
        row = [{"image": saved(np.ascontiguousarray(pixels))}]
        assert all(known([{"image": saved(np.ascontiguousarray(way))}], row) == [True] for way in ways)
        other = pixels.copy()
        other[source.integers(0, len(other)), source.integers(0, shape[1])] ^= 255
        if not any(np.array_equal(way, other) for way in ways):
            assert known([{"image": saved(other)}], row) == [False]


def test_jpegs_of_other_brightness_are_others_and_small_ones_are_known_by_their_pixels_alone():
    drawn = np.random.default_rng(11).integers(0, 255, (40, 32, 3), np.uint8)
    other = drawn.copy()
    other[8:16, 8:16] //= 2  # one block of twenty
    assert known([{"image": saved(other, "JPEG")}], [{"image": saved(drawn, "JPEG")}]) == [False]
    flat, dotted = np.full((24, 24, 3), 128, np.uint8), np.full((24, 24, 3), 128, np.uint8)
    dotted[::2, ::2], dotted[1::2, 1::2] = 96, 160  # the same mean in every block
    for side, expected in ((24, False), (32, True)):
        mine, theirs = (np.resize(np.tile(each, (2, 2, 1)), (48, 48, 3))[:side, :side] for each in (flat, dotted))
        rows = [[{"image": saved(each, "JPEG", quality=100, subsampling=0)}] for each in (mine, theirs)]
        assert known(*rows) == [expected], side


# Folders as they are found


def refused(folder, **options) -> str:
    with pytest.raises(RecordError) as caught:
        read_private(folder, **options)
    assert folder.name in str(caught.value)
    assert "secret" not in str(caught.value)
    return str(caught.value)


def link(folder, name, target):
    (folder / name).symlink_to(target)


ODD = {
    "pipe": (lambda folder: os.mkfifo(folder / "dax" / "secret.png"), r"line 7: the picture is not a file"),
    "folder with the name of a picture": (lambda folder: (folder / "dax" / "secret.png").mkdir(), "there is a folder"),
    "link to nothing": (lambda folder: link(folder, "dax/secret.png", "absent"), r"line 7: .*No such file"),
    "link to itself": (lambda folder: link(folder, "dax/secret.png", "secret.png"), r"line 7: .*(oo many|oop)"),
    "link to a device": (lambda folder: link(folder, "dax/secret.png", os.devnull), r"line 7: .*not a file"),
    "link to the folder above": (lambda folder: link(folder, "dax/secret", ".."), "there is a folder inside"),
    "folder in a label's folder": (lambda folder: (folder / "dax" / "secret").mkdir(), "there is a folder inside"),
    "another kind of picture": (lambda folder: (folder / "dax" / "secret.webp").write_bytes(b""), r"kind \.webp"),
}


@pytest.mark.parametrize(("make", "problem"), ODD.values(), ids=ODD.keys())
def test_what_cannot_be_read_as_a_picture_is_an_error_with_a_next_step_and_not_left_out(folder, make, problem):
    make(folder)
    message = refused(folder)
    assert re.search(problem, message)
    assert re.search(r"move (it|them)", message)


def test_a_folder_that_may_not_be_read_is_an_error_and_not_left_out(folder, monkeypatch):
    scan = os.scandir

    def closed(path):
        if str(path).endswith("dax"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    message = refused(folder)
    assert "a folder cannot be read (Permission denied)" in message
    assert "dax" not in message


def test_hidden_files_and_folders_are_left_alone(folder):
    # macOS writes ._0.png beside 0.png, editors and file managers keep folders of their own.
    (folder / "dax" / "._0.png").write_bytes(b"\0\5\26\7")
    (folder / ".thumbnails").mkdir()
    (folder / ".thumbnails" / "0.png").write_bytes(drawing("dax"))
    assert len(read_public(folder)) == 6


def test_a_name_that_is_not_utf_8_is_still_an_id(folder):
    path = os.fsencode(folder / "dax") + b"/\xff.png"
    try:
        with open(path, "wb") as file:
            file.write(drawing("dax"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names alone")
    assert [row.values["id"] for row in read_public(folder)][-1] == "dax/\\xff.png"


def test_a_folder_without_a_name_of_its_own_is_named_in_errors(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "dax" / "a.gif").write_bytes(b"")
    with pytest.raises(RecordError, match=r"^pictures: it holds"):
        read_private(".")


def test_a_folder_of_photographs_needs_no_limit_and_a_larger_file_is_not_read(folder, monkeypatch):
    noise = Image.effect_noise((300, 300), 100)
    out = io.BytesIO()
    noise.save(out, "PNG")
    assert len(out.getvalue()) > 8_000
    (folder / "dax" / "9.png").write_bytes(out.getvalue())
    assert len(read_public(folder)) == 7
    with pytest.raises(
        RecordError, match=r"line 7: the picture is larger than 6,000 bytes.*--max-characters"
    ) as caught:
        read_public(folder, max_characters=8_000)
    assert "truncate" not in str(caught.value)
    monkeypatch.setattr(type(folder), "read_bytes", lambda self: pytest.fail("a file above the limit was read"))
    with open(folder / "blicket" / "0.png", "wb") as file:
        file.truncate(1 << 40)  # a terabyte of nothing
    with pytest.raises(RecordError, match="line 1: the picture is larger than 6,000,000 bytes"):
        read_public(folder)


@pytest.mark.parametrize("limit", range(40, 60))
def test_half_a_picture_never_passes_for_a_whole_one(tmp_path, limit):
    task, whole = load_task("pseudonames"), base64.b64encode(drawing("dax")).decode()
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"image": whole, "label": "dax"}) + "\n")
    with pytest.raises(RecordError, match=r"field 'image'.*a picture cannot be cut"):
        read_public(file, max_characters=limit)
    (row,) = read_public(file, max_characters=limit, truncate=True)
    with pytest.raises(RecordError, match="whole PNG or JPEG file"):
        task.query_of(row, "rows.jsonl")


def test_a_cut_names_the_same_data_set_with_any_limit(folder):
    whole = read_private(folder)
    assert read_private(folder, max_characters=100, truncate=True).fingerprint == whole.fingerprint


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: f"data:image/png;base64,{text}",
        lambda text: "\n".join(text[start : start + 76] for start in range(0, len(text), 76)),
        lambda text: f"{text}\n",
        lambda text: f" {text}",
        lambda text: text.rstrip("=") if text.endswith("=") else text[:-1],
        lambda text: f"{text}====",
        lambda text: text.replace("+", "-").replace("/", "_"),
        lambda text: f"{text[:-4]}é==",
        lambda text: f"{text}{text}",
    ],
    ids=["data address", "lines", "line break", "blank", "no padding", "padding", "other alphabet", "letters", "twice"],
)
def test_base64_of_other_kinds_is_refused_with_the_next_step_and_without_the_picture(spoil):
    # A comment of 254 bytes has both letters that alphabets differ in, and makes the length no multiple of 3.
    whole = base64.b64encode(drawing("dax") + bytes(range(1, 255)) + b"\xfb\xff\xfe").decode()
    whole = whole if whole.endswith("=") else base64.b64encode(base64.b64decode(whole) + b"x").decode()
    assert whole.endswith("=")
    task = load_task("pseudonames")
    assert task.query_of(Row(1, {"image": whole}), "rows.jsonl")
    with pytest.raises(RecordError, match=r"line 1, field 'image'.*without line breaks or 'data:'") as caught:
        task.query_of(Row(1, {"image": spoil(whole)}), "rows.jsonl")
    assert whole[:40] not in str(caught.value)


def test_the_order_in_which_a_file_system_lists_a_folder_does_not_matter(folder, monkeypatch):
    before = [(row.line, row.values["id"]) for row in read_public(folder)]
    scan = os.scandir

    class Backwards:
        def __init__(self, path):
            self.entries = scan(path)

        def __enter__(self):
            return reversed(list(self.entries))

        def __exit__(self, *error):
            self.entries.close()

    monkeypatch.setattr(os, "scandir", Backwards)
    assert [(row.line, row.values["id"]) for row in read_public(folder)] == before
