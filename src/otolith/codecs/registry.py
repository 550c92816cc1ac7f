"""All codecs behind one face: what the core is given to lower and lift with.

A type is asked for once; afterwards its lowering is one lookup in a dict. The registry is a codec
itself, whose family is everything that can be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypeVar

from otolith.codecs.base import Codec, Lowering
from otolith.codecs.custom import Customs, Registered
from otolith.codecs.enums import Enums
from otolith.codecs.lost import Losses, Lost
from otolith.codecs.models import Models, Upgrade
from otolith.codecs.names import Names
from otolith.codecs.ondemand import DATA
from otolith.codecs.opaque import Opaque, lower_opaque
from otolith.codecs.pickled import Key, Pickled
from otolith.codecs.plain import Plain
from otolith.codecs.refusal import refuse
from otolith.errors import Denied, Invalid, MissingExtra, UnknownType
from otolith.types import Tag, Tagged

T = TypeVar("T")

_KEPT_BY_CORE = (type(None), bool, int, float, str, bytes, list, dict)


class Codecs:
    """Lowers and lifts every value that can be kept.

    With `opaque`, a value whose type is not known here is lifted to an `Opaque` instead of raising
    UnknownType: for tools that read what they did not write. Pickles that may not be loaded are
    lifted to one as well.

    With `pickle="signed"`, an object that nothing else keeps is pickled and signed with the 32
    bytes that `key` gives when they are first needed; only what they signed is ever unpickled.
    """

    def __init__(
        self,
        *,
        opaque: bool = False,
        pickle: Literal["never", "signed"] = "never",
        key: Key | None = None,
    ) -> None:
        self._opaque = opaque
        self._names = Names()
        self._models = Models(self._names)
        self._customs = Customs()
        plain = Plain()
        self._reserved = plain
        self._codecs: tuple[Codec, ...] = (
            plain,
            Losses(),
            self._customs,
            Enums(self._names),
            self._models,
            *DATA,
            Pickled(_leave(pickle, key)),  # the last, because it takes everything
        )
        self._by_code = {code: codec for codec in self._codecs for code in codec.codes}
        self._lowerings: dict[type, Lowering] = {Opaque: lower_opaque}

    @property
    def codes(self) -> frozenset[int]:
        """Every code that is known here."""
        return frozenset(self._by_code)

    def lower(self, value: object) -> Tagged:
        """Return the value one step plainer.

        Raises:
            BadValue: it cannot be kept; the message says why and what to do.
        """
        kind = type(value)
        lowering = self._lowerings.get(kind) or self.lowering(kind)
        if lowering is None:
            raise refuse(kind)
        return lowering(value)

    def lowering(self, kind: type) -> Lowering | None:
        """Return what lowers values of exactly this type, or None if they cannot be kept.

        Raises:
            BadValue: the type is of a known family but its values cannot be kept.
        """
        for codec in self._codecs:
            if lowering := codec.lowering(kind):
                self._lowerings[kind] = lowering
                return lowering
        return None

    def lift(self, code: int, data: object) -> object:
        """Return the value that was lowered to this, given data that is lifted already.

        Raises:
            UnknownType: its type is not known here, or has changed.
            Denied, Untrusted: it is a pickle that may not be loaded.
            Corrupt: the data is not what this code needs.
        """
        codec = self._by_code.get(code)
        try:
            if codec is None:
                raise UnknownType(
                    f"values with the code {code} are not known here",
                    hint="upgrade otolith: a newer one wrote this",
                )
            return codec.lift(code, data)
        except (UnknownType, MissingExtra, Denied):
            if not self._opaque:
                raise
            return Opaque(Tagged(code, data))

    def find(self, name: str) -> type:
        """Return the class that is stored under this name.

        Raises:
            UnknownType: it is neither registered, nor declared to have moved, nor imported.
        """
        return self._names.find(name)

    def today(
        self, code: int, name: str, version: int, *, fields: Collection[str], has_rest: bool = False
    ) -> tuple[str, int] | None:
        """Return the name and version that a stored model or custom value would get today.

        None means that it would be stored just as it is. `fields` are the names of the fields of a
        model; `has_rest` tells whether more was stored.

        Raises:
            UnknownType: it could not be lifted: its type is not known here, or has changed.
        """
        if code == Tag.CUSTOM:
            return self._customs.today(name, version)
        return self._models.today(name, version, fields, has_rest=has_rest)

    def register(
        self,
        kind: type[T],
        *,
        name: str,
        lower: Callable[[T], object],
        lift: Callable[[Any], T],
        version: int = 1,
        older: Mapping[int, Callable[[Any], T]] | None = None,
    ) -> None:
        """Keep values of exactly this type, as what `lower` makes of them.

        `name` is stored with each value and never changes; raise `version` when `lower` gives
        something else than before, and leave what reads the former versions in `older`.

        Raises:
            Invalid: otolith keeps this type itself, or the name or a version is bad.
            Exists: the name or the type is already registered.
        """
        if kind in _KEPT_BY_CORE or self._reserved.lowering(kind) or kind in (Opaque, Lost):
            raise Invalid(
                f"{kind.__qualname__} is kept by otolith itself",
                hint="register a type of your own",
            )
        lifts = {**(older or {}), version: lift}
        self._customs.register(Registered(kind, name, version, lower, lifts))
        self._lowerings.pop(kind, None)

    def register_model(
        self,
        kind: type,
        *,
        name: str | None = None,
        formerly: Iterable[str] = (),
        upgrade: Upgrade | None = None,
    ) -> None:
        """Say more about a model class or an enumeration than it says itself.

        `name` is what it is stored under instead of "module:Qualname"; `formerly` are names it is
        found under as well; `upgrade(version, fields)` returns the fields of today for an instance
        that was stored with an older version or with other fields, and goes before migrations.

        Raises:
            Exists: one of the names belongs to another class.
        """
        default = f"{kind.__module__}:{kind.__qualname__}"
        self._names.register(kind, name=name or default, formerly=formerly)
        if upgrade is not None:
            self._models.upgrade(kind, upgrade)
        self._lowerings.pop(kind, None)


def _leave(pickle: str, key: Key | None) -> Key | None:
    """Return the key to pickle with, or None if nothing may be pickled."""
    if pickle not in ("never", "signed"):
        raise Invalid(f"pickle={pickle!r} is not known", hint="use 'never' or 'signed'")
    if pickle == "never":
        return None
    if key is None:
        raise Invalid(
            'pickle="signed" needs a key to sign with',
            hint="give key=, a function that returns 32 bytes",
        )
    return key
