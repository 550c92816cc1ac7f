"""The page about etcd, played with a cluster of this machine in the place of the reader's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.journey.documents import blocks

PAGE = Path(__file__).parents[2] / "docs/how-to/store-in-etcd.md"
SHOWN = "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379?objects=/shared/objects.db"


def test_the_page_does_what_it_says(etcd_cluster, tmp_path, capsys):
    url = etcd_cluster.url(tmp_path / "objects.db")
    programs = [block for block in blocks(PAGE.read_text()) if block.language == "python"]
    assert SHOWN in programs[0].text
    namespace: dict[str, Any] = {}
    for block in programs:
        exec(compile(block.text.replace(SHOWN, url), PAGE, "exec"), namespace)
    assert "assistant" in capsys.readouterr().out
    namespace["repo"].close()
