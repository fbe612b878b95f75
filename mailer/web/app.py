"""The application: which parts the web process has."""

from starlette.applications import Starlette

from mailer.web.health import Health, look_at_database
from mailer.web.hooks import EventsDoor
from mailer.web.metrics import Metrics, MetricsDoor
from mailer.wiring_events import WebParts


def application(parts: WebParts) -> Starlette:
    """Return the ASGI application."""
    app = Starlette(
        routes=[
            *EventsDoor(parts.ingest, has_topics=parts.has_topics).routes(),
            *Health(look_at_database).routes(),
            *MetricsDoor(Metrics(answers=parts.ingest.answers)).routes(),
        ]
    )
    app.router.redirect_slashes = False  # SNS does not come again where it is sent elsewhere
    return app
