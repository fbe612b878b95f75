"""The verifier held against AWS's own validator for Node: where they differ, it is for a reason."""

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mailer.feed import Channel, Unacceptable
from providers.sns import SnsVerifier
from providers.sns_certificates import Certificates
from tests.providers.sns_mutations import (
    SOVEREIGN,
    TOPICS,
    attacker_s_certificate,
    bodies,
    certificates,
)

SOURCE = Path(__file__).with_name("sns_validator")
SECONDS = 60
ACCEPTED = "accepted"

STRICTER: Mapping[str, str] = {
    "sns-body-size": "it knows no limit",
    "sns-body-json": "it takes the last of two equal keys, and integers of any length",
    "sns-body-utf8": "it puts U+FFFD where octets are none of UTF-8",
    "sns-body-unicode": "it puts U+FFFD where half a surrogate pair stands",
    "sns-field-Type": "it takes any type for a notification",
    "sns-field-Message": "it joins a list to a text",
    "sns-field-MessageId": "it joins a list to a text, takes an empty one, and line breaks",
    "sns-field-Subject": "it drops a null, joins a list to a text, and takes line breaks",
    "sns-field-SubscribeURL": "it joins a list to a text, takes an empty one, and line breaks",
    "sns-field-Timestamp": "it joins a list to a text, takes an empty one, and line breaks",
    "sns-field-Token": "it joins a list to a text, takes an empty one, and line breaks",
    "sns-field-TopicArn": "it joins a list to a text, takes an empty one, and line breaks",
    "sns-field-SigningCertURL": "it takes the key as Lambda writes it",
    "sns-topic": "it knows no topics",
    "sns-signature-base64": "it skips what is no base64",
    "sns-certificate-url": "it takes any host between sns. and .amazonaws.com, and any path",
    "sns-certificate-validity": "it reads no dates",
    "sns-certificate-name": "it reads no names",
    "sns-certificate-key": "it takes any key that OpenSSL can verify with",
}
"""By rule: why the validator accepts some of what we refuse."""

LOOSER: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "it knows no host in amazonaws.eu": lambda sent: sent["TopicArn"] == SOVEREIGN,
    "it leaves Token, which SNS signs, out of this type": (
        lambda sent: sent["Type"] == "UnsubscribeConfirmation"
    ),
    "it signs an alien Subject, which is ignored as any other unknown key": (
        lambda sent: sent["Type"] == "SubscriptionConfirmation" and "Subject" in sent
    ),
    "it signs an alien SubscribeURL, which is ignored as any other unknown key": (
        lambda sent: sent["Type"] == "Notification" and "SubscribeURL" in sent
    ),
}
"""By reason: what the validator refuses of what we accept."""


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The validator, of the pinned version, installed into a folder of its own."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        pytest.skip("Node with npm is not installed: AWS's own SNS validator cannot be asked")
    folder = tmp_path_factory.mktemp("validator") / "copy"
    shutil.copytree(SOURCE, folder)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=SECONDS)
    except (subprocess.SubprocessError, OSError) as exc:
        pytest.skip(f"npm cannot install AWS's own SNS validator here: {type(exc).__name__}")
    return folder


def theirs(folder: Path, pems: Mapping[str, bytes], octets: Sequence[bytes]) -> list[str]:
    """Ask the validator: "accepted" or "refused" for each."""
    lines = [
        json.dumps({url: pem.decode() for url, pem in pems.items()}),
        *(base64.b64encode(each).decode() for each in octets),
    ]
    found = subprocess.run(
        ["node", "--no-deprecation", "verdicts.js"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=SECONDS,
        input="\n".join(lines) + "\n",
        text=True,
    )
    return found.stdout.split()


def ours(pems: Mapping[str, bytes], octets: Sequence[bytes]) -> list[str]:
    """Verify, with the same certificates: "accepted", or the rule of the refusal, for each."""
    verifier = SnsVerifier(TOPICS, Certificates(lambda url: pems.get(url, pems["*"])))

    async def verdict(body: bytes) -> str:
        try:
            await verifier.verify(body, Channel.HTTPS)
        except Unacceptable as refusal:
            return refusal.rule
        return ACCEPTED

    async def verdicts() -> list[str]:
        return [await verdict(each) for each in octets]

    return asyncio.run(verdicts())


def excuses(body: bytes) -> list[str]:
    """Why the validator may refuse a message that we accept."""
    sent = json.loads(body)
    return [reason for reason, applies in LOOSER.items() if applies(sent)]


def test_against_the_validator_of_aws(validator: Path) -> None:
    titles, octets = zip(*bodies(), strict=True)
    pems = certificates() | {"*": attacker_s_certificate()}
    verdicts = zip(ours(pems, octets), theirs(validator, pems, octets), strict=True)
    unexplained, used, agreed = [], set(), set()
    for title, body, (our, their) in zip(titles, octets, verdicts, strict=True):
        if (our == ACCEPTED) == (their == ACCEPTED):
            agreed.add(their)
        elif our == ACCEPTED and (found := excuses(body)):
            used.update(found)
        elif our in STRICTER and their == ACCEPTED:
            used.add(our)
        else:
            unexplained.append(f"{title}: {our} here, {their} there")
    assert unexplained == []
    assert used == {*STRICTER, *LOOSER}, "an explanation that nothing needs"
    assert agreed == {"accepted", "refused"}
