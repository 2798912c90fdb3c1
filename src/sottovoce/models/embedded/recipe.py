"""How an encoder's folder says that a text becomes a vector: pooling, limits, and what stands in front of the text.

Folders of the sentence-transformers library say it in ``modules.json``, ``1_Pooling/config.json`` and files beside
them; a folder without these has its tokens' mean taken, as that library does. What is said there and cannot be done
here is refused by name, so that no encoder runs in another way than it was trained for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from sottovoce.errors import ModelError

POOLINGS: Final = ("mean", "cls", "max", "lasttoken")
MOST_PIECES: Final = 512
"""Most word pieces of a text that are read, whatever the folder says."""
CHARACTERS_A_PIECE: Final = 16
"""A text is cut at so many characters for each piece first, so that no text takes the tokenizer for long."""
FILES: Final = (
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
)
_MODULES: Final = ("Transformer", "Pooling", "Normalize")
_FORMER: Final = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Flags by which older folders name the pooling."""


@final
@dataclass(frozen=True)
class Recipe:
    """How a text becomes a vector. Every number of it is public.

    Attributes:
        pooling: One of ``POOLINGS``, over the last layer.
        pieces: Word pieces of a text that are read at most, the encoder's own marks among them.
        characters: A text is cut there first.
        prompt: What stands in front of every text.
        lowercase: Whether a text is put in lower case.
    """

    pooling: str = "mean"
    pieces: int = 96
    characters: int = 400
    prompt: str = ""
    lowercase: bool = False


def recipe_of(folder: Path) -> Recipe:
    """What a folder says.

    Raises:
        ModelError: It asks for a module, a pooling or a prompt that cannot be done here, or a file is damaged.

    Example:
        >>> recipe_of(Path("nowhere"))
        Recipe(pooling='mean', pieces=512, characters=8192, prompt='', lowercase=False)
    """
    modules = _read(folder / "modules.json", list)
    places = {str(_of(module, "type")).rpartition(".")[2]: str(_of(module, "path")) for module in modules}
    if unknown := [name for name in places if name not in _MODULES]:
        raise ModelError(
            f"The encoder in {str(folder)!r} has a module {unknown[0]!r}, which is not supported. Use one with modules "
            f"{', '.join(_MODULES)}, or bring its vectors as rows of numbers: --model vectors:COLUMNS."
        )
    pooling = _read(folder / places.get("Pooling", "1_Pooling") / "config.json", dict)
    settings = _read(folder / "sentence_bert_config.json", dict)
    prompts = _read(folder / "config_sentence_transformers.json", dict)
    named, chosen = prompts.get("prompts") or {}, prompts.get("default_prompt_name")
    prompt = str(named.get(chosen) or "") if isinstance(named, dict) and isinstance(chosen, str) else ""
    if prompt and pooling.get("include_prompt") is False:
        raise ModelError(
            f"The encoder in {str(folder)!r} leaves its prompt out of the pooling, which is not supported. Use another."
        )
    pieces = min([MOST_PIECES, *_limits(folder, settings)])
    return Recipe(
        _pooling(pooling, folder), pieces, CHARACTERS_A_PIECE * pieces, prompt, bool(settings.get("do_lower_case"))
    )


def _limits(folder: Path, settings: dict[str, Any]) -> list[int]:
    """The numbers of pieces that the folder's files allow."""
    stated = (
        settings.get("max_seq_length"),
        _read(folder / "tokenizer_config.json", dict).get("model_max_length"),
        _read(folder / "config.json", dict).get("max_position_embeddings"),
    )
    return [value for value in stated if isinstance(value, int) and value > 2]


def _pooling(config: dict[str, Any], folder: Path) -> str:
    modes = config.get("pooling_mode") or [mode for flag, mode in _FORMER.items() if config.get(flag)] or "mean"
    mode = modes[0] if isinstance(modes, list) and len(modes) == 1 else modes
    if mode not in POOLINGS:
        raise ModelError(
            f"The encoder in {str(folder)!r} pools by {mode!r}, which is not supported. Use one that pools by "
            f"{', '.join(POOLINGS)}."
        )
    return str(mode)


def _read(file: Path, kind: type) -> Any:
    """The JSON of a file; empty where there is none."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return kind()
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, kind):
        raise ModelError(f"The encoder's file {str(file)!r} cannot be read. See that the folder is complete.")
    return found


def _of(module: Any, part: str) -> Any:
    return module.get(part, "") if isinstance(module, dict) else ""
