"""What a call to the SDK came to, written down as an observation. Trusts no shape of an answer."""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import botocore.exceptions as sdk
from urllib3.util.ssl_match_hostname import CertificateError

from mailer.outcome import clean
from mailer.provider import Call
from providers.ses_probe import Flight
from providers.ses_rules import Kind, Observation, Stage

_OPERATION = "SendEmail"
_HINT_LIMIT_SECONDS = 3600.0
_CHAIN_LIMIT = 12

_KINDS: tuple[tuple[type[BaseException], Kind], ...] = (
    (sdk.ParamValidationError, Kind.INVALID),
    (sdk.NoCredentialsError, Kind.SETUP),
    (sdk.PartialCredentialsError, Kind.SETUP),
    (sdk.CredentialRetrievalError, Kind.SETUP),
    (sdk.MetadataRetrievalError, Kind.SETUP),
    (sdk.RefreshWithMFAUnsupportedError, Kind.SETUP),
    (sdk.UnknownCredentialError, Kind.SETUP),
    (sdk.NoAuthTokenError, Kind.SETUP),
    (sdk.TokenRetrievalError, Kind.SETUP),
    (sdk.UnknownTokenProviderError, Kind.SETUP),
    (sdk.SSOError, Kind.SETUP),
    (sdk.LoginError, Kind.SETUP),
    (sdk.ProfileNotFound, Kind.SETUP),
    (sdk.ConfigNotFound, Kind.SETUP),
    (sdk.ConfigParseError, Kind.SETUP),
    (sdk.InvalidConfigError, Kind.SETUP),
    (sdk.InvalidRegionError, Kind.SETUP),
    (sdk.BaseEndpointResolverError, Kind.SETUP),
    (sdk.EndpointProviderError, Kind.SETUP),
    (sdk.InvalidEndpointConfigurationError, Kind.SETUP),
    (sdk.MissingDependencyException, Kind.SETUP),
    (sdk.EndpointConnectionError, Kind.UNREACHABLE),
    (sdk.ConnectTimeoutError, Kind.CONNECT_TIMEOUT),
    (sdk.ProxyConnectionError, Kind.PROXY),
    (sdk.SSLError, Kind.TLS_FAILURE),
    (sdk.ReadTimeoutError, Kind.TIMEOUT),
    (sdk.ConnectionClosedError, Kind.CLOSED),
)
"""First match wins. botocore's `ConnectionError` is not here: what it stands for may have been
sent (`SSLError` is one)."""


@dataclass(frozen=True, slots=True)
class Witness:
    """What a call's observations are measured against."""

    call: Call
    flight: Flight
    endpoint: str

    def answered(self, response: Any) -> Observation:
        """Write down what `send_email` returned."""
        metadata = _mapping(_mapping(response).get("ResponseMetadata"))
        message_id = _mapping(response).get("MessageId")
        return Observation(
            self._stage,
            Kind.ANSWER,
            self.flight.bytes_sent,
            status=_status(metadata),
            message_id=clean(message_id) if isinstance(message_id, str) else "",
            from_aws=_is_from_aws(metadata),
            is_cut_short=self.flight.is_cut_short,
        )

    def raised(self, exc: BaseException) -> Observation:
        """Write down what `send_email` raised."""
        if isinstance(exc, sdk.ClientError):
            if exc.operation_name == _OPERATION:
                return self._refused(exc)
            return self.met(Kind.ELSEWHERE, f"{exc.operation_name} was refused")
        kind = self._kind_of(exc)
        return self.met(kind, type(exc).__name__ if kind is Kind.UNEXPECTED else "")

    def met(self, kind: Kind, text: str = "") -> Observation:
        """Write down what is no answer, without an exception's text: it may hold an address."""
        return Observation(self._stage, kind, self.flight.bytes_sent, text=text or kind.value)

    @property
    def _stage(self) -> Stage:
        if not self.flight.has_begun:
            return Stage.PREPARE
        return Stage.REQUEST if self.flight.bytes_sent == 0 else Stage.ANSWER

    def _refused(self, exc: sdk.ClientError) -> Observation:
        response = _mapping(exc.response)
        metadata = _mapping(response.get("ResponseMetadata"))
        error = _mapping(response.get("Error"))
        message = error.get("Message")
        text = message if isinstance(message, str) else ""
        identities = _identities(text)
        return Observation(
            self._stage,
            Kind.ANSWER,
            self.flight.bytes_sent,
            status=_status(metadata),
            code=_code(error, metadata),
            text=text,
            from_aws=_is_from_aws(metadata),
            is_cut_short=self.flight.is_cut_short,
            names_sender=not identities.isdisjoint(_names(self.call.sender)),
            names_recipient=any(
                each.address.lower() in identities for each in self.call.recipients
            ),
            retry_after_seconds=_retry_after(metadata),
        )

    def _kind_of(self, exc: BaseException) -> Kind:
        kind = next((kind for known, kind in _KINDS if isinstance(exc, known)), Kind.UNEXPECTED)
        if self._is_elsewhere(exc):
            return Kind.ELSEWHERE
        if kind is Kind.TLS_FAILURE and _is_about_certificate(exc):
            return Kind.CERTIFICATE
        if kind is Kind.PROXY and _asks_for_login(exc):
            return Kind.PROXY_LOGIN
        return kind

    def _is_elsewhere(self, exc: BaseException) -> bool:
        url = _mapping(getattr(exc, "kwargs", None)).get("endpoint_url")
        return isinstance(url, str) and not url.startswith(self.endpoint)


