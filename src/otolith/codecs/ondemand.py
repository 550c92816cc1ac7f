"""Codecs of other people's libraries, each imported when a value of its library first comes by.

A codec's module imports its library at the top, as any module would; this one decides when. A
value whose class comes from `numpy` can only exist where numpy is imported already, so asking for
its lowering never imports a library that was not in use. Lifting may: whoever reads an array wants
an array.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple, cast

from otolith.codecs.base import Codec, Lowering
from otolith.errors import MissingExtra
from otolith.types import Tag


class OnDemand(NamedTuple):
    """A codec that is not imported yet: the values it keeps are those of one library."""

    library: str
    module: str
    code: Tag
    extra: str

    @property
    def codes(self) -> frozenset[int]:
        return frozenset({self.code})

    def lowering(self, kind: type) -> Lowering | None:
        if kind.__module__.partition(".")[0] != self.library:
            return None
        return self._codec().lowering(kind)

    def lift(self, code: int, data: object) -> object:
        return self._codec().lift(code, data)

    def _codec(self) -> Codec:
        try:
            module = import_module(self.module)
        except ImportError as error:
            raise MissingExtra(
                f"a value of {self.library} needs {self.library} to be read: {error}",
                hint=f"pip install 'otolith[{self.extra}]', or read with opaque=True",
            ) from error
        return cast("Codec", module.CODEC)


DATA: tuple[OnDemand, ...] = (
    OnDemand("numpy", "otolith.codecs.arrays", Tag.ARRAY, "data"),
    OnDemand("pandas", "otolith.codecs.frames", Tag.FRAME, "data"),
    OnDemand("pyarrow", "otolith.codecs.tables", Tag.TABLE, "data"),
    OnDemand("polars", "otolith.codecs.polars", Tag.POLARS, "data"),
    OnDemand("scipy", "otolith.codecs.sparse", Tag.SPARSE, "data"),
    OnDemand("torch", "otolith.codecs.tensors", Tag.TENSOR, "torch"),
    OnDemand("PIL", "otolith.codecs.images", Tag.IMAGE, "images"),
)
