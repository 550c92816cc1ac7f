"""A state with a schema: checked as values go in and come out, migrated when it is opened."""

from __future__ import annotations

from typing import Any

from otolith.agent.holding import Holding
from otolith.agent.schema import RECORD, Schema, migrate_state
from otolith.agent.turns import locked
from otolith.core import Path, parse_own_path, parse_path


class Checked(Holding):
    """A holding branch that may have a schema."""

    _schema: Schema | None = None

    def _require(self, model: Any) -> None:
        """Check everything against a model from now on; take an older state through migrations."""
        self._schema = Schema.of(model)
        record = self._record()
        if record is None or record == self._schema.record():
            return
        before = {name: super(Checked, self).__getitem__((name,)) for name in map(_top, self)}
        after = migrate_state(self._schema, record, before)
        for name in before.keys() - after.keys():
            del self[(name,)]
        for name, value in after.items():
            if name not in before or before[name] is not value:
                self[(name,)] = value
        self._stage_record()

    def __getitem__(self, path: str | Path) -> Any:
        value = super().__getitem__(path)
        if self._schema is not None:
            keys = parse_path(path)
            if len(keys) == 1 and isinstance(keys[0], str):
                self._schema.check(keys[0], value, when="out")
        return value

    @locked
    def __setitem__(self, path: str | Path, value: object) -> None:
        if self._schema is not None:
            keys = parse_own_path(path)
            name = str(keys[0])
            self._schema.check_name(name)
            if len(keys) == 1:
                self._schema.check(name, value, when="in")
        super().__setitem__(path, value)

    def _check_staged(self) -> None:
        """Check what would be committed, before it is.

        Raises:
            SchemaMismatch: a changed value does not fit, or one that must be there is missing.
        """
        if self._schema is None:
            return
        with self._still():
            changed = {_top(change.path) for change in self.status()}
            for name in changed & set(map(_top, self)):
                self._schema.check(name, super().__getitem__((name,)), when="in")
            self._schema.complete(map(_top, self))
        self._stage_record()

    def _record(self) -> Any:
        cell = self._stage.get((RECORD,))
        return None if cell is None else self.cells.load(cell)

    def _stage_record(self) -> None:
        if self._schema is not None and self._record() != self._schema.record():
            self._stage.put((RECORD,), self.cells.put(self._schema.record()))


def _top(path: str) -> str:
    return str(parse_path(path)[0])
