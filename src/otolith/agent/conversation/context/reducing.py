"""Reducing units: which tier touches which of them."""

from __future__ import annotations

from dataclasses import replace

from otolith.agent.conversation.context.clamping import Clamp
from otolith.agent.conversation.context.costs import Costs
from otolith.agent.conversation.context.cutting import roundest
from otolith.agent.conversation.context.source import Rules
from otolith.agent.conversation.context.tiers import without_old_results, without_repeats
from otolith.agent.conversation.context.units import Unit

LEAST_CLAMP = 48
_STEP = 16


class Reducing:
    """Makes units smaller, as far as the rules of a context allow."""

    def __init__(self, rules: Rules, costs: Costs, room: int) -> None:
        self._rules = rules
        self._costs = costs
        self._room = room

    @property
    def limit(self) -> int:
        """How long a part may be, as it is counted here, before it is huge."""
        return max(self._costs.counted(self._room // 4), LEAST_CLAMP)

    def mildest(self, units: list[Unit]) -> list[Unit] | None:
        """Return all units with as few tiers applied as are needed; None if they never fit."""
        for step in (list, self._clamped, self._repeats, self._old, self._all_old):
            units = step(units)
            if self._costs.total(units) <= self._room:
                return units
        return None

    def all_tiers(self, units: list[Unit], limit: int) -> list[Unit]:
        """Return units with all tiers applied."""
        return self._old(self._repeats(self.clamped(units, limit)))

    def clamped(self, units: list[Unit], limit: int) -> list[Unit]:
        """Return units without parts of more than so many tokens."""
        clamp = Clamp(limit, self._costs.counter)
        return [self._clamped_unit(unit, clamp) for unit in units]

    def _clamped(self, units: list[Unit]) -> list[Unit]:
        return self.clamped(units, self.limit)

    def _clamped_unit(self, unit: Unit, clamp: Clamp) -> Unit:
        if all(self._costs.message(each) <= clamp.limit for _, each in unit.messages()):
            return unit
        if unit.stays and unit.is_turn:
            return replace(clamp.unit(replace(unit, stays=False)), stays=True)
        return clamp.unit(unit)

    def _repeats(self, units: list[Unit]) -> list[Unit]:
        return without_repeats(units, len(units) - self._rules.keep_last)

    def _old(self, units: list[Unit]) -> list[Unit]:
        """Blank what is old, by a line that stays where it is for some messages."""
        line = self._line(units)
        return without_old_results(units, roundest(max(line - _STEP, 1), line)) if line else units

    def _all_old(self, units: list[Unit]) -> list[Unit]:
        return without_old_results(units, self._line(units))

    def _line(self, units: list[Unit]) -> int:
        """Return the index before which results are old: not among the last, nor the last units."""
        keep, last = self._rules.keep_results, self._rules.keep_last
        answered = [unit.at for unit in units if unit.results]
        if len(answered) <= keep:
            return 0
        line = answered[-keep] if keep else answered[-1] + 1
        return min([line, *(unit.at for unit in units[len(units) - last :])])
