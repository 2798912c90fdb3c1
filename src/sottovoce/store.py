"""The trusted store: a folder of the user's own for ledgers and caches, readable by nobody else.

``SOTTOVOCE_HOME`` moves it. It is meant for the machine that may see the private records anyway.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """Where the store is; nothing is created."""
    chosen = os.environ.get("SOTTOVOCE_HOME")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("sottovoce", appauthor=False))


