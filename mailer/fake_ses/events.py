"""Where the fake's events go, as whoever starts it says."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from mailer.errors import MailerError

_ARN = re.compile(r"arn:aws:sns:([a-z]{2}-[a-z]+-[0-9]):([0-9]{12}):[A-Za-z0-9_-]{1,256}")
_PRINTABLE = re.compile(r"[!-~]+")

DELAYS_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, *[1.0] * 95)
"""Before each further try: a hundred of them, as SNS allows at most, in far less time."""


class InvalidEvents(MailerError):
    """Events cannot be sent as they were asked for."""


@dataclass(frozen=True, slots=True)
class Events:
    """A topic with one subscription, and the folder that its signing certificate is written to.

    `url` is subscribed. With `confirm` it first has to answer a SubscriptionConfirmation, which is
    posted at once and lets the events wait. `delays` are seconds before each further try of what
    was not taken. The topic is a standard one of a region whose signer is `sns.amazonaws.com`,
    which are all that need no opt-in. Raises InvalidEvents.
    """

    url: str
    topic_arn: str
    certificates: Path
    confirm: bool = False
    delays: tuple[float, ...] = DELAYS_SECONDS

    def __post_init__(self) -> None:
        if not _ARN.fullmatch(self.topic_arn):
            raise InvalidEvents("topic: write arn:aws:sns:<region>:<12 digits>:<name>")
        if not self.certificates.is_dir():
            raise InvalidEvents("certificates: must be a folder that exists")
        if not _is_web_address(self.url):
            raise InvalidEvents("events: write http://host:port/path, or https")

    @property
    def region(self) -> str:
        """The topic's region, which is the account's."""
        return self._part(1)

    @property
    def account(self) -> str:
        """The account's number, of twelve digits."""
        return self._part(2)

    def _part(self, number: int) -> str:
        found = _ARN.fullmatch(self.topic_arn)
        return found[number] if found else ""


def _is_web_address(url: str) -> bool:
    try:
        parts: SplitResult = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_web = parts.scheme in {"http", "https"} and bool(parts.hostname)
    return is_web and has_port and _PRINTABLE.fullmatch(url) is not None
