"""The doors for people and tests: the page, and what switches and lists."""

import json
from dataclasses import asdict
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from mailer.fake_ses.account import InvalidState
from mailer.fake_ses.fates import FATES
from mailer.fake_ses.faults import SCRIPT
from mailer.fake_ses.service import Service

SHOWN = 200
"""How many messages the page lists."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}


class Pages:
    """Shows one account, and lets it be switched by whoever can reach the socket."""

    def __init__(self, service: Service, operations: list[Route]) -> None:
        self._service = service
        self._operations = [_line(each) for each in operations]
        environment = Environment(autoescape=True, undefined=StrictUndefined)
        source = Path(__file__).with_name("page.html").read_text("utf-8")
        self._template = environment.from_string(source)

    def routes(self) -> list[Route]:
        """Return where each door is found."""
        return [
            Route("/", self.page),
            Route("/admin/accepted", self.accepted),
            Route("/admin/events", self.events),
            Route("/admin/state", self.state, methods=["GET", "POST"]),
            Route("/admin/reset", self.reset, methods=["POST"]),
        ]

    async def page(self, _: Request) -> Response:
        """What this is, what it is not, and what it accepted."""
        entries = self._service.ledger.entries
        html = self._template.render(
            count=len(entries),
            entries=entries[: -SHOWN - 1 : -1],
            script=SCRIPT,
            fates=FATES,
            topic=self._service.topic,
            account=self._service.account.model_dump(),
            operations=self._operations,
        )
        return HTMLResponse(html, headers=_HEADERS)

    async def accepted(self, _: Request) -> Response:
        """All that was accepted, and how many requests came for each operation."""
        entries = [each.as_json() for each in self._service.ledger.entries]
        return JSONResponse({"accepted": entries, "calls": self._service.calls}, headers=_HEADERS)

    async def events(self, _: Request) -> Response:
        """Each try to hand an event over, what was answered, and how many are waiting."""
        topic = self._service.topic
        posted = [asdict(each) for each in topic.posted] if topic else []
        waiting = topic.waiting if topic else 0
        return JSONResponse({"posted": posted, "waiting": waiting}, headers=_HEADERS)

    async def state(self, request: Request) -> Response:
        """The account's switches; a POST sets those that it names."""
        if request.method == "POST":
            try:
                self._service.change(await _object(request))
            except InvalidState as error:
                return JSONResponse({"message": str(error)}, 400)
        return JSONResponse(self._service.account.model_dump())

    async def reset(self, _: Request) -> Response:
        """Forget everything but the log file."""
        self._service.reset()
        return JSONResponse({})


async def _object(request: Request) -> dict[str, object]:
    # A browser sends no JSON to another site unasked: a page elsewhere cannot switch anything.
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise InvalidState("Content-Type: must be application/json")
    try:
        found = json.loads(await request.body())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidState("body: must be a JSON object of switches and values")
    return found


def _line(route: Route) -> str:
    methods = sorted((route.methods or set()) - {"HEAD"})
    return f"{route.name}: {' '.join(methods)} {route.path.replace(':path', '')}"
