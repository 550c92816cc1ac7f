"""Models behind an endpoint that speaks Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from otolith.agent.models.base import OnText, Reply, Usage, counted, reply_from, request
from otolith.agent.models.http import Endpoint, clean_key
from otolith.agent.tools import Tool
from otolith.conversation.formats import read
from otolith.conversation.message import Message
from otolith.errors import BadReply

_VERSION = "2023-06-01"


class AnthropicModel:
    """A model of an Anthropic-compatible endpoint; `base_url` is without `/v1/messages`."""

    speaks = "anthropic"
    """The format that it is sent."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str = "",
        base_url: str = "https://api.anthropic.com",
        max_tokens: int = 4096,
        options: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        """Make one; `options` go into each request, `limits` are those of `Endpoint`."""
        api_key = clean_key(api_key)
        headers = {"anthropic-version": _VERSION} | ({"x-api-key": api_key} if api_key else {})
        self.name = model
        self._endpoint = Endpoint(base_url, headers=headers, secret=api_key, **limits)
        self._options = {"max_tokens": max_tokens, **(options or {})}

    @property
    def trouble(self) -> str:
        """Why the endpoint is being tried again at the moment, if it is."""
        return self._endpoint.trouble

    def __repr__(self) -> str:
        return f"<AnthropicModel {self.name} at {self._endpoint!r}>"

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        on_text: OnText | None = None,
    ) -> Reply:
        """Return the answer, or hand it over as it arrives."""
        with self._endpoint.discreet():
            body = {"model": self.name, **request(messages, "anthropic"), **self._options}
            if tools:
                body["tools"] = [_offered(tool) for tool in tools]
            if on_text is None:
                return _reply(self._endpoint.post("/v1/messages", body))
            gathered = _Gathered(on_text, self._endpoint.excerpt)
            for event in self._endpoint.events("/v1/messages", body | {"stream": True}):
                gathered.take(event)
            return gathered.reply()


def _offered(tool: Tool) -> dict[str, Any]:
    about = {"name": tool.name, "description": tool.description}
    return about | {"input_schema": tool.parameters}


def _reply(answer: Any) -> Reply:
    if not isinstance(answer, dict) or not isinstance(answer.get("content"), list):
        raise BadReply("the answer is no message", hint="try again")
    message = {"role": "assistant", "content": answer["content"]}
    usage, why = _usage(answer.get("usage")), str(answer.get("stop_reason") or "")
    return reply_from(lambda: read([message], "anthropic"), usage, why)


def _usage(given: Any) -> Usage:
    found = given if isinstance(given, dict) else {}
    return Usage(counted(found, "input_tokens"), counted(found, "output_tokens"))


class _Gathered:
    """An answer as it arrives."""

    def __init__(self, on_text: OnText, excerpt: Callable[..., str]) -> None:
        self._on_text = on_text
        self._excerpt = excerpt
        """Gives what may be told of it in an error."""
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, str] = {}
        self._usage: dict[str, Any] = {}
        self._why = ""

    def take(self, event: dict[str, Any]) -> None:
        """Take in an event."""
        kind = event.get("type")
        if kind == "error":
            raise BadReply(f"the stream ended with an error: {self._excerpt(event.get('error'))}")
        try:
            if kind == "message_start":
                self._usage |= event["message"].get("usage") or {}
            elif kind == "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
            elif kind == "content_block_delta":
                self._delta(event["index"], event["delta"])
            elif kind == "message_delta":
                self._why = str(event["delta"].get("stop_reason") or self._why)
                self._usage |= event.get("usage") or {}
        except (KeyError, TypeError, AttributeError) as error:
            raise BadReply(f"an event is no piece of an answer: {error!r}") from error

    def _delta(self, at: int, delta: Mapping[str, Any]) -> None:
        block, kind = self._blocks[at], delta["type"]
        if kind == "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
            self._on_text(delta["text"])
        elif kind == "input_json_delta":
            self._json[at] = self._json.get(at, "") + delta["partial_json"]
        elif kind in ("thinking_delta", "signature_delta"):
            name = kind.removesuffix("_delta")
            block[name] = block.get(name, "") + delta[name]

    def reply(self) -> Reply:
        """Return all of it."""
        if not self._why:
            raise BadReply("the stream ended in the middle of an answer", hint="try again")
        for at, text in self._json.items():
            try:
                self._blocks[at]["input"] = json.loads(text) if text else {}
            except ValueError as error:
                raise BadReply(
                    f"the arguments of a call are not JSON: {self._excerpt(text, 200)}"
                ) from error
        content = [self._blocks[at] for at in sorted(self._blocks)]
        return _reply({"content": content, "usage": self._usage, "stop_reason": self._why})
