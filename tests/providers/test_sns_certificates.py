"""Certificates: what is wrong with one, what is remembered, and who waits for whom."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from mailer.feed import Channel, NotNow, Unacceptable
from mailer.prove.kit.waiting import until
from providers.sns import SnsVerifier
from providers.sns_certificates import Certificates, SigningCertificate, read_certificate
from providers.sns_fetch import from_folder
from tests.providers.calls import run
from tests.sns_kit import (
    SIGNER,
    TOPIC,
    CertificateHost,
    body,
    certificate,
    certificate_url,
    signed,
    signing_key,
)

NAMES = frozenset({SIGNER})
URL = certificate_url()
MANY = 16


def test_a_certificate_in_order() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    end = start + timedelta(days=365)
    found = read_certificate(
        certificate(names=["other.example", SIGNER.upper()], start=start, end=end), NAMES
    )
    assert found.key.public_numbers() == signing_key().public_key().public_numbers()
    second = timedelta(seconds=1)
    moments = [start - second, start, end, end + second]
    assert [found.is_valid_at(each) for each in moments] == [False, True, True, False]


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (lambda: b"", "unreadable"),
        (lambda: b"<html>not found</html>", "unreadable"),
        (lambda: certificate()[:-200], "unreadable"),
        (lambda: certificate().replace(b"CERTIFICATE", b"PRIVATE KEY"), "unreadable"),
        (lambda: certificate(names=["mail.example.com"]), "name"),
        (lambda: certificate(names=[]), "name"),
        (lambda: certificate(names=["*.amazonaws.com"]), "name"),
        (lambda: certificate(names=[f"{SIGNER}.evil.example"]), "name"),
        (lambda: certificate(names=[f"x.{SIGNER}"]), "name"),
        (lambda: certificate(ec.generate_private_key(ec.SECP256R1())), "key"),
        (lambda: certificate(signing_key(bits=1024)), "key"),
    ],
)
def test_a_certificate_that_proves_nothing(made: Callable[[], bytes], rule: str) -> None:
    """And it is asked for again the next time, as it may have been mended."""
    host = CertificateHost({URL: made()})
    certificates = Certificates(host)
    for _ in range(2):
        with pytest.raises(Unacceptable, match=f"sns-certificate-{rule}$") as caught:
            run(certificates.get(URL, NAMES))
        assert caught.value.status == 403
    assert host.asked == [URL, URL]
    host.certificates[URL] = certificate()
    assert run(certificates.get(URL, NAMES))


def test_a_good_certificate_is_asked_for_once() -> None:
    host = CertificateHost()
    verifier = SnsVerifier([TOPIC], Certificates(host))
    for _ in range(3):
        run(verifier.verify(body(signed()), Channel.HTTPS))
    assert host.asked == [URL]


@pytest.mark.parametrize("failure", [TimeoutError, ValueError, KeyError, NotNow])
def test_a_failure_is_forgotten(failure: type[Exception]) -> None:
    answers: list[bytes | Exception] = [failure("x"), certificate()]

    def fetch(_: str) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    certificates = Certificates(fetch)
    with pytest.raises(NotNow, match="sns-certificate-fetch"):
        run(certificates.get(URL, NAMES))
    assert run(certificates.get(URL, NAMES))


def test_rotation() -> None:
    later = certificate_url(number=1)
    host = CertificateHost({URL: certificate(), later: certificate(signing_key(1))})
    verifier = SnsVerifier([TOPIC], Certificates(host))
    rotated = signed(SigningCertURL=later, key=signing_key(1))
    assert run(verifier.verify(body(signed()), Channel.HTTPS))
    assert run(verifier.verify(body(rotated), Channel.HTTPS))
    assert run(verifier.verify(body(signed()), Channel.HTTPS))
    assert host.asked == [URL, later]


def test_only_those_used_last_are_remembered() -> None:
    urls = [certificate_url(number=number) for number in range(3)]
    host = CertificateHost(dict.fromkeys(urls, certificate()))
    certificates = Certificates(host, remembered=2)
    for number in (0, 1, 0, 2, 0, 1):
        run(certificates.get(urls[number], NAMES))
    assert host.asked == [urls[number] for number in (0, 1, 2, 1)]


class Held:
    """A host that answers no request until it may."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._may_answer = threading.Event()

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        assert self._may_answer.wait(20)
        return certificate()

    def answer(self) -> None:
        """Answer all that is asked, now and later."""
        self._may_answer.set()


