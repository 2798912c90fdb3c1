"""A server on loopback that speaks the OpenAI API as well or as badly as a test wants: real sockets, raw bytes."""

from __future__ import annotations

import json
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, Final

MODEL: Final = "small"
CUT: Final = object()
"""In place of bytes: the connection is reset."""


@dataclass
class Seen:
    """A request as it came in.

    Attributes:
        path: With the server's own prefix.
        headers: Lower-case names.
        fields: The JSON.
        times: How often the same bytes came before.
    """

    path: str
    headers: dict[str, str]
    fields: dict[str, Any]
    times: int

    @property
    def question(self) -> str:
        """The input that is to be answered."""
        if "prompt" in self.fields:
            return self.fields["prompt"].rpartition("Input: ")[2].removesuffix("\nOutput:")
        turns = self.fields.get("messages") or self.fields["input"]
        return turns[-1]["content"]

    @property
    def is_probe(self) -> bool:
        return "grass" in self.question


Sent = Iterable[bytes | float | object]
"""Bytes to be sent, seconds to wait, or ``CUT``."""
Answer = Callable[[Seen], Sent]


class FaultyServer:
    """Answers by a function, every request on a connection of its own.

    Args:
        answer: What is sent for a request.

    Attributes:
        seen: Requests so far.
        answer: May be exchanged at any time.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer: Answer = answer or well
        self.seen: list[Seen] = []
        self._lock = threading.Lock()
        owner = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):  # the client has gone
                    owner._handle(self)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> FaultyServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def name(self) -> str:
        """What follows ``openai:``."""
        return f"{MODEL}@{self.url}"

    def asked(self, word: str) -> int:
        """How many requests had a word in their question."""
        return sum(word in seen.question for seen in self.seen)

    def _handle(self, handler: socketserver.StreamRequestHandler) -> None:
        _, path, _ = handler.rfile.readline().decode().split(" ")
        headers = {}
        while (line := handler.rfile.readline().decode().strip()) != "":
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = handler.rfile.read(int(headers["content-length"]))
        with self._lock:
            fields = json.loads(body)
            seen = Seen(path, headers, fields, sum(other.fields == fields for other in self.seen))
            self.seen.append(seen)
        for part in self.answer(seen):
            if part is CUT:
                handler.connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
                handler.connection.close()
                return
            if isinstance(part, float):
                time.sleep(part)
            else:
                handler.wfile.write(part)


def told(seen: Seen) -> str:
    """What a well-behaved server writes: a function of the request."""
    return f"  {seen.question.upper()} after {len(seen.fields.get('messages', []))}"


def body_of(seen: Seen, *, text: str | None = None, model: str = MODEL, end: str | None = "stop") -> dict[str, Any]:
    """The JSON of an answer in the API that was asked."""
    text = told(seen) if text is None else text
    if seen.path.endswith("/responses"):
        content = [{"type": "output_text", "text": text}]
        output = [{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": content}]
        return {"object": "response", "model": model, "status": "completed", "output": output}
    choice: dict[str, Any] = {"index": 0, "finish_reason": end}
    if seen.path.endswith("/chat/completions"):
        choice["message"] = {"role": "assistant", "content": text}
    else:
        choice["text"] = text
    return {"object": "completion", "model": model, "choices": [choice], "usage": {"completion_tokens": 3}}


def packed(
    content: bytes | dict[str, Any],
    *,
    status: str = "200 OK",
    kind: str = "application/json",
    more: str = "",
    length: int = 0,
) -> bytes:
    """An answer's bytes."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(raw) + length}\r\n{more}\r\n"
    return head.encode() + raw


def well(seen: Seen) -> Sent:
    """As it should be."""
    return [packed(body_of(seen))]


def only(fault: Answer, word: str, times: int = 1_000_000) -> Answer:
    """The fault for requests with a word in them, so many times; others are answered as they should be."""

    def answer(seen: Seen) -> Sent:
        return fault(seen) if word in json.dumps(seen.fields) and seen.times < times else well(seen)

    return answer


def status(line: str, *, more: str = "", said: str = "") -> Answer:
    """An answer of this status."""
    return lambda seen: [packed({"error": {"message": said}}, status=line, more=more)]


def raw(*parts: object) -> Answer:
    """These bytes."""
    return lambda seen: parts


def changed(**changes: Any) -> Answer:
    """An answer in which something is otherwise; see ``body_of``."""
    return lambda seen: [packed(body_of(seen, **changes))]


def edited(edit: Callable[[dict[str, Any]], Any]) -> Answer:
    """An answer whose JSON was edited."""

    def answer(seen: Seen) -> Sent:
        body = body_of(seen)
        return [packed(json.dumps(edit(body) or body).encode())]

    return answer


def dripping(step: float) -> Answer:
    """Byte by byte."""

    def answer(seen: Seen) -> Sent:
        for byte in packed(body_of(seen)):
            yield bytes([byte])
            yield step

    return answer


def twice(seen: Seen) -> Sent:
    """A whole answer, and behind it another one, which nobody asked for."""
    return [packed(body_of(seen)) + packed(body_of(seen, text="somebody else's"))]


def half(seen: Seen) -> Sent:
    """Fewer bytes than were announced."""
    return [packed(body_of(seen), length=40)]
