"""Values of other people's libraries, seen as they are stored."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from otolith.codecs import Codecs
from otolith.core import Encoding
from otolith.testing import strategies
from otolith.types import Tagged


class _AsStored:
    """Lowers as always, and lifts nothing."""

    def __init__(self) -> None:
        self._codecs = Codecs()

    def lower(self, value: object) -> Tagged:
        return self._codecs.lower(value)

    def lift(self, code: int, data: object) -> object:
        return Tagged(code, data)

    def opaque(self) -> _AsStored:
        return self

    def validator(self, name: str) -> None:
        return None


def encoded(value: object) -> bytes:
    """Return what is hashed and kept."""
    return Encoding(Codecs()).encode(value)


def again(value: Any) -> Any:
    """Return a value as it comes back."""
    return Encoding(Codecs()).decode(encoded(value))


def lowered(value: object) -> Any:
    """Return what a codec gives for a value, one step plainer."""
    return Codecs().lower(value).data


def lift(code: int, data: object) -> Any:
    """Return what a codec makes of data."""
    return Codecs().lift(code, data)


def data_of(value: object) -> Any:
    """Return the data that is given to a lift, parts that are tagged lifted."""
    tagged = Encoding(_AsStored()).decode(encoded(value))
    assert isinstance(tagged, Tagged)
    return _lifted(tagged.data)


def _lifted(data: Any) -> Any:
    if isinstance(data, Tagged):
        return Codecs().lift(data.code, _lifted(data.data))
    if type(data) is list:
        return [_lifted(part) for part in data]
    return {key: _lifted(part) for key, part in data.items()} if type(data) is dict else data


@st.composite
def damaged(draw: st.DrawFn, data: Any) -> Any:
    """Return data of which one part, anywhere, is missing or something else."""
    data = deepcopy(data)
    places = list(_places(data))
    inside, at = draw(st.sampled_from(places))
    how = draw(st.sampled_from(["drop", "replace", "bend"]))
    if how == "drop":
        del inside[at]
    else:
        inside[at] = draw(
            _bent(inside[at]) if how == "bend" else strategies.rich_values(max_leaves=3)
        )
    return data


def _places(data: Any) -> Any:
    keys = range(len(data)) if type(data) is list else list(data)
    for key in keys:
        yield data, key
        if type(data[key]) in {list, dict}:
            yield from _places(data[key])


def _bent(part: Any) -> st.SearchStrategy[Any]:
    if type(part) is bool:
        return st.just(not part)
    if type(part) is int:
        return st.integers(-2, 70) | st.integers(-(2**63), 2**64 - 1)
    if type(part) is bytes and part:
        return st.builds(
            _flipped, st.just(part), st.integers(0, len(part) - 1), st.integers(1, 255)
        )
    return st.just(part) if part is None else strategies.rich_values(max_leaves=3)


def _flipped(data: bytes, at: int, bits: int) -> bytes:
    return data[:at] + bytes((data[at] ^ bits,)) + data[at + 1 :]
