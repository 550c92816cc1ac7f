"""Commands that are typed at a prompt: `:undo` in the shell, `%otolith undo` in a notebook.

A table maps the usage of each command to its function and a line of help. How many words a command
takes is read from its usage: `fork NAME` takes one, `log [NAME]` up to one, `diff [A [B]]` up to
two. A function gets the words as arguments, and returns the lines to print.

    commands = LineCommands(":", {"log [NAME]": (log, "list the last steps")})
    lines = commands.run("log", ["x"], line=":log x", hint=":help lists them")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from otolith.cli.errors import terminal_error
from otolith.cli.terminal import table
from otolith.errors import Invalid

Lines = Iterable[str]


class LineCommand(NamedTuple):
    """The function of a command, and its least and most number of words."""

    function: Callable[..., Lines]
    least: int
    most: int


class LineCommands:
    """A table of commands; `prefix` is what the user types before each.

    `help` is always one of them; it is listed only if the table has it.
    """

    def __init__(
        self, prefix: str, commands: Mapping[str, tuple[Callable[..., Lines], str]]
    ) -> None:
        """Build the table from usage -> (function, help)."""
        self._prefix = prefix
        self._help = [[f"{prefix}{usage}", text] for usage, (_, text) in commands.items()]
        self._commands = {"help": LineCommand(self.help, 0, 0)}
        for usage, (function, _) in commands.items():
            name, *words = usage.split()
            required = [word for word in words if not word.startswith("[")]
            self._commands[name] = LineCommand(function, len(required), len(words))

    def help(self) -> Lines:
        """Return the usage and help of every command, as a table."""
        return table(self._help)

    def run(self, name: str, words: Sequence[str], *, line: str, hint: str) -> Lines:
        """Call a command and return what it prints; `line` is what the user typed.

        Raises:
            Invalid: there is no such command, or it takes fewer or more words.
        """
        command = self._commands.get(name)
        if command is None or not command.least <= len(words) <= command.most:
            raise terminal_error(Invalid, f"{line} is not a command", hint)
        return command.function(*words)
