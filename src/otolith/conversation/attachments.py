"""The bytes of attachments: kept once beside a log, however often they are sent.

A message in a log has the hash and the length of an attachment in place of its bytes.
"""

from __future__ import annotations

from dataclasses import replace

from otolith.conversation.message import Attachment, Message, Part, ToolResult
from otolith.conversation.storage import FILES, Record
from otolith.conversation.token_counts import FILE
from otolith.core import digest
from otolith.errors import Corrupt
from otolith.frozen import EMPTY

_HASH_BYTES = 16


class Files:
    """The attachments of one thread."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def filled(self, message: Message) -> Message:
        """Return a message whose attachments have their bytes."""
        return self._with_files(message, "")

    def legible(self, message: Message) -> Message:
        """Return a message whose attachments of text have it, to be counted and cut."""
        return self._with_files(message, "text/")

    def _with_files(self, message: Message, kind: str) -> Message:
        if all(map(_is_light, message.parts)):
            return message
        parts = tuple(self._filled(part, kind) for part in message.parts)
        return message if parts == message.parts else replace(message, parts=parts)

    def _filled(self, part: Part, kind: str) -> Part:
        if isinstance(part, Attachment):
            if FILE not in part.extra or not part.media_type.startswith(kind):
                return part
            name = part.extra[FILE][0]
            data = self._record.value(FILES, name)
            if not isinstance(data, bytes):
                raise Corrupt(f"the bytes of attachment {name} are gone", hint="run otolith fsck")
            extra = {key: value for key, value in part.extra.items() if key != FILE}
            return replace(part, data=data, extra=extra or EMPTY)
        if isinstance(part, ToolResult) and isinstance(part.content, tuple):
            content = tuple(self._filled(each, kind) for each in part.content)
            return part if content == part.content else replace(part, content=content)
        return part

    def emptied(self, message: Message) -> Message:
        """Stage the bytes of attachments; return the message without them."""
        parts = tuple(map(self._emptied, message.parts))
        return message if parts == message.parts else replace(message, parts=parts)

    def _emptied(self, part: Part) -> Part:
        if isinstance(part, Attachment) and part.data is not None:
            name = digest(part.data)[:_HASH_BYTES].hex()
            if self._record.cell(FILES, name) is None:
                self._record.put(part.data, FILES, name)
            extra = dict(part.extra) | {FILE: [name, len(part.data)]}
            return replace(part, data=None, extra=extra)
        if isinstance(part, ToolResult) and isinstance(part.content, tuple):
            return replace(part, content=tuple(map(self._emptied, part.content)))
        return part


def _is_light(part: Part) -> bool:
    """Tell whether no file can be in a part."""
    if isinstance(part, ToolResult):
        return isinstance(part.content, str)
    return not isinstance(part, Attachment)
