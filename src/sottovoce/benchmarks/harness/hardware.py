"""What a benchmark ran on: a machine's description for result files, without names or paths."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

PACKAGES = ("numpy", "scipy", "onnxruntime", "torch", "transformers", "scikit-learn", "sottovoce")

CPUINFO: Final = Path("/proc/cpuinfo")
VECTORS: Final = (("avx512f", "AVX-512", 512), ("avx2", "AVX2", 256), ("asimd", "NEON", 128), ("sse2", "SSE2", 128))
"""Flags of a processor, the name of their instructions and the bits of a vector, the widest first."""
LIMITS: Final = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
"""Variables that keep torch, MKL and oneDNN to narrower instructions."""


def describe() -> dict[str, object]:
    """Processor, its vectors, cores, system, Python, package versions and the commit of the checkout if there is one.

    ``vectors`` holds the widest instructions of the processor, those that torch uses where it is loaded, and the limits
    that were set: products of the same numbers take other kernels, and other times, by all three.
    """
    return {
        "processor": _processor(),
        "vectors": _vectors(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.system(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "commit": _commit(),
    }


def _processor() -> str:
    return _said_of_processor("model name") or platform.machine()


def _said_of_processor(*keys: str) -> str:
    """The first line of the system's description under one of these keys; empty where there is none."""
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(keys)), "")


def _vectors() -> dict[str, object]:
    flags = _said_of_processor("flags", "Features").split()
    name, bits = next(((name, bits) for flag, name, bits in VECTORS if flag in flags), (None, None))
    torch = sys.modules.get("torch")
    return {
        "instructions": name,
        "bits": bits,
        "torch": torch.backends.cpu.get_cpu_capability() if torch else None,
        "limits": {variable: os.environ[variable] for variable in LIMITS if variable in os.environ},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    folder = Path(__file__).resolve().parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
