"""What SES says no with: the modelled errors of its API, and the common ones."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer: what boto3 reads as code, HTTP status and message."""

    code: str
    status: int
    message: str

    def about(self, **names: str) -> "Refusal":
        """Return the refusal with its message's placeholders filled in."""
        return replace(self, message=self.message.format(**names))


class Denied(Exception):
    """A request that is answered by an error."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal


TOO_FAST = Refusal("TooManyRequestsException", 429, "Maximum sending rate exceeded.")
QUOTA = Refusal("LimitExceededException", 400, "Daily message quota exceeded.")
SUSPENDED = Refusal("AccountSuspendedException", 400, "Account is suspended")
PAUSED = Refusal("SendingPausedException", 400, "Sending is paused for this account")
SET_PAUSED = Refusal(
    "SendingPausedException", 400, "Sending is paused for configuration set {name}"
)
REJECTED = Refusal("MessageRejected", 400, "Message contains a virus.")
UNVERIFIED = Refusal(
    "MessageRejected",
    400,
    "Email address is not verified. The following identities failed the check in region "
    "{region}: {identity}",
)
BAD_ADDRESS = Refusal("BadRequestException", 400, "Missing final '@domain'")
BAD_DOMAIN = Refusal("BadRequestException", 400, "Domain contains illegal character")
TOO_MANY_RECIPIENTS = Refusal("BadRequestException", 400, "Recipient count exceeds 50.")
EXPIRED = Refusal(
    "ExpiredTokenException", 403, "The security token included in the request is expired"
)
TOO_LARGE = Refusal("RequestEntityTooLargeException", 413, "Request too large")
INTERNAL = Refusal("InternalFailure", 500, "The request processing has failed.")
BAD_TOKEN = Refusal("InvalidNextTokenException", 400, "The specified token is not valid.")
UNKNOWN_OPERATION = Refusal(
    "UnknownOperationException", 404, "This fake has no such operation; its page lists them."
)


def bad_request(message: str) -> Refusal:
    """Return the refusal of a request that names what is wrong with it."""
    return Refusal("BadRequestException", 400, message)


def not_found(message: str) -> Refusal:
    """Return the refusal of a request about something that is not there."""
    return Refusal("NotFoundException", 404, message)