async def asking(
    host: Held, *requests: Awaitable[SigningCertificate]
) -> list["asyncio.Task[SigningCertificate]"]:
    """Start the requests, and return once the host was asked."""
    tasks = [asyncio.ensure_future(each) for each in requests]
    await asyncio.sleep(0)
    await asyncio.to_thread(until, lambda: host.asked)
    return tasks


def test_who_asks_for_the_same_certificate_waits_for_the_same_answer() -> None:
    host = Held()
    certificates = Certificates(host)

    async def work() -> None:
        tasks = await asking(host, *(certificates.get(URL, NAMES) for _ in range(5)))
        host.answer()
        found = await asyncio.gather(*tasks)
        assert len(set(map(id, found))) == 1

    run(work())
    assert host.asked == [URL]


def test_one_who_goes_away_takes_nothing_from_the_others() -> None:
    """Not even where the fetch has not begun yet."""
    host = Held()
    certificates = Certificates(host)

    async def work() -> None:
        others = [certificate_url(number=number) for number in range(1, MANY)]
        asked = [*others, URL, URL]
        tasks = await asking(host, *(certificates.get(url, NAMES) for url in asked))
        tasks[-2].cancel()
        await asyncio.wait([tasks[-2]])
        host.answer()
        assert (await tasks[-1]).key
        await asyncio.gather(*tasks[:-2])

    run(work())
    assert host.asked.count(URL) == 1


def test_two_event_loops_share_an_answer() -> None:
    host = Held()
    certificates = Certificates(host)
    found: list[SigningCertificate] = []

    def ask() -> None:
        found.append(run(certificates.get(URL, NAMES)))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: host.asked)
    host.answer()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert host.asked == [URL]


def is_there(certificates: Certificates) -> bool:
    """Whether the certificate is had within their patience."""
    with suppress(NotNow):
        return bool(run(certificates.get(URL, NAMES)))
    return False


def test_who_has_waited_long_enough_asks_again_later() -> None:
    host = Held()
    certificates = Certificates(host, patience=0.01)
    with pytest.raises(NotNow, match="sns-certificate-slow"):
        run(certificates.get(URL, NAMES))
    host.answer()
    until(lambda: is_there(certificates))
    assert host.asked == [URL]


def test_certificates_that_nobody_has_do_not_pile_up() -> None:
    """What is remembered is not held up by them."""
    host = Held()
    certificates = Certificates(host)

    async def work() -> None:
        urls = [certificate_url(number=number) for number in range(MANY)]
        tasks = await asking(host, *(certificates.get(url, NAMES) for url in urls))
        with pytest.raises(NotNow, match="sns-certificate-busy"):
            await certificates.get(certificate_url(number=MANY), NAMES)
        host.answer()
        await asyncio.gather(*tasks)
        assert await certificates.get(certificate_url(number=MANY), NAMES)

    run(work())
    assert len(host.asked) == MANY + 1


def test_a_machine_without_a_thread_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    certificates = Certificates(CertificateHost())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(NotNow, match="sns-certificate-busy"):
            run(certificates.get(URL, NAMES))
    assert run(certificates.get(URL, NAMES))


def absent(url: str) -> bytes:
    raise LookupError(url)


def test_a_folder_goes_before_the_host(tmp_path: Path) -> None:
    pem = certificate()
    fetch = from_folder(CertificateHost({URL: pem}).write(tmp_path), absent)
    assert fetch(URL) == pem
    with pytest.raises(LookupError):
        fetch(certificate_url(number=7))


@pytest.mark.parametrize("path", ["secret.pem", "../secret.pem", "..%2fsecret.pem", "", "..", "."])
def test_a_folder_gives_nothing_but_certificates(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.pem").write_bytes(b"x")
    with pytest.raises(LookupError):
        from_folder(tmp_path, absent)(f"https://sns.eu-west-1.amazonaws.com/{path}")


def test_a_folder_s_certificate_is_checked_like_any_other(tmp_path: Path) -> None:
    host = CertificateHost({URL: certificate(names=["mail.example.com"])})
    certificates = Certificates(from_folder(host.write(tmp_path), absent))
    with pytest.raises(Unacceptable, match="sns-certificate-name"):
        run(certificates.get(URL, NAMES))
