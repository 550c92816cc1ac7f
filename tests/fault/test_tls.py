"""Servers with certificates: a good one is used, a bad one is refused and names what to set."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from otolith.errors import Denied, Invalid, Unavailable
from otolith.stores import PostgresStore, RedisStore
from otolith.testing import blob, put
from tests.servers.certificates import Certificate, make_certificate
from tests.servers.postgres import fresh, other_user, postgres_server
from tests.servers.redis import redis_server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An authority that has signed nothing."""
    return make_certificate(tmp_path_factory.mktemp("stranger")).authority


# -------------------- Redis


@pytest.fixture(scope="module")
def redis(tmp_path_factory, certificate):
    with redis_server(tmp_path_factory.mktemp("redis"), certificate=certificate) as server:
        yield server


def _redis(server, host="localhost", scheme="rediss", **options):
    words = "".join(f"&{name}={value}" for name, value in options.items())
    return f"{scheme}://{host}:{server.port}/0?failover=accepted&timeout=2{words}"


def test_redis_with_a_known_certificate(redis, certificate):
    with closing(RedisStore(_redis(redis, ssl_ca_certs=certificate.authority))) as store:
        put(store, "main", blob("a"))
        assert store.ref("main") == blob("a").hash


def test_redis_with_an_unknown_certificate(redis, stranger):
    for options in ({}, {"ssl_ca_certs": stranger}):
        with pytest.raises(Denied, match=r"(?i)certificate") as caught:
            RedisStore(_redis(redis, **options))
        assert "ssl_ca_certs=" in caught.value.hint


def test_redis_with_the_certificate_of_another_host(redis, certificate):
    with pytest.raises(Denied, match="127") as caught:
        RedisStore(_redis(redis, host="127.0.0.1", ssl_ca_certs=certificate.authority))
    assert "host name" in caught.value.hint


def test_redis_with_a_certificate_that_is_not_checked(redis):
    RedisStore(_redis(redis, host="127.0.0.1", ssl_cert_reqs="none", prefix="unchecked")).close()


def test_redis_with_a_file_that_is_missing(redis):
    with pytest.raises(Invalid, match="ssl_ca_certs") as caught:
        RedisStore(_redis(redis, ssl_ca_certs="/nowhere/ca.pem"))
    assert "/nowhere/ca.pem" in str(caught.value)


def test_redis_without_tls_on_one_side(redis, tmp_path, certificate):
    with pytest.raises(Unavailable) as caught:
        RedisStore(_redis(redis, scheme="redis"))
    assert "rediss://" in caught.value.hint
    with redis_server(tmp_path / "plain") as plain, pytest.raises(Unavailable) as caught:
        RedisStore(_redis(plain, ssl_ca_certs=certificate.authority))
    assert "redis://" in caught.value.hint


# -------------------- Postgres


@pytest.fixture(scope="module")
def postgres(certificate):
    with postgres_server() as server:
        certificate = _owned(certificate, server.folder)
        server.ask(f"alter system set ssl_cert_file = '{certificate.certificate}'")
        server.ask(f"alter system set ssl_key_file = '{certificate.key}'")
        server.ask("alter system set ssl = on")
        server.ask("select pg_reload_conf()")
        yield server


def _owned(certificate: Certificate, folder: Path) -> Certificate:
    """Return a copy of a certificate for the user that the server runs as: it insists."""
    made = Certificate(certificate.authority, folder / "server.pem", folder / "server.key")
    for source, target in (
        (certificate.certificate, made.certificate),
        (certificate.key, made.key),
    ):
        shutil.copy(source, target)
        target.chmod(0o600)
        user = other_user()
        if user is not None:
            os.chown(target, user, user)
    return made


def _postgres(server, host="localhost", **options):
    place = server.url.replace("127.0.0.1", host)
    return fresh(place, hostaddr="127.0.0.1", connect_timeout=5, **options)


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_postgres_with_a_known_certificate(postgres, certificate, mode):
    options = {} if mode == "require" else {"sslrootcert": certificate.authority}
    with closing(PostgresStore(_postgres(postgres, sslmode=mode, **options))) as store:
        put(store, "main", blob("a"))
        ((is_encrypted,),) = store._connections.ask(
            b"select ssl from pg_stat_ssl where pid = pg_backend_pid()"
        )
        assert is_encrypted


def test_postgres_with_an_unknown_certificate(postgres, stranger):
    with pytest.raises(Denied, match=r"(?i)certificate") as caught:
        PostgresStore(_postgres(postgres, sslmode="verify-full", sslrootcert=stranger))
    assert "sslrootcert=" in caught.value.hint


def test_postgres_without_a_file_of_authorities(postgres):
    with pytest.raises(Denied, match=r"(?i)root certificate") as caught:
        PostgresStore(_postgres(postgres, sslmode="verify-full", sslrootcert="/nowhere/ca.pem"))
    assert "sslrootcert=" in caught.value.hint


def test_postgres_with_the_certificate_of_another_host(postgres, certificate):
    options = {"sslmode": "verify-full", "sslrootcert": certificate.authority}
    with pytest.raises(Denied, match="does not match host name") as caught:
        PostgresStore(_postgres(postgres, host="elsewhere", **options))
    assert "host name" in caught.value.hint


def test_postgres_without_tls_on_one_side(postgres, postgres_url):
    with pytest.raises(Unavailable, match="SSL") as caught:
        PostgresStore(fresh(postgres_url, sslmode="require"))
    assert "sslmode=" in caught.value.hint
    hba = postgres.folder / "data/pg_hba.conf"
    before = hba.read_text()
    hba.write_text("hostssl all all 127.0.0.1/32 trust\n")
    postgres.ask("select pg_reload_conf()")
    try:
        with pytest.raises(Denied, match="no encryption") as refused:
            PostgresStore(_postgres(postgres, sslmode="disable"))
        assert "sslmode=require" in refused.value.hint
    finally:
        hba.write_text(before)
        postgres.ask("select pg_reload_conf()")


def test_a_host_that_nobody_knows_is_named():
    with pytest.raises(Unavailable) as caught:
        PostgresStore("postgresql://no-such-host.invalid/db?connect_timeout=5")
    assert "name of the host" in caught.value.hint
