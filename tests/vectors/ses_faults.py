"""From one client-side SES vector to the exception that the SDK would raise, with its causes."""

import asyncio
import builtins
import http.client
import inspect
import re
import socket
import ssl
import string
import sys
from typing import Any

import botocore.exceptions
import botocore.parsers
import dramatiq.errors
import dramatiq.middleware
import urllib3.exceptions

Case = dict[str, Any]

_HOMES = (
    botocore.exceptions,
    botocore.parsers,
    builtins,
    asyncio,
    dramatiq.middleware,
    dramatiq.errors,
    urllib3.exceptions,
    http.client,
    ssl,
    socket,
)
_CAUSES = (ssl, builtins, http.client, socket)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def exception_of(case: Case, ses_url: str) -> BaseException:
    """Make the exception that the case names, with the cause that it tells."""
    if case["exception"] == "ClientError":
        return _client_error(case)
    kind = _class_named(case["exception"], _HOMES)
    if not issubclass(kind, botocore.exceptions.BotoCoreError):
        bare: BaseException = kind.__new__(kind)  # some want arguments, and none is looked at
        return bare
    cause = _cause(case["cause"]) if case.get("cause") else None
    kwargs: dict[str, Any] = dict.fromkeys(_fields(kind), "x")
    if case.get("endpoint"):
        kwargs["endpoint_url"] = _url(case["endpoint"], ses_url)
    elif "endpoint_url" in kwargs:
        kwargs["endpoint_url"] = ses_url
    if issubclass(kind, botocore.exceptions.HTTPClientError | botocore.exceptions.ConnectionError):
        kwargs["error"] = cause or Exception("unknown")
    made: BaseException = kind(**kwargs)
    made.__context__ = cause
    return made


def write(octets: int) -> None:
    """Announce a write as http.client does, without a connection."""

    class Connection:
        sock = None

    sys.audit("http.client.send", Connection(), b"x" * octets)


def _client_error(case: Case) -> BaseException:
    error = {"Code": case.get("error_code", ""), "Message": case.get("message") or ""}
    metadata: dict[str, Any] = {"HTTPStatusCode": case.get("status", 0)}
    metadata["HTTPHeaders"] = case.get("headers", {})
    response = {"Error": error, "ResponseMetadata": metadata}
    made: BaseException = botocore.exceptions.ClientError(
        response, case.get("operation", "SendEmail")
    )
    return made


def _fields(kind: Any) -> set[str]:
    """Name what the class wants: for its text, and for its constructor."""
    told = {name for _, name, _, _ in string.Formatter().parse(kind.fmt) if name}
    return told | {
        name
        for name, each in inspect.signature(kind).parameters.items()
        if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    }


def _url(endpoint: str, ses_url: str) -> str:
    return ses_url if endpoint == "ses" else f"https://{endpoint}.amazonaws.example/"


def _cause(told: str) -> BaseException:
    """Wrap the innermost exception that the text names as urllib3 does."""
    names = _NAME.findall(told)
    inner = [_class_named(name, _CAUSES) for name in names if _is_known(name, _CAUSES)]
    cause = inner[-1](1, told) if inner else OSError(told)
    if "SSL" in told or "CERTIFICATE" in told.upper():
        return urllib3.exceptions.SSLError(cause)
    if "ProxyError" in names:
        return urllib3.exceptions.ProxyError(told, OSError(told))
    return urllib3.exceptions.ProtocolError(told, cause)


def _is_known(name: str, homes: tuple[Any, ...]) -> bool:
    found = [getattr(home, name, None) for home in homes]
    return any(isinstance(each, type) and issubclass(each, OSError) for each in found)


def _class_named(name: str, homes: tuple[Any, ...]) -> Any:
    for home in homes:
        found = getattr(home, name, None)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    raise LookupError(f"no exception is called {name}")
