"""Calls to members of etcd that answer by a script: what is repeated, and what is believed."""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Thread, Timer
from time import monotonic

import pytest

from otolith.errors import Busy, Closed, Denied, Full, Invalid, NotAStore, Unavailable
from otolith.stores.etcd.gateway import Gateway, TxnReply, read_place
from tests.patience import HANG_SECONDS, seconds
from tests.servers.process import free_port

OK = (200, '{"header":{"revision":"7"},"succeeded":true}')
LOST = None


def refusal(code: int, words: str) -> tuple[int, str]:
    return 400, f'{{"error":"etcdserver: {words}","code":{code}}}'


class ScriptedMember:
    """A member that gives one answer to each connection; None ends it without one."""

    def __init__(self, *answers: tuple[int, str] | None, port: int = 0) -> None:
        self._answers = list(answers)
        self.requests = 0
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError), self._listener:
            for answer in self._answers:
                connection, _ = self._listener.accept()
                with connection:
                    _read_request(connection)
                    self.requests += 1
                    connection.sendall(b"" if answer is None else _response(*answer))


def _read_request(connection: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < length:
        body += connection.recv(1 << 16)


def _response(status: int, text: str) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    return (head + text).encode()


def _call(*members: ScriptedMember, timeout: float = 30):
    hosts = ",".join(f"127.0.0.1:{member.port}" for member in members)
    gateway = Gateway(read_place(f"etcd://ann:s3cret@{hosts}?objects=a.db&timeout={timeout}"))
    gateway._token = "known"
    try:
        return gateway.call("/v3/kv/txn", {}, TxnReply)
    finally:
        gateway.close()


def test_an_answer_is_read_and_was_not_repeated():
    reply = _call(ScriptedMember(OK))
    assert (reply.body.succeeded, reply.body.header.revision, reply.repeated) == (True, 7, False)


def test_after_a_lost_reply_the_next_member_is_asked_and_the_caller_is_told():
    first, second = ScriptedMember(LOST), ScriptedMember(OK)
    assert _call(first, second).repeated
    assert (first.requests, second.requests) == (1, 1)


def test_a_member_that_cannot_be_reached_is_not_a_lost_reply():
    gone = ScriptedMember()
    gone._listener.close()
    assert not _call(gone, ScriptedMember(OK)).repeated


@pytest.mark.parametrize(
    "answer",
    [refusal(14, "leader changed"), refusal(14, "request timed out"), (503, "{}")],
)
def test_a_reply_that_leaves_the_outcome_open_counts_as_lost(answer):
    assert _call(ScriptedMember(answer), ScriptedMember(OK)).repeated


REFUSALS = [
    (refusal(3, "too many operations in txn request"), Invalid),
    (refusal(3, "request is too large"), Invalid),
    (refusal(8, "mvcc: database space exceeded"), Full),
    (refusal(8, "too many requests"), Busy),
    (refusal(5, "requested lease not found"), Busy),
    (refusal(7, "permission denied"), Denied),
    (refusal(3, "authentication failed, invalid user ID or password"), Denied),
    ((404, "Not Found"), NotAStore),
    ((200, "<html>"), NotAStore),
]


@pytest.mark.parametrize(("answer", "error"), REFUSALS)
def test_a_refusal_is_the_error_that_says_what_to_do(answer, error):
    with pytest.raises(error) as caught:
        _call(ScriptedMember(answer))
    assert type(caught.value) is error
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(("answer", "error"), REFUSALS)
def test_a_refusal_after_a_lost_reply_does_not_claim_that_nothing_happened(answer, error):
    with pytest.raises(Unavailable) as caught:
        _call(ScriptedMember(LOST), ScriptedMember(answer))
    assert type(caught.value) is Unavailable


def test_a_token_that_has_run_out_is_renewed_once():
    stale = refusal(16, "invalid auth token")
    member = ScriptedMember(stale, (200, '{"token":"new"}'), OK)
    assert _call(member).body.succeeded
    with pytest.raises(Denied):
        _call(ScriptedMember(stale, (200, '{"token":"new"}'), stale))


def test_a_closed_gateway_asks_nobody():
    gateway = Gateway(read_place("etcd://127.0.0.1:1?objects=a.db"))
    gateway.close()
    with pytest.raises(Closed):
        gateway.call("/v3/kv/txn", {}, TxnReply)


def test_a_place_shows_no_secret():
    place = read_place("etcd://ann:s3cret@h?objects=s3://b?secret_access_key=hidden&prefix=a/b/")
    assert place.endpoints == (("h", 2379),)
    assert place.prefix == "a/b/"
    assert "s3cret" not in f"{place} {place!r}"
    assert "hidden" not in f"{place} {place!r}"


@pytest.mark.parametrize("hosts", ["127.0.0.1:{0}", "127.0.0.1:{0},127.0.0.1:{1}"])
def test_members_that_are_not_there_are_an_error_soon(hosts):
    hosts = hosts.format(free_port(), free_port())
    gateway = Gateway(read_place(f"etcd://{hosts}?objects=a.db&timeout={HANG_SECONDS}"))
    began = monotonic()
    with pytest.raises(Unavailable, match="refused") as caught:
        gateway.call("/v3/kv/txn", {}, TxnReply)
    assert monotonic() - began < seconds(10)
    assert all(host in str(caught.value) for host in hosts.split(","))


def test_a_member_that_comes_back_soon_is_waited_for():
    port = free_port()
    gateway = Gateway(read_place(f"etcd://127.0.0.1:{port}?objects=a.db&timeout=30"))
    late = Timer(0.3, lambda: members.append(ScriptedMember(OK, port=port)))
    members: list[ScriptedMember] = []
    late.start()
    assert gateway.call("/v3/kv/txn", {}, TxnReply).body.succeeded
    late.join()


def test_a_member_that_may_have_heard_is_asked_until_the_time_is_over():
    member = ScriptedMember(LOST)
    gateway = Gateway(read_place(f"etcd://127.0.0.1:{member.port}?objects=a.db&timeout=2.5"))
    began = monotonic()
    with pytest.raises(Unavailable):
        gateway.call("/v3/kv/txn", {}, TxnReply)
    assert monotonic() - began >= 1, "one lost reply, then it is not there any more"


def test_a_host_that_nobody_knows_is_named():
    gateway = Gateway(read_place("etcd://no-such-host.invalid?objects=a.db"))
    with pytest.raises(Unavailable) as caught:
        gateway.call("/v3/kv/txn", {}, TxnReply)
    assert "check the host names" in caught.value.hint
