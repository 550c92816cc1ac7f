"""`otolith doctor URL`: what a server can promise, and what is wrong with one."""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import pytest
from click.testing import CliRunner

import otolith
from otolith.cli import program
from otolith.stores import open_store
from tests.servers import postgres, redis
from tests.servers.bucket import BucketServer, GivenBucket
from tests.servers.postgres import postgres_server
from tests.servers.process import free_port, wait_until
from tests.servers.redis import redis_server

DISK_CHECKS = {"file system", "free space", "fsync", "commit", "write-ahead log"}


def diagnose(url: str, *, code: int = 0) -> dict[str, dict[str, str]]:
    """Return the lines of a report by name; of risks, all that they say."""
    done = CliRunner().invoke(program, ["doctor", url, "--json"])
    assert done.exit_code == code, done.output
    found: dict[str, dict[str, Any]] = {}
    for each in json.loads(done.stdout)["findings"]:
        if each["what"] in found:
            each["says"] += found[each["what"]]["says"]
        found[each["what"]] = each
    return found


def test_postgres_promises_all_but_expiry_and_is_left_as_it_was(postgres_url):
    url = postgres.fresh(postgres_url)
    with otolith.open(url) as repo:
        repo.session("trip")["n"] = 1
        repo.session("trip").commit()
    before = _content(url)

    found = diagnose(url)

    assert found["server"]["says"].startswith("PostgreSQL ")
    assert {found[name]["state"] for name in ("store", "durable", "shared", "collects")} == {"ok"}
    assert found["expires"]["says"].startswith("no")
    assert "ms" in found["round trip"]["says"]
    assert "nothing was changed" in found["write"]["says"]
    assert not DISK_CHECKS & found.keys()
    assert _content(url) == before


def test_redis_without_a_file_is_warned_of(redis_url):
    url = redis.fresh(redis_url)
    otolith.open(url).close()
    before = _content(url)

    found = diagnose(url)

    assert found["durable"]["state"] == found["risk"]["state"] == "warn"
    assert "append-only" in found["risk"]["says"]
    assert found["server"]["says"].startswith(("Redis ", "Valkey "))
    assert _content(url) == before


def test_redis_with_a_file_and_a_replica_can_lose_commits_by_a_failover_only(tmp_path):
    with redis_server(tmp_path / "one", appendonly="yes", appendfsync="always") as server:
        otolith.open(server.url).close()
        alone = diagnose(server.url)
        with redis_server(tmp_path / "two", replicaof=f"127.0.0.1 {server.port}"):
            wait_until(lambda: "risk" in diagnose(server.url), "the replica")
            followed = diagnose(server.url)

    assert alone["durable"]["state"] == "ok"
    assert "risk" not in alone
    assert "failover can lose" in followed["risk"]["says"]


def test_a_bucket_warns_of_its_root(bucket_place: BucketServer | GivenBucket):
    url = bucket_place.url()
    otolith.open(url).close()

    found = diagnose(url)

    assert "writers queue" in found["risk"]["says"]
    assert found["server"]["says"] == "S3"
    assert found["notifies"]["says"].startswith("no")


def test_etcd_warns_of_objects_in_a_file(etcd_cluster, tmp_path):
    url = etcd_cluster.url(tmp_path / "objects.db")
    otolith.open(url).close()
    before = _content(url)

    found = diagnose(url)

    assert "objects are in a file" in found["risk"]["says"]
    assert found["server"]["says"].startswith("etcd 3.")
    assert found["leases"]["says"].startswith("yes")
    assert _content(url) == before


def test_a_place_without_a_store_is_not_changed(postgres_url):
    url = postgres.fresh(postgres_url)

    assert diagnose(url)["store"]["state"] == "warn"
    assert diagnose(url)["store"]["state"] == "warn"


def test_the_command_that_makes_a_store_has_no_password(postgres_url):
    url = postgres.fresh(postgres_url)
    with_password = url.replace("postgres@", "postgres:hunter2@")

    assert diagnose(url)["store"]["hint"] == f"`otolith init '{url}'` makes one"
    said = diagnose(with_password)["store"]["hint"]
    assert said.startswith(f"`otolith init '{url}'` makes one; ")
    assert "PGPASSWORD" in said


def test_a_wrong_password_is_bad_and_not_shown():
    with postgres_server() as server:
        url = server.url.replace("postgres@", "locked:hunter2@")
        done = CliRunner().invoke(program, ["doctor", url])

    assert done.exit_code == 1
    assert "bad   store" in done.stdout
    assert "hunter2" not in done.output


@pytest.mark.parametrize("scheme", ["postgresql", "redis", "etcd"])
def test_an_unreachable_host_is_bad_within_the_time_out(scheme):
    option = "?objects=a.db&timeout=1" if scheme == "etcd" else ""
    began = monotonic()

    found = diagnose(f"{scheme}://ann:hunter2@127.0.0.1:{free_port()}/{option}", code=1)

    assert found["store"]["state"] == "bad"
    assert found["store"]["hint"]
    assert "hunter2" not in str(found)
    assert monotonic() - began < 15


def _content(url: str) -> tuple[object, ...]:
    store = open_store(url, create=False)
    try:
        return store.refs(), store.moves(), store.usage()
    finally:
        store.close()
