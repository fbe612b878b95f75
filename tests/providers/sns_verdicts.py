"""Verifying one body, and what can be done to one before; shared by the verifier's tests."""

from collections.abc import Callable
from typing import Any

import pytest

from mailer.feed import Channel, Envelope, Unacceptable
from providers.sns import SnsVerifier
from providers.sns_certificates import Certificates
from tests.providers.calls import run
from tests.sns_kit import TOPIC, CertificateHost

MILAN = "arn:aws:sns:eu-south-1:111122223333:mail-events"

Change = Callable[[dict[str, Any]], object]


def verified(
    octets: bytes,
    host: CertificateHost | None = None,
    *,
    channel: Channel = Channel.HTTPS,
    topics: tuple[str, ...] = (TOPIC, MILAN),
    **options: Any,
) -> Envelope:
    """Verify one body with a fresh verifier."""
    verifier = SnsVerifier(topics, Certificates(host or CertificateHost()), **options)
    return run(verifier.verify(octets, channel))


def refused(octets: bytes, *, fetches: int = 0, **options: Any) -> tuple[int, str]:
    """Return the status and rule by which a body is refused, after so many fetches."""
    host = options.pop("host", None) or CertificateHost()
    with pytest.raises(Unacceptable) as caught:
        verified(octets, host, **options)
    assert len(host.asked) == fetches
    return caught.value.status, caught.value.rule


def altered(name: str) -> Change:
    """Change a field's last character."""
    return lambda sent: sent.update(
        {name: sent[name][:-1] + ("A" if sent[name][-1] != "A" else "B")}
    )


def dropped(name: str) -> Change:
    """Leave a field out."""
    return lambda sent: sent.pop(name)


def replaced(name: str, value: Any) -> Change:
    """Put another value into a field."""
    return lambda sent: sent.update({name: value})


def swapped(name: str, one: str, other: str) -> Change:
    """Put the other one of two values into a field."""
    return lambda sent: sent.update({name: other if sent[name] == one else one})
