"""The trusted store: a folder of the user's own for ledgers and caches, readable by nobody else.

``SOTTOVOCE_HOME`` moves it. It is meant for the machine that may see the private records anyway. Files in it are named
by a keyed hash of a data set's fingerprint: a plain hash of private records would let anybody who sees a file name
check a guess about them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

import platformdirs

SECRET_BYTES: Final = 32


def home() -> Path:
    """Where the store is; nothing is created."""
    chosen = os.environ.get("SOTTOVOCE_HOME")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("sottovoce", appauthor=False))


def private_folder(name: str = "") -> Path:
    """A folder of the store, created where missing and then closed to other users.

    Raises:
        OSError: It cannot be created.
    """
    folder = home() / name if name else home()
    for path in dict.fromkeys((home(), folder)):
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.chmod(0o700)
    return folder


def private_name(fingerprint: str) -> str:
    """A name for a data set that says nothing of it to who has no access to the store: 24 hexadecimal digits.

    Raises:
        OSError: The store cannot be written.
        ValueError: Its key is damaged.
    """
    return hmac.new(_secret(), fingerprint.encode(), hashlib.sha256).hexdigest()[:24]


def _secret() -> bytes:
    """The store's key, made once; two processes that make it together agree on one."""
    file = private_folder() / "names.key"
    if not file.exists():
        fresh = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
            stream.write(secrets.token_bytes(SECRET_BYTES))
        try:
            os.link(fresh, file)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    key = file.read_bytes()
    if len(key) != SECRET_BYTES:
        raise ValueError(f"{file.name} is damaged")
    return key
