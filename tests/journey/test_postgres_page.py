"""The page about Postgres, played against a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.journey import documents
from tests.patience import HANG_SECONDS

PAGE = Path(__file__).parents[2] / "docs/how-to/store-in-postgres.md"
SHOWN = "postgresql://agent@db.example/agents"


def test_the_page_about_postgres_does_what_it_says(tmp_path, postgres_url):
    text = PAGE.read_text().replace("<!-- no-run -->\n", "")
    page = tmp_path / "page.md"
    page.write_text(text.replace(SHOWN, postgres_url))
    played = subprocess.run(
        [sys.executable, documents.__file__, page],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert played.returncode == 0, played.stderr
    assert "{'" in played.stdout
