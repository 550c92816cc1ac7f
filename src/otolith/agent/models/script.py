"""ScriptedModel: a model that answers from a script, for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from otolith.agent.models.base import Messages, OnText, Reply, Tools, as_reply
from otolith.conversation import Message, Part, Role, Text, ToolCall
from otolith.errors import BadReply, Invalid
from otolith.shapes import check_argument

ScriptLine: TypeAlias = (
    "str | Message | Reply | Mapping[str, Any] | list[Any] | Exception | Callable[..., Any]"
)
"""A text, a call as `{"call": name, **arguments}`, a list of these, a message, an exception to
raise, or a function of the messages that returns one of these."""


class ScriptedModel:
    """A model with a script: `ScriptedModel([{"call": "search", "text": "NYC"}, "It is 300."])`.

    The number of assistant messages in the request selects the line, not the number of requests: a
    run that resumes in another process continues in the script.
    """

    def __init__(self, lines: Iterable[ScriptLine], *, name: str = "scripted") -> None:
        check_argument(lines, "lines", Iterable, "a list of texts and calls")
        self.name = name
        self.lines = list(lines)
        self.asked: list[tuple[Message, ...]] = []
        """The messages of each request of this process."""

    def __repr__(self) -> str:
        return f"<ScriptedModel {self.name}, {len(self.lines)} lines>"

    def complete(
        self, messages: Messages, *, tools: Tools = (), on_text: OnText | None = None
    ) -> Reply:
        """Return the next line of the script.

        Raises:
            BadReply: the script has no further line.
        """
        self.asked.append(tuple(messages))
        number = sum(message.role is Role.ASSISTANT for message in messages)
        if number >= len(self.lines):
            raise BadReply(f"the script has only {len(self.lines)} lines", hint="add one more")
        reply = _reply(self.lines[number], messages, number)
        if on_text is not None and reply.text:
            for word in reply.text.split(" "):
                on_text(f"{word} ")
        return reply


def _reply(line: Any, messages: Messages, number: int) -> Reply:
    if isinstance(line, Exception):
        raise line
    if callable(line):
        return _reply(line(messages), messages, number)
    if isinstance(line, Mapping | list):
        lines = line if isinstance(line, list) else [line]
        parts = (_part(each, f"call-{number}-{at}") for at, each in enumerate(lines))
        return Reply(Message(Role.ASSISTANT, tuple(parts)))
    return as_reply(line)


def _part(line: Any, id: str) -> Part:
    if isinstance(line, str):
        return Text(line)
    if not isinstance(line, Mapping) or "call" not in line:
        raise Invalid(f"{line!r} is not a line of a script", hint='write {"call": "name", …}')
    arguments = {name: value for name, value in line.items() if name != "call"}
    return ToolCall(id, line["call"], arguments)
