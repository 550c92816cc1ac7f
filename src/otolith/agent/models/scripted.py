"""A model that says what it was told to say, for tests and demonstrations.

Replies on record: what models said in a run, said again to the same questions.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from otolith.agent.models.base import Model, OnText, Recorded, Reply, reply_of, request_hash
from otolith.agent.tools import Tool
from otolith.conversation.message import Message, Part, Role, Text, ToolCall
from otolith.errors import BadReply, Invalid

Line: TypeAlias = (
    "str | Message | Reply | Mapping[str, Any] | list[Any] | Exception | Callable[..., Any]"
)
"""What is said: a text, a call as `{"call": name, **arguments}`, a message, an error to raise, or a
function of the messages that returns one of these."""


class ScriptedModel:
    """A model with a script: `ScriptedModel([{"call": "search", "text": "NYC"}, "It is 300."])`.

    Which line is next is told by how often the assistant has spoken in the messages it is given,
    not by how often it was asked: a run that goes on in another process goes on in the script.
    """

    def __init__(self, lines: Iterable[Line], *, name: str = "scripted") -> None:
        self.name = name
        self.lines = list(lines)
        self.asked: list[tuple[Message, ...]] = []
        """What it was asked in this process."""

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        on_text: OnText | None = None,
    ) -> Reply:
        """Return the next line.

        Raises:
            BadReply: the script is over.
        """
        self.asked.append(tuple(messages))
        at = sum(message.role is Role.ASSISTANT for message in messages)
        if at >= len(self.lines):
            raise BadReply(f"the script has {len(self.lines)} lines", hint="write one more")
        reply = _reply(self.lines[at], messages, at)
        for word in reply.text.split(" ") if on_text is not None and reply.text else ():
            assert on_text is not None
            on_text(f"{word} ")
        return reply


def _reply(line: Any, messages: Sequence[Message], at: int) -> Reply:
    if isinstance(line, Exception):
        raise line
    if callable(line):
        return _reply(line(messages), messages, at)
    if isinstance(line, Mapping):
        return Reply(Message(Role.ASSISTANT, _parts([line], at)))
    if isinstance(line, list):
        return Reply(Message(Role.ASSISTANT, _parts(line, at)))
    return reply_of(line)


def _parts(lines: Sequence[Any], at: int) -> tuple[Part, ...]:
    return tuple(_part(line, f"call-{at}-{number}") for number, line in enumerate(lines))


def _part(line: Any, id: str) -> Part:
    if isinstance(line, str):
        return Text(line)
    if not isinstance(line, Mapping) or "call" not in line:
        raise Invalid(f"{line!r} is no line of a script", hint='write {"call": "name", …}')
    arguments = {name: value for name, value in line.items() if name != "call"}
    return ToolCall(id, line["call"], arguments)


class ReplayModel:
    """Answers as it was answered before; what was never asked goes to `then`."""

    name = "replay"

    def __init__(self, recorded: Iterable[Recorded], *, then: Model | None = None) -> None:
        self._known: dict[str, deque[Reply]] = defaultdict(deque)
        for each in recorded:
            self._known[each.request].append(each.reply)
        self.then = then
        self.replayed = 0
        """How many questions were answered from the record."""
        self.asked = 0
        """How many went to the other model."""

    @property
    def speaks(self) -> str:
        """The form in which the other model is sent a context."""
        return str(getattr(self.then, "speaks", "openai"))

    def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        on_text: OnText | None = None,
    ) -> Reply:
        """Return the answer that is on record.

        Raises:
            BadReply: there is none, and nobody else to ask.
        """
        known = self._known.get(request_hash(messages, tools))
        if known:
            self.replayed += 1
            reply = known.popleft()
            if on_text is not None and reply.text:
                on_text(reply.text)
            return reply
        if self.then is None:
            raise BadReply(
                "this was never asked: the run went another way than the one on record",
                hint="give a model to go on with",
            )
        self.asked += 1
        return self.then.complete(messages, tools=tools, on_text=on_text)
