"""One record's picture may be anything. It may not fail the call, change another expert, or be told by a log."""

from __future__ import annotations

import base64
import logging
import os
import random
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from io import BytesIO

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")

from PIL import ImageFile  # noqa: E402
from PIL.JpegImagePlugin import JpegImageFile  # noqa: E402

from sottovoce.errors import ModelError  # noqa: E402
from sottovoce.experts.reading import Reading  # noqa: E402
from sottovoce.models.embedded.image_encoder import MOST_PIXELS, MOST_SIDE, ink_of  # noqa: E402
from sottovoce.models.embedded.image_scorer import EmbeddedImageScorer  # noqa: E402
from sottovoce.models.failures import is_own, is_shared  # noqa: E402
from sottovoce.models.fake import FakeScorer, one_shot  # noqa: E402
from sottovoce.models.images import UnreadableError, read_picture  # noqa: E402
from sottovoce.privacy.ledger.budget import Budget  # noqa: E402
from sottovoce.records import decoder_memory as _decoder_memory  # noqa: E402
from sottovoce.records import pictures  # noqa: E402
from sottovoce.records.decoder_memory import MADE_UP_SIDE, has_room_to_decode  # noqa: E402
from sottovoce.records.sealed import PrivateRecords, Row  # noqa: E402
from sottovoce.session import PrivateICL  # noqa: E402
from sottovoce.tasks import Example, load_task  # noqa: E402

TASK = load_task("pseudonames")
MARK = "Wilhelmina-Ostrowski"


def encoded(picture, kind="PNG", **options) -> str:
    file = BytesIO()
    picture.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode()


def bar(width: int, height: int, size: tuple[int, int] = (60, 60)):
    picture = Image.new("L", size, 255)
    picture.paste(0, (5, 5, 5 + width, 5 + height))
    return picture


def line(width: int, height: int) -> str:
    """A picture of these sides, with ink in two corners so that all of it is drawing."""
    picture = Image.new("1", (width, height), 1)
    picture.putpixel((0, 0), 0)
    picture.putpixel((width - 1, height - 1), 0)
    return encoded(picture)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def with_chunk(picture: str, kind: bytes, content: bytes) -> str:
    whole = base64.b64decode(picture)
    return base64.b64encode(whole[:33] + chunk(kind, content) + whole[33:]).decode()


def of_sides(width: int, height: int) -> str:
    """A PNG file that says it is so large, and is 8 by 8."""
    whole = base64.b64decode(encoded(Image.new("L", (8, 8))))
    head = chunk(b"IHDR", struct.pack(">II", width, height) + whole[24:29])
    return base64.b64encode(whole[:8] + head + whole[33:]).decode()


SOUND = encoded(bar(30, 8))
NEIGHBOUR = Example({"image": encoded(bar(8, 40))}, 1)
QUESTION = {"image": encoded(bar(32, 9))}


def exif(**tags: object):
    found = Image.Exif()
    found[0x010E] = MARK
    found[0x0112] = 6
    return found


HOSTILE = {
    "no bytes at all": base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(),
    "half a file": base64.b64encode(base64.b64decode(SOUND)[:70]).decode(),
    "JPEG start alone": base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(40)).decode(),
    "no width": of_sides(0, 8),
    "no height": of_sides(8, 0),
    "sixty thousand squared": of_sides(60_000, 60_000),
    "four thousand million long": of_sides(2**32 - 1, 1),
    "a line of a million": line(1_000_000, 1),
    "a column of a million": line(1, 1_000_000),
    "a line as long as may be": line(65_535, 1),
    "a band as long as may be": line(65_535, 16),
    "sixteen bits": encoded(Image.fromarray(np.linspace(0, 65535, 400).reshape(20, 20).astype(np.uint16))),
    "CMYK": encoded(bar(20, 20).convert("CMYK"), "JPEG"),
    "bytes of transparency": encoded(bar(20, 20).convert("P"), transparency=bytes(range(256))),
    "animated": encoded(bar(20, 20), save_all=True, append_images=[bar(5, 5)]),
    "several in one JPEG file": encoded(bar(20, 20).convert("RGB"), "MPO", save_all=True, append_images=[bar(5, 5)]),
    "notes on its maker": encoded(bar(20, 20), "JPEG", exif=exif()),
    "damaged notes": with_chunk(
        SOUND, b"eXIf", b"MM\x00*\x00\x00\x00\x08\x00\x40" + b"\x01\x12\x00\x03\xff\xff\xff\xff" * 9
    ),
    "a comment of gigabytes": with_chunk(
        SOUND, b"zTXt", b"Comment\x00\x00" + zlib.compress(bytes(1 << 24)) + MARK.encode()
    ),
    "a colour profile of gigabytes": with_chunk(SOUND, b"iCCP", b"profile\x00\x00" + zlib.compress(bytes(1 << 24))),
    "a palette missing": with_chunk(SOUND, b"tRNS", bytes(300)),
    "frames that are not there": with_chunk(SOUND, b"acTL", struct.pack(">II", 2**31 - 1, 0)),
}


