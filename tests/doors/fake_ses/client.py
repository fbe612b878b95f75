"""boto3 clients of a fake SES, and what they are told."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

RAW = b"From: shop@example.com\r\nTo: ann@example.com\r\nSubject: Hi\r\n\r\nHello\r\n"


@contextmanager
def client_of(url: str, *, read_timeout: float = 30) -> Iterator[Any]:
    """A client that makes one request a call."""
    client = boto3.Session().client(
        "sesv2",
        region_name="eu-west-1",
        endpoint_url=url,
        aws_access_key_id="fake",
        aws_secret_access_key="fake",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=read_timeout),
    )
    with closing(client):
        yield client


def send(client: Any, *to: str, raw: bytes = RAW, **more: Any) -> str:
    """Send to these addresses and return the MessageId."""
    answer = client.send_email(
        FromEmailAddress="Shop <shop@example.com>",
        Destination={"ToAddresses": to or ["ann@example.com"]},
        Content={"Raw": {"Data": raw}},
        **more,
    )
    message_id: str = answer["MessageId"]
    return message_id


def sent(client: Any, *to: str) -> bool:
    """Send, and tell whether that was not too fast."""
    try:
        send(client, *to)
    except ClientError as error:
        code: str = error.response["Error"]["Code"]
        assert code == "TooManyRequestsException"
        return False
    return True


@contextmanager
def refused(code: str, status: int = 400, text: str = "") -> Iterator[None]:
    """Expect the error of this code, framed as AWS frames it."""
    with pytest.raises(ClientError) as caught:
        yield
    answer: Any = caught.value.response
    meta = answer["ResponseMetadata"]
    assert (answer["Error"]["Code"], meta["HTTPStatusCode"]) == (code, status)
    assert text in answer["Error"]["Message"]
    assert meta["RequestId"]
    assert meta["HTTPHeaders"]["x-amzn-errortype"] == code


def outbox_tag(outbox_id: str) -> list[dict[str, str]]:
    """The tag by which a message is known as the same one."""
    return [{"Name": "mailer-outbox", "Value": outbox_id}]
