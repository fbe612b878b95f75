"""The application: the operations of SES and SNS, the page, and the admin doors."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from mailer.fake_ses.confirming import Confirming
from mailer.fake_ses.operations import Operations
from mailer.fake_ses.pages import Pages
from mailer.fake_ses.refusals import UNKNOWN_OPERATION
from mailer.fake_ses.service import Service
from mailer.fake_ses.wire import refused


def application(service: Service) -> Starlette:
    """Return the ASGI application of one account; it is to be served on `wire.Connection`."""
    operations = Operations(service).routes()
    pages = Pages(service, operations).routes()
    app = Starlette(
        routes=[*operations, *pages, *Confirming(service).routes()],
        exception_handlers={404: _unknown, 405: _unknown},
    )
    app.router.redirect_slashes = False  # SES answers, and never sends a client elsewhere
    return app


async def _unknown(_: Request, __: Exception) -> Response:
    return refused(UNKNOWN_OPERATION)
