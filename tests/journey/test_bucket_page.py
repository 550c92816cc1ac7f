"""The page about buckets does what it says, where there is a bucket."""

from __future__ import annotations

from pathlib import Path

import otolith
from tests.journey.documents import blocks

PAGE = Path(__file__).parents[2] / "docs/how-to/store-in-a-bucket.md"


def test_the_python_of_the_page_runs(request):
    server = request.getfixturevalue("bucket_server")
    server.make_bucket("agents")
    shown = "s3://agents/support"
    url = f"{shown}?endpoint={server.endpoint}"
    python = [block.text for block in blocks(PAGE.read_text()) if block.language == "python"]
    names: dict[str, object] = {}

    for text in python:
        assert shown in text
        exec(text.replace(shown, url), names)

    assert python
    with otolith.open(url) as repo:
        assert repo.session("ticket-7")["mood"] == "calm"
    names["repo"].close()  # type: ignore[attr-defined]
