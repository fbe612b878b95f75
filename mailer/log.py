"""Log lines: ids and classified reasons, in one form for ours and for every library's.

Nothing that could be an address or a credential gets through: a text with an `@` inside is left
out whole, and an exception is told by its type and frames, without its message and its locals.
"""

import logging
import os
import sys
import threading
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger

from mailer.log_guard import describe_exception, guard, seal

LogFormat = Literal["auto", "json", "text"]

_RECORD_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of this name: an event and key-value pairs in, one guarded record out.

    The record goes through the standard library's logging, so that an application that logs its
    own way sees it there, with the pairs as `extra`. No global structlog setting is read or made.
    """
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.PositionalArgumentsFormatter(),
            describe_exception,
            guard,
            seal,
            _as_record,
        ],
    ).bind()
    return logger


def configure(
    fmt: LogFormat = "auto", *, level: int = logging.INFO, stream: TextIO | None = None
) -> None:
    """Send the lines of this process to `stream` (stderr), as JSON or as text for people.

    `auto` is text on a terminal and JSON elsewhere. An exception that nothing caught becomes a line
    too, because the interpreter would print its message. For processes of our own: an application
    that uses mailer keeps its own logging.
    """
    stream = stream or sys.stderr
    handler = _GuardedHandler(stream)
    handler.setFormatter(_formatter(fmt, stream))
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if isinstance(each, _GuardedHandler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(level)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


class _GuardedHandler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        # The base class would print the line's raw text and arguments. A stream that is gone (the
        # other end of a pipe has died) leaves nobody to tell.
        if isinstance(sys.exc_info()[1], OSError):
            return
        substitute = logging.makeLogRecord(
            {
                "name": "mailer.log",
                "levelno": logging.ERROR,
                "levelname": "ERROR",
                "msg": "a log line could not be written",
                "source": f"{record.pathname}:{record.lineno}",
            }
        )
        self.stream.write(self.format(substitute) + self.terminator)


def _formatter(fmt: LogFormat, stream: TextIO) -> logging.Formatter:
    terminal = stream.isatty()
    text = fmt == "text" or (fmt == "auto" and terminal)
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(colors=terminal and "NO_COLOR" not in os.environ)
        if text
        else structlog.processors.JSONRenderer()
    )
    return ProcessorFormatter(processors=[_from_record, describe_exception, guard, renderer])


def _as_record(_: WrappedLogger, __: str, event: EventDict) -> tuple[tuple[str], dict[str, Any]]:
    """Hand over to logging, which refuses extras that are named like its own attributes."""
    message = str(event.pop("event", ""))
    pairs = {f"{key}_" if key in _RECORD_ATTRIBUTES else key: event[key] for key in event}
    # Without arguments logging looks for no placeholders: a `%` in the text is a `%`.
    return (message,), {"extra": pairs}


def _from_record(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Give every line the same first columns, whoever wrote it."""
    record: logging.LogRecord = event["_record"]
    columns = {
        "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": event["event"],
    }
    pairs = {key: vars(record)[key] for key in vars(record) if key not in _RECORD_ATTRIBUTES}
    return {**columns, **pairs, **columns, "exc_info": event.get("exc_info")}


def _log_uncaught(
    kind: type[BaseException],
    error: BaseException,
    trace: object,
    event: str = "uncaught exception",
) -> None:
    if not issubclass(kind, KeyboardInterrupt | SystemExit):
        get_logger("mailer").critical(event, exc_info=(kind, error, trace))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    error = args.exc_value or args.exc_type()
    _log_uncaught(args.exc_type, error, args.exc_traceback, "uncaught exception in a thread")
