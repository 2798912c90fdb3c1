"""What differs between the families of vision-language models: how a picture is cut up, written into a prompt, placed.

The library's own processors are not used: most of them need torchvision for videos, which are not read here. The texts
below are those that they write; the tests compare the two.

Sources     transformers: ``Qwen2_5_VLProcessor``, ``Qwen2_5_VLModel.get_rope_index``, ``InternVLProcessor``,
            ``Idefics3Processor``, ``SmolVLMProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from sottovoce.models.images import UnreadableError
from sottovoce.records.sealed import Opaque

Grid = tuple[int, int, int]
"""Frames, rows and columns of a picture's tokens."""


@final
@dataclass(frozen=True, repr=False)
class Pixels(Opaque):
    """One picture as its image processor cuts it up.

    Attributes:
        inputs: Tensors that the vision encoder takes, by name.
        tiles: Rows and columns of tiles; zeros for a picture shown whole.
    """

    inputs: dict[str, Tensor]
    tiles: tuple[int, int] = (0, 0)


@final
@dataclass(frozen=True)
class Family:
    """One family of models.

    Attributes:
        settings: Settings of the image processor; takes whether pictures are shown in tiles.
        inputs: Names of the tensors that the vision encoder takes, each with the axis along which pictures are joined.
        text: What stands for a picture in the prompt; takes the tokenizer, the image token, the number of features and
            the tiles.
        in_three_axes: Whether tokens have places in time, height and width.
    """

    settings: Callable[[bool], dict[str, Any]]
    inputs: dict[str, int]
    text: Callable[[Any, str, int, tuple[int, int]], str]
    in_three_axes: bool = False

    def pixels(self, processed: Any) -> Pixels:
        """What an image processor gave for one picture.

        Raises:
            UnreadableError: A part of it is blank to the model, which would drop it.
        """
        inputs = {name: processed[name] for name in self.inputs if name in processed}
        if self is _TILED and not inputs["pixel_values"].flatten(2).any(dim=-1).all():
            raise UnreadableError
        tiles = tuple(int(processed[name][0][0]) if name in processed else 0 for name in ("rows", "cols"))
        return Pixels(inputs, (tiles[0], tiles[1]))

    def join(self, pictures: Sequence[Pixels]) -> dict[str, Tensor]:
        """The tensors of several pictures of one prompt together, as a plain forward pass takes them."""
        if not pictures:
            return {}
        return {
            name: torch.cat([picture.inputs[name] for picture in pictures], dim=axis)
            for name, axis in self.inputs.items()
            if name in pictures[0].inputs
        }


def places(is_image: Sequence[bool], grids: Sequence[Grid], start: int) -> tuple[Tensor, int]:
    """Places in time, height and width of the tokens of a stretch of prompt.

    Text counts on along all three axes. A picture's tokens lie on its grid, and the text behind it goes on after the
    grid's longest side.

    Args:
        is_image: Which tokens stand for pictures.
        grids: One for each picture, in order.
        start: The place that follows everything before this stretch.

    Returns:
        Shape (3, tokens), and the place that follows.

    Example:
        A word, a picture of 1 by 2 tokens, a word.

        >>> places([False, True, True, False], [(1, 1, 2)], 5)[0].tolist()
        [[5, 6, 6, 8], [5, 6, 6, 8], [5, 6, 7, 8]]
    """
    columns, at, waiting = [], 0, iter(grids)
    while at < len(is_image):
        if is_image[at]:
            grid = next(waiting)
            columns.append(torch.cartesian_prod(*(torch.arange(side) for side in grid)).reshape(-1, 3).T + start)
            at, start = at + grid[0] * grid[1] * grid[2], start + max(grid[1:])
        else:
            columns.append(torch.full((3, 1), start))
            at, start = at + 1, start + 1
    return (torch.cat(columns, dim=1) if columns else torch.zeros((3, 0), dtype=torch.long)), start


def _repeated(tokenizer: Any, token: str, count: int, tiles: tuple[int, int]) -> str:
    return token * count


def _fenced(tokenizer: Any, token: str, count: int, tiles: tuple[int, int]) -> str:
    start = getattr(tokenizer, "start_image_token", None) or "<img>"
    end = getattr(tokenizer, "end_image_token", None) or "</img>"
    return f"{start}{token * count}{end}"


def _in_tiles(tokenizer: Any, token: str, count: int, tiles: tuple[int, int]) -> str:
    rows, columns = tiles
    fence = getattr(tokenizer, "fake_image_token", None) or "<fake_token_around_image>"
    whole = getattr(tokenizer, "global_image_token", None) or "<global-img>"
    each = token * (count // (rows * columns + 1))
    lines = ("".join(f"{fence}<row_{r + 1}_col_{c + 1}>{each}" for c in range(columns)) + "\n" for r in range(rows))
    return "".join(lines) + ("\n" if rows else "") + f"{fence}{whole}{each}{fence}"


_TILED = Family(
    settings=lambda split: {"do_image_splitting": split, "return_row_col_info": True},
    inputs={"pixel_values": 1, "pixel_attention_mask": 1},
    text=_in_tiles,
)

FAMILIES: dict[str, Family] = {
    "qwen2_5_vl": Family(
        settings=lambda split: {},
        inputs={"pixel_values": 0, "image_grid_thw": 0},
        text=_repeated,
        in_three_axes=True,
    ),
    "internvl": Family(settings=lambda split: {"crop_to_patches": split}, inputs={"pixel_values": 0}, text=_fenced),
    "idefics3": _TILED,
    "smolvlm": _TILED,
}
"""By the ``model_type`` of a checkpoint's configuration."""
