"""The variables of a session, of which each is absent until it is first touched.

Code runs with this as its globals. Python looks a name up in C; only a name that is not there comes
to `__missing__`, which fetches it. So a variable that is not used is neither read nor looked at
again, and a loop over globals is about as fast as with a plain dict. What iterates over all names
fetches all of them, as it must see them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Fetch = Callable[[str], dict[str, object]]
"""Returns a variable, and those that have to be there with it, by name. KeyError: there is none."""


_ABSENT = object()


class Namespace(dict[str, Any]):
    """Globals that come when they are asked for."""

    def __init__(self, cold: set[str], fetch: Fetch) -> None:
        super().__init__()
        self.cold = cold  # names that are stored and not here
        self._fetch = fetch

    def __missing__(self, name: str) -> Any:
        if name not in self.cold:
            raise KeyError(name)
        self.warm(name)
        found = dict.get(self, name, _ABSENT)  # __getitem__ would come back here
        if found is _ABSENT:
            raise KeyError(name)
        return found

    def warm(self, name: str) -> None:
        """Fetch a variable and those that belong to it; names that are bound stay as they are."""
        for each, value in self._fetch(name).items():
            if each in self.cold:
                self.cold.discard(each)
                if not dict.__contains__(self, each):
                    dict.__setitem__(self, each, value)

    def warm_if_cold(self, name: str) -> None:
        """Fetch a variable, unless it is here or there is none."""
        if name in self.cold and not dict.__contains__(self, name):
            self.warm(name)

    def warm_all(self) -> None:
        """Fetch everything."""
        for name in sorted(self.cold):
            if name in self.cold and not dict.__contains__(self, name):
                self.warm(name)

    def here(self) -> dict[str, Any]:
        """Return what is here, without fetching anything."""
        return dict(dict.items(self))

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def pop(self, name: str, *default: Any) -> Any:
        if name in self.cold and not dict.__contains__(self, name):
            self.warm(name)
        return dict.pop(self, name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def copy(self) -> dict[str, Any]:
        self.warm_all()
        return dict(dict.items(self))

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or name in self.cold

    def __delitem__(self, name: str) -> None:
        if name in self.cold and not dict.__contains__(self, name):
            self.cold.discard(name)
        else:
            dict.__delitem__(self, name)

    def __iter__(self) -> Iterator[str]:
        self.warm_all()
        return dict.__iter__(self)

    def __len__(self) -> int:
        return len(self.cold - dict.keys(self)) + dict.__len__(self)

    def keys(self) -> Any:
        self.warm_all()
        return dict.keys(self)

    def values(self) -> Any:
        self.warm_all()
        return dict.values(self)

    def items(self) -> Any:
        self.warm_all()
        return dict.items(self)
