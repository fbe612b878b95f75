"""SNS's ConfirmSubscription, the one operation of its query API that the fake has."""

from urllib.parse import parse_qs
from uuid import uuid4
from xml.sax.saxutils import escape

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mailer.fake_ses.service import Service

_NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"
_MAX_BODY_OCTETS = 16 * 1024
_BAD_REQUEST = 400


class Confirming:
    """Answers an SDK that takes the fake for SNS, by AWS_ENDPOINT_URL_SNS."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """Return where the operation is found: the query API has one path."""
        return [Route("/", self.answer, methods=["POST"])]

    async def answer(self, request: Request) -> Response:
        """Confirm the subscription that topic and token name."""
        asked = await _form(request)
        if asked.get("Action") != "ConfirmSubscription":
            return _refused("InvalidAction", "This fake of SNS confirms subscriptions alone.")
        self._service.count("ConfirmSubscription")
        arn = self._service.confirm(asked.get("TopicArn", ""), asked.get("Token", ""))
        if arn is None:
            return _refused("InvalidParameter", "Invalid parameter: Token or TopicArn")
        result = f"<SubscriptionArn>{escape(arn)}</SubscriptionArn>"
        return _xml(
            "ConfirmSubscriptionResponse",
            f"<ConfirmSubscriptionResult>{result}</ConfirmSubscriptionResult>"
            f"<ResponseMetadata><RequestId>{uuid4()}</RequestId></ResponseMetadata>",
        )


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_OCTETS:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"))
    return {name: values[0] for name, values in fields.items()}


def _refused(code: str, message: str) -> Response:
    error = f"<Type>Sender</Type><Code>{code}</Code><Message>{message}</Message>"
    content = f"<Error>{error}</Error><RequestId>{uuid4()}</RequestId>"
    return _xml("ErrorResponse", content, status=_BAD_REQUEST)


def _xml(name: str, content: str, *, status: int = 200) -> Response:
    text = f'<{name} xmlns="{_NAMESPACE}">{content}</{name}>'
    return Response(text, status, media_type="text/xml")
