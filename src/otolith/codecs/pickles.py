"""Objects that no other codec takes: pickled where that is allowed, and signed.

Form (it never changes, see `docs/reference/format-v1.md`)

    PICKLE  [type name, signature, head, buffers]

    type name   "module:Qualname" of the class, to be shown; nothing is looked up by it
    signature   32 bytes: keyed BLAKE3 of everything else, see `_sign`
    head        raw bytes: a pickle of protocol 5
    buffers     list of raw bytes: the buffers that the pickle refers to, in order

Rules
1. A pickle can run any code in the process that loads it. So bytes are loaded only after their
   signature was found to be that of one of the keys, and a codec without a key loads nothing.
   The first key signs; the others were used before it (`renewed_signature`).
2. Pickles are not canonical: equal objects may have different ones. But an object that is not
   changed gives the same bytes again as long as it lives, which is what change detection needs.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple, TypeAlias, cast

from blake3 import blake3

from otolith.codecs.base import VERIFY, Lowering, parts
from otolith.codecs.placeholders import cannot_pickle, cannot_unpickle, refuse_handles
from otolith.errors import Corrupt, Denied, Invalid, Untrusted
from otolith.former_names import today
from otolith.types import CHUNK_BYTES, Raw, Tag, Tagged

Key: TypeAlias = Callable[[], bytes | Sequence[bytes]]
"""Returns the 32 bytes to sign with, or several keys of which the first signs and all are accepted;
called when the first pickle is made or read."""

KEY_BYTES = 32

_PROTOCOL = 5
_INLINE_BUFFER_BYTES = 4096  # a shorter buffer stays in the pickle
_KEY_CONTEXT = "otolith 2026-11 key that signs the pickles of one repo"
_DOMAIN = b"otolith pickle 1"


def derive_key(secret: bytes, repo_id: bytes) -> bytes:
    """Return the key of one repo, from a secret: what it signs is not trusted in other repos."""
    _check_key(secret)
    return blake3(secret + repo_id, derive_key_context=_KEY_CONTEXT).digest()


class _SignedPickle(NamedTuple):
    """The parts of a stored pickle, as lists of chunks."""

    name: str
    signature: bytes
    head: list[bytes]
    buffers: list[list[bytes]]


class PickleCodec:
    """The codec of pickles: lowers values of every class, lifts what its key has signed."""

    codes: frozenset[int] = frozenset({Tag.PICKLE})

    def __init__(self, key: Key | None = None) -> None:
        self._key = key
        self._known: tuple[bytes, ...] = ()

    @property
    def has_key(self) -> bool:
        """Whether there is a key, so that pickles are made and loaded."""
        return self._key is not None

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that pickles and signs values of any type, if there is a key."""
        if self._key is None:
            return None
        refuse_handles(kind)
        name = f"{kind.__module__}:{kind.__qualname__}"

        def lower(value: object) -> Tagged:
            head, buffers = _dump(value)
            signature = _sign(self._keys()[0], name, [[head], *([each] for each in buffers)])
            return Tagged(Tag.PICKLE, [name, signature, Raw(head), [Raw(each) for each in buffers]])

        return lower

    def lift(self, code: int, data: object) -> object:
        """Return the unpickled object.

        Raises:
            Denied: nothing may be unpickled here.
            Untrusted: another key has signed it, or none.
            UnknownType: it cannot be loaded any more.
        """
        stored = _parse(data)
        if self._key is None:
            raise Denied(
                f"a pickled value of type {stored.name} is stored here, and may not be unpickled",
                hint='allow it with pickle="signed" if you trust what is stored,'
                " or read with opaque=True",
            )
        self._signer(stored)
        return _load(stored)

    def renewed_signature(self, data: object) -> bytes | None:
        """Return the signature of a stored pickle by the first key; None if it has that already.

        Raises:
            Denied: there is no key.
            Untrusted: another key has signed it, or none.
        """
        if self._key is None:
            raise Denied("there is no key to sign with", hint='use pickle="signed"')
        stored = _parse(data)
        if self._signer(stored) == 0:
            return None
        return _sign(self._keys()[0], stored.name, [stored.head, *stored.buffers])

    def _signer(self, stored: _SignedPickle) -> int:
        """Return the number of the key that signed a pickle.

        Raises:
            Untrusted: none of them did.
        """
        from hmac import compare_digest  # it loads OpenSSL, which most processes do without

        for number, key in enumerate(self._keys()):
            signature = _sign(key, stored.name, [stored.head, *stored.buffers])
            if compare_digest(signature, stored.signature):
                return number
        raise Untrusted(
            f"a pickled value of type {stored.name} was signed with another key:"
            " another user wrote it, or it was altered; it was not loaded",
            hint="bring the key it was signed with (OTOLITH_KEY), or read with opaque=True",
        )

    def _keys(self) -> tuple[bytes, ...]:
        if not self._known:
            assert self._key is not None
            given = self._key()
            self._known = tuple(map(_check_key, [given] if isinstance(given, bytes) else given))
        return self._known


