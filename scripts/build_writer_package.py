"""Builds the package of the embedded language model: python scripts/build_writer_package.py --out FOLDER

One wheel, sottovoce-writer, with the files that ``embedded_language_folder`` pins, and no code. The library looks for
it before it looks into its own folder, so that the weights can leave the repository once the wheel is published. Its
bytes follow from the files alone: entries stand in order, uncompressed, without a date. Its SHA-256 is printed.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import zipfile
from pathlib import Path

from sottovoce.models.embedded.language_model import (
    PINNED,
    WRITER_FOLDER,
    WRITER_PACKAGE,
    WRITER_VERSION,
    embedded_language_folder,
)

NAME = f"{WRITER_PACKAGE}-{WRITER_VERSION}"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every entry: the earliest that a zip file can name."""
READABLE = 0o644 << 16
METADATA = f"""\
Metadata-Version: 2.4
Name: {WRITER_PACKAGE.replace("_", "-")}
Version: {WRITER_VERSION}
Summary: The embedded language model of sottovoce: weights and tokenizer, no code.
License-Expression: Apache-2.0
Requires-Python: >=3.11
Description-Content-Type: text/plain

A causal decoder of 14.8 million parameters, a stand-in with which sottovoce writes and is tested offline.
It began as all-MiniLM-L6-v2 (Apache-2.0) and was trained on DBpedia abstracts (CC BY-SA and GNU FDL), Wikipedia film
data (MIT; extracts CC BY-SA), MedQuAD (CC BY 4.0), GSM8K (MIT), and texts that scripts of sottovoce generate
(Apache-2.0). What it can do and what it cannot is in docs/language-model.md of sottovoce.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: sottovoce\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build(out: Path, source: Path | None = None) -> Path:
    """Writes the wheel.

    Args:
        out: The folder that it is written into; made where missing.
        source: The model's folder; ``None`` for the installed one. Its files are checked against their hashes.

    Returns:
        The wheel's path.

    Raises:
        ModelError: A file of the model is missing or another one.
    """
    folder = embedded_language_folder(source)
    files = {f"{WRITER_PACKAGE}/__init__.py": b""}
    files |= {f"{WRITER_PACKAGE}/{WRITER_FOLDER}/{name}": (folder / name).read_bytes() for name in sorted(PINNED)}
    files |= {f"{NAME}.dist-info/METADATA": METADATA.encode(), f"{NAME}.dist-info/WHEEL": WHEEL.encode()}
    record = f"{NAME}.dist-info/RECORD"
    rows = [f"{path},sha256={_digest(content)},{len(content)}\n" for path, content in files.items()]
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, EARLIEST)
            entry.create_system, entry.external_attr = 3, READABLE
            archive.writestr(entry, content)
    return wheel


def _digest(content: bytes) -> str:
    """As a wheel's record has it: without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def main() -> None:
    """Builds the wheel and prints its path, size and hash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="The folder for the wheel. Default: dist.")
    wheel = build(parser.parse_args().out)
    content = wheel.read_bytes()
    print(f"{wheel}  {len(content):,} bytes  --hash=sha256:{hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
