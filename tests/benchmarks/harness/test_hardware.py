"""What a result says of its machine: the width of its vectors too, by which products take other kernels."""

from __future__ import annotations

import pytest

from sottovoce.benchmarks.harness import hardware


@pytest.mark.parametrize(
    ("line", "instructions", "bits"),
    [
        ("flags\t\t: fpu sse2 avx avx2 avx512f avx512bw", "AVX-512", 512),
        ("flags\t\t: fpu sse2 avx avx2", "AVX2", 256),
        ("Features\t: fp asimd evtstrm", "NEON", 128),
        ("bogomips\t: 48.0", None, None),
    ],
)
def test_the_widest_vectors_are_named(tmp_path, monkeypatch, line, instructions, bits):
    monkeypatch.setattr(hardware, "CPUINFO", tmp_path / "cpuinfo")
    hardware.CPUINFO.write_text(f"model name\t: A processor\n{line}\n")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    said = hardware.describe()
    assert said["processor"] == "A processor"
    assert (said["vectors"]["instructions"], said["vectors"]["bits"]) == (instructions, bits)
    assert said["vectors"]["limits"] == {"ONEDNN_MAX_CPU_ISA": "AVX2"}
