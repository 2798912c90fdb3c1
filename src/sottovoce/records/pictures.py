"""What a picture in base64 shows, in RGB. Whatever goes wrong says nothing of the picture.

Nothing is written to logs or warnings meanwhile: Pillow logs notes from inside a file (who took it, and where) at level
DEBUG, and warns of sizes and damage.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from sottovoce.records.decoder_memory import has_room_to_decode, whole_files_alone

MAX_FILE_BYTES = 32 << 20
"""Larger files are not opened."""
MAX_FILE_PIXELS = 64_000_000
"""Pictures that unfold to more than this are not decoded."""
MAX_FILE_SIDE = 65_535
"""Nor are pictures that are longer than this, the most that JPEG can say."""
LEAST_BLOCKS = 4
"""Fewer than so many blocks of 8 by 8 pixels each way are too few to know a picture by."""
_FORMATS = ("PNG", "JPEG")
_STRIP = 1 << 20
"""Pixels that are laid on white at once, so that a large picture is not held several times over."""


class UnreadableError(Exception):
    """This picture, or what it makes of a prompt, cannot be read. Carries no message and never leaves the room."""


def digests_of_shown(value: object) -> list[bytes] | None:
    """SHA-256 of what a picture shows, on white: the same however it was saved without loss.

    They are the same however it was turned by quarters or mirrored as well: a note of the camera that does so may be
    gone. A JPEG that is turned without loss, block by block, has other pixels in their last bits, by which its decoder
    rounds; the brightness of each block is rounded once, and stays. So a JPEG has a second digest of that alone.

    Args:
        value: A PNG or JPEG file in base64.

    Returns:
        One of 32 bytes, two of a JPEG of at least ``LEAST_BLOCKS`` blocks each way; none where it is no such file, is
        damaged or too large; ``None`` where memory is missing.
    """
    try:
        with silence():
            content = bytes_of(value)
            pixels = np.asarray(_opened(content, by_note=False))
            blocks = _blocks(content)
            return [_however_turned(array) for array in ([pixels] if blocks is None else [pixels, blocks])]
    except MemoryError:
        return None
    except Exception:  # what it is must not be told by an error
        return [] if has_room_to_decode() else None


def _however_turned(pixels: Any) -> bytes:
    """The digest of the eight ways in which a picture can be turned and mirrored: of the least of them, row by row."""
    ways = [np.rot90(side, quarters) for side in (pixels, pixels[:, ::-1]) for quarters in range(4)]
    height = min(len(way) for way in ways)
    ways = [way for way in ways if len(way) == height]
    for row in range(height):
        rows = [way[row].tobytes() for way in ways]
        least = min(rows)
        ways = [way for way, content in zip(ways, rows, strict=True) if content == least]
        if len(ways) == 1:
            break
    digest = hashlib.sha256(b"%d %d " % ways[0].shape[:2])
    digest.update(np.ascontiguousarray(ways[0]).data)
    return digest.digest()


def _blocks(content: bytes) -> Any:
    """The brightness of each block of a JPEG, one byte each; ``None`` of another file and of a few blocks."""
    with Image.open(BytesIO(content), formats=_FORMATS) as picture:
        if picture.format == "PNG":
            return None
        picture.draft("L", (1, 1))  # by an eighth: what is left of a block of 8 by 8 pixels is its mean
        return np.asarray(picture.convert("L")) if min(picture.size) >= LEAST_BLOCKS else None


class _ThreadState(threading.local):
    """Whether this thread is inside a picture."""

    reading = False


class _Hush(logging.Filter):
    """Drops what is logged of a picture that is being read here, and lets everything else through."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _thread.reading


_thread = _ThreadState()
_hush = _Hush()
for _plugin in (
    "Image",
    "ImageFile",
    "ImageOps",
    "PngImagePlugin",
    "JpegImagePlugin",
    "MpoImagePlugin",
    "TiffImagePlugin",
):
    logging.getLogger(f"PIL.{_plugin}").addFilter(_hush)


@contextmanager
def silence() -> Iterator[None]:
    """No log and no warning from this thread, and an exception from every decoder that fails.

    One thread at a time: the list of warning filters is the process's, and so is what Pillow lets pass.
    """
    with whole_files_alone(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, _thread.reading = _thread.reading, True
        try:
            yield
        finally:
            _thread.reading = before


def bytes_of(value: object) -> bytes:
    """The file.

    Raises:
        UnreadableError: It is no text, or too long.
        ValueError: It is no base64.
    """
    if not isinstance(value, str) or len(value) > MAX_FILE_BYTES * 4 // 3 + 4:
        raise UnreadableError
    return base64.b64decode(value, validate=True)


def upright(content: bytes) -> Any:
    """The first picture of a file, turned as its EXIF note says, on white, mode RGB. To be called in ``silence``."""
    return _opened(content, by_note=True)


def _opened(content: bytes, *, by_note: bool) -> Any:
    with Image.open(BytesIO(content), formats=_FORMATS) as picture:
        if picture.width * picture.height > MAX_FILE_PIXELS or max(picture.size) > MAX_FILE_SIDE:
            raise UnreadableError
        picture.load()
        if by_note:
            ImageOps.exif_transpose(picture, in_place=True)
        return _on_white(picture)


def _on_white(picture: Any) -> Any:
    """The picture in mode RGB, made strip by strip."""
    width, height = picture.size
    rows = max(1, _STRIP // width)
    whole = Image.new("RGB", picture.size)
    for top in range(0, height, rows):
        box = (0, top, width, min(height, top + rows))
        whole.paste(_strip_on_white(picture.crop(box)), box)
    return whole


def _strip_on_white(strip: Any) -> Any:
    if strip.mode.startswith("I"):
        return _from_16_bits(strip)
    if "A" in strip.getbands() or "transparency" in strip.info:
        layer = strip.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return strip.convert("RGB")


def _from_16_bits(strip: Any) -> Any:
    """Grey levels of 16 bits, which Pillow would cut off at 255. One level may stand for transparency."""
    levels = np.asarray(strip).astype(np.uint32)
    if isinstance(clear := strip.info.get("transparency"), int):
        levels[levels == clear] = 65_535
    return Image.fromarray(((levels * 255 + 32_767) // 65_535).astype(np.uint8)).convert("RGB")
