"""A log of which a part is sent to a model: contexts, summaries, and what providers counted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from otolith.agent.conversation import pinning
from otolith.agent.conversation.anchors import LATEST, Anchor, Scale
from otolith.agent.conversation.context import Context, Rules, Source, project
from otolith.agent.conversation.counting import Counter, as_counter, estimated
from otolith.agent.conversation.files import Files
from otolith.agent.conversation.log import AT_ONCE, Log
from otolith.agent.conversation.message import Role
from otolith.agent.conversation.record import USAGE
from otolith.agent.conversation.summarising import (
    Summaries,
    Summariser,
    Summary,
    ask,
    extractive,
    key_of,
)
from otolith.core import Branch
from otolith.errors import Invalid, OverBudget


class Windowed(Log):
    """A log that knows how much of it fits into a model."""

    def context(
        self,
        budget: int,
        for_: str = "plain",
        *,
        tools_tokens: int = 0,
        keep_last: int = 4,
        keep_results: int = 5,
        slack: float = 0.25,
        summariser: Summariser | None = None,
        counter: Counter | Callable[[str], int] | None = None,
    ) -> Context:
        """Return what a model is sent: legal messages of a provider that fit into a budget.

        `for_` is openai, responses, anthropic or plain. `tools_tokens` is what the descriptions
        of tools take. A summariser is asked if something has to go, and what it says is staged
        under the thread, so that it is asked once; nothing else is ever written.

        Raises:
            OverBudget: what must stay does not fit; `needed` says what it takes.
        """
        rules = Rules(
            budget=budget,
            for_=for_,
            tools_tokens=tools_tokens,
            keep_last=keep_last,
            keep_results=keep_results,
            slack=slack,
            summariser=summariser,
            counter=as_counter(counter),
        )
        with self.state.turn():
            source = self._source(rules)
            made = project(source, rules)
        return replace(made, _previous=lambda: self._before(source, rules))

    def _source(self, rules: Rules) -> Source:
        record, log = self._record, self._record.log()
        summaries, files = Summaries(record), Files(record)
        key = None if rules.summariser is None else key_of(rules.summariser)
        length = self.state.cells.length(log)
        return Source(
            length,
            lambda start, stop: list(map(files.legible, record.read(start, stop, log))),
            stays=tuple(record.staying()),
            stayed=lambda stop: pinning.stayed(record, stop),
            turn=record.turn(),
            filled=files.filled,
            scale=self._scale(),
            counts=record.shelf.counts,
            has_summaries=not summaries.is_empty,
            find_summary=lambda low, high: summaries.first(low, high, key),
            last_summary=lambda before: summaries.find(0, before - 1, key),
            keep_summary=self._keep_summary,
        )

    def _keep_summary(self, summary: Summary) -> None:
        if isinstance(self.state, Branch):
            Summaries(self._record).keep(summary)

    def _before(self, source: Source, rules: Rules) -> Context | None:
        """Return the context that the last reply was an answer to."""
        asking_nobody = replace(rules, summariser=None)
        with self.state.turn(), suppress(OverBudget):  # with this budget, nobody was asked then
            at = _last_reply(source)
            if at is not None:
                return project(source.until(at, self._scale(at)), asking_nobody)
        return None

    def usage(
        self, *, input_tokens: int, output_tokens: int = 0, context: Context | None = None
    ) -> None:
        """Record what a provider counted for the last request, so that estimates get better.

        Call it after the reply was added. `context` is what was sent; without it, everything was.
        """
        counts = input_tokens, output_tokens
        if any(type(count) is not int or count < 0 for count in counts):
            raise Invalid(f"{counts} are no numbers of tokens", hint="give what the provider said")
        with self._writing():
            length = self._record.length()
            last = self._record.read(max(length - 1, 0), length)
            is_reply = bool(last) and last[0].role is Role.ASSISTANT
            stop = length - 1 if is_reply else length
            reply = estimated(last[0]) if is_reply else 0
            estimate, start = self.tokens - reply, 0
            if context is not None:
                estimate, start, stop = context.estimate, context.start, context.stop
            anchor = Anchor(stop, input_tokens, output_tokens, estimate, start)
            self._record.extend([list(anchor)], USAGE)

    def _scale(self, before: int | None = None) -> Scale:
        """Return what providers' counts say of estimates; `before` leaves out later ones."""
        cell, cells = self._record.cell(USAGE), self.state.cells
        if cell is None:
            return Scale()
        length = cells.length(cell)
        kept = cells.load_all(cells.elements(cell, max(length - LATEST, 0), length))
        anchors = [Anchor(*each) for each in kept if isinstance(each, list)]
        return Scale([each for each in anchors if before is None or each.stop < before])

    def summarise(
        self, stop: int | None = None, *, summariser: Summariser | None = None
    ) -> Summary:
        """Make and stage a summary of all messages before an index, the length by default.

        Contexts that are cut there use it. One that was made of the same messages by the same
        summariser is found and not made again. Without one, `extractive` picks sentences.
        """
        summariser = extractive if summariser is None else summariser
        with self._writing():
            length = self._record.length()
            end = length if stop is None else stop + length if stop < 0 else stop
            if not 0 <= end <= length:
                raise IndexError(f"there is no message {stop} among {length}")
            if end == 0:
                raise Invalid("there is nothing to summarise", hint="add messages first")
            summaries, key = Summaries(self._record), key_of(summariser)
            known = summaries.find(end, end, key)
            if known is not None:
                return known
            before = summaries.find(0, end - 1, key)
            start, told = (0, "") if before is None else (before.stop, before.text)
            summary = Summary(end, ask(summariser, self._full(start, end), told), *key)
            summaries.keep(summary)
            return summary


def _last_reply(source: Source) -> int | None:
    for stop in range(source.length, 0, -AT_ONCE):
        start = max(stop - AT_ONCE, 0)
        said = enumerate(source.read(start, stop), start)
        replies = [at for at, message in said if message.role is Role.ASSISTANT]
        if replies:
            return replies[-1]
    return None
