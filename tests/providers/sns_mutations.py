"""Messages to disagree about: valid ones, what can be done to them, and known attacks."""

import base64
import functools
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from tests.sns_kit import (
    SIGNER,
    TOKEN,
    TOPIC,
    Envelope,
    body,
    certificate,
    certificate_url,
    sign,
    signed,
    signing_key,
    string_to_sign,
)

CHINA = "arn:aws-cn:sns:cn-north-1:111122223333:mail-events"
SOVEREIGN = "arn:aws-eusc:sns:eusc-de-east-1:111122223333:mail-events"
TOPICS = (TOPIC, CHINA, SOVEREIGN)

_FILE = certificate_url().rpartition("/")[2]
_HOST = "https://sns.eu-west-1.amazonaws.com"
_ELSEWHERE = (
    f"{_HOST}.evil.example/{_FILE}",
    f"{_HOST}@evil.example/{_FILE}",
    f"http://sns.eu-west-1.amazonaws.com/{_FILE}",
    f"https://bucket.s3.eu-west-1.amazonaws.com/{_FILE}",
    f"https://sns.s3-us-west-2.amazonaws.com/{_FILE}",
    f"https://sns.s3-accelerate.amazonaws.com/{_FILE}",
    f"https://sns.us-east-1.amazonaws.com/{_FILE}",
    f"{_HOST}/?Action=ListTopics&x=.pem",
    f"{_HOST}/{_FILE}?x=.pem",
    f"{_HOST}/{_FILE}#x",
    f"{_HOST}/{_FILE}#x.pem",
    f"{_HOST}:8443/{_FILE}",
    f"{_HOST}/x/../{_FILE}",
    f"{_HOST}/x.pem",
    f"{_HOST}/{_FILE}\n",
    f" {_HOST}/{_FILE}",
    f"{_HOST}。evil.example/{_FILE}",
    f"HTTPS://SNS.eu-west-1.amazonaws.com/{_FILE}",
)
_NAMES = (
    *("Type", "MessageId", "TopicArn", "Message", "Subject", "Timestamp", "Token"),
    *("SubscribeURL", "SignatureVersion", "Signature", "SigningCertURL", "UnsubscribeURL"),
)
_VALUES: Mapping[str, Any] = {
    "empty": "",
    "null": None,
    "number": 5,
    "true": True,
    "object": {"x": "y"},
    "other": "other",
    "notification": "Notification",
    "confirmation": "SubscriptionConfirmation",
    "end": "UnsubscribeConfirmation",
    "version": "1",
    "newline": "x\nMessageId\ny",
    "nul": "x\x00y",
    "non-ascii": "é。",
}

_EXPIRED, _MISNAMED, _CURVED, _WEAK, _BROKEN = (certificate_url(number=n) for n in range(1, 6))


@functools.cache
def _curve() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificates() -> dict[str, bytes]:
    """Return what lies at each URL."""
    now, day = datetime.now(UTC), timedelta(days=1)
    return {
        certificate_url(): certificate(),
        certificate_url(CHINA): certificate(names=["sns-cn-north-1.amazonaws.com.cn"]),
        certificate_url(SOVEREIGN): certificate(names=["sns-signing.eusc-de-east-1.amazonaws.eu"]),
        _EXPIRED: certificate(start=now - 9 * day, end=now - day),
        _MISNAMED: certificate(names=["mail.example.com"]),
        _CURVED: certificate(_curve()),
        _WEAK: certificate(signing_key(bits=1024)),
        _BROKEN: b"<html>not a certificate</html>",
    }


def attacker_s_certificate() -> bytes:
    """Return what every other host answers."""
    return certificate(signing_key(9), names=[SIGNER])


def typical() -> Iterator[tuple[str, Envelope]]:
    """One message of each form."""
    yield "plain", signed('{"é":"ü"}', version="1")
    yield "with a subject", signed("x", subject="a subject")
    for kind in ("SubscriptionConfirmation", "UnsubscribeConfirmation"):
        yield kind, signed("x", kind=kind)


