"""The verifier of SNS messages: topic, certificate, signature, age, in this order.

A body is foreign until the last step. Nothing is looked up or fetched for one whose topic is not
listed, and nothing but its own region's certificate for one whose topic is.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from mailer.errors import SettingsError
from mailer.feed import Channel, Envelope, EnvelopeType, Unacceptable
from providers.sns_certificates import Certificates
from providers.sns_message import SnsMessage, moment_of, read_message
from providers.sns_regions import certificate_url_pattern, parse_topic_arn, signer_names

_PADDING = PKCS1v15()
_ALGORITHMS: Mapping[str, hashes.HashAlgorithm] = {
    "1": hashes.SHA1(),  # noqa: S303 - what SNS signs with unless a topic's attribute says 2
    "2": hashes.SHA256(),
}
"""By SignatureVersion ("Verifying the signatures of Amazon SNS messages")."""
SIGNATURE_VERSIONS = frozenset(_ALGORITHMS)


@dataclass(frozen=True, slots=True)
class _Listed:
    """What is known beforehand of messages from a listed topic."""

    certificate_url: re.Pattern[str]
    signers: frozenset[str]


class SnsVerifier:
    """Tells genuine SNS messages of listed topics from everything else (`mailer.feed.Verifier`).

    `topics` are ARNs of standard topics, `versions` the signature versions that are accepted, and
    `max_age_seconds` how long ago a message may have been published, without end if None. Raises
    SettingsError where a topic or a version is none.
    """

    def __init__(
        self,
        topics: Iterable[str],
        certificates: Certificates,
        *,
        versions: frozenset[str] = SIGNATURE_VERSIONS,
        max_age_seconds: float | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._topics = {arn: _listed(arn) for arn in topics}
        self._certificates = certificates
        self._algorithms = {version: _algorithm(version) for version in versions}
        self._max_age = None if max_age_seconds is None else timedelta(seconds=max_age_seconds)
        self._clock = clock

    async def verify(self, body: bytes, channel: Channel) -> Envelope:
        """Return the message that a body is.

        Raises Unacceptable: 413 for a body that is too large, 400 for one that cannot be read, 403
        for one that is not proven to be genuine; and NotNow when its certificate cannot be had now.
        """
        message = read_message(body)
        topic = self._topics.get(message.topic_arn)
        if topic is None:
            raise _unproven("topic")
        algorithm = self._algorithms.get(message.signature_version)
        if algorithm is None:
            raise _unproven("signature-version")
        signature = _octets(message.signature)
        if topic.certificate_url.fullmatch(message.certificate_url) is None:
            raise _unproven("certificate-url")
        certificate = await self._certificates.get(message.certificate_url, topic.signers)
        published_at = moment_of(message.timestamp)
        if not certificate.is_valid_at(self._moment_of_signing(channel, published_at)):
            raise _unproven("certificate-validity")
        _check(certificate.key, signature, message.signed, algorithm)
        if self._is_too_old(published_at):
            raise _unproven("age")
        return _envelope(message, published_at, body)

    def _moment_of_signing(self, channel: Channel, published_at: datetime | None) -> datetime:
        """Return when the certificate has to be valid.

        A message may lie in a queue for 14 days, and outlive its certificate there; over HTTPS SNS
        tries for an hour at most.
        """
        if channel is Channel.SQS and published_at is not None:
            return published_at
        return self._clock()

    def _is_too_old(self, published_at: datetime | None) -> bool:
        if self._max_age is None:
            return False
        return published_at is None or self._clock() - published_at > self._max_age


def _listed(text: str) -> _Listed:
    try:
        arn = parse_topic_arn(text)
    except ValueError as exc:
        raise SettingsError(f"topic: {exc}") from exc
    return _Listed(certificate_url_pattern(arn), signer_names(arn))


def _algorithm(version: str) -> hashes.HashAlgorithm:
    if version not in _ALGORITHMS:
        raise SettingsError("signature version: SNS knows 1 and 2; name one of them, or both")
    return _ALGORITHMS[version]


def _octets(signature: str) -> bytes:
    try:
        return base64.b64decode(signature, validate=True)
    except ValueError as exc:
        raise _unproven("signature-base64") from exc


def _check(
    key: RSAPublicKey, signature: bytes, signed: bytes, algorithm: hashes.HashAlgorithm
) -> None:
    try:
        key.verify(signature, signed, _PADDING, algorithm)
    except InvalidSignature as exc:
        raise _unproven("signature") from exc


def _envelope(message: SnsMessage, published_at: datetime | None, body: bytes) -> Envelope:
    # The token of an UnsubscribeConfirmation would subscribe again: it is nobody's business.
    is_subscription = message.type is EnvelopeType.SUBSCRIPTION
    return Envelope(
        type=message.type,
        topic_arn=message.topic_arn,
        message_id=message.message_id,
        published_at=published_at,
        body=body,
        token=message.token if is_subscription else None,
    )


def _unproven(rule: str) -> Unacceptable:
    return Unacceptable(403, f"sns-{rule}")
