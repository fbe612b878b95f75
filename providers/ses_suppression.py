"""The suppression list of an SES account, which every region keeps for itself (SES API v2)."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from mailer.account_list import AccountListError, ListedAddress
from mailer.addresses import address_key
from mailer.errors import InvalidEmail
from mailer.facts import SuppressionReason
from mailer.log import get_logger
from providers.ses_client import connect_to_account
from providers.ses_settings import SesSettings, parse

PAGE_SIZE = 1_000
"""The most that ListSuppressedDestinations gives at once."""

_SCHEME = "ses"
_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_NOT_FOUND = "NotFoundException"
_SUMMARIES = "SuppressedDestinationSummaries"

_REASONS: Mapping[str, SuppressionReason] = {
    "BOUNCE": SuppressionReason.BOUNCE,
    "COMPLAINT": SuppressionReason.COMPLAINT,
}
_METHODS: Mapping[str, str] = {
    "ListSuppressedDestinations": "list_suppressed_destinations",
    "PutSuppressedDestination": "put_suppressed_destination",
    "DeleteSuppressedDestination": "delete_suppressed_destination",
}

_DENIED = "allow ses:{operation} in IAM"
_TOO_FAST = "SES asks for fewer calls; try again later, and not from several places at once"
_CREDENTIALS = f"mend {_KEYS} or the role, and this machine's clock"
_MENDS: Mapping[str, str] = {
    "AccessDenied": _DENIED,
    "AccessDeniedException": _DENIED,
    "TooManyRequestsException": _TOO_FAST,
    "ThrottlingException": _TOO_FAST,
    "Throttling": _TOO_FAST,
    "LimitExceededException": _TOO_FAST,
    "ExpiredToken": _CREDENTIALS,
    "ExpiredTokenException": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "UnrecognizedClientException": _CREDENTIALS,
    "InvalidSignatureException": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "RequestExpired": _CREDENTIALS,
    "MissingAuthenticationToken": _CREDENTIALS,
    "BadRequestException": "SES does not take this; see whether it is an address, and whether the "
    "account has left the sandbox, where the list cannot be written",
    "InvalidNextTokenException": "the list changed its pages meanwhile; begin again",
}
_SHOWABLE = re.compile(r"[A-Za-z]{1,60}")
_PARAMETERS = ("ParamValidationError", "UnicodeError", "UnicodeEncodeError")

_log = get_logger("providers.ses_suppression")


class SesSuppressionList:
    """The `AccountList` of one region. Its calls may be repeated, and so the SDK repeats them.

    Raises `SettingsError` as `providers.ses_client.connect` does.
    """

    def __init__(
        self, region: str, endpoint_url: str | None = None, *, page_size: int = PAGE_SIZE
    ) -> None:
        self._settings = SesSettings(region, endpoint_url=endpoint_url)
        self._client = connect_to_account(self._settings)
        self._page_size = page_size

    @property
    def name(self) -> str:
        """The region, and an endpoint that is not AWS's: configuration sets share the list."""
        return self._settings.name

    def entries(self, since: datetime | None = None) -> Iterator[ListedAddress]:
        """Yield the entries; one that is no address that mail can go to is left out and counted."""
        left_out = 0
        for page in self._pages(since):
            for each in _summaries(page):
                listed = _listed(each)
                if listed is None:
                    left_out += 1
                else:
                    yield listed
        if left_out:
            _log.warning("listed addresses not readable", provider=self.name, count=left_out)

    def add(self, address: str, reason: SuppressionReason) -> None:
        """Put the canonical key on the list; SES knows of two reasons, and BOUNCE is the plain one.

        Raises `AccountListError`, also for what is no address.
        """
        told = "COMPLAINT" if reason is SuppressionReason.COMPLAINT else "BOUNCE"
        self._ask("PutSuppressedDestination", EmailAddress=self._key(address), Reason=told)

    def remove(self, address: str) -> bool:
        """Take both the canonical key and this very spelling off the list.

        How SES compares spellings is not documented.
        """
        removed = [self._remove(each) for each in dict.fromkeys((self._key(address), address))]
        return any(removed)

    def close(self) -> None:
        """Close idle connections; the list stays usable."""
        self._client.close()

    def _key(self, address: str) -> str:
        try:
            return address_key(address)
        except InvalidEmail as exc:
            raise self._error(f"{exc.problem}; give one address") from None

    def _pages(self, since: datetime | None) -> Iterator[Mapping[str, Any]]:
        asked: dict[str, Any] = {"PageSize": self._page_size}
        if since is not None:
            asked["StartDate"] = since
        while True:
            page = _mapping(self._ask("ListSuppressedDestinations", **asked))
            if not _is_from_ses(page):
                raise self._error("somebody else than SES has answered; see endpoint_url")
            yield page
            token = page.get("NextToken")
            if not token:
                return
            if token == asked.get("NextToken"):
                raise self._error("its pages come round in a circle; see endpoint_url")
            asked["NextToken"] = token

    def _remove(self, address: str) -> bool:
        found = self._ask("DeleteSuppressedDestination", EmailAddress=address)
        return found is not None

    def _ask(self, operation: str, **given: Any) -> Any:
        """Return the answer; None for an address that is not there to be deleted."""
        call = getattr(self._client, _METHODS[operation])
        try:
            return call(**given)
        except Exception as exc:  # noqa: BLE001 - a strange answer may raise anything
            if operation == "DeleteSuppressedDestination" and _code(exc) == _NOT_FOUND:
                return None
            raise self._error(self._mend(exc, operation)) from None

    def _mend(self, exc: Exception, operation: str) -> str:
        code = _code(exc)
        if code is not None:
            mend = _MENDS.get(code, "SES says no more; look at its console, and try again later")
            return f"{code}: {mend.format(operation=operation)}"
        name = type(exc).__name__
        if name in _PARAMETERS:
            return f"{name}: this cannot be asked; see whether it is an address"
        if any(each in name for each in ("Credential", "Token", "SSO")):
            return f"{name}: set {_KEYS}, or give the machine a role"
        return (
            f"{name}: {self._client.meta.endpoint_url} cannot be reached; check the region "
            f"{self._settings.region} and endpoint_url in MAILER_PROVIDERS, and that a firewall "
            "lets this machine out"
        )

    def _error(self, problem: str) -> AccountListError:
        return AccountListError(f"suppression list {self.name}: {problem}")


