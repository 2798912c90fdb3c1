"""The default encoder as its authors publish it, computed by the transformers library: what ours is compared with."""

from __future__ import annotations

import numpy as np

from sottovoce.models.embedded.sentence_encoder import encoder_folder


def plain_forward(texts: list[str]) -> np.ndarray:
    """The encoder's published recipe in one padded batch: mean over the tokens of the last layer, length one."""
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = encoder_folder(None)
    tokens = AutoTokenizer.from_pretrained(folder, local_files_only=True)(
        [text[:400] for text in texts], padding=True, truncation=True, max_length=96, return_tensors="pt"
    )
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    with torch.inference_mode():
        last = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    return torch.nn.functional.normalize((last * mask).sum(1) / mask.sum(1), dim=-1).numpy()
