"""Fetching a certificate over TLS from hosts that answer, refuse, redirect, drip or never end."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from mailer.prove.kit.smtp_script import Act, Acts, tell
from providers.sns_fetch import CERTIFICATE_LIMIT_BYTES, NotFetched, fetch_certificate
from tests.certificates import Authority
from tests.ses_endpoint import END, RESET, STALL, SesEndpoint, answer, raw

PATH = "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
PEM = b"-----BEGIN CERTIFICATE-----\n"
SECONDS = 0.3
"""What a fetch may take where the test waits for its end."""

Serve = Callable[..., SesEndpoint]


@pytest.fixture
def trusting(authority: Authority) -> ssl.SSLContext:
    """What trusts the tests' authority alone."""
    return ssl.create_default_context(cafile=str(authority.ca))


@pytest.fixture
def serve(authority: Authority) -> Iterator[Serve]:
    """Start a host that answers a GET with these acts."""
    started: list[SesEndpoint] = []

    def start(acts: Acts, *, host: str = "127.0.0.1", days: int = 1) -> SesEndpoint:
        tls = authority.server(host, days=days)
        started.append(SesEndpoint.scripted(tls, unknown=acts).__enter__())
        return started[-1]

    yield start
    for each in started:
        each.__exit__()


def test_a_certificate(serve: Serve, trusting: ssl.SSLContext) -> None:
    endpoint = serve(answer(200, PEM))
    assert fetch_certificate(endpoint.url + PATH, context=trusting) == PEM
    (request,) = endpoint.requests
    assert request.line == f"GET {PATH}"
    assert request.headers["host"] == f"127.0.0.1:{endpoint.port}"


@pytest.mark.parametrize(
    "acts",
    [
        answer(200, b"x" * CERTIFICATE_LIMIT_BYTES),
        answer(200, b"10\r\n" + b"x" * 16 + b"\r\n0\r\n\r\n", {"Transfer-Encoding": "chunked"}),
    ],
)
def test_an_answer_of_a_bearable_form(serve: Serve, trusting: ssl.SSLContext, acts: Acts) -> None:
    found = fetch_certificate(serve(acts).url + PATH, context=trusting)
    assert set(found) == set(b"x")


@pytest.mark.parametrize("status", [204, 301, 302, 307, 400, 403, 404, 429, 500, 503])
def test_another_status(serve: Serve, trusting: ssl.SSLContext, status: int) -> None:
    elsewhere = serve(answer(200, PEM))
    headers = {"Location": elsewhere.url + PATH}
    endpoint = serve(answer(status, b"" if status == 204 else PEM, headers))
    with pytest.raises(NotFetched):
        fetch_certificate(endpoint.url + PATH, context=trusting)
    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "acts",
    [
        END,
        RESET,
        raw(b"\r\n\r\n"),
        raw(b"nothing like HTTP\r\n\r\n"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf of it"), END),
        (raw(b"HTTP/1.1 200 OK\r\n\r\nof an unknown length"), END),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf"), END),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ],
    ids=range(8),
)
def test_an_answer_that_is_none(serve: Serve, trusting: ssl.SSLContext, acts: Acts) -> None:
    with pytest.raises((NotFetched, OSError)):
        fetch_certificate(serve(acts).url + PATH, context=trusting)


@pytest.mark.parametrize(
    "acts",
    [
        answer(200, b"x" * (CERTIFICATE_LIMIT_BYTES + 1)),
        raw(b"HTTP/1.1 200 OK\r\n" + b"X-Long: x\r\n" * 20_000),
        raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000),
        raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 2000),
        raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000),
    ],
    ids=["content", "headers", "header", "heads", "endless content"],
)
def test_a_long_answer(serve: Serve, trusting: ssl.SSLContext, acts: Acts) -> None:
    with pytest.raises(NotFetched):
        fetch_certificate(serve(acts).url + PATH, context=trusting)


def test_a_host_that_takes_leave_in_the_middle(
    authority: Authority, trusting: ssl.SSLContext
) -> None:
    """TLS is closed in order, so that only the length tells that something is missing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock = authority.server().context.wrap_socket(listener.accept()[0], server_side=True)
            with sock, suppress(OSError):
                sock.recv(65536)
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf of it")
                sock.unwrap()

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NotFetched):
            fetch_certificate(
                f"https://127.0.0.1:{listener.getsockname()[1]}{PATH}", context=trusting
            )
        thread.join()


def dripping(first: bytes) -> Iterator[Act]:
    """Say something, then one octet after the other for longer than anybody would wait."""
    yield raw(first)
    pause = threading.Event()
    for _ in range(400):
        yield tell(lambda: pause.wait(0.05))
        yield raw(b"x")


@pytest.mark.parametrize(
    "acts",
    [
        STALL,
        tuple(dripping(b"HTTP/1.1 200 OK\r\nX-Long: ")),
        tuple(dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n")),
        tuple(dripping(b"HTTP/1.1 200 OK\r\n\r\n")),
    ],
    ids=["silence", "in the head", "in the content", "without an end"],
)
def test_a_slow_host(serve: Serve, trusting: ssl.SSLContext, acts: Acts) -> None:
    with pytest.raises(TimeoutError):
        fetch_certificate(serve(acts).url + PATH, context=trusting, seconds=SECONDS)


def test_a_host_that_never_shakes_hands(trusting: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}{PATH}"
        with pytest.raises(TimeoutError):
            fetch_certificate(url, context=trusting, seconds=SECONDS)


def test_a_host_that_is_not_there(trusting: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(NotFetched):
        fetch_certificate(f"https://127.0.0.1:{port}{PATH}", context=trusting)


def test_no_time(trusting: ssl.SSLContext) -> None:
    with pytest.raises((NotFetched, TimeoutError)):
        fetch_certificate(f"https://127.0.0.1:9{PATH}", context=trusting, seconds=0)


@pytest.mark.parametrize(("host", "days"), [("127.0.0.2", 1), ("127.0.0.1", -1)])
def test_a_host_with_another_name_or_an_expired_certificate(
    serve: Serve, trusting: ssl.SSLContext, host: str, days: int
) -> None:
    endpoint = serve(answer(200, PEM), host=host, days=days)
    with pytest.raises(ssl.SSLCertVerificationError):
        fetch_certificate(endpoint.url + PATH, context=trusting)
    assert endpoint.requests == []


def test_a_host_that_no_authority_of_the_system_knows(serve: Serve) -> None:
    endpoint = serve(answer(200, PEM))
    with pytest.raises(ssl.SSLCertVerificationError):
        fetch_certificate(endpoint.url + PATH)
    assert endpoint.requests == []


def test_a_proxy_of_the_environment_is_not_asked(
    serve: Serve, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SesEndpoint() as proxy:
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert fetch_certificate(serve(answer(200, PEM)).url + PATH, context=trusting) == PEM
        assert proxy.connections == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1/x.pem", "file:///etc/passwd", "https:///x.pem"])
def test_no_https(url: str) -> None:
    with pytest.raises(NotFetched):
        fetch_certificate(url)
