"""A handle on a bytes value of any length."""

from __future__ import annotations

from collections.abc import Iterable

from otolith.core.handles.base import Handle, in_one_turn


class BlobHandle(Handle):
    """A bytes value of any length, of which any part can be read or replaced by itself."""

    _noun = "bytes"

    def _fits(self, cell: bytes) -> bool:
        return self._cells.kind(cell) == "bytes"

    def __len__(self) -> int:
        cell = self._cell()
        if cell is None:
            return 0
        link = self._cells.blob(cell)
        return link.length if link is not None else len(self._whole(cell))

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return a range of the bytes, reading only the chunks that hold it."""
        cell = self._cell()
        if cell is None:
            return b""
        start, stop, _ = slice(start, stop).indices(len(self))
        link = self._cells.blob(cell)
        if link is not None:
            return self._cells.blobs.read(link, start, stop)
        return self._whole(cell)[start:stop]

    def write(self, data: bytes | Iterable[bytes]) -> None:
        """Replace everything, by bytes or by the pieces of a stream."""
        pieces = [data] if isinstance(data, bytes | bytearray | memoryview) else data
        link = self._cells.blobs.build(map(bytes, pieces))
        self._state.write_cell(self._path, self._cells.bytes_cell(link))

    @in_one_turn
    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        self.splice(len(self), len(self), data)

    @in_one_turn
    def splice(self, start: int, stop: int, data: bytes) -> None:
        """Replace a range; what lies before and after is not read."""
        cell = self._cell()
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        link = self._cells.blob(cell) if cell is not None else None
        if link is None:
            whole = self._whole(cell) if cell is not None else b""
            self._state.write_cell(
                self._path, self._put(whole[:start] + bytes(data) + whole[stop:])
            )
            return
        changed = self._cells.blobs.splice(link, start, stop, bytes(data))
        self._state.write_cell(self._path, self._cells.bytes_cell(changed))

    def _whole(self, cell: bytes) -> bytes:
        data = self._cells.load(cell)
        return data if isinstance(data, bytes) else b""
