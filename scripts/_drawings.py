"""Drawn characters for the image encoder: the Omniglot rows, their split, and characters made of random strokes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor
from torch.nn import functional as F

from sottovoce.models.embedded.image_encoder import ink_of

CANVAS = 64
"""Side of the drawings that are kept; twice the encoder's, so that distortions stay smooth."""
VALIDATION_EVERY = 4
RULE = (
    "Unseen: the alphabet with the most characters, whole (the first by name of several). Of the other characters, "
    "sorted by name, every fourth, beginning with the first, is for validation; the rest are for training."
)


@dataclass(frozen=True)
class Drawings:
    """Images of every character.

    Attributes:
        shown: Character to images of the rows that serve as records, uint8, shape (images, 64, 64).
        asked: The same, of the rows that serve as questions.
    """

    shown: dict[str, Tensor]
    asked: dict[str, Tensor]

    def all_of(self, names: list[str]) -> list[Tensor]:
        """Every image of each character."""
        return [torch.cat([self.shown[name], self.asked[name]]) for name in names]


def rows(data: Path, split: str) -> Iterator[dict[str, str]]:
    """The rows of one file."""
    with gzip.open(data / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def split_of(groups: dict[str, str]) -> dict[str, list[str]]:
    """Training, validation and unseen characters, by the rule above.

    Args:
        groups: Character to alphabet.
    """
    alphabets = sorted(set(groups.values()))
    largest = max(alphabets, key=lambda alphabet: sum(group == alphabet for group in groups.values()))
    rest = sorted(name for name, group in groups.items() if group != largest)
    return {
        "training": [name for index, name in enumerate(rest) if index % VALIDATION_EVERY],
        "validation": rest[::VALIDATION_EVERY],
        "unseen": sorted(name for name, group in groups.items() if group == largest),
    }


def groups_of(data: Path) -> dict[str, str]:
    """Character to alphabet."""
    return {row["class"]: row["group"] for row in rows(data, "train")}


def read(data: Path, names: list[str]) -> Drawings:
    """Reads the images of some characters; no other is decoded."""
    found: list[dict[str, list[np.ndarray]]] = []
    for split in ("train", "test"):
        images: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for row in rows(data, split):
            if row["class"] in images:
                canvas = ink_of(row["image_b64"], CANVAS)
                if canvas is not None:
                    images[row["class"]].append(np.round(255 * canvas).astype(np.uint8))
        found.append(images)
    shown, asked = ({name: torch.from_numpy(np.stack(some)) for name, some in part.items()} for part in found)
    return Drawings(shown, asked)


def made_up(characters: int, drawers: int, seed: int) -> list[Tensor]:
    """Characters of one to four random strokes, each drawn by several shaky hands; uint8, shape (drawers, 64, 64)."""
    rng = np.random.default_rng(seed)
    return [_character(rng, drawers) for _ in range(characters)]


def _character(rng: np.random.Generator, drawers: int) -> Tensor:
    strokes = [_stroke(rng) for _ in range(rng.choice([1, 2, 3, 4], p=[0.3, 0.35, 0.25, 0.1]))]
    drawn = []
    for _ in range(drawers):
        picture = Image.new("L", (128, 128))
        pen = ImageDraw.Draw(picture)
        width = int(rng.integers(3, 9))
        shake = rng.uniform(0.01, 0.05)
        for stroke, closed in strokes:
            points = stroke + rng.normal(scale=shake, size=stroke.shape) + rng.normal(scale=shake, size=2)
            path = _curve(points, closed) * 90 + 19
            pen.line([(x, y) for x, y in path], fill=255, width=width, joint="curve")
        drawn.append(_cropped(picture))
    return torch.from_numpy(np.stack(drawn))


def _stroke(rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Control points in the unit square, and the degree of smoothing (0 for straight lines; -1 for a ring)."""
    kind = rng.choice(["line", "angle", "curve", "ring"], p=[0.3, 0.2, 0.4, 0.1])
    if kind == "ring":
        middle, radius = rng.uniform(0.2, 0.8, size=2), rng.uniform(0.1, 0.4, size=2)
        turn = np.linspace(0, 2 * np.pi, 9)[:-1]
        return middle + radius * np.stack([np.cos(turn), np.sin(turn)], 1), -1
    count = {"line": 2, "angle": 3, "curve": int(rng.integers(3, 7))}[str(kind)]
    points = rng.uniform(size=(count, 2))
    if rng.random() < 0.5:  # writing likes a grid
        points = np.round(points * 3) / 3
    return points, int(kind == "curve")


def _curve(points: np.ndarray, smooth: int) -> np.ndarray:
    if smooth == 0:
        return points
    ring = smooth < 0
    before, after = (points[-1:], points[:2]) if ring else (points[:1], points[-1:])
    knots = np.concatenate([before, points, after])
    t = np.linspace(0, 1, 9)[:, None]
    a, b, c, d = knots[:-3, None], knots[1:-2, None], knots[2:-1, None], knots[3:, None]
    spline = 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
    return np.asarray(spline.reshape(-1, 2))


def _cropped(picture: Image.Image) -> np.ndarray:
    box = picture.getbbox() or (0, 0, 128, 128)
    half = 1.15 * max(box[2] - box[0], box[3] - box[1], 8) / 2
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    wide = Image.new("L", (384, 384))
    wide.paste(picture, (128, 128))
    around = (x - half + 128, y - half + 128, x + half + 128, y + half + 128)
    return np.asarray(wide.resize((CANVAS, CANVAS), Image.Resampling.BILINEAR, box=around))


def turned(images: Tensor, way: int) -> Tensor:
    """One of the eight ways to turn and mirror a square, of which each makes another character."""
    return torch.rot90(images.flip(-1) if way >= 4 else images, way % 4, dims=(-2, -1))


def distorted(images: Tensor, generator: torch.Generator) -> Tensor:
    """Shifts, turns, slants, bends and thickens drawings, and halves their side.

    Args:
        images: uint8, shape (n, 64, 64).
        generator: Of the distortions.

    Returns:
        Ink from 0 to 1, shape (n, 1, 32, 32).
    """
    count = len(images)
    ink = images[:, None].float() / 255

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand((count, *shape), generator=generator) * (high - low) + low

    thick, thin = F.max_pool2d(ink, 3, 1, 1), -F.max_pool2d(-ink, 3, 1, 1)
    choice = uniform(0, 1, 1, 1, 1)
    ink = torch.where(choice < 0.25, thick, torch.where(choice > 0.9, (thin + ink) / 2, ink))
    turn, slant = uniform(-0.22, 0.22), uniform(-0.2, 0.2)
    scale = uniform(0.85, 1.15, 2)
    cosine, sine = turn.cos(), turn.sin()
    matrix = torch.stack(
        [
            torch.stack([cosine * scale[:, 0], (slant * cosine - sine) * scale[:, 0]], 1),
            torch.stack([sine * scale[:, 1], (slant * sine + cosine) * scale[:, 1]], 1),
        ],
        1,
    )
    grid = F.affine_grid(torch.cat([matrix, uniform(-0.08, 0.08, 2, 1)], 2), [count, 1, CANVAS, CANVAS], False)
    bend = F.interpolate(uniform(-0.1, 0.1, 2, 5, 5), CANVAS, mode="bicubic", align_corners=True)
    return F.avg_pool2d(F.grid_sample(ink, grid + bend.permute(0, 2, 3, 1), align_corners=False), 2)
