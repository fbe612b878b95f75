"""Confirming subscriptions through the API; the URL that a message brings is never visited."""

import asyncio
import re
import threading
from typing import Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import ClientError

from mailer.feed import NotNow
from providers.sns_regions import parse_topic_arn

_CODE = re.compile(r"[A-Za-z0-9.]{1,60}")
_CONFIG = Config(
    # SNS repeats the message, and with it the request.
    retries={"total_max_attempts": 1, "mode": "standard"},
    connect_timeout=2.0,
    read_timeout=4.0,
)


class SnsSubscriptions:
    """Confirms in the topic's own region, with one client a region (`mailer.feed.Subscriptions`).

    Credentials, certificates and an endpoint come from AWS's own chain of settings.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: dict[str, Any] = {}

    async def confirm(self, topic_arn: str, token: str) -> None:
        """Confirm one, so that only this account can end it; a second time changes nothing.

        Raises NotNow when AWS did not say that it is confirmed.
        """
        try:
            await asyncio.to_thread(self._confirm, topic_arn, token)
        except ClientError as exc:
            raise NotNow(f"sns-confirm-{_code(exc)}") from exc
        except Exception as exc:
            raise NotNow("sns-confirm") from exc

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _confirm(self, topic_arn: str, token: str) -> None:
        self._client(parse_topic_arn(topic_arn).region).confirm_subscription(
            TopicArn=topic_arn, Token=token, AuthenticateOnUnsubscribe="true"
        )

    def _client(self, region: str) -> Any:
        with self._lock:
            if region not in self._clients:
                session = Session(region_name=region)
                self._clients[region] = session.client("sns", config=_CONFIG)
            return self._clients[region]


def _code(exc: ClientError) -> str:
    code = exc.response.get("Error", {}).get("Code")
    return code if isinstance(code, str) and _CODE.fullmatch(code) else "refused"
