"""A local server that speaks both providers' protocols, and misbehaves when it is told to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.patience import HANG_SECONDS

OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"


class Provider:
    """What the server was asked, and what it is to say: one plan a request, the last for ever.

    A plan is `{"text": …, "calls": [(id, name, arguments)]}`, or `{"status": 429, …}`, or
    `{"raw": bytes}`, or one of "silence", "endless", "cut" and "drip", or a function of the request
    that returns a plan.
    """

    def __init__(self, *plans: Any) -> None:
        self.plans = list(plans)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.gone = threading.Event()
        self.never = threading.Event()
        """For a test to wait on."""
        self.url = ""
        self.port = 0
        self.connections: set[Any] = set()
        """The addresses that requests came from: one for each connection."""
        self.lines: list[Any] = []
        """The sockets of these connections."""

    def next(self) -> Any:
        return self.plans.pop(0) if len(self.plans) > 1 else self.plans[0]


LOOPBACK_PEM = str(Path(__file__).with_name("loopback.pem"))
"""A certificate for model.test and 127.0.0.1 that signed itself, and its key: no secret."""


@contextmanager
def serving(*plans: Any, is_secure: bool = False) -> Iterator[Provider]:
    provider = Provider(*plans)

    class Handler(_Handler):
        told = provider

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if is_secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(LOOPBACK_PEM)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    provider.port = server.server_port
    provider.url = f"{'https' if is_secure else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.gone.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    told: Provider
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = json.loads(self.rfile.read(length))
        self.told.requests.append(body)
        self.told.headers.append(dict(self.headers.items()))
        self.told.paths.append(self.path)
        if self.client_address not in self.told.connections:
            self.told.connections.add(self.client_address)
            self.told.lines.append(self.connection)
        plan = self.told.next()
        plan = plan(body) if callable(plan) else plan
        try:
            self._answer(plan, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    @property
    def _is_openai(self) -> bool:
        return self.path.partition("?")[0] == OPENAI

    def _answer(self, plan: Any, body: dict[str, Any]) -> None:
        if isinstance(plan, str):
            self._misbehave(plan)
        elif "status" in plan:
            self._send(plan["status"], plan.get("body", {}), plan.get("headers", {}))
        elif "raw" in plan:
            self._send(200, plan["raw"], {})
        elif body.get("stream"):
            events = (
                _openai_events(plan)
                if self.path.partition("?")[0] == OPENAI
                else _anthropic_events(plan)
            )
            self._send(200, b"".join(events), {"Content-Type": "text/event-stream"})
        else:
            made = _openai(plan) if self._is_openai else _anthropic(plan)
            self._send(200, made, {})

    def _send(self, status: int, body: Any, headers: dict[str, str]) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _misbehave(self, how: str) -> None:
        self.close_connection = True
        if how == "silence":
            self.told.gone.wait(HANG_SECONDS)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if how == "cut":
            self.send_header("Content-Length", "1000000")
        self.end_headers()
        event = _event({"choices": [{"delta": {"content": "word "}}]})
        if how == "cut":
            self.wfile.write(event)
            return
        while not self.told.gone.wait(0.005):
            self.wfile.write(event if how == "endless" else b"x")
            self.wfile.flush()


def _event(data: Any, name: str = "") -> bytes:
    head = f"event: {name}\r\n" if name else ": a comment\n"
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _openai(plan: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for id, name, args in plan.get("calls", ())
    ]
    message = {"role": "assistant", "content": plan.get("text"), "refusal": None}
    why = "tool_calls" if calls else "stop"
    return {
        "id": "x",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "finish_reason": why,
                "message": message | ({"tool_calls": calls} if calls else {}),
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
    }


def _openai_events(plan: dict[str, Any]) -> Iterator[bytes]:
    def delta(delta: dict[str, Any], why: str | None = None) -> bytes:
        return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": why}]})

    yield delta({"role": "assistant", "content": ""})
    for word in (plan.get("text") or "").split(" "):
        yield delta({"content": f"{word} "}) if word else b""
    for at, (id, name, args) in enumerate(plan.get("calls", ())):
        text = json.dumps(args)
        half = len(text) // 2
        begun = {"index": at, "id": id, "type": "function", "function": {"name": name}}
        yield delta({"tool_calls": [begun]})
        for piece in (text[:half], text[half:]):
            yield delta({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield delta({}, "tool_calls" if plan.get("calls") else "stop")
    yield _event({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}})
    yield b"data: [DONE]\n\n"


def _anthropic(plan: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if plan.get("thinking"):
        content.append({"type": "thinking", "thinking": plan["thinking"], "signature": "s1g"})
    if plan.get("text"):
        content.append({"type": "text", "text": plan["text"]})
    for id, name, args in plan.get("calls", ()):
        content.append({"type": "tool_use", "id": id, "name": name, "input": args})
    why = "tool_use" if plan.get("calls") else "end_turn"
    usage = {"input_tokens": 11, "output_tokens": 7}
    return {"role": "assistant", "content": content, "stop_reason": why, "usage": usage}


def _anthropic_events(plan: dict[str, Any]) -> Iterator[bytes]:
    made = _anthropic(plan)
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 11}}}
    yield _event(start, "message_start")
    yield _event({"type": "ping"}, "ping")
    for at, block in enumerate(made["content"]):
        empty, pieces = _pieces(block)
        yield _event({"type": "content_block_start", "index": at, "content_block": empty})
        for piece in pieces:
            yield _event({"type": "content_block_delta", "index": at, "delta": piece})
        yield _event({"type": "content_block_stop", "index": at})
    delta = {"stop_reason": made["stop_reason"]}
    yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    yield _event({"type": "message_stop"})


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        words = [{"type": "text_delta", "text": f"{w} "} for w in block["text"].split(" ")]
        return {"type": "text", "text": ""}, words
    if block["type"] == "thinking":
        said = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
        return {"type": "thinking", "thinking": "", "signature": ""}, said
    text = json.dumps(block["input"])
    half = len(text) // 2
    pieces = [{"type": "input_json_delta", "partial_json": p} for p in (text[:half], text[half:])]
    return {**block, "input": {}}, pieces
