"""Put what was measured into the pages that show it, between the marks that are there for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench.table import Row, markdown

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "explanation" / "performance.md"

# The rows of the README's table: every kind of work once, the misses among them.
SHORT = (
    "commit-100-full-random",
    "commit-10k-full-random",
    "commit-1m-full-random",
    "commit-growth-full-random",
    "commit-10k-fast-kvgit",
    "commit-10k-fast-stratadb",
    "commit-disk-10k-kvgit",
    "commit-disk-10k-langgraph",
    "append-1k-kvgit-disk",
    "append-1k-langgraph-disk",
    "append-10k-disk",
    "append-10k-latency",
    "open",
    "past-warm",
    "diff-cold",
    "gc-kvgit",
    "gc-wait-kvgit",
    "threads-kvgit",
    "import",
)

_MARKED = re.compile(r"(<!-- bench:core -->\n).*?(<!-- /bench -->)", re.DOTALL)


def write(rows: list[Row], about: dict[str, Any]) -> None:
    """Write the short table into the README and the whole one into the page on performance."""
    short = [row for name in SHORT for row in rows if row.name == name]
    said = (
        f"Measured by `python3 dev.py bench core`, all in one run on {about['cores']} shared cores."
    )
    _put(README, f"{said} [All rows](docs/explanation/performance.md).", short)
    versions = f"Python {about['python']}, SQLite {about['sqlite']}, beside {about['beside']}"
    _put(PERFORMANCE, f"{said} {versions}. {about['messages']}.", rows)


def _put(page: Path, said: str, rows: list[Row]) -> None:
    text = page.read_text()
    table = f"\n{said}\n\n{markdown(rows)}\n\n"
    changed, count = _MARKED.subn(lambda found: found[1] + table + found[2], text)
    if count != 1:
        raise SystemExit(f"{page.name} has no place for the table")
    page.write_text(changed)
