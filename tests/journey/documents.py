"""Plays a page of documentation: runs its blocks in order, as a reader would.

    ```python            runs; all such blocks of a page share one namespace
    ```python title="x"  is saved as the file x, for a later `$ python3 x`
    ```pycon             runs; what it shows must be what comes out
    ```console           lines that start with `$ otolith` or `$ python3` run; output shown below
                         one must be what comes out, where `…` stands for anything

Everything happens in the current directory. A block that is only to be looked at has the line
`<!-- no-run -->` above it (or `no-run` after its language, which the built site cannot render).
A command may fail if its output is shown. Run by hand: `python documents.py PAGE`.
"""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*) *(?P<options>.*)$")
NO_RUN = "no-run"
ANYTHING = "…"
PLAYED = {"otolith", "python3"}
HANG_SECONDS = 600  # this file is run as a program, and imports nothing of the tests


class Block(NamedTuple):
    """One fenced block: where its first line is, what it is, what it says."""

    line: int
    language: str
    options: str
    text: str

    @property
    def is_played(self) -> bool:
        return NO_RUN not in self.options

    @property
    def title(self) -> str | None:
        found = re.search(r'title="([^"]+)"', self.options)
        return found[1] if found else None


class Command(NamedTuple):
    """One `$` line of a console block, and the output shown below it (None: not shown)."""

    line: int
    text: str
    shown: str | None

    @property
    def is_played(self) -> bool:
        words = shlex.split(self.text, comments=True)
        return bool(words) and words[0] in PLAYED and words[1:2] != ["dev.py"]


class Wrong(Exception):
    """The page says one thing, and another happened."""


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    lines = enumerate(page.splitlines(), start=1)
    before = ""
    for _, text in lines:
        if opening := FENCE.match(text):
            yield _block(opening, lines, skipped=before.strip() == f"<!-- {NO_RUN} -->")
        before = text


def _block(opening: re.Match[str], lines: Iterator[tuple[int, str]], *, skipped: bool) -> Block:
    body, number = [], 0
    for number, text in lines:  # noqa: B007 - the last number is wanted
        if text.strip() == opening["fence"]:
            break
        body.append(text)
    options = f"{opening['options']} {NO_RUN if skipped else ''}".strip()
    text = textwrap.dedent("\n".join(body))
    return Block(number - len(body), opening["language"], options, f"{text}\n")


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    line = block.line + parts[0].count("\n")
    for part in parts[1:]:
        command, shown = re.match(r"((?:.*\\\n)*.*)\n?([\s\S]*)", part).groups()  # type: ignore[union-attr]
        yield Command(line, command, shown.strip("\n") or None)
        line += part.count("\n")


def matches(shown: str, printed: str) -> bool:
    """Return whether what a page shows is what was printed; `…` stands for anything.

    Within a line it stands for any text, on a line of its own for any lines.
    """
    pattern = [
        r"(?:.*\n)*?" if line.strip() == ANYTHING else _line_pattern(line)
        for line in shown.splitlines()
    ]
    tidy = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch("".join(pattern), tidy) is not None


def _line_pattern(line: str) -> str:
    return ".*?".join(map(re.escape, line.rstrip().split(ANYTHING))) + r"\n"


def _compiled(block: Block, page: Path) -> CodeType:
    """Compile a block so that errors name the line of the page; our own futures are not its."""
    source = "\n" * (block.line - 1) + block.text
    return compile(source, page, "exec", dont_inherit=True)


def play(page: Path) -> None:
    """Play a whole page.

    Raises:
        Wrong: a block did something else than the page says.
    """
    # A page is the main module of its process, so that classes it defines are found by name.
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    namespace = vars(module)
    for block in blocks(page.read_text()):
        if not block.is_played:
            continue
        if block.title:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            # Empty lines in front, so that a traceback points into the page itself.
            exec(_compiled(block, page), namespace)
        elif block.language == "pycon":
            _play_conversation(block, page, namespace)
        elif block.language == "console":
            _play_commands(block, page)


def _play_conversation(block: Block, page: Path, namespace: dict[str, object]) -> None:
    parsed = doctest.DocTestParser().get_doctest(
        block.text, namespace, page.name, str(page), block.line - 1
    )
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    runner.run(parsed, out=said.append, clear_globs=False)
    if runner.failures:
        raise Wrong("".join(said))
    namespace.update(parsed.globs)


def _play_commands(block: Block, page: Path) -> None:
    for command in filter(lambda command: command.is_played, commands(block)):
        done = subprocess.run(
            command.text,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        went = f"{page}, line {command.line}: $ {command.text}\nprinted:\n{done.stdout}"
        if command.shown is None and done.returncode:
            raise Wrong(f"{went}exit code {done.returncode}")
        if command.shown is not None and not matches(command.shown, done.stdout):
            raise Wrong(f"{went}\nbut the page shows:\n{command.shown}")


if __name__ == "__main__":
    play(Path(sys.argv[1]))
