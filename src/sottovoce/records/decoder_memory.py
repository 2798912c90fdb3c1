"""Whether there is memory for the largest picture. A decoder that lacks it says that the file is damaged.

Decoders have no word of their own for a lack of memory: libjpeg's is the one that it has for damaged bytes. So behind a
decoder's failure a made-up picture is decoded: a progressive JPEG of as many pixels as any picture may have, in four
colours, for which a decoder needs more memory than for any other JPEG or PNG file. Decoders of other formats, such as
JPEG 2000, can need more. The file ends behind its head, where the decoder takes all its memory: it costs about a
millisecond, and no page of that memory is written to.

Where a program lets Pillow read truncated files, a decoder that lacks memory fails without an exception, and what was
decoded until then, mostly nothing, passes for the picture. So pictures are read as if the program had not allowed it.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO

from PIL import Image, ImageFile
from PIL.JpegImagePlugin import JpegImageFile

MADE_UP_SIDE = 8_192
"""Squared it is more than the pixels of any picture that is decoded, each side filled up to whole blocks."""
_CUT_OFF = "truncated"
"""In what Pillow says where a file ends too early, which is behind the place where the memory is taken."""

_one_at_a_time = threading.RLock()
"""Held while a picture is read: what another one takes meanwhile is not taken for what is missing."""


@contextmanager
def whole_files_alone() -> Iterator[None]:
    """Within, Pillow raises an exception where a decoder fails, whatever the program allows; one thread at a time."""
    with _one_at_a_time:
        allowed, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, False
        try:
            yield
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = allowed


def has_room_to_decode() -> bool:
    """Whether the decoder gets the memory that the largest picture needs; one thread at a time.

    Example:
        >>> has_room_to_decode()
        True
    """
    said = ""
    with whole_files_alone():
        try:
            with JpegImageFile(BytesIO(_head())) as picture:
                picture.load()
        except (OSError, MemoryError) as error:
            said = str(error)
    return _CUT_OFF in said


@cache
def _head() -> bytes:
    """A progressive JPEG in four colours up to its first scan, as Pillow writes it, with the side put in."""
    file = BytesIO()
    Image.new("CMYK", (8, 8)).save(file, "JPEG", progressive=True)
    whole = file.getvalue()
    frame, scan = whole.index(b"\xff\xc2"), whole.index(b"\xff\xda")
    [length] = struct.unpack(">H", whole[scan + 2 : scan + 4])
    return whole[: frame + 5] + struct.pack(">HH", MADE_UP_SIDE, MADE_UP_SIDE) + whole[frame + 9 : scan + 2 + length]
