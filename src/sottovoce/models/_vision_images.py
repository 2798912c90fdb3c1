"""From the base64 of a row to an upright RGB picture of bounded size. Whatever goes wrong says nothing of the picture.

Every picture is treated by itself: its size depends on its own bytes and on public constants alone.
"""

from __future__ import annotations

import base64
import warnings
from io import BytesIO
from typing import Any

from PIL import Image, ImageOps

MAX_FILE_BYTES = 32 << 20
"""Larger files are not opened."""
MAX_FILE_PIXELS = 64_000_000
"""Pictures that unfold to more than this are not decoded."""
_FORMATS = ("PNG", "JPEG")


class UnreadableError(Exception):
    """This picture, or what it makes of a prompt, cannot be read. Carries no message and never leaves the room."""


def read_picture(value: object, max_pixels: int) -> Any:
    """Decodes one picture.

    It is turned upright as its EXIF note says, laid on white where it is transparent, and shrunk to at most
    ``max_pixels`` pixels with its proportions kept.

    Args:
        value: A PNG or JPEG file in base64.
        max_pixels: Most pixels of the result.

    Returns:
        A PIL image, mode RGB.

    Raises:
        UnreadableError: It is no such file, is damaged, or is larger than the constants above.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _shrunk(_upright(_bytes(value)), max_pixels)
    except MemoryError:
        raise
    except Exception:
        raise UnreadableError from None


def _bytes(value: object) -> bytes:
    if not isinstance(value, str) or len(value) > MAX_FILE_BYTES * 4 // 3 + 4:
        raise UnreadableError
    return base64.b64decode(value, validate=True)


def _upright(content: bytes) -> Any:
    with Image.open(BytesIO(content), formats=_FORMATS) as picture:
        if picture.width * picture.height > MAX_FILE_PIXELS:
            raise UnreadableError
        picture.load()
        return _on_white(ImageOps.exif_transpose(picture))


def _on_white(picture: Any) -> Any:
    if "A" in picture.getbands() or "transparency" in picture.info:
        layer = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return picture.convert("RGB")


def _shrunk(picture: Any, max_pixels: int) -> Any:
    pixels = picture.width * picture.height
    if pixels <= max_pixels:
        return picture
    scale = (max_pixels / pixels) ** 0.5
    size = (max(1, int(picture.width * scale)), max(1, int(picture.height * scale)))
    return picture.resize(size, Image.Resampling.BICUBIC)