def suppression_list(url: str) -> SesSuppressionList | None:
    """Return the list behind a provider's URL without problems; None if it is not one of SES.

    Raises `SettingsError` when AWS's own settings let no client be made.
    """
    if urlsplit(url).scheme != _SCHEME:
        return None
    settings = parse(url)
    return SesSuppressionList(settings.region, settings.endpoint_url)


def _is_from_ses(page: Mapping[str, Any]) -> bool:
    """Whether an answer is none of a proxy's, which the SDK would take for an empty list."""
    return _SUMMARIES in page or bool(_mapping(page.get("ResponseMetadata")).get("RequestId"))


def _summaries(page: Mapping[str, Any]) -> list[Any]:
    found = page.get(_SUMMARIES)
    return found if isinstance(found, list) else []


def _listed(summary: Any) -> ListedAddress | None:
    entry = _mapping(summary)
    address, at = entry.get("EmailAddress"), entry.get("LastUpdateTime")
    if not isinstance(address, str) or not isinstance(at, datetime):
        return None
    reason = _REASONS.get(str(entry.get("Reason")), SuppressionReason.PROVIDER)
    try:
        return ListedAddress(address, address_key(address), reason, at)
    except InvalidEmail:
        return None


def _code(exc: Exception) -> str | None:
    """Return the code of SES's answer; None if it was none of SES's."""
    if not isinstance(exc, ClientError):
        return None
    code = _mapping(_mapping(exc.response).get("Error")).get("Code")
    return code if isinstance(code, str) and _SHOWABLE.fullmatch(code) else "refused"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
