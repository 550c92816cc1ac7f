"""ProviderModel: what models behind an HTTP endpoint have in common.

A subclass knows one protocol: its path, how tools are written in a request, how a response becomes
a reply, and how a stream of events becomes a response. Messages are translated by
`otolith.conversation`, so that a request is legal even if the conversation has calls without
results, ids of another provider, or files of a kind that this one does not accept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from otolith.agent.models.base import (
    Messages,
    OnText,
    Reply,
    TextRestart,
    TokenUsage,
    Tools,
    validate_reply,
)
from otolith.agent.models.http import Endpoint
from otolith.agent.tools import Tool
from otolith.conversation import Role, read
from otolith.conversation.context import all_messages_for
from otolith.errors import BadReply, BadValue, Busy, Error, Invalid, ModelFailed

_LASTING_ERRORS = (
    *("invalid_request_error", "authentication_error", "permission_error", "billing_error"),
    *("not_found_error", "request_too_large"),
)
"""Types of errors in a stream that another attempt does not change."""


class StreamedReply(ABC):
    """A reply that is put together from the events of a stream."""

    def __init__(self, on_text: OnText, excerpt: Callable[..., str]) -> None:
        """Start empty; `excerpt` returns the text of a value for an error, without secrets."""
        self._on_text = on_text
        self._excerpt = excerpt
        self._stop_reason = ""
        self._has_begun = False

    def add(self, event: dict[str, Any]) -> None:
        """Add one event.

        Raises:
            ModelFailed, Busy: the provider reports a failure that may pass.
            BadReply: it reports another one, or the event is malformed.
        """
        if event.get("error") or event.get("type") == "error":
            raise self._error(event.get("error"))
        self._has_begun = True
        try:
            self._add(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise BadReply(f"an event of the stream is malformed: {error!r}") from error

    def response(self) -> dict[str, Any]:
        """Return what the provider would have sent without a stream.

        Raises:
            ModelFailed: the stream ended too early.
            BadReply: it was not a stream.
        """
        if not self._has_begun:
            raise BadReply("the response is not a stream of events", hint="try again")
        if not self._stop_reason:
            raise ModelFailed("the stream ended in the middle of an answer", hint="try again")
        return self._response()

    def _error(self, error: Any) -> Error:
        why = f"the stream ended with an error: {self._excerpt(error)}"
        kind = error.get("type") if isinstance(error, Mapping) else None
        if kind in _LASTING_ERRORS:
            return BadReply(why, hint="check the request")
        if kind == "rate_limit_error":
            return Busy(why, hint="wait, or ask for less")
        return ModelFailed(why, hint="try again")

    @abstractmethod
    def _add(self, event: dict[str, Any]) -> None: ...
    @abstractmethod
    def _response(self) -> dict[str, Any]: ...


class _RestartableText:
    """Hands text on, and says so if text that was handed on begins anew."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._has_begun = False

    def __call__(self, piece: str) -> None:
        self._has_begun = True
        self._on_text(piece)

    def restart(self, reason: str) -> None:
        if self._has_begun:
            self._on_text(TextRestart(reason))
        self._has_begun = False


class ProviderModel(ABC):
    """A model of a provider's endpoint."""

    message_format: ClassVar[str]
    """The provider format of its messages: "openai" or "anthropic"."""
    _path: ClassVar[str]
    _streamed_reply: ClassVar[type[StreamedReply]]
    _stream_options: ClassVar[dict[str, Any]] = {"stream": True}

    def __init__(self, name: str, endpoint: Endpoint, options: Mapping[str, Any] | None) -> None:
        self.name = name
        self._endpoint = endpoint
        self._options = dict(options or {})

    @property
    def retry_reason(self) -> str:
        """The failure because of which the endpoint is being tried again; "" if it is not."""
        return self._endpoint.retry_reason

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} at {self._endpoint!r}>"

    def complete(
        self, messages: Messages, *, tools: Tools = (), on_text: OnText | None = None
    ) -> Reply:
        """Return the answer; with `on_text`, send its text there as it arrives."""
        with self._endpoint.redacted_errors():
            sent = all_messages_for(messages, self.message_format)
            body: dict[str, Any] = {"model": self.name, "messages": sent.messages}
            if sent.system is not None:
                body["system"] = sent.system
            body |= self._options
            if tools:
                offered = self._options.get("tools") or ()
                body["tools"] = [*offered, *map(self._tool_data, tools)]
            if on_text is None:
                return self._reply(self._endpoint.post(self._path, body))
            text = _RestartableText(on_text)
            return self._endpoint.retry(lambda: self._stream(body, text), text.restart)

    def _stream(self, body: Mapping[str, Any], on_text: OnText) -> Reply:
        """Return the reply that one stream of events is put together to."""
        streamed = self._streamed_reply(on_text, self._endpoint.excerpt)
        for event in self._endpoint.events(self._path, {**body, **self._stream_options}):
            streamed.add(event)
        return self._reply(streamed.response())

    def _valid_reply(self, message: Any, usage: TokenUsage, stop_reason: str) -> Reply:
        """Return the reply of one provider message.

        The provider's count of output tokens is not the size of the message: it includes hidden
        reasoning, which is not sent again.
        """
        try:
            found = read([message], self.message_format)
        except BadValue as error:
            why = f"the answer is not a valid message: {error.message}"
            raise BadReply(why, hint="try again") from error
        if len(found) != 1 or found[0].role is not Role.ASSISTANT:
            raise BadReply("the answer is not one message of the assistant", hint="try again")
        return validate_reply(Reply(found[0], usage, stop_reason))

    @abstractmethod
    def _tool_data(self, tool: Tool) -> dict[str, Any]: ...
    @abstractmethod
    def _reply(self, response: Any) -> Reply: ...


def token_usage(usage: Any, input_names: Sequence[str], output_name: str) -> TokenUsage:
    """Return the token counts of a response; a count that is missing or malformed is 0.

    The input is the sum of the counts that `input_names` names.
    """

    def count(name: str) -> int:
        found = usage.get(name) if isinstance(usage, Mapping) else None
        return found if type(found) is int and found >= 0 else 0

    return TokenUsage(sum(map(count, input_names)), count(output_name))


def clean_key(key: str) -> str:
    """Return an API key without surrounding white space, such as the line break of a file.

    Raises:
        Invalid: no header can carry the key; the message does not show it.
    """
    if not isinstance(key, str):  # the message must not show it
        raise Invalid(f"api_key must be a text, got {type(key).__name__}")
    bare = key.strip()
    if not bare.isascii() or not bare.isprintable():
        raise Invalid(
            "the API key has characters that no key has", hint="read it from its file again"
        )
    return bare
