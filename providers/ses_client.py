"""The SDK's clients: built once, one request a call, whatever the environment says."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from mailer.errors import SettingsError
from providers.ses_probe import begin_current, note_answer_of_current
from providers.ses_settings import SesSettings

_ONE_REQUEST = {"total_max_attempts": 1, "mode": "standard"}
_REPEATED = {"total_max_attempts": 4, "mode": "standard"}
"""For calls that come to the same however often they are made, as no sending does."""
_ASKING_CONNECT_SECONDS = 2.0
_ASKING_READ_SECONDS = 4.0
_LISTING_READ_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Clients:
    """`mail` sends; `account` asks about the account, with short timeouts. Both are thread-safe."""

    session: Any
    mail: Any
    account: Any

    @property
    def endpoint(self) -> str:
        """Where both speak to."""
        return str(self.mail.meta.endpoint_url)

    def close(self) -> None:
        """Close idle connections; the clients stay usable."""
        for client in (self.mail, self.account):
            client.close()


def connect(settings: SesSettings) -> Clients:
    """Build the clients from AWS's own chain of settings. Connects to nothing but its sources.

    Raises `SettingsError` when that chain is broken or the SDK would repeat requests by itself.
    """
    with _naming_aws_settings():
        session = Session(region_name=settings.region)
        mail = _client(session, settings, settings.connect_timeout, settings.timeout)
        account = _client(session, settings, _ASKING_CONNECT_SECONDS, _ASKING_READ_SECONDS)
    mail.meta.events.register("before-send.sesv2.SendEmail", begin_current)
    mail.meta.events.register("before-parse.sesv2.SendEmail", note_answer_of_current)
    return Clients(session, mail, account)


def connect_to_account(settings: SesSettings) -> Any:
    """Build a client for what is kept by the account; the SDK repeats its requests.

    Raises `SettingsError` as `connect` does.
    """
    with _naming_aws_settings():
        return _client(
            Session(region_name=settings.region),
            settings,
            settings.connect_timeout,
            _LISTING_READ_SECONDS,
            retries=_REPEATED,
        )


def has_credentials(clients: Clients) -> bool:
    """Whether the chain found any when the clients were built; they never look again."""
    with suppress(BotoCoreError):
        return clients.session.get_credentials() is not None
    return True


@contextmanager
def _naming_aws_settings() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ValueError) as exc:
        raise SettingsError(
            f"AWS settings: {type(exc).__name__}; see AWS_PROFILE, AWS_CONFIG_FILE, "
            "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, and the endpoint_url in MAILER_PROVIDERS"
        ) from exc


def _client(
    session: Any,
    settings: SesSettings,
    connect_seconds: float,
    read_seconds: float,
    retries: Mapping[str, Any] | None = None,
) -> Any:
    wanted = dict(_ONE_REQUEST if retries is None else retries)
    client = session.client(
        "sesv2",
        endpoint_url=settings.endpoint_url,
        config=Config(
            retries=dict(wanted),
            connect_timeout=connect_seconds,
            read_timeout=read_seconds,
            max_pool_connections=settings.connections,
            tcp_keepalive=True,
        ),
    )
    if client.meta.config.retries != wanted:
        raise SettingsError(
            "boto3: this version repeats requests by itself; install one that keeps "
            "total_max_attempts"
        )
    return client
