"""The account as its owner, or a test, has set it."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mailer.errors import MailerError

UNLIMITED = -1.0
"""`Max24HourSend` of an account without a daily quota (AWS SES API, SendQuota)."""

Share = Annotated[float, Field(ge=0, le=1)]


class InvalidState(MailerError):
    """A change that the account cannot take; nothing was changed."""


class Account(BaseModel):
    """What can be switched. The limits that are set here are those of a new production account.

    `max_send_rate` is in recipients a second and is kept only with `enforce_rate`;
    `max_24_hour_send` is in recipients, -1 for no limit. `throttle_share` of all calls are refused
    as too fast, and of those accepted `close_share` get no answer; `seed` makes both repeatable.
    `identities` (name: verified) and `configuration_sets` (name: sending enabled) are all that
    there are; None stands for any, and in order.

    Events are not posted while `hold_events`; of each, `event_copies` are, under one id; with
    `shuffle_events` those that wait are in an order that `seed` decides. With `events_first` an
    accepted message is answered once its events were, if they are not held.
    """

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    suspended: bool = False
    paused: bool = False
    expired: bool = False
    sandbox: bool = False
    enforce_rate: bool = False
    max_send_rate: Annotated[float, Field(gt=0)] = 14.0
    max_24_hour_send: Annotated[float, Field(ge=UNLIMITED)] = 50_000.0
    throttle_share: Share = 0.0
    close_share: Share = 0.0
    seed: int = 0
    slow_seconds: Annotated[float, Field(ge=0)] = 1.0
    identities: dict[str, bool] | None = None
    configuration_sets: dict[str, bool] | None = None
    hold_events: bool = False
    event_copies: Annotated[int, Field(ge=1, le=100)] = 1
    shuffle_events: bool = False
    events_first: bool = False

    def changed(self, changes: Mapping[str, Any]) -> "Account":
        """Return the account with these changes; raises InvalidState, naming each bad one."""
        try:
            return Account.model_validate({**self.model_dump(), **changes})
        except ValidationError as error:
            raise InvalidState("; ".join(_sentence(each) for each in error.errors())) from None

    def verified(self, address: str) -> bool:
        """Tell whether mail may be sent as an address: it is verified, or its domain is."""
        if self.identities is None:
            return True
        return any(self.identities.get(each) for each in (address, address.rpartition("@")[2]))


def _sentence(problem: Any) -> str:
    where = ".".join(str(each) for each in problem["loc"])
    return f"{where}: {problem['msg']}"
