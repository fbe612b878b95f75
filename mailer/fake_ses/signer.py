"""Messages signed as SNS signs them, by a key of the fake's own."""

import base64
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

SIGNER = "sns.amazonaws.com"

_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_VALID = timedelta(days=365)


class Signer:
    """Signs for one region, and leaves its certificate in a folder.

    Nobody has to believe it who was not given that folder. Raises OSError where it cannot write.
    """

    def __init__(self, region: str, folder: Path) -> None:
        self._key = generate_private_key(65_537, 2048)
        name = f"SimpleNotificationService-{secrets.token_hex(16)}.pem"
        (folder / name).write_bytes(_certificate(self._key))
        self.certificate_url = f"https://sns.{region}.amazonaws.com/{name}"

    def sign(self, message: Mapping[str, str]) -> dict[str, str]:
        """Return a message with its signature, of version 2, and where its certificate lies.

        What is signed is in "Verifying the signatures of Amazon SNS messages".
        """
        names = _NOTIFICATION if message["Type"] == "Notification" else _CONFIRMATION
        text = "".join(f"{name}\n{message[name]}\n" for name in names if name in message)
        octets = self._key.sign(text.encode(), PKCS1v15(), SHA256())
        return {
            **message,
            "SignatureVersion": "2",
            "Signature": base64.b64encode(octets).decode("ascii"),
            "SigningCertURL": self.certificate_url,
        }


def _certificate(key: RSAPrivateKey) -> bytes:
    now = datetime.now(UTC)
    label = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SIGNER)])
    names = x509.SubjectAlternativeName([x509.DNSName(SIGNER)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(label)
        .issuer_name(label)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
        .add_extension(names, critical=False)
    )
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
