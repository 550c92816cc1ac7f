"""Addresses of stores: their options, and how they are shown."""

from __future__ import annotations

import sys

import pytest

from otolith.errors import Invalid, MissingExtra
from otolith.stores import open_store
from otolith.stores.postgres import connections
from otolith.stores.redis.client import RedisAddress
from otolith.stores.server_url import check_options, secrets_of, split_options, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:s3cret@host:6379/0", "redis://:***@host:6379/0"),
        ("postgresql://ann:p@ss@a,b/db", "postgresql://ann:***@a,b/db"),
        (
            "postgresql://ann@host/db?password=x&user=y",
            "postgresql://ann@host/db?password=***&user=y",
        ),
        ("s3://bucket/a@b:c", "s3://bucket/a@b:c"),
        ("s3://bucket?secret_access_key=abc", "s3://bucket?secret_access_key=***"),
        (
            "etcd://host?objects=postgresql%3A%2F%2Fann%3Ap%40ss%40db%2Fx%3Fpassword%3Dy&prefix=a",
            "etcd://host?objects=postgresql%3A%2F%2Fann%3A***%40db%2Fx%3Fpassword%3D***&prefix=a",
        ),
        ("agent.db", "agent.db"),
        ("postgresql://bob:pa#ss@host:1/db", "postgresql://bob:***@host:1/db"),
        ("redis://:pa/ss@host", "redis://:***@host"),
        ("postgresql://a:1,b:2/db", "postgresql://a:1,b:2/db"),
        ("etcd://h:1?objects=postgresql://ann@db/x", "etcd://h:1?objects=postgresql://ann@db/x"),
    ],
)
def test_a_shown_url_has_no_secrets(url, shown):
    assert without_secrets(url) == shown


@pytest.mark.parametrize("password", ["pa#ss", "pa/ss", "pa?ss", "pa@ss"])
def test_a_password_with_an_ambiguous_character_is_refused_and_not_shown(password):
    with pytest.raises(Invalid, match="%23") as caught:
        open_store(f"postgresql://bob:{password}@127.0.0.1:9/db")
    assert "ss@" not in str(caught.value)
    assert "pa" not in str(caught.value).partition("password")[0]


def test_secrets_are_found_to_be_removed_from_messages():
    url = "postgresql://ann:pw@host/db?sslpassword=x&application_name=y"
    assert secrets_of(url) == {"pw", "x"}


@pytest.mark.parametrize("scheme", ["postgresql", "redis", "etcd", "s3"])
def test_a_host_that_is_none_is_invalid_and_the_password_not_shown(scheme):
    with pytest.raises(Invalid, match=r"not one|not the address") as caught:
        open_store(f"{scheme}://bob:hunter2@[::1/db?objects=x")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_server_may_be_named_by_its_socket_alone():
    url = "postgresql:///db?host=/run/pg&schema=agents"
    assert split_options(url, {"schema"})[0] == "postgresql:///db?host=/run/pg"
    login = connections.parse(url, read_only=False).login
    assert (login["host"], login["dbname"]) == ("/run/pg", "db")


def test_an_option_of_a_file_is_invalid_and_makes_no_file(tmp_path):
    with pytest.raises(Invalid, match="no option 'timeout'"):
        open_store(f"sqlite:///{tmp_path}/x.db?timeout=5")
    assert [*tmp_path.iterdir()] == []
    open_store(f"sqlite:///{tmp_path}/x.db%3Ftimeout=5").close()
    assert (tmp_path / "x.db?timeout=5").exists()


def test_the_address_of_a_redis_server_shows_no_password():
    shown = repr(RedisAddress.of("redis://bob:hunter2@127.0.0.1:1/0"))
    assert "hunter2" not in shown
    assert "127.0.0.1" in shown


def test_options_of_ours_are_taken_out_of_a_url():
    url = "postgresql://host/db?schema=agents&connect_timeout=3"
    assert split_options(url, {"schema"}) == (
        "postgresql://host/db?connect_timeout=3",
        {"schema": "agents"},
    )


@pytest.mark.parametrize("query", ["colour=red", "colour", "size=1&size=2"])
def test_an_option_that_is_unknown_or_given_twice_is_invalid(query):
    with pytest.raises(Invalid, match=r"colour|size"):
        check_options(f"redis://host?{query}", {"size"})


@pytest.mark.parametrize(
    ("url", "package"),
    [("postgresql://host/db", "psycopg"), ("redis://host", "redis"), ("s3://bucket", "obstore")],
)
def test_a_missing_client_says_what_to_install(monkeypatch, url, package):
    scheme = url.partition(":")[0]
    extra = "postgres" if package == "psycopg" else scheme
    for name in list(sys.modules):
        if name.startswith((f"otolith.stores.{extra}", "otolith.stores.bucket")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=package) as caught:
        open_store(url)
    assert caught.value.hint == f"pip install 'otolith[{extra}]'"


def test_a_client_without_its_library_is_a_missing_extra(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("otolith.stores.postgres"):
            monkeypatch.delitem(sys.modules, name)

    class NoLibpq:
        def find_spec(self, name, *_):
            if name.startswith("otolith.stores.postgres"):
                raise ImportError("no pq wrapper available.\nAttempts made:")

    monkeypatch.setattr(sys, "meta_path", [NoLibpq(), *sys.meta_path])
    with pytest.raises(MissingExtra, match="no pq wrapper available"):
        open_store("postgresql://127.0.0.1:1/db")
