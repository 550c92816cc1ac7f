"""Put what was measured into the page on performance, between the marks that are there for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bench.suites import Suite
from bench.table import Row, markdown

ROOT = Path(__file__).resolve().parents[1]
PERFORMANCE = ROOT / "docs" / "explanation" / "performance.md"


def write(suite: Suite, rows: list[Row], about: dict[str, Any]) -> None:
    """Write the table of a suite into the page on performance."""
    command = f"python3 dev.py bench {suite.name}"
    said = f"Measured by `{command}`, all in one run on {about['cores']} shared cores."
    versions = f"Python {about['python']}, SQLite {about['sqlite']}, beside {about['beside']}"
    _put(PERFORMANCE, suite.name, f"{said} {versions}. {about['data']}.", rows)


def _put(page: Path, suite: str, said: str, rows: list[Row]) -> None:
    marked = re.compile(rf"(<!-- bench:{suite} -->\n).*?(<!-- /bench -->)", re.DOTALL)
    text = page.read_text()
    table = f"\n{said}\n\n{markdown(rows)}\n\n"
    changed, count = marked.subn(lambda found: found[1] + table + found[2], text)
    if count != 1:
        raise SystemExit(f"{page.name} has no place for the table")
    page.write_text(changed)