def has_repeated(response: Any) -> bool:
    """Whether the SDK made more than one request, against all settings."""
    metadata = _mapping(_mapping(response).get("ResponseMetadata"))
    return bool(metadata.get("RetryAttempts"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _status(metadata: Mapping[str, Any]) -> int:
    status = metadata.get("HTTPStatusCode")
    return status if isinstance(status, int) else 0


def _headers(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(name).lower(): str(value)
        for name, value in _mapping(metadata.get("HTTPHeaders")).items()
    }


def _is_from_aws(metadata: Mapping[str, Any]) -> bool:
    return bool(metadata.get("RequestId") or _headers(metadata).get("x-amzn-requestid"))


def _code(error: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Return the error's code: the header beats the body, which botocore at times never reads."""
    given = _headers(metadata).get("x-amzn-errortype") or error.get("Code")
    if not isinstance(given, str | int):
        return ""
    return clean(str(given).partition(":")[0].rpartition("#")[2])


def _retry_after(metadata: Mapping[str, Any]) -> float | None:
    """Return the delay that the answer asks for in seconds (RFC 9110 10.2.3)."""
    given = _headers(metadata).get("retry-after", "").strip()
    if not (given.isascii() and given.isdigit()):
        return None
    return min(float(given[:6]), _HINT_LIMIT_SECONDS)


def _identities(text: str) -> frozenset[str]:
    """Return what SES lists behind the last colon: the identities that failed its check."""
    listed = text.rpartition(":")[2]
    return frozenset(each.strip(" .").lower() for each in listed.split(","))


def _names(address: str) -> frozenset[str]:
    return frozenset({address.lower(), address.rpartition("@")[2].lower()})


def _is_about_certificate(exc: BaseException) -> bool:
    """Whether the handshake found the certificate wanting; urllib3 compares the name by itself."""
    return any(
        isinstance(each, ssl.SSLCertVerificationError | CertificateError) for each in _chain(exc)
    )


def _asks_for_login(exc: BaseException) -> bool:
    return any("407" in _words(each) for each in _chain(exc))


def _words(exc: BaseException) -> list[str]:
    return str(exc).replace("'", " ").replace("(", " ").replace(")", " ").split()


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all that it wraps, however each library in between does that."""
    waiting, seen = [exc], set[int]()
    while waiting and len(seen) < _CHAIN_LIMIT:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = (_mapping(getattr(each, "kwargs", None)).get("error"), *each.args)
        waiting += [
            link
            for link in (*inner, each.__cause__, each.__context__)
            if isinstance(link, BaseException)
        ]
