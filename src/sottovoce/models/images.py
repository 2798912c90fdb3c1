"""From the base64 of a row to an upright RGB picture of bounded size. Whatever goes wrong says nothing of the picture.

Every picture is treated by itself: its size depends on its own bytes and on public constants alone. Nothing is written
to logs or warnings meanwhile: Pillow logs notes from inside a file (who took it, and where) at level DEBUG, and warns
of sizes and damage.
"""

from __future__ import annotations

import base64
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from sottovoce.models.decoder_memory import whole_files_alone
from sottovoce.models.failures import OwnFailure

MAX_FILE_BYTES = 32 << 20
"""Larger files are not opened."""
MAX_FILE_PIXELS = 64_000_000
"""Pictures that unfold to more than this are not decoded."""
MAX_FILE_SIDE = 65_535
"""Nor are pictures that are longer than this, the most that JPEG can say."""
_FORMATS = ("PNG", "JPEG")
_STRIP = 1 << 20
"""Pixels that are laid on white at once, so that a large picture is not held several times over."""


class UnreadableError(Exception):
    """This picture, or what it makes of a prompt, cannot be read. Carries no message and never leaves the room."""


def read_picture(value: object, max_pixels: int) -> Any:
    """Decodes one picture.

    It is turned upright as its EXIF note says, laid on white where it is transparent, brought to 8 bits a channel, and
    shrunk to at most ``max_pixels`` pixels with its proportions kept (where that is less than a pixel wide, one pixel
    wide). Of several pictures in one file the first is read.

    Args:
        value: A PNG or JPEG file in base64.
        max_pixels: Most pixels of the result.

    Returns:
        A PIL image, mode RGB.

    Raises:
        UnreadableError: It is no such file, is damaged, or is larger than the constants above.
        Exception: Memory was missing, or there is none for the largest picture: whether it is damaged cannot be told.
    """
    with _silence(), OwnFailure():
        return _shrunk(_upright(_bytes(value)), max_pixels)
    raise UnreadableError  # here, so that what the decoder said is not attached to it


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
def _silence() -> Iterator[None]:
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


def _bytes(value: object) -> bytes:
    if not isinstance(value, str) or len(value) > MAX_FILE_BYTES * 4 // 3 + 4:
        raise UnreadableError
    return base64.b64decode(value, validate=True)


def _upright(content: bytes) -> Any:
    with Image.open(BytesIO(content), formats=_FORMATS) as picture:
        if picture.width * picture.height > MAX_FILE_PIXELS or max(picture.size) > MAX_FILE_SIDE:
            raise UnreadableError
        picture.load()
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


def _shrunk(picture: Any, max_pixels: int) -> Any:
    pixels = picture.width * picture.height
    if pixels <= max_pixels:
        return picture
    scale = (max_pixels / pixels) ** 0.5
    width, height = max(1, int(picture.width * scale)), max(1, int(picture.height * scale))
    width, height = min(width, max(1, max_pixels // height)), min(height, max(1, max_pixels // width))
    return picture.resize((width, height), Image.Resampling.BICUBIC)
