"""A voice for the demo: chapters, what is done, and checks that count."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import click


class Teller:
    """Prints the story, with pauses on a terminal, and remembers which checks failed."""

    def __init__(self, *, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds if sys.stdout.isatty() else 0.0
        self._is_live = sys.stdout.isatty()
        self._chapter = 0
        self.held = 0
        self.failed: list[str] = []

    def chapter(self, title: str) -> None:
        """Begin the next part."""
        self._chapter += 1
        if self._chapter > 1:
            time.sleep(self._pause_seconds)
        click.echo(f"\n{click.style(f'{self._chapter}. {title}', bold=True)}")

    def say(self, text: str) -> None:
        """Say what happens."""
        click.echo(f"   {text}")

    def lines(self, lines: Iterable[str]) -> None:
        """Show what a verb would show."""
        for line in lines:
            click.echo(f"     {line}")

    def code(self, text: str) -> None:
        """Show the line of Python that does it."""
        click.echo(f"   {click.style('>>> ' + text, fg='cyan')}")

    def live(self, text: str, *, last: bool = False) -> None:
        """Show work going by: on a terminal in place, elsewhere only how it ended."""
        if self._is_live:
            click.echo(f"\r\x1b[K   {text}", nl=last)
        elif last:
            self.say(text)

    def check(self, held: bool, claim: str) -> None:
        """State a claim with the proof just made."""
        if held:
            self.held += 1
            click.echo(f"   {click.style('ok', fg='green', bold=True)}  {claim}")
        else:
            self.failed.append(claim)
            click.echo(f"   {click.style('FAILED', fg='red', bold=True)}  {claim}")
