"""Verdicts of self-tests that were kept: what ``sotto models check`` found, for runs under the very same conditions.

A verdict is the result of a computation without chance. It is used again where that computation would be the same one:
the same bytes of every file of the model, the same source of this package's engines, the same versions and settings of
torch and transformers, the same processor or device with the same number of threads, the same arguments, and, for rows
of a shape, the same shape behind the same shared prefix. Anything else is tested again. Verdicts lie in the trusted
store, which is closed to other users: whoever can write there can write ledgers as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast, final

import torch
import transformers

from sottovoce.errors import ModelError
from sottovoce.models.gguf.checkpoint import gguf_path
from sottovoce.models.huggingface.files import folder_of, model_digest
from sottovoce.store import home, private_folder, write_anew

FOLDER: Final = "verdicts"
_ENGINES: Final = ("huggingface", "lockstep", "gguf")
"""Packages beside this one whose source decides what a self-test computes."""
_SETTINGS: Final = (
    "ONEDNN_",
    "DNNL_",
    "MKL_",
    "OMP_",
    "KMP_",
    "GOMP_",
    "ATEN_",
    "CUBLAS_",
    "CUDA_",
    "NVIDIA_",
    "TORCH_",
)
"""Beginnings of environment variables that numerical libraries read."""
_PROCESSOR: Final = ("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "cache size", "flags")


@final
class Verdicts:
    """Kept verdicts of one model under this process's conditions.

    Args:
        name_or_path: A folder, a GGUF file, or a name on the hub.
        device: Where the model runs.
        arguments: What else decides how it is run: dtype, rows, layout.
    """

    def __init__(self, name_or_path: str, device: torch.device, arguments: Mapping[str, Any]) -> None:
        self._name = name_or_path
        self._conditions = {"software": _software(), "machine": _machine(str(device)), "arguments": {**arguments}}

    def find(self, kind: str) -> Mapping[str, Any] | None:
        """What was kept, such as for ``writing``; ``None`` where nothing was, or the store cannot be used.

        The model's files are hashed only where something was kept for files of their names and sizes.
        """
        try:
            if not (home() / FOLDER).is_dir():
                return None
            folder = private_folder(FOLDER)
            if not any(folder.glob(f"{self._hint(kind)}-*.json")):
                return None
            found = json.loads(self._file(folder, kind).read_text("utf-8"))
        except (OSError, ValueError, ModelError):
            return None
        known = isinstance(found, dict) and found.get("conditions") == self._whole(kind)
        return found["verdict"] if known else None

    def keep(self, kind: str, verdict: Mapping[str, Any]) -> None:
        """Keeps a verdict in place of an earlier one.

        Raises:
            OSError: The store cannot be written.
            ModelError: A file of the model cannot be read.
        """
        content = {"conditions": self._whole(kind), "verdict": {**verdict}}
        write_anew(self._file(private_folder(FOLDER), kind), json.dumps(content, indent=1).encode())

    def _file(self, folder: Path, kind: str) -> Path:
        return folder / f"{self._hint(kind)}-{_hash(self._whole(kind))[:32]}.json"

    def _whole(self, kind: str) -> dict[str, Any]:
        return {"kind": kind, "model": model_digest(self._name), **self._conditions}

    def _hint(self, kind: str) -> str:
        file = gguf_path(self._name)
        files = [file] if file is not None else sorted(folder_of(self._name).iterdir())
        sizes = [(path.name, path.stat().st_size) for path in files if path.is_file()]
        return _hash({"kind": kind, "sizes": sizes, **self._conditions})[:16]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@cache
def _source() -> str:
    """Hash of the source of everything that runs a model."""
    models = Path(__file__).parent.parent
    files = [*models.glob("*.py"), *(file for name in _ENGINES for file in (models / name).glob("*.py"))]
    return _hash({file.relative_to(models).as_posix(): file.read_text("utf-8") for file in sorted(files)})


def _software() -> dict[str, Any]:
    return {
        "source": _source(),
        "python": platform.python_version(),
        "torch": f"{torch.__version__} {torch.version.git_version}",
        "build": _hash(torch.__config__.show()),
        "transformers": transformers.__version__,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "float32": torch.get_float32_matmul_precision(),
        "onednn": torch.backends.mkldnn.enabled,
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_SETTINGS)},
    }


def _machine(device: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "device": device,
    }
    if device.startswith("cuda"):
        properties, cudnn = torch.cuda.get_device_properties(device), cast(Any, torch.backends.cudnn)
        found |= {"card": str(properties), "cuda": torch.version.cuda, "cudnn": cudnn.version()}
    return found


@cache
def _processor() -> list[str]:
    """The first processor's own description; where there is none, what Python knows of it."""
    try:
        first = Path("/proc/cpuinfo").read_text("utf-8").split("\n\n")[0].splitlines()
    except OSError:
        return [platform.system(), platform.machine(), platform.processor()]
    return [line for line in first if line.partition("\t")[0].strip(" :") in _PROCESSOR] + [platform.machine()]
