"""AnthropicModel: models behind an endpoint that speaks Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from otolith.agent.models.base import OnText, Reply, ReplyEnding, ending_of
from otolith.agent.models.http import Endpoint
from otolith.agent.models.provider import ProviderModel, StreamedReply, clean_key, token_usage
from otolith.agent.tools import Tool
from otolith.errors import BadReply

_VERSION = "2023-06-01"
_INPUT_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Anthropic counts each token of a request in one of these."""


class _AnthropicStream(StreamedReply):
    """Content blocks by their index; the input of a tool call arrives as pieces of JSON."""

    def __init__(self, on_text: OnText, excerpt: Callable[..., str]) -> None:
        super().__init__(on_text, excerpt)
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, str] = {}
        self._usage: dict[str, Any] = {}

    def _add(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._add_usage(event["message"].get("usage"))
        elif kind == "content_block_start":
            self._blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            self._add_delta(event["index"], event["delta"])
        elif kind == "message_delta":
            self._stop_reason = str(event["delta"].get("stop_reason") or self._stop_reason)
            self._add_usage(event.get("usage"))

    def _add_usage(self, usage: Mapping[str, Any] | None) -> None:
        """Take the newer counts; those that are null say nothing."""
        self._usage |= {name: count for name, count in (usage or {}).items() if count is not None}

    def _add_delta(self, index: int, delta: Mapping[str, Any]) -> None:
        block, kind = self._blocks[index], delta["type"]
        if kind == "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
            self._on_text(delta["text"])
        elif kind == "input_json_delta":
            self._json[index] = self._json.get(index, "") + delta["partial_json"]
        elif kind in ("thinking_delta", "signature_delta"):
            name = kind.removesuffix("_delta")
            block[name] = block.get(name, "") + delta[name]
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]

    def _response(self) -> dict[str, Any]:
        for index, text in self._json.items():
            try:
                self._blocks[index]["input"] = json.loads(text) if text else {}
            except ValueError as error:
                if ending_of(self._stop_reason) is ReplyEnding.CUT_OFF:
                    continue  # half a call has no arguments, as without a stream
                why = f"the arguments of a call are not JSON: {self._excerpt(text, 200)}"
                raise BadReply(why) from error
        content = [self._blocks[index] for index in sorted(self._blocks)]
        return {"content": content, "usage": self._usage, "stop_reason": self._stop_reason}


class AnthropicModel(ProviderModel):
    """A model of an Anthropic-compatible endpoint; `base_url` is without `/v1/messages`."""

    message_format = "anthropic"
    _path = "/v1/messages"
    _streamed_reply = _AnthropicStream

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
        """Connect to a model; `options` are added to each request, `limits` are `Endpoint`'s."""
        api_key = clean_key(api_key)
        headers = {"anthropic-version": _VERSION} | ({"x-api-key": api_key} if api_key else {})
        endpoint = Endpoint(base_url, headers=headers, secret=api_key, **limits)
        super().__init__(model, endpoint, {"max_tokens": max_tokens, **(options or {})})

    def _tool_data(self, tool: Tool) -> dict[str, Any]:
        about = {"name": tool.name, "description": tool.description}
        return about | {"input_schema": tool.parameters}

    def _reply(self, response: Any) -> Reply:
        if not isinstance(response, dict) or not isinstance(response.get("content"), list):
            raise BadReply("the response has no list of content blocks", hint="try again")
        message = {"role": "assistant", "content": response["content"]}
        usage = token_usage(response.get("usage"), _INPUT_COUNTS, "output_tokens")
        return self._valid_reply(message, usage, str(response.get("stop_reason") or ""))
