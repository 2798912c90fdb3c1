"""Other ways to write from many prompts at once, to be measured beside this library's; none of them is private."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final


def plain_loop(
    model: Any, prompts: Sequence[Sequence[int]], texts: int, tokens: int, clip: float, *, cached: bool
) -> PlainLoop | RecomputingLoop:
    """One padded batch of all prompts, with the model library's cache or without any."""
    kind = PlainLoop if cached else RecomputingLoop
    return kind(model, prompts, texts, tokens, clip)


class _Loop:
    """Prompts padded on the left, the public one first; every text has a row of each."""

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], texts: int, tokens: int, clip: float) -> None:
        import torch

        self._model, self._texts, self._tokens, self._clip = model, texts, tokens, clip
        longest = max(map(len, prompts))
        padded = [[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts]
        real = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        self._ids = torch.tensor(padded, device=model.device)
        self._mask = torch.tensor(real, device=model.device)
        self._count = len(prompts)

    def _sampled(self, logits: Any) -> Any:
        """Clipped mean difference to the public row, float softmax, one draw for each text; a token for each row."""
        import torch

        by_text = logits.float().view(self._count, self._texts, -1)
        public, experts = by_text[0], by_text[1:]
        mixed = public + (experts - public).clamp_(-self._clip, self._clip).mean(0)
        tokens = torch.multinomial(mixed.softmax(-1), 1)[:, 0]
        return tokens.expand(self._count, -1).reshape(-1, 1)


@final
class PlainLoop(_Loop):
    """The floor that any user of the model library could write: a growing cache, and all rows in one batch."""

    def read(self) -> None:
        """Reads all prompts in one batch; their keys and values are repeated for every text."""
        import torch
        import transformers

        with torch.inference_mode():
            self._cache = transformers.DynamicCache(config=self._model.config)
            positions = (self._mask.cumsum(-1) - 1).clamp(min=0)
            logits = self._model(
                input_ids=self._ids,
                attention_mask=self._mask,
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits
            if self._texts > 1:
                self._cache.batch_repeat_interleave(self._texts)
            self._rows_mask = self._mask.repeat_interleave(self._texts, 0)
            self._next = positions[:, -1:].repeat_interleave(self._texts, 0) + 1
            self._logits = logits[:, -1].repeat_interleave(self._texts, 0)

    def write(self) -> None:
        """Writes all tokens."""
        import torch

        with torch.inference_mode():
            mask, positions, logits = self._rows_mask, self._next, self._logits
            for step in range(self._tokens):
                tokens = self._sampled(logits)
                if step + 1 == self._tokens:
                    break
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
                logits = self._model(
                    input_ids=tokens,
                    attention_mask=mask,
                    position_ids=positions,
                    past_key_values=self._cache,
                    use_cache=True,
                ).logits[:, -1]
                positions = positions + 1

    def close(self) -> None:
        """Frees the cache."""
        del self._cache, self._logits


@final
class RecomputingLoop(_Loop):
    """Every prompt is read again for every token."""

    def read(self) -> None:
        """Reads nothing yet."""

    def write(self) -> None:
        """Writes all tokens."""
        import torch

        with torch.inference_mode():
            ids, mask = (each.repeat_interleave(self._texts, 0) for each in (self._ids, self._mask))
            for _ in range(self._tokens):
                positions = (mask.cumsum(-1) - 1).clamp(min=0)
                logits = self._model(
                    input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=1
                ).logits[:, -1]
                ids = torch.cat([ids, self._sampled(logits)], dim=1)
                mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)

    def close(self) -> None:
        """Keeps nothing."""


def invink(
    python: Path | None, made: tuple[Any, Any], prompts: Sequence[tuple[str, str]], numbers: Mapping[str, int]
) -> dict[str, Any]:
    """Times the package invink in a process of its own.

    Args:
        python: An interpreter that can import it; ``None`` to leave it out.
        made: A tokenizer and a model.
        prompts: Beginning and rest of each prompt, the public one first. The package joins their words by single
            blanks.
        numbers: ``texts``, ``tokens``, ``threads``, ``repeats``.

    Returns:
        ``read`` and ``write``, seconds of each repeat by the clock and of the processor, and ``lengths`` of the
        prompts; or ``left_out``, why not.
    """
    if python is None:
        return {"left_out": "no Python was named with --invink"}
    if made[1].device.type != "cpu":
        return {"left_out": "it is measured on a processor only"}
    from sottovoce.models.huggingface.causal_model import quiet

    with tempfile.TemporaryDirectory() as folder:
        with quiet():
            made[0].save_pretrained(folder)
            made[1].save_pretrained(folder)
        request = {**numbers, "folder": folder, "prompts": [list(prompt) for prompt in prompts]}
        try:
            done = subprocess.run(
                [str(python), "-c", _IN_ITS_OWN_PYTHON],
                input=json.dumps(request),
                capture_output=True,
                text=True,
                check=True,
            )
            result = json.loads(done.stdout.splitlines()[-1])
        except (OSError, ValueError, IndexError, subprocess.SubprocessError):
            result = None
    if not isinstance(result, dict):
        return {"left_out": "the Python named with --invink could not run it"}
    return result


_IN_ITS_OWN_PYTHON: Final = """
import contextlib, importlib, io, json, sys, time
given = json.load(sys.stdin)
try:
    import torch, transformers
    package = importlib.import_module("invink.generate")
except Exception as error:
    print(json.dumps({"left_out": "its Python cannot import it: " + type(error).__name__}))
    sys.exit()
torch.set_num_threads(given["threads"])
tokenizer = transformers.AutoTokenizer.from_pretrained(given["folder"], padding_side="left")
tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
model = transformers.AutoModelForCausalLM.from_pretrained(given["folder"], dtype=torch.float32).eval()
model.generation_config.eos_token_id = model.config.vocab_size - 1
package.load_hf_tokenizer = lambda **_: tokenizer
package.load_hf_model = lambda **_: model
before, public = given["prompts"][0]
texts = [rest for _, rest in given["prompts"][1:]] * given["texts"]

def seconds(tokens):
    started, busy = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        out = package.generate(
            texts, given["folder"], before or " ", system_prompt="", pub_prompt="{}" + public.replace("{", ""),
            prv_prompt="{}{}", batch_size=len(given["prompts"]), num=given["texts"], max_toks=tokens, device_map=-1,
        )
    return time.perf_counter() - started, time.process_time() - busy, sum(out.lens) / len(out.lens)

seconds(2)
read, write = [], []
for _ in range(given["repeats"]):
    first, whole = seconds(1), seconds(given["tokens"])
    # The first token comes with the reading; the others are scaled where a text ended early.
    read.append(first[:2])
    scale = given["tokens"] / max(whole[2] - 1, 1)
    write.append([scale * (whole[k] - first[k]) for k in range(2)])
lengths = sorted(len(tokenizer.encode(before + rest)) for _, rest in given["prompts"])
print(json.dumps({"read": read, "write": write, "lengths": lengths}))
"""
