"""Signed SNS messages of our own making: a key pair, certificates, and a host that has them.

The string to sign is put together here a second time, from AWS's description of it, so that the
product is not measured by itself.
"""

import base64
import functools
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

TOPIC = "arn:aws:sns:eu-west-1:111122223333:mail-events"
SIGNER = "sns.amazonaws.com"
TOKEN = "2336412f37abababababababababababababababababababab"

Envelope = dict[str, Any]
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")


@functools.cache
def signing_key(number: int = 0, *, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return the RSA key of this number: the same one each time within a process."""
    del number
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def certificate_url(topic_arn: str = TOPIC, number: int = 0) -> str:
    """Return where a topic's region has its certificate of this number."""
    region = topic_arn.split(":")[3]
    suffix = {"aws-cn": "amazonaws.com.cn", "aws-eusc": "amazonaws.eu"}
    domain = suffix.get(topic_arn.split(":")[1], "amazonaws.com")
    return f"https://sns.{region}.{domain}/SimpleNotificationService-{number:032x}.pem"


def certificate(
    key: Key | None = None,
    *,
    names: Iterable[str] = (SIGNER,),
    common_name: str = SIGNER,
    start: datetime | None = None,
    end: datetime | None = None,
) -> bytes:
    """Return a certificate in PEM for a key: valid from yesterday to tomorrow if not said."""
    key = key or signing_key()
    now = datetime.now(UTC)
    label = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(label)
        .issuer_name(label)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start or now - timedelta(days=1))
        .not_valid_after(end or now + timedelta(days=1))
    )
    if alternatives := [x509.DNSName(each) for each in names]:
        extension = x509.SubjectAlternativeName(alternatives)
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def timestamp(moment: datetime | None = None) -> str:
    """Return a moment, now if None, as SNS writes it."""
    text = (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def signed(
    message: str = "{}",
    *,
    kind: str = "Notification",
    topic_arn: str = TOPIC,
    version: str = "2",
    subject: str | None = None,
    key: rsa.RSAPrivateKey | None = None,
    **fields: Any,
) -> Envelope:
    """Return an SNS envelope of any type, signed; `fields` replace any of it before the signing.

    A confirmation gets its Token and SubscribeURL. Every call makes a new MessageId, published now.
    """
    envelope: Envelope = {
        "Type": kind,
        "MessageId": str(uuid.uuid4()),
        "TopicArn": topic_arn,
        "Message": message,
        "Timestamp": timestamp(),
        "SignatureVersion": version,
        "SigningCertURL": certificate_url(topic_arn),
    }
    if subject is not None:
        envelope["Subject"] = subject
    if kind != "Notification":
        asked = f"?Action=ConfirmSubscription&TopicArn={topic_arn}&Token={TOKEN}"
        address = certificate_url(topic_arn).rpartition("/")[0]
        envelope |= {"Token": TOKEN, "SubscribeURL": f"{address}/{asked}"}
    return sign(envelope | fields, key)


def sign(envelope: Envelope, key: rsa.RSAPrivateKey | None = None) -> Envelope:
    """Return the envelope with the signature of its type, fields and SignatureVersion."""
    algorithm = hashes.SHA1() if envelope["SignatureVersion"] == "1" else hashes.SHA256()
    octets = (key or signing_key()).sign(string_to_sign(envelope), padding.PKCS1v15(), algorithm)
    return envelope | {"Signature": base64.b64encode(octets).decode()}


def string_to_sign(envelope: Envelope) -> bytes:
    """Return what SNS signs of an envelope."""
    names = _NOTIFICATION if envelope["Type"] == "Notification" else _CONFIRMATION
    present = [name for name in names if name in envelope]
    return "".join(f"{name}\n{envelope[name]}\n" for name in present).encode()


def body(envelope: Envelope) -> bytes:
    """Return an envelope as it is posted."""
    return json.dumps(envelope).encode()


@dataclass
class CertificateHost:
    """Has certificates by URL, and keeps what it was asked for (`asked`); a fetch, when called.

    The default has TOPIC's. For another process, `write` puts them into a folder.
    """

    certificates: dict[str, bytes] = field(
        default_factory=lambda: {certificate_url(): certificate()}
    )
    asked: list[str] = field(default_factory=list)

    def __call__(self, url: str) -> bytes:
        """Answer with the certificate, or not in time."""
        self.asked.append(url)
        if url not in self.certificates:
            raise TimeoutError
        return self.certificates[url]

    def write(self, folder: Path) -> Path:
        """Write each certificate under the last segment of its URL, and return the folder."""
        for url, pem in self.certificates.items():
            (folder / url.rpartition("/")[2]).write_bytes(pem)
        return folder
