"""A writing request as a text to be continued, and where its answer ends.

The instruction, then every example as ``Input: ...`` and ``Output: ...`` with an empty line behind it, then the
question and the name of an output. What a model writes from the next such name on is left out.
"""

from __future__ import annotations

import re

from sottovoce.models.base import WritingRequest


def continued_text(request: WritingRequest) -> str:
    """The request as one text. It is as private as the request.

    Example:
        >>> continued_text(WritingRequest("Advise.", [("a late fee", "Ask.")], "a lost card"))
        'Advise.\\n\\nInput: a late fee\\nOutput: Ask.\\n\\nInput: a lost card\\nOutput:'
    """
    asked, given = request.names
    opening = f"{request.instruction}\n\n" if request.instruction else ""
    shots = "".join(f"{asked}: {shown}\n{given}: {answer}\n\n" for shown, answer in request.shots)
    return f"{opening}{shots}{asked}: {request.question}\n{given}:"


def cut_off(text: str, request: WritingRequest) -> str | None:
    """What stands before a line that begins as an input or an output does, without blanks at its end.

    ``None`` where there is no such line. The time is linear in the text, which a server may have written.

    Example:
        >>> cut_off("Block it.\\n\\ninput: a late fee", WritingRequest("", [], "a lost card"))
        'Block it.'
    """
    names = "|".join(re.escape(name) for name in request.names)
    passed = re.search(rf"\n[^\S\n]*(?:{names}):", text, re.IGNORECASE)  # over no second "\n": in linear time
    return text[: passed.start()].rstrip() if passed else None
