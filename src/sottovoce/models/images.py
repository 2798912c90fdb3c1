"""From the base64 of a row to an upright RGB picture of bounded size. Whatever goes wrong says nothing of the picture.

Every picture is treated by itself: its size depends on its own bytes and on public constants alone.
"""

from __future__ import annotations

from typing import Any

from PIL import Image

from sottovoce.models.failures import OwnFailure
from sottovoce.records.pictures import UnreadableError, bytes_of, silence, upright

__all__ = ["UnreadableError", "read_picture"]


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
    with silence(), OwnFailure():
        return _shrunk(upright(bytes_of(value)), max_pixels)
    raise UnreadableError  # here, so that what the decoder said is not attached to it


def _shrunk(picture: Any, max_pixels: int) -> Any:
    pixels = picture.width * picture.height
    if pixels <= max_pixels:
        return picture
    scale = (max_pixels / pixels) ** 0.5
    width, height = max(1, int(picture.width * scale)), max(1, int(picture.height * scale))
    width, height = min(width, max(1, max_pixels // height)), min(height, max(1, max_pixels // width))
    return picture.resize((width, height), Image.Resampling.BICUBIC)
