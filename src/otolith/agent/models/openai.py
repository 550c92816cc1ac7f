"""OpenAIModel: models behind any endpoint that speaks OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from otolith.agent.models.base import OnText, Reply
from otolith.agent.models.http import Endpoint
from otolith.agent.models.provider import ProviderModel, StreamedReply, clean_key, token_usage
from otolith.agent.tools import Tool
from otolith.errors import BadReply

_REASONING = "reasoning_content"
_INPUT_COUNTS = ("prompt_tokens",)
"""OpenAI's cached tokens are a part of this count."""


class _OpenAIStream(StreamedReply):
    """Pieces of text, of reasoning and of tool calls, in the order in which they arrive."""

    def __init__(self, on_text: OnText, excerpt: Callable[..., str]) -> None:
        super().__init__(on_text, excerpt)
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._positions: dict[int, int] = {}
        """The position in `_calls` of the call that each index names at the moment."""
        self._usage: Any = None

    def _add(self, event: dict[str, Any]) -> None:
        self._usage = event.get("usage") or self._usage
        for choice in (event.get("choices") or [])[:1]:
            self._stop_reason = str(choice.get("finish_reason") or self._stop_reason)
            self._add_delta(choice.get("delta") or {})

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for name, pieces in (("content", self._text), ("refusal", self._refusal)):
            text = delta.get(name)
            if isinstance(text, str) and text:
                pieces.append(text)
                self._on_text(text)
        reasoning = delta.get(_REASONING)
        if isinstance(reasoning, str):
            self._reasoning.append(reasoning)
        for piece in delta.get("tool_calls") or ():
            function = self._call(piece.get("index"), piece.get("id") or "")["function"]
            for name, part in (piece.get("function") or {}).items():
                value = json.dumps(part) if isinstance(part, dict | list) else part or ""
                known = function.get(name, "")
                if name != "name" or value != known:  # some servers repeat the name in every piece
                    function[name] = known + value

    def _call(self, index: Any, id: str) -> dict[str, Any]:
        """Return the call that a piece belongs to.

        Some servers leave the index out, or use one index for all calls: a new id is a new call.
        """
        has_place = bool(id) or isinstance(index, int)
        at = self._positions.get(index, None if has_place else len(self._calls) - 1)
        if at is None or at < 0 or (id and self._calls[at]["id"] not in ("", id)):
            at = len(self._calls)
            function = {"name": "", "arguments": ""}
            self._calls.append({"id": "", "type": "function", "function": function})
        if isinstance(index, int):
            self._positions[index] = at
        call = self._calls[at]
        call["id"] = id or call["id"]
        return call

    def _response(self) -> dict[str, Any]:
        message = {
            "content": "".join(self._text) or None,
            "refusal": "".join(self._refusal) or None,
            _REASONING: "".join(self._reasoning) or None,
            "tool_calls": self._calls or None,
        }
        choice = {"message": message, "finish_reason": self._stop_reason}
        return {"choices": [choice], "usage": self._usage}


class OpenAIModel(ProviderModel):
    """A model of an OpenAI-compatible endpoint: `OpenAIModel("http://localhost:8000/v1", "m")`."""

    message_format = "openai"
    _path = "/chat/completions"
    _streamed_reply = _OpenAIStream
    _stream_options = {"stream": True, "stream_options": {"include_usage": True}}  # noqa: RUF012

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        options: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        """Connect to a model; `options` are added to each request, `limits` are `Endpoint`'s."""
        api_key = clean_key(api_key)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        endpoint = Endpoint(base_url, headers=headers, secret=api_key, **limits)
        super().__init__(model, endpoint, options)

    def _tool_data(self, tool: Tool) -> dict[str, Any]:
        about = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        return {"type": "function", "function": about}

    def _reply(self, response: Any) -> Reply:
        try:
            choice = response["choices"][0]
            message, stop_reason = choice["message"], str(choice.get("finish_reason") or "")
            usage = token_usage(response.get("usage"), _INPUT_COUNTS, "completion_tokens")
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            why = f"the response is not a chat completion: {error!r}"
            raise BadReply(why, hint="try again") from error
        if isinstance(message, dict) and message.get("refusal"):
            stop_reason = "refusal"  # OpenAI reports it beside the word "stop"
        return self._valid_reply(_assistant_message(message), usage, stop_reason)


def _assistant_message(message: Any) -> Any:
    """Return the message of a response as one of a request.

    Fields that are null are dropped, a refusal becomes the text, and the arguments of calls become
    text again where a server has parsed them.
    """
    if not isinstance(message, dict):
        return message
    found = {name: value for name, value in message.items() if value is not None}
    if isinstance(found.get("refusal"), str) and not found.get("content"):
        found["content"] = found.pop("refusal")
    if isinstance(found.get("tool_calls"), list):
        found["tool_calls"] = [_with_text_arguments(call) for call in found["tool_calls"]]
    return {"role": "assistant", "content": None, **found}


def _with_text_arguments(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), dict):
        return call
    return {**call, "function": {**function, "arguments": json.dumps(function["arguments"])}}