def _check_key(key: object) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise Invalid(
            f"a key that signs pickles must have {KEY_BYTES} bytes",
            hint="os.urandom(32) makes one",
        )
    return key


def _dump(value: object) -> tuple[bytes, list[memoryview]]:
    """Return the pickle of a value, and the long buffers in it, which are not copied."""
    buffers: list[memoryview] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes < _INLINE_BUFFER_BYTES:
            return True
        buffers.append(view)
        return False

    try:
        return pickle.dumps(value, _PROTOCOL, buffer_callback=keep_inside), buffers
    except Exception as error:  # __reduce__ is the user's, and may raise anything
        raise cannot_pickle(type(value), error) from error


def _load(stored: _SignedPickle) -> object:
    # A bytearray for each: what was writable must be writable again, and pickle makes the rest
    # read-only by itself.
    buffers = [bytearray().join(chunks) for chunks in stored.buffers]
    try:
        return _Unpickler(io.BytesIO(b"".join(stored.head)), buffers=buffers).load()
    except Exception as error:  # imports and __setstate__ may raise anything
        raise cannot_unpickle(stored.name, error) from error


class _Unpickler(pickle.Unpickler):
    """Finds classes and functions of otolith by their former names too."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return super().find_class(module_name, global_name)
        except (ModuleNotFoundError, AttributeError):
            name = today(f"{module_name}:{global_name}")
            module, _, found = name.partition(":")
            if (module, found) == (module_name, global_name):
                raise
            return super().find_class(module, found)


# Objects inside of what is pickled


def pickled_objects(value: object) -> list[object]:
    """Return the objects that a pickle of a value has in it, in the order they are met there.

    What cannot be pickled has none: storing it reports that.
    """
    pickler = pickle.Pickler(_Nowhere(), _PROTOCOL, buffer_callback=lambda _: False)
    try:
        pickler.dump(value)
    except Exception:  # noqa: BLE001  # __reduce__ is the user's, and may raise anything
        return []
    return [each for _, each in sorted(pickler.memo.copy().values(), key=itemgetter(0))]


def are_alike(one: object, other: object) -> bool:
    """Tell whether every way into two values leads to equal content.

    Which of the objects in a value are one does not matter: a value that contains itself is like
    one that contains a copy of itself, which contains itself. What cannot be pickled is unlike.
    """
    try:
        return _Comparison().are_alike(one, other)
    except Exception:  # noqa: BLE001  # __reduce__ is the user's, and may raise anything
        return False


class _Comparison:
    """Finds out which objects are alike, if those in them are."""

    def __init__(self) -> None:
        self._shells: dict[int, _Shell] = {}
        self._like: dict[int, int] = {}  # for an object, one that it is like

    def are_alike(self, one: object, other: object) -> bool:
        """Compare two objects, and what is in them at the same places."""
        pairs = [(one, other)]
        while pairs:
            left, right = pairs.pop()
            mine, theirs = self._first_like(left), self._first_like(right)
            if mine == theirs:
                continue
            first, second = self._shell(left), self._shell(right)
            if type(left) is not type(right) or first.text != second.text:
                return False
            self._like[theirs] = mine  # as long as nothing in them differs
            pairs += zip(first.parts, second.parts, strict=True)
        return True

    def _first_like(self, value: object) -> int:
        number = id(value)
        while self._like.setdefault(number, number) != number:
            number = self._like[number]
        return number

    def _shell(self, value: object) -> _Shell:
        if id(value) not in self._shells:
            self._shells[id(value)] = _shell_of(value)
        return self._shells[id(value)]


class _Shell(NamedTuple):
    """One object without the objects in it: its pickle, with a mark for each, and those objects."""

    text: object
    parts: list[Any]
    whole: object  # while this exists, no other object has its identity


def _shell_of(value: Any) -> _Shell:
    if type(value) in (set, frozenset):  # the order of a set says nothing
        return _Shell(sorted(map(repr, value)), [], value)
    sink = io.BytesIO()
    pickler = _ShellPickler(sink, value)
    pickler.dump(value)
    return _Shell(sink.getvalue(), pickler.parts, value)


class _ShellPickler(pickle.Pickler):
    """Writes a mark for each object in another one, and texts in each place in full."""

    def __init__(self, sink: io.BytesIO, whole: object) -> None:
        super().__init__(sink, protocol=_PROTOCOL)
        self._whole: object | None = whole
        self.parts: list[Any] = []

    def persistent_id(self, thing: Any, /) -> Any:
        if thing is self._whole:
            self._whole = None  # the next one is in it
            return None
        if type(thing) is str:
            return repr(thing)
        if type(thing) is bytes:
            return blake3(thing).hexdigest()
        if type(thing) in _IN_PLACE or isinstance(thing, type):
            return None
        self.parts.append(thing)
        return len(self.parts)


_IN_PLACE = frozenset({type(None), bool, int, float, complex, FunctionType, BuiltinFunctionType})
"""Types of what is written where it is: it never changes, or is written by its name."""


class _Nowhere:
    """A file that forgets what is written to it."""

    def write(self, data: Any, /) -> int:
        return len(data)


def copied(
    values: Sequence[object], *, instead: Mapping[int, object], kept: Iterable[object]
) -> list[Any] | None:
    """Return copies of values, made by pickling them together; None if that is impossible.

    `instead` are objects that take the place of others, by the identity of those. Objects in `kept`
    are not copied: the copies refer to them.
    """
    stay = list(kept)
    numbers = {id(each): number for number, each in enumerate(stay)}
    references = {gone: numbers.get(id(each), each) for gone, each in instead.items()}
    sink = io.BytesIO()
    try:
        _Copier(sink, references | numbers).dump(list(values))
        sink.seek(0)
        return cast("list[Any]", _CopyReader(sink, stay).load())
    except Exception:  # noqa: BLE001  # as above, and __setstate__ is the user's too
        return None


class _Copier(pickle.Pickler):
    """Writes references in the places of objects: what is copied instead, or a number."""

    def __init__(self, sink: io.BytesIO, references: Mapping[int, object]) -> None:
        super().__init__(sink, protocol=_PROTOCOL)
        self._references = references

    def persistent_id(self, thing: Any, /) -> Any:
        return self._references.get(id(thing))


class _CopyReader(pickle.Unpickler):
    """Reads what a _Copier wrote in this process."""

    def __init__(self, sink: io.BytesIO, kept: list[object]) -> None:
        super().__init__(sink)
        self._kept = kept

    def persistent_load(self, reference: Any, /) -> Any:
        return self._kept[reference] if type(reference) is int else reference


def _sign(key: bytes, name: str, pieces: Iterable[list[bytes] | list[memoryview]]) -> bytes:
    """Return the signature of a type name, a head and buffers, each given as its chunks."""
    hasher = blake3(_DOMAIN, key=key)
    for chunks in ([name.encode("utf-8", "surrogatepass")], *pieces):
        hasher.update(sum(map(len, chunks)).to_bytes(8, "big"))
        for chunk in chunks:
            hasher.update(chunk)
    return hasher.digest()


def _parse(data: object) -> _SignedPickle:
    name, signature, head, buffers = parts(data, "a pickled value", str, bytes, list, list)
    if len(signature) != KEY_BYTES or not head or not all(map(_is_raw, (head, *buffers))):
        raise Corrupt(f"the pickled value of type {name} is incomplete", hint=VERIFY)
    return _SignedPickle(name, signature, head, buffers)


def _is_raw(chunks: object) -> bool:
    if type(chunks) is not list or any(type(chunk) is not bytes for chunk in chunks):
        return False
    full = all(len(chunk) == CHUNK_BYTES for chunk in chunks[:-1])
    return full and (not chunks or 0 < len(chunks[-1]) <= CHUNK_BYTES)
