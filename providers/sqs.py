"""An SQS queue that SNS publishes to (`mailer.feed.Queue`)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from mailer.errors import SettingsError
from mailer.feed import NotNow, Queued

_MOST_MESSAGES = 10
"""What one call receives or deletes (SQS API, ReceiveMessage and DeleteMessageBatch)."""

_WAIT_SECONDS = 20
"""The longest that a ReceiveMessage may wait for the first message."""

_REGION = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z]{2,8}(?:-[a-z]+)+-\d+)\.", re.ASCII)
_CODE = re.compile(r"[A-Za-z0-9.]{1,60}")
_CONFIG = Config(
    # Whoever reads the queue asks again anyway, and tells of what went wrong.
    retries={"total_max_attempts": 1, "mode": "standard"},
    connect_timeout=3.0,
    read_timeout=_WAIT_SECONDS + 10.0,
)


class SqsQueue:
    """Reads the queue at a URL, in the region that the URL names, else in the environment's.

    Credentials, certificates and an endpoint come from AWS's own chain of settings. Raises
    SettingsError when that chain is broken.
    """

    def __init__(self, url: str, *, wait_seconds: int = _WAIT_SECONDS) -> None:
        self._url = url
        self._wait_seconds = wait_seconds
        try:
            self._client: Any = Session(region_name=_region(url)).client("sqs", config=_CONFIG)
        except (BotoCoreError, ValueError) as exc:
            raise SettingsError(
                f"AWS settings: {type(exc).__name__}; see AWS_REGION, AWS_PROFILE, "
                "AWS_CONFIG_FILE, AWS_ENDPOINT_URL_SQS, and MAILER_SQS_QUEUE_URL"
            ) from exc

    def receive(self) -> list[Queued]:
        """Wait up to 20 seconds for messages, and return up to 10; raises NotNow."""
        answer = self._call(
            "receive_message",
            MaxNumberOfMessages=_MOST_MESSAGES,
            WaitTimeSeconds=self._wait_seconds,
        )
        return list(_messages(answer))

    def delete(self, receipts: Sequence[str]) -> int:
        """Delete up to 10 messages, and return how many SQS did not delete; raises NotNow."""
        entries = [
            {"Id": str(number), "ReceiptHandle": each} for number, each in enumerate(receipts)
        ]
        answer = self._call("delete_message_batch", Entries=entries)
        return len(receipts) - len(_listed(answer, "Successful"))

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()

    def _call(self, operation: str, **parameters: Any) -> Mapping[str, Any]:
        try:
            answer = getattr(self._client, operation)(QueueUrl=self._url, **parameters)
        except ClientError as exc:
            raise NotNow(f"sqs-{_code(exc)}") from exc
        except Exception as exc:  # the SDK names no end of the errors that an answer may cause
            raise NotNow(f"sqs-{type(exc).__name__}") from exc
        return answer if isinstance(answer, Mapping) else {}


def _region(url: str) -> str | None:
    found = _REGION.search(urlsplit(url).hostname or "")
    return found[1] if found else None


def _messages(answer: Mapping[str, Any]) -> Iterator[Queued]:
    for each in _listed(answer, "Messages"):
        receipt, body = each.get("ReceiptHandle"), each.get("Body")
        if isinstance(receipt, str) and isinstance(body, str):
            # A lone surrogate stays what it is: no UTF-8, which is refused as it would be by HTTP.
            yield Queued(receipt, body.encode("utf-8", "surrogatepass"))


def _listed(answer: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = answer.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _code(exc: ClientError) -> str:
    code = exc.response.get("Error", {}).get("Code")
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "refused"