def valid() -> Iterator[tuple[str, Envelope]]:
    """Messages as SNS writes them."""
    yield from typical()
    for title, sent in typical():
        yield (
            f"{title} of the other version",
            sign(sent | {"SignatureVersion": "2" if sent["SignatureVersion"] == "1" else "1"}),
        )
    yield "from China", signed(topic_arn=CHINA)
    yield "from the sovereign cloud", signed(topic_arn=SOVEREIGN)


def mutated() -> Iterator[tuple[str, Envelope]]:
    """Messages with one field changed: as they were signed, and signed anew by SNS."""
    for title, sent in typical():
        for name in _NAMES:
            for change, changed in _changes(sent, name):
                yield f"{title}: {name} {change}", changed
                if "Type" in changed and all(isinstance(each, str) for each in changed.values()):
                    signable = {"SignatureVersion": "2"} | changed
                    yield f"{title}: {name} {change}, signed", sign(signable)


def _changes(sent: Envelope, name: str) -> Iterator[tuple[str, Envelope]]:
    for title in _VALUES:
        yield title, sent | {name: _VALUES[title]}
    if name in sent:
        yield "missing", {each: sent[each] for each in sent if each != name}
        yield "in a list", sent | {name: [sent[name]]}
        yield "longer", sent | {name: sent[name] + "x"}
        yield "with an end of line", sent | {name: sent[name] + "\n"}
        yield "shorter", sent | {name: sent[name][:-1]}


def hostile() -> Iterator[tuple[str, Envelope]]:
    """Attacks that are known, each as good as it can be made."""
    for url in _ELSEWHERE:
        yield f"certificate at {url!r}", signed(SigningCertURL=url, key=signing_key(9))
    yield "signed by somebody else", signed(key=signing_key(9))
    yield "foreign topic", signed(topic_arn=TOPIC.replace("1111", "9999"))
    genuine = signed("one\nMessageId\nfirst\nSubject\ntwo")
    subject = f"two\nMessageId\n{genuine['MessageId']}"
    yield "shifted", genuine | {"Message": "one", "MessageId": "first", "Subject": subject}
    yield "expired", signed(SigningCertURL=_EXPIRED)
    yield "misnamed", signed(SigningCertURL=_MISNAMED)
    yield "weak", signed(SigningCertURL=_WEAK, key=signing_key(bits=1024))
    yield "broken", signed(SigningCertURL=_BROKEN)
    curved = signed(SigningCertURL=_CURVED)
    octets = _curve().sign(string_to_sign(curved), ec.ECDSA(hashes.SHA256()))
    yield "on a curve", curved | {"Signature": base64.b64encode(octets).decode()}
    yield "confirmed anew", signed(kind="UnsubscribeConfirmation") | {"Token": TOKEN[::-1]}
    sent = signed()
    yield "lambda", {"SigningCertUrl": sent.pop("SigningCertURL")} | sent
    noisy = signed()
    yield "noisy base64", noisy | {"Signature": f"**{noisy['Signature']}"}


def twisted() -> Iterator[tuple[str, bytes]]:
    """Bodies whose text is odd."""
    sent = body(signed("x"))
    inner = {
        "duplicate": b',"Message":"x"',
        "constant": b',"x":NaN',
        "deep": b',"x":' + b"[" * 20_000 + b"]" * 20_000,
        "integer": b',"x":' + b"9" * 5000,
        "extra": b',"MessageAttributes":{"k":{"Type":"String","Value":"v"}}',
    }
    for title, more in inner.items():
        yield title, sent[:-1] + more + b"}"
    yield "truncated", sent[:-5]
    yield "trailing", sent + b"{}"
    yield "utf-16", json.dumps(signed()).encode("utf-16")
    yield "invalid utf-8", sent[:-1] + b',"x":"\xff"}'
    yield "surrogate", body(signed("\ufffd")).replace(b"\\ufffd", b"\\ud800")
    yield "large", sent + b" " * 2**20
    for text in (b"", b"null", b"[]", b'"x"', b"5"):
        yield f"only {text!r}", text


def bodies() -> Iterator[tuple[str, bytes]]:
    """All of them, by a title."""
    for source in (valid, mutated, hostile):
        for title, sent in source():
            yield f"{source.__name__}: {title}", body(sent)
    for title, octets in twisted():
        yield f"twisted: {title}", octets
