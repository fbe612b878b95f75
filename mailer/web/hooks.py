"""`POST /events/sns`: what SNS delivers over HTTP."""

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mailer.feed import MAX_BODY_BYTES, Channel, NotNow, Unacceptable
from mailer.ingest import Answer, Ingest
from mailer.log import get_logger
from mailer.web.body import READ_SECONDS, read_body
from mailer.web.room import Room

MOST_REQUESTS = 256
"""Requests answered at once; SNS repeats those that are too many."""

_MOST_OCTETS = 64 * MAX_BODY_BYTES

_RAW_HEADER = "x-amz-sns-rawdelivery"
RAW_RULE = "sns-raw-delivery"
NO_TOPICS_RULE = "sns-no-topics"

_log = get_logger("mailer.web")


class EventsDoor:
    """Hands bodies to `ingest`, and answers with the rule of what became of them.

    Without topics nothing can be genuine, and everything is refused (403).
    """

    def __init__(
        self,
        ingest: Ingest,
        *,
        has_topics: bool,
        requests: int = MOST_REQUESTS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._ingest = ingest
        self._has_topics = has_topics
        self._read_seconds = read_seconds
        self._room = Room(requests=requests, octets=_MOST_OCTETS)
        if not has_topics:
            _log.warning("no topic may speak: MAILER_SNS_TOPIC_ARNS is not set")

    def routes(self) -> list[Route]:
        """Return the routes of this part."""
        return [Route("/events/sns", self.post, methods=["POST"])]

    async def post(self, request: Request) -> Response:
        """Answer one request. The connection ends with one that was not read to its end."""
        try:
            with self._room.place() as place:
                body = await read_body(request, place, seconds=self._read_seconds)
                return _response(await self._answer(request, body))
        except ClientDisconnect:
            return Response()  # which nobody reads
        except (Unacceptable, NotNow) as reason:
            answer = self._ingest.decline(reason, Channel.HTTPS)
        return _response(answer, {"connection": "close"})

    async def _answer(self, request: Request, body: bytes) -> Answer:
        # Raw delivery leaves out the envelope, and with it the signature.
        if request.headers.get(_RAW_HEADER, "").strip().lower() == "true":
            return self._ingest.decline(Unacceptable(400, RAW_RULE), Channel.HTTPS)
        if not self._has_topics:
            return self._ingest.decline(Unacceptable(403, NO_TOPICS_RULE), Channel.HTTPS)
        return await self._ingest.take(body, Channel.HTTPS)


def _response(answer: Answer, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{answer.rule}\n", answer.status, headers)
