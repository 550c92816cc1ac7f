"""Connections to a model: through proxies, with certificates of one's own, and used again."""

from __future__ import annotations

import os
import socket
import threading
from base64 import b64encode

import pytest

from otolith.agent import AnthropicModel, Model, OpenAIModel
from otolith.agent.models.http import environment_proxy
from otolith.conversation import Message, Role, Text
from otolith.errors import Denied, Error, Invalid, ModelFailed
from tests.patience import HANG_SECONDS
from tests.unit.agent.provider import LOOPBACK_PEM, serving
from tests.unit.agent.proxy import proxying

ASKED = [Message(Role.USER, (Text("Hi"),))]
KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def model(url: str, **limits) -> Model:
    limits = {"retries": 0, "timeout_seconds": HANG_SECONDS, **limits}
    return OpenAIModel(f"{url}/v1", "m", api_key=KEY, **limits)


def test_a_proxy_of_the_environment_is_used_for_a_name_that_only_it_knows(monkeypatch):
    with serving({"text": "there"}) as provider, proxying(provider.port) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert model("http://model.test").complete(ASKED).text == "there"
        assert proxy.asked == ["POST http://model.test/v1/chat/completions HTTP/1.1"]
        assert provider.headers[0]["Host"] == "model.test"


@pytest.mark.parametrize("on_text", [None, lambda _: None], ids=["whole", "streamed"])
def test_a_secure_endpoint_is_reached_through_a_tunnel_and_checked(monkeypatch, on_text):
    with serving({"text": "there"}, is_secure=True) as provider, proxying(provider.port) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        made = AnthropicModel(
            "m", api_key=KEY, base_url="https://model.test", ca_file=LOOPBACK_PEM, retries=0
        )
        assert made.complete(ASKED, on_text=on_text).text.strip() == "there"
        assert [line.rpartition(" ")[0] for line in proxy.asked] == ["CONNECT model.test:443"]
        with pytest.raises(ModelFailed, match="certificate"):
            model("https://other.test", ca_file=LOOPBACK_PEM).complete(ASKED)


@pytest.mark.parametrize("is_secure", [False, True])
def test_a_proxy_may_want_a_password_which_no_error_tells(is_secure):
    known = b64encode(b"ann:p@ss/word-1").decode()
    scheme = "https" if is_secure else "http"
    with (
        serving({"text": "there"}, is_secure=is_secure) as provider,
        proxying(provider.port, wants=known) as proxy,
    ):
        url = proxy.url.replace("://", "://ann:p%40ss%2Fword-1@")
        through = model(f"{scheme}://model.test", proxy=url, ca_file=LOOPBACK_PEM)
        assert through.complete(ASKED).text == "there"
        wrong = url.replace("word-1", "word-2")
        stranger = model(f"{scheme}://model.test", proxy=wrong, ca_file=LOOPBACK_PEM)
        with pytest.raises((Denied, ModelFailed), match="407") as refused:
            stranger.complete(ASKED)
    assert "word-2" not in str(refused.value) + repr(through)


@pytest.mark.parametrize(
    ("host", "no_proxy", "is_used"),
    [
        ("api.example.org", "", True),
        ("api.example.org", "example.org", False),
        ("api.example.org", ".example.org, other.org", False),
        ("example.org", ".example.org", False),
        ("badexample.org", "example.org", True),
        ("api.example.org", "*", False),
        ("10.1.2.3", "10.0.0.0/8", False),
        ("11.1.2.3", "10.0.0.0/8", True),
        ("localhost", "", False),
        ("127.0.0.1", "", False),
        ("::1", "", False),
    ],
)
def test_no_proxy_names_hosts_domains_and_networks(monkeypatch, host, no_proxy, is_used):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert environment_proxy("https", host) == ("http://proxy:3128" if is_used else "")
    assert environment_proxy("http", host) == ""


@pytest.mark.parametrize("proxy", ["socks5://x:1", "https://x:1", "http://", "http://x:99999"])
def test_a_proxy_that_cannot_be_used_is_refused_at_once(proxy):
    with pytest.raises(Invalid, match="a proxy must be http://host:port"):
        model("https://model.test", proxy=proxy)


def test_a_server_that_no_certificate_vouches_for_is_not_asked():
    with serving({"text": "there"}, is_secure=True) as provider:
        with pytest.raises(ModelFailed, match="certificate"):
            model(provider.url).complete(ASKED)
        assert provider.requests == []
        assert model(provider.url, ca_file=LOOPBACK_PEM).complete(ASKED).text == "there"


def test_the_bundle_of_the_environment_is_trusted(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", LOOPBACK_PEM)
    with serving({"text": "there"}, is_secure=True) as provider:
        assert model(provider.url).complete(ASKED).text == "there"


@pytest.mark.parametrize("name", ["missing.pem", "__init__.py"])
def test_a_bundle_without_certificates_is_refused_at_once(tmp_path, name):
    (tmp_path / "__init__.py").write_text("nothing")
    with pytest.raises(Invalid, match="ca_file must be a file of certificates"):
        model("https://model.test", ca_file=str(tmp_path / name))


def test_a_connection_is_used_again():
    with serving({"text": "there"}) as provider:
        asked = model(provider.url)
        for _ in range(3):
            assert asked.complete(ASKED).text == "there"
        assert len(provider.connections) == 1


def test_a_connection_that_the_server_has_closed_is_made_anew_unnoticed():
    with serving({"text": "there"}) as provider:
        asked = model(provider.url)
        for _ in range(3):
            assert asked.complete(ASKED).text == "there"
            for connection in provider.lines:  # the server gives up on what it has open
                connection.shutdown(socket.SHUT_RDWR)
            provider.lines.clear()
        assert len(provider.connections) == 3


def test_threads_have_connections_of_their_own():
    with serving({"text": "there"}) as provider:
        asked = model(provider.url)
        told: list[str] = []

        def ask() -> None:
            told.extend(asked.complete(ASKED).text for _ in range(10))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert told == ["there"] * 60
        assert len(provider.connections) < 60


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_does_not_talk_on_the_connection_of_its_parent():
    with serving({"text": "there"}) as provider:
        asked = model(provider.url)
        asked.complete(ASKED)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if asked.complete(ASKED).text == "there" else 1
            except Error:
                code = 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert asked.complete(ASKED).text == "there"
        assert len(provider.connections) == 2
