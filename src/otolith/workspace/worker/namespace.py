"""The variables of a session as a dict, of which each is unloaded until it is first used.

Code runs with this as its globals. Python looks a name up in C; only a name that is not there comes
to `__missing__`, which fetches it. So a variable that is not used is neither read nor compared, and
a loop over globals is about as fast as with a plain dict. What iterates over all names fetches all
of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Fetch = Callable[[str], dict[str, object]]
"""Returns a variable and those that belong to it, by name; raises KeyError if there is none."""

_ABSENT = object()


class Namespace(dict[str, Any]):
    """Globals that are fetched when they are first used; `unloaded` are the stored names."""

    def __init__(self, unloaded: set[str], fetch: Fetch) -> None:
        super().__init__()
        self.unloaded = unloaded
        self._fetch = fetch

    def __missing__(self, name: str) -> Any:
        if name not in self.unloaded:
            raise KeyError(name)
        self.fetch(name)
        found = dict.get(self, name, _ABSENT)  # __getitem__ would call this method again
        if found is _ABSENT:
            raise KeyError(name)
        return found

    def fetch(self, name: str) -> None:
        """Fetch a variable and those that belong to it; names that are bound keep their values."""
        self.bind(self._fetch(name))

    def bind(self, values: dict[str, object]) -> None:
        """Set those of some variables that are still unloaded."""
        for name, value in values.items():
            if name in self.unloaded:
                self.unloaded.discard(name)
                if not dict.__contains__(self, name):
                    dict.__setitem__(self, name, value)

    def fetch_if_unloaded(self, name: str) -> None:
        """Fetch a variable, unless it is loaded or there is none."""
        if name in self.unloaded and not dict.__contains__(self, name):
            self.fetch(name)

    def fetch_all(self) -> None:
        """Fetch all variables."""
        for name in sorted(self.unloaded):
            self.fetch_if_unloaded(name)

    def loaded(self) -> dict[str, Any]:
        """Return the loaded variables, without fetching any."""
        return dict(dict.items(self))

    # The methods of a dict that would not call `__missing__`

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable, or the default."""
        try:
            return self[name]
        except KeyError:
            return default

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a variable and return it."""
        self.fetch_if_unloaded(name)
        return dict.pop(self, name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a variable, which is set to the default if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def copy(self) -> dict[str, Any]:
        """Return all variables as a plain dict."""
        self.fetch_all()
        return self.loaded()

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or name in self.unloaded

    def __delitem__(self, name: str) -> None:
        if name in self.unloaded and not dict.__contains__(self, name):
            self.unloaded.discard(name)
        else:
            dict.__delitem__(self, name)

    def __iter__(self) -> Iterator[str]:
        self.fetch_all()
        return dict.__iter__(self)

    def __len__(self) -> int:
        return len(self.unloaded - dict.keys(self)) + dict.__len__(self)

    def keys(self) -> Any:
        """Return all names."""
        self.fetch_all()
        return dict.keys(self)

    def values(self) -> Any:
        """Return all values."""
        self.fetch_all()
        return dict.values(self)

    def items(self) -> Any:
        """Return all names with their values."""
        self.fetch_all()
        return dict.items(self)
