"""The port of a provider's own suppression list: whom the account does not send to."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from mailer.errors import MailerError
from mailer.facts import SuppressionReason


class AccountListError(MailerError):
    """The list could not be read or changed; the text names the list and the mend, no address."""


@dataclass(frozen=True, slots=True)
class ListedAddress:
    """One entry. `address` is spelled as on the list, `key` is its canonical key.

    `reason` is BOUNCE or COMPLAINT, PROVIDER for one that this version does not know.
    """

    address: str = field(repr=False)
    key: str = field(repr=False)
    reason: SuppressionReason
    updated_at: datetime


class AccountList(Protocol):
    """The list of one account in one place. Its calls block; any thread may make them."""

    @property
    def name(self) -> str:
        """Which list it is: equal for all provider URLs that share it."""

    def entries(self, since: datetime | None = None) -> Iterator[ListedAddress]:
        """Yield all entries, or those changed `since` a moment with time zone, page by page.

        Raises AccountListError, also in the middle: what came before it is true all the same.
        """

    def add(self, address: str, reason: SuppressionReason) -> None:
        """Put an address on the list, or change its reason. Raises AccountListError."""

    def remove(self, address: str) -> bool:
        """Take an address off the list, however it is spelled there; False if it was not on it.

        Raises AccountListError.
        """

    def close(self) -> None:
        """Give back connections; the list stays usable."""