@pytest.fixture(scope="module")
def scorer():
    return EmbeddedImageScorer(store=False)


@pytest.fixture(scope="module")
def alone(scorer):
    return scorer.prepare(TASK, [[NEIGHBOUR]]).score([QUESTION])


@pytest.mark.cases(1)
@pytest.mark.parametrize("picture", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_picture_changes_no_bit_of_another_expert_and_is_told_by_nobody(
    scorer, alone, picture, caplog, recwarn, capfd
):
    caplog.set_level(logging.DEBUG)
    scores = scorer.prepare(TASK, [[Example({"image": picture}, 0)], [NEIGHBOUR]]).score([QUESTION])
    assert scores[:, 1].tobytes() == alone[:, 0].tobytes()
    assert not caplog.records
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("files", [16, pytest.param(200, marks=pytest.mark.slow)])
def test_damaged_files_fail_no_call_and_say_nothing(scorer, alone, caplog, recwarn, capfd, files):
    caplog.set_level(logging.DEBUG)
    chance = random.Random(5)
    wholes = [base64.b64decode(encoded(bar(30, 9), kind, exif=exif())) for kind in ("PNG", "JPEG")]
    contexts = []
    for number in range(files):
        file = bytearray(wholes[number % 2])
        for _ in range(chance.choice((1, 3, 10))):
            file[chance.randrange(8, len(file))] = chance.randrange(256)
        contexts.append([Example({"image": base64.b64encode(bytes(file)).decode()}, 0)])
    caplog.clear()
    capfd.readouterr()
    scores = scorer.prepare(TASK, [*contexts, [NEIGHBOUR]]).score([QUESTION])
    null = np.isnan(scores[0, :-1]).all(axis=1)
    assert files // 10 < null.sum() < files - files // 10  # both kinds of damage occur
    assert scores[:, -1].tobytes() == alone[:, 0].tobytes()
    assert not caplog.records
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


def test_the_library_s_own_log_would_have_told():
    """The check above can fail: without the silence Pillow logs the notes of a file at level DEBUG."""
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    ear, root = Ear(), logging.getLogger("PIL")
    before = root.level
    root.addHandler(ear)
    root.setLevel(logging.DEBUG)
    try:
        read_picture(HOSTILE["notes on its maker"], 10**6)
        assert not heard
        with Image.open(BytesIO(base64.b64decode(HOSTILE["notes on its maker"]))) as picture:
            picture.getexif()
        assert any(MARK in message for message in heard)  # what somebody else reads is logged as before
    finally:
        root.removeHandler(ear)
        root.setLevel(before)


def test_reading_in_many_threads_leaves_the_warning_filters_as_they_were():
    # catch_warnings is not made for threads: two that overlap can leave the other's filters in force for good.
    before = list(warnings.filters)
    threads = [
        threading.Thread(target=lambda: [ink_of(HOSTILE["bytes of transparency"]) for _ in range(20)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


def test_every_picture_is_shrunk_to_the_pixels_that_were_asked_for():
    for width, height in ((65_535, 1), (1, 65_535), (65_535, 3), (700, 500), (3, 2)):
        for most in (1, 7, 1_000, 262_144):
            shrunk = read_picture(line(width, height), most)
            assert shrunk.width * shrunk.height <= most, (width, height, most)


@pytest.mark.parametrize("side", [65_536, 64_000_000])
def test_pictures_longer_than_jpeg_can_say_are_not_read(side):
    # At 64 million by 1, shrinking overflowed inside Pillow, which says so with MemoryError: a failure for everybody.
    with pytest.raises(UnreadableError):
        read_picture(of_sides(side, 1), MOST_PIXELS)


@pytest.mark.slow
def test_the_square_around_a_thin_drawing_stays_small():
    # Of 65,535 by 16 pixels it took 42 GB, and the ModelError of one record was everybody's.
    for size in ((65_535, 16), (16, 65_535), (4 * MOST_SIDE, 2)):
        assert ink_of(line(*size)).shape == (32, 32)


MEASURE = r"""
import base64, io, re
from PIL import Image
from sottovoce.models.images import read_picture
file = io.BytesIO()
{make}
picture = base64.b64encode(file.getvalue()).decode()
read_picture(picture, 1 << 18)
print(re.search(r"VmHWM:\s*([0-9]+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_largest_transparent_picture_is_not_held_several_times_over():
    # 16 million pixels are 64 MB. Whole layers took 300 MB; strips take 140.
    peaks = []
    for side in (40, 4000):
        make = f"Image.new('RGBA', ({side}, {side})).save(file, 'PNG', compress_level=1)"
        run = [sys.executable, "-c", MEASURE.format(make=make)]
        result = subprocess.run(
            run, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        peaks.append(int(result.stdout) // 1024)
    assert peaks[1] - peaks[0] < 200


# A decoder that lacks memory says that the file is damaged


UNDER_A_LIMIT = r"""
import base64, io, resource
from PIL import Image
from sottovoce.models.images import UnreadableError, read_picture

def encoded(side, **options):
    file = io.BytesIO()
    Image.effect_noise((side // 10, side // 10), 90).resize((side, side)).convert("RGB").save(file, **options)
    return file.getvalue()

def read(content, room):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20), resource.RLIM_INFINITY))
    try:
        read_picture(base64.b64encode(content).decode(), 1 << 16)
        return "read"
    except UnreadableError:
        return "null"
    except Exception as error:
        return type(error).__name__
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

sound = encoded(1500, format="JPEG", progressive=True)
read(sound, 2000)
print(*(read(sound, room) for room in range(2, 40, 2)))
print(*(read(sound[:300], room) for room in (20, 2000)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.slow
def test_a_decoder_that_lacks_memory_makes_no_expert_null_and_damage_does():
    run = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    sound, damaged = (line.split() for line in run.stdout.splitlines())
    assert "OSError" in sound, "the decoder ran out of memory in its own words"
    assert sound[-1] == "read"
    assert "null" not in sound
    assert damaged[0] != "null", "it cannot be told there"
    assert damaged[1] == "null"


def test_the_made_up_picture_needs_more_than_any_that_is_decoded():
    # Decoders fill each side up to whole blocks, of 32 pixels at most. Four colours are the most that Pillow reads.
    block = 32
    sides = [*range(1, pictures.MAX_FILE_SIDE + 1, 7), pictures.MAX_FILE_SIDE]
    others = [min(pictures.MAX_FILE_PIXELS // side, pictures.MAX_FILE_SIDE) for side in sides]
    filled = [(-(-a // block) * block) * (-(-b // block) * block) for a, b in zip(sides, others, strict=True)]
    assert pictures.MAX_FILE_PIXELS < max(filled) <= MADE_UP_SIDE**2
    assert MADE_UP_SIDE % block == 0


def test_that_there_was_memory_is_shown_whatever_the_process_allows_pillow(monkeypatch):
    assert has_room_to_decode()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000)
    assert has_room_to_decode()
    monkeypatch.setattr("PIL.JpegImagePlugin.JpegImageFile.load", lambda _: (_ for _ in ()).throw(MemoryError))
    assert not has_room_to_decode()


BLACK = r"""
import base64, io, resource
from PIL import Image, ImageFile
from sottovoce.models.images import UnreadableError, read_picture

ImageFile.LOAD_TRUNCATED_IMAGES = True
file = io.BytesIO()
picture = Image.effect_noise((300, 300), 90).resize((3000, 3000)).convert("RGB")
picture.save(file, format="JPEG", progressive=True, subsampling=0)  # the decoder needs more than the picture
del picture
text = base64.b64encode(file.getvalue()).decode()

def read(room):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (room << 20), resource.RLIM_INFINITY))
    try:
        return read_picture(text, 1 << 16).tobytes()
    except UnreadableError:
        return b"null"
    except Exception:
        return b"error"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

whole = read(2000)
found = [read(room) for room in range(60, 140, 8)]
print(b"error" in found, set(found) <= {whole, b"error"}, ImageFile.LOAD_TRUNCATED_IMAGES)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_that_allows_truncated_files_gets_no_black_picture_where_memory_is_short():
    run = subprocess.run(
        [sys.executable, "-c", BLACK],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert run.stdout.split() == ["True"] * 3


def test_half_a_file_is_null_and_memory_is_shown_where_a_program_allows_truncated_files(monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(UnreadableError):
        read_picture(OWN["ends too early"], 1 << 16)
    seen = []
    whole = JpegImageFile.load
    monkeypatch.setattr(
        JpegImageFile, "load", lambda picture: (seen.append(ImageFile.LOAD_TRUNCATED_IMAGES), whole(picture))[1]
    )
    assert has_room_to_decode()
    assert (seen, ImageFile.LOAD_TRUNCATED_IMAGES) == ([False], True)


def of_the_decoder(picture=HOSTILE["JPEG start alone"]):
    """What Pillow raises for a damaged file."""
    with pytest.raises(OSError, match="cannot identify") as caught:
        Image.open(BytesIO(base64.b64decode(picture)))
    return caught.value


@pytest.mark.slow
def test_what_was_found_out_of_a_failure_once_stays(monkeypatch):
    # It is looked at on every floor: memory that comes back in between must not make it an expert's own.
    error = of_the_decoder()
    assert is_own(error, None)
    monkeypatch.setattr(_decoder_memory, "has_room_to_decode", lambda: False)
    assert is_shared(error, None)
    monkeypatch.undo()
    assert is_shared(error, None)
    assert is_own(of_the_decoder(), None)


def test_damage_without_the_memory_for_any_picture_fails_the_whole_answer(scorer, monkeypatch):
    contexts = [[NEIGHBOUR], [Example({"image": HOSTILE["half a file"]}, 0)]]
    assert np.isfinite(Reading(scorer, TASK, contexts).score([QUESTION])).all(axis=-1).tolist() == [[True, False]]
    monkeypatch.setattr(_decoder_memory, "has_room_to_decode", lambda: False)
    with pytest.raises(ModelError):
        Reading(scorer, TASK, contexts).score([QUESTION])
    assert np.isfinite(Reading(scorer, TASK, contexts[:1]).score([QUESTION])).all()


OWN = {
    "is no picture": HOSTILE["JPEG start alone"],
    "ends too early": HOSTILE["half a file"],
    "is broken": base64.b64encode(base64.b64decode(encoded(bar(30, 9), "JPEG"))[:-200]).decode(),
}


@pytest.mark.parametrize("damaged", OWN.values(), ids=OWN.keys())
@pytest.mark.slow
def test_a_damaged_picture_is_null_for_a_model_of_ones_own_too(monkeypatch, damaged):
    def score(task, context, query):
        for example in context:
            Image.open(BytesIO(base64.b64decode(example.fields["image"]))).load()
        return one_shot(task, context, query)

    contexts = [[NEIGHBOUR], [Example({"image": damaged}, 0)], [Example({"image": SOUND}, 1)]]
    found = Reading(FakeScorer(score), TASK, contexts).score([QUESTION])
    assert np.isfinite(found).all(axis=-1).tolist() == [[True, False, True]]
    monkeypatch.setattr(_decoder_memory, "has_room_to_decode", lambda: False)
    with pytest.raises(ModelError):
        Reading(FakeScorer(score), TASK, contexts).score([QUESTION])


def failure(work):
    """What is raised."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        work()
    return caught.value


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", ["JPEG2000", "WEBP", "TIFF", "GIF"])
def test_damage_in_a_format_whose_decoder_may_need_more_memory_is_nobodys_own(kind):
    # There is memory for the made-up picture here, which shows nothing of what such a decoder needs.
    content = base64.b64decode(encoded(Image.effect_noise((90, 90), 90), kind))
    damaged = content[: len(content) // 2]
    assert is_shared(failure(lambda: Image.open(BytesIO(damaged)).load()), None)
    assert is_own(of_the_decoder(), None)


def test_a_conversion_of_colours_that_fails_is_nobodys_own():
    # Where memory is short as where a profile does not fit, littleCMS returns nothing, which Pillow calls a ValueError.
    colours = pytest.importorskip("PIL.ImageCms")
    profile = colours.ImageCmsProfile(colours.createProfile("sRGB"))
    for act in (
        lambda: colours.buildTransform(profile, profile, "RGB", "LAB"),
        lambda: colours.ImageCmsTransform(profile, profile, "RGB", "LAB"),
    ):
        with pytest.raises((ValueError, colours.PyCMSError)) as caught:
            act()
        assert is_shared(caught.value, None)


def test_that_no_format_knows_a_file_is_heard_from_a_worker_process_too(monkeypatch):
    error = of_the_decoder().with_traceback(None)
    assert is_own(error, None)
    monkeypatch.setattr(_decoder_memory, "has_room_to_decode", lambda: False)
    assert is_shared(error, None)


def test_an_error_of_the_system_is_nobodys_own_though_pillow_hands_it_on(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        Image.open(tmp_path / "gone.png")
    assert is_shared(caught.value, None)


def test_sixteen_bits_of_grey_become_eight_in_proportion():
    levels = np.array([[0, 257, 128 * 257, 65_535 - 257, 65_535]], np.uint16)
    found = np.asarray(read_picture(encoded(Image.fromarray(levels)), 10**6))
    assert found[0, :, 0].tolist() == [0, 1, 128, 254, 255]
    clear = with_chunk(encoded(Image.fromarray(levels)), b"tRNS", struct.pack(">H", 257))
    assert np.asarray(read_picture(clear, 10**6))[0, :, 0].tolist() == [0, 255, 128, 254, 255]


def test_strips_are_seamless(monkeypatch):
    chance = np.random.default_rng(3)
    layers = Image.fromarray(chance.integers(0, 256, (37, 23, 4)).astype(np.uint8))
    for picture in (layers, layers.convert("P"), layers.convert("CMYK"), layers.convert("LA")):
        kind = "JPEG" if picture.mode == "CMYK" else "PNG"
        whole = np.asarray(read_picture(encoded(picture, kind), 10**6))
        monkeypatch.setattr(pictures, "_STRIP", 100)  # four rows at a time
        assert np.array_equal(np.asarray(read_picture(encoded(picture, kind), 10**6)), whole)
        monkeypatch.undo()


@pytest.mark.parametrize("first", [True, False], ids=["animated PNG", "several in a JPEG"])
def test_of_several_pictures_in_a_file_the_first_is_read(first):
    blue, red = (Image.new("RGB", (16, 16), colour) for colour in ("blue", "red"))
    file = encoded(blue, "PNG" if first else "MPO", save_all=True, append_images=[red])
    pixel = read_picture(file, 10**6).getpixel((3, 3))
    assert pixel[2] > 200
    assert pixel[0] < 60


def session(pictures, scorer):
    rows = [Row(n + 1, {"image": picture, "label": TASK.labels[n % 2]}) for n, picture in enumerate(pictures)]
    return PrivateICL(
        records=PrivateRecords(rows, source="memory"),
        task=TASK,
        model=scorer,
        method="poe",
        budget=Budget(5, 1e-6),
        ledger=":memory:",
    )


def test_a_question_that_cannot_be_read_is_an_error_before_any_charge(scorer):
    icl = session([SOUND, NEIGHBOUR.fields["image"]], scorer)
    with pytest.raises(ModelError, match=r"picture cannot be read.*Nothing was charged"):
        icl.ask({"image": HOSTILE["half a file"]}, epsilon=1)
    assert icl.balance.answers == 0


@pytest.mark.slow
def test_a_session_answers_whatever_one_record_holds(scorer):
    icl = session([SOUND, NEIGHBOUR.fields["image"], *HOSTILE.values()], scorer)
    assert icl.ask(QUESTION, epsilon=1).value in TASK.labels
