"""Server-sent events, as the WHATWG's HTML standard has them: bytes in, messages out."""

import re
from typing import NamedTuple

from holdfast.client.errors import Unexpected

MESSAGE_BYTES_MAX = 512 * 1024 * 1024
"""A snapshot of the largest event is a tenth of it."""
LINE_END = re.compile(rb"\r\n|\n|\r")
BOM = b"\xef\xbb\xbf"


class Message(NamedTuple):
    type: str
    data: bytes
    id: str
    """The last one that was sent, with this message or before it."""


class Parser:
    def __init__(self) -> None:
        self._parts: list[bytes] = []
        """Of the line that has not ended yet."""
        self._bytes = 0
        self._after_cr = False
        self._first = True
        self._data: list[bytes] = []
        self._type = ""
        self._id = ""
        self.retry_ms: int | None = None
        """How long the service asks to wait before the next connection."""

    def feed(self, piece: bytes) -> list[Message]:
        """The messages that end in this piece, wherever it was cut."""
        if self._after_cr and piece.startswith(b"\n"):
            piece, self._after_cr = piece[1:], False
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        self._bytes += len(piece)
        if self._bytes > MESSAGE_BYTES_MAX:
            raise Unexpected("a message of the stream has no end")
        messages = []
        first, *others = LINE_END.split(piece)
        self._parts.append(first)
        for beginning in others:
            message = self._line(b"".join(self._parts))
            if message is not None:
                messages.append(message)
                self._bytes = len(piece)
            self._parts = [beginning]
        return messages

    def _line(self, line: bytes) -> Message | None:
        if self._first:
            line, self._first = line.removeprefix(BOM), False
        if not line:
            return self._dispatched()
        name, _, text = line.partition(b":")
        text = text.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(text)
            case b"event":
                self._type = text.decode(errors="replace")
            case b"id" if b"\0" not in text:
                self._id = text.decode(errors="replace")
            case b"retry" if text.isdigit() and len(text) < 10:
                self.retry_ms = int(text)
        return None

    def _dispatched(self) -> Message | None:
        data, self._data = self._data, []
        kind, self._type = self._type, ""
        if not data:
            self._bytes = 0
            return None
        return Message(kind or "message", b"\n".join(data), self._id)
