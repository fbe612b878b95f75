"""The operations of SES's API v2 that mailer uses, in the shapes of its service model."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_pascal
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailer.fake_ses import refusals, submission
from mailer.fake_ses.faults import Manner
from mailer.fake_ses.refusals import Denied, bad_request, not_found
from mailer.fake_ses.service import Reply, Service, unknown_configuration_set
from mailer.fake_ses.suppression import MAX_PAGE, Query, Suppressed, check_reasons
from mailer.fake_ses.wire import HangUp, Late, done, refused

_ROOT = "/v2/email"
_MAX_BODY_OCTETS = submission.MAX_CONTENT_OCTETS + 1024 * 1024
_CREDENTIAL = re.compile(r"Credential=[^/,]+/\d{8}/([a-z0-9-]{1,40})/")
_HEALTHY, _SHUT_DOWN = "HEALTHY", "SHUTDOWN"

Handler = Callable[[Request], Awaitable[Response]]


class _Suppress(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal)

    email_address: str
    reason: str


class Operations:
    """Answers for one account, on the server's event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return where each operation is found."""
        suppressed = "/suppression/addresses"
        entry = suppressed + "/{address:path}"
        return [
            self._route("SendEmail", "POST", "/outbound-emails", self.send_email),
            self._route("GetAccount", "GET", "/account", self.get_account),
            self._route("GetEmailIdentity", "GET", "/identities/{name:path}", self.get_identity),
            self._route(
                "GetConfigurationSet", "GET", "/configuration-sets/{name:path}", self.get_set
            ),
            self._route("ListSuppressedDestinations", "GET", suppressed, self.list_suppressed),
            self._route("PutSuppressedDestination", "PUT", suppressed, self.put_suppressed),
            self._route("GetSuppressedDestination", "GET", entry, self.get_suppressed),
            self._route("DeleteSuppressedDestination", "DELETE", entry, self.delete_suppressed),
        ]

    def _route(self, name: str, method: str, path: str, handler: Handler) -> Route:
        async def answer(request: Request) -> Response:
            self._service.count(name)
            try:
                if self._service.account.expired:
                    raise Denied(refusals.EXPIRED)
                return await handler(request)
            except Denied as denied:
                return refused(denied.refusal)

        return Route(_ROOT + path, answer, methods=[method], name=name)

    async def send_email(self, request: Request) -> Response:
        """SendEmail."""
        mail = submission.read(await _body(request))
        reply = self._service.send(mail, region=_region(request))
        # Shielded: a client that leaves takes no event with it.
        await asyncio.shield(asyncio.gather(*map(asyncio.wrap_future, reply.after)))
        return self._answer(reply)

    def _answer(self, reply: Reply) -> Response:
        if reply.manner is Manner.HANG_UP:
            return HangUp()
        answer = refused(reply.refusal) if reply.refusal else done({"MessageId": reply.message_id})
        if reply.manner is Manner.AT_ONCE:
            return answer
        late = reply.manner is Manner.LATE
        return Late(answer, self._service.account.slow_seconds if late else None)

    async def get_account(self, _: Request) -> Response:
        """GetAccount."""
        account = self._service.account
        return done(
            {
                "DedicatedIpAutoWarmupEnabled": False,
                "EnforcementStatus": _SHUT_DOWN if account.suspended else _HEALTHY,
                "ProductionAccessEnabled": not account.sandbox,
                "SendQuota": {
                    "Max24HourSend": account.max_24_hour_send,
                    "MaxSendRate": account.max_send_rate,
                    "SentLast24Hours": float(self._service.sent_today()),
                },
                "SendingEnabled": not (account.paused or account.suspended),
                "SuppressionAttributes": {"SuppressedReasons": ["BOUNCE", "COMPLAINT"]},
                "VdmAttributes": {"VdmEnabled": "DISABLED"},
            }
        )

    async def get_identity(self, request: Request) -> Response:
        """GetEmailIdentity; an address of a verified domain is no identity of its own."""
        name = request.path_params["name"]
        identities = self._service.account.identities
        if identities is not None and name not in identities:
            raise Denied(not_found(f"Email identity {name} does not exist."))
        verified = identities is None or identities[name]
        status = "SUCCESS" if verified else "PENDING"
        return done(
            {
                "IdentityType": "EMAIL_ADDRESS" if "@" in name else "DOMAIN",
                "FeedbackForwardingStatus": True,
                "VerifiedForSendingStatus": verified,
                "VerificationStatus": status,
                "DkimAttributes": {"SigningEnabled": True, "Status": status, "Tokens": []},
                "Policies": {},
                "Tags": [],
            }
        )

    async def get_set(self, request: Request) -> Response:
        """GetConfigurationSet."""
        name = request.path_params["name"]
        sets = self._service.account.configuration_sets
        if sets is not None and name not in sets:
            raise Denied(unknown_configuration_set(name))
        return done(
            {
                "ConfigurationSetName": name,
                "DeliveryOptions": {"TlsPolicy": "OPTIONAL"},
                "ReputationOptions": {"ReputationMetricsEnabled": False},
                "SendingOptions": {"SendingEnabled": sets is None or sets[name]},
                "Tags": [],
            }
        )

    async def list_suppressed(self, request: Request) -> Response:
        """ListSuppressedDestinations."""
        entries, token = self._service.suppression.page(_query(request))
        found = {"SuppressedDestinationSummaries": [_shape(each) for each in entries]}
        return done({**found, **({"NextToken": token} if token else {})})

    async def put_suppressed(self, request: Request) -> Response:
        """PutSuppressedDestination."""
        try:
            asked = _Suppress.model_validate_json(await _body(request))
        except ValidationError:
            raise Denied(bad_request("EmailAddress and Reason are required")) from None
        self._service.suppression.put(asked.email_address, asked.reason)
        return done({})

    async def get_suppressed(self, request: Request) -> Response:
        """GetSuppressedDestination."""
        entry = self._service.suppression.get(request.path_params["address"])
        return done({"SuppressedDestination": _shape(entry)})

    async def delete_suppressed(self, request: Request) -> Response:
        """DeleteSuppressedDestination."""
        self._service.suppression.remove(request.path_params["address"])
        return done({})


async def _body(request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        chunks.append(chunk)
        size += len(chunk)
        if size > _MAX_BODY_OCTETS:
            raise Denied(refusals.TOO_LARGE)
    return b"".join(chunks)


def _region(request: Request) -> str:
    """Return the region that the request was signed for, as SES writes it in its messages."""
    found = _CREDENTIAL.search(request.headers.get("authorization", ""))
    return found[1].upper() if found else "US-EAST-1"


def _query(request: Request) -> Query:
    given = request.query_params
    reasons = frozenset(given.getlist("Reason"))
    check_reasons(reasons)
    return Query(
        reasons=reasons,
        since=_time(given.get("StartDate")),
        until=_time(given.get("EndDate")),
        page_size=_page_size(given.get("PageSize", str(MAX_PAGE))),
        token=given.get("NextToken"),
    )


def _page_size(given: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", given) or not 0 < int(given) <= MAX_PAGE:
        raise Denied(bad_request(f"PageSize must be between 1 and {MAX_PAGE}"))
    return int(given)


def _time(given: str | None) -> datetime | None:
    if given is None:
        return None
    try:
        return datetime.fromisoformat(given).astimezone()
    except ValueError:
        raise Denied(bad_request("StartDate and EndDate must be timestamps")) from None


def _shape(entry: Suppressed) -> dict[str, Any]:
    return {
        "EmailAddress": entry.address,
        "Reason": entry.reason,
        "LastUpdateTime": entry.at.timestamp(),
    }
