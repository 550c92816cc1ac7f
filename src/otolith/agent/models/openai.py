"""Models behind an endpoint that speaks OpenAI's chat completions, whoever runs it."""

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

_THOUGHT = "reasoning_content"


class OpenAIModel:
    """A model of an OpenAI-compatible endpoint: `OpenAIModel("http://localhost:8000/v1", "m")`."""

    speaks = "openai"
    """The format that it is sent."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        options: Mapping[str, Any] | None = None,
        **limits: Any,
    ) -> None:
        """Make one; `options` go into each request, `limits` are those of `Endpoint`."""
        api_key = clean_key(api_key)
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.name = model
        self._endpoint = Endpoint(base_url, headers=headers, secret=api_key, **limits)
        self._options = dict(options or {})

    @property
    def trouble(self) -> str:
        """Why the endpoint is being tried again at the moment, if it is."""
        return self._endpoint.trouble

    def __repr__(self) -> str:
        return f"<OpenAIModel {self.name} at {self._endpoint!r}>"

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        on_text: OnText | None = None,
    ) -> Reply:
        """Return the answer, or hand it over as it arrives."""
        with self._endpoint.discreet():
            body = {"model": self.name, **request(messages, "openai"), **self._options}
            if tools:
                body["tools"] = [_offered(tool) for tool in tools]
            if on_text is None:
                return _reply(self._endpoint.post("/chat/completions", body))
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            gathered = _Gathered(on_text, self._endpoint.excerpt)
            for event in self._endpoint.events("/chat/completions", body):
                gathered.take(event)
            return gathered.reply()


def _offered(tool: Tool) -> dict[str, Any]:
    about = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": about}


def _reply(answer: Any) -> Reply:
    try:
        choice = answer["choices"][0]
        message, why = choice["message"], str(choice.get("finish_reason") or "")
        usage = _usage(answer.get("usage"))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise BadReply(f"the answer is no completion: {error!r}", hint="try again") from error
    return reply_from(lambda: read([_assistants(message)], "openai"), usage, why)


def _assistants(message: Any) -> Any:
    """Return a message without what only an answer has, and says nothing.

    A refusal is what the model has to say. Arguments are text, but some servers parse them.
    """
    if not isinstance(message, dict):
        return message
    kept = {name: value for name, value in message.items() if value is not None}
    if isinstance(kept.get("refusal"), str) and not kept.get("content"):
        kept["content"] = kept.pop("refusal")
    if isinstance(kept.get("tool_calls"), list):
        kept["tool_calls"] = [_call(each) for each in kept["tool_calls"]]
    return {"role": "assistant", "content": None, **kept}


def _call(given: Any) -> Any:
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), dict):
        return given
    return {**given, "function": {**function, "arguments": json.dumps(function["arguments"])}}


def _usage(given: Any) -> Usage:
    found = given if isinstance(given, dict) else {}
    return Usage(counted(found, "prompt_tokens"), counted(found, "completion_tokens"))


class _Gathered:
    """An answer as it arrives."""

    def __init__(self, on_text: OnText, excerpt: Callable[..., str]) -> None:
        self._on_text = on_text
        self._excerpt = excerpt
        """Gives what may be told of it in an error."""
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._places: dict[int, int] = {}
        """Which call an index stands for at the moment."""
        self._usage = Usage()
        self._why = ""

    def take(self, event: dict[str, Any]) -> None:
        """Take in a piece."""
        if event.get("error"):
            raise BadReply(f"the stream ended with an error: {self._excerpt(event['error'])}")
        if event.get("usage"):
            self._usage = _usage(event["usage"])
        try:
            for choice in (event.get("choices") or [])[:1]:
                self._why = str(choice.get("finish_reason") or self._why)
                self._delta(choice.get("delta") or {})
        except (KeyError, TypeError, AttributeError) as error:
            raise BadReply(f"an event is no piece of an answer: {error!r}") from error

    def _delta(self, delta: Mapping[str, Any]) -> None:
        text, thought = delta.get("content") or delta.get("refusal"), delta.get(_THOUGHT)
        if isinstance(text, str) and text:
            self._text.append(text)
            self._on_text(text)
        if isinstance(thought, str):
            self._thoughts.append(thought)
        for piece in delta.get("tool_calls") or ():
            call = self._call(piece.get("index"), piece.get("id") or "")
            for name, part in (piece.get("function") or {}).items():
                said = json.dumps(part) if isinstance(part, dict | list) else part or ""
                known = call["function"].get(name, "")
                if name != "name" or said != known:  # some servers say the name in every piece
                    call["function"][name] = known + said

    def _call(self, index: Any, id: str) -> dict[str, Any]:
        """Return the call that a piece belongs to.

        Some servers leave the index out, or give the same one to all: another id is another call.
        """
        is_new = bool(id) or isinstance(index, int)
        at = self._places.get(index, None if is_new else len(self._calls) - 1)
        if at is None or at < 0 or (id and self._calls[at]["id"] not in ("", id)):
            at = len(self._calls)
            function = {"name": "", "arguments": ""}
            self._calls.append({"id": "", "type": "function", "function": function})
        if isinstance(index, int):
            self._places[index] = at
        call = self._calls[at]
        call["id"] = id or call["id"]
        return call

    def reply(self) -> Reply:
        """Return all of it."""
        if not self._why:
            raise BadReply("the stream ended in the middle of an answer", hint="try again")
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._text) or None}
        if self._thoughts:
            message[_THOUGHT] = "".join(self._thoughts)
        if self._calls:
            message["tool_calls"] = self._calls
        return reply_from(lambda: read([message], "openai"), self._usage, self._why)
