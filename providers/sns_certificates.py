"""Signing certificates: checked once, remembered when good, and asked for once at a time."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from mailer.feed import NotNow, Unacceptable

Fetch = Callable[[str], bytes]
"""Returns what lies at a URL, waiting for it; any exception means that it could not be had."""

_RSA_LEAST_BITS = 2048
_REMEMBERED = 32
"""A region has one certificate at a time, and a new one about once a year."""
_FETCHED_AT_ONCE = 4
_UNDER_WAY = 16
_PATIENCE_SECONDS = 10.0
"""SNS takes no answer within 15 seconds for a failure."""


@dataclass(frozen=True, slots=True)
class SigningCertificate:
    """A certificate's key, and when it is valid (both ends included)."""

    key: RSAPublicKey
    not_before: datetime
    not_after: datetime

    def is_valid_at(self, moment: datetime) -> bool:
        """Whether it had begun and not ended."""
        return self.not_before <= moment <= self.not_after


def read_certificate(pem: bytes, names: frozenset[str]) -> SigningCertificate:
    """Read the certificate of a signer that has one of these names, in lower case.

    Its chain is not followed: the file holds the leaf alone, and came over TLS from the signer's
    own host. Raises Unacceptable (403) for one that is unreadable, somebody else's, or whose key is
    not RSA of 2048 bits or more.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        key, found = certificate.public_key(), _names(certificate)
    except Exception as exc:  # the parser names no end of the errors that octets may cause
        raise Unacceptable(403, "sns-certificate-unreadable") from exc
    if found.isdisjoint(names):
        raise Unacceptable(403, "sns-certificate-name")
    if not isinstance(key, RSAPublicKey) or key.key_size < _RSA_LEAST_BITS:
        raise Unacceptable(403, "sns-certificate-key")
    return SigningCertificate(
        key, certificate.not_valid_before_utc, certificate.not_valid_after_utc
    )


class Certificates:
    """Fetches, checks and remembers certificates. One serves every thread and event loop.

    Only a good certificate is remembered, the `remembered` used last; a failure never is. Fetches
    have few threads of their own: whoever may post to us can name certificates that do not exist,
    and shall delay nothing by it but other certificates.
    """

    def __init__(
        self, fetch: Fetch, *, remembered: int = _REMEMBERED, patience: float = _PATIENCE_SECONDS
    ) -> None:
        self._fetch = fetch
        self._remembered = remembered
        self._patience = patience
        self._lock = threading.Lock()
        self._known: OrderedDict[str, SigningCertificate] = OrderedDict()
        self._flights: dict[str, Future[SigningCertificate]] = {}
        self._pool = ThreadPoolExecutor(_FETCHED_AT_ONCE, "certificates")

    async def get(self, url: str, names: frozenset[str]) -> SigningCertificate:
        """Return the certificate at this URL, which `read_certificate` found in order.

        Raises its Unacceptable, or NotNow when the certificate cannot be had within `patience`
        seconds or too many others are being fetched.
        """
        with self._lock:
            known = self._known.get(url)
            if known is not None:
                self._known.move_to_end(url)
                return known
            flight = self._flights.get(url) or self._depart(url, names)
        try:
            async with asyncio.timeout(self._patience):
                # Shielded: others wait for the same one, and who asks again shall find it there.
                return await asyncio.shield(asyncio.wrap_future(flight))
        except TimeoutError as exc:
            raise NotNow("sns-certificate-slow") from exc

    def _depart(self, url: str, names: frozenset[str]) -> "Future[SigningCertificate]":
        if len(self._flights) >= _UNDER_WAY:
            raise NotNow("sns-certificate-busy")
        try:
            flight = self._pool.submit(self._obtain, url, names)
        except RuntimeError as exc:  # no thread can be started, or the process is ending
            raise NotNow("sns-certificate-busy") from exc
        self._flights[url] = flight
        return flight

    def _obtain(self, url: str, names: frozenset[str]) -> SigningCertificate:
        try:
            certificate = read_certificate(self._fetched(url), names)
            self._remember(url, certificate)
            return certificate
        finally:
            with self._lock:
                self._flights.pop(url, None)

    def _fetched(self, url: str) -> bytes:
        try:
            return self._fetch(url)
        except Exception as exc:
            raise NotNow("sns-certificate-fetch") from exc

    def _remember(self, url: str, certificate: SigningCertificate) -> None:
        with self._lock:
            self._known[url] = certificate
            while len(self._known) > self._remembered:
                self._known.popitem(last=False)


def _names(certificate: x509.Certificate) -> frozenset[str]:
    """Return the names the certificate is for; the common name, which is only a label, is none."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(each.lower() for each in found.value.get_values_for_type(x509.DNSName))
