"""The SDK's clients: built once, one request a call, whatever the environment says."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from mailer.errors import SettingsError
from providers.ses_probe import begin_current, note_answer_of_current
from providers.ses_settings import SesSettings

_ONE_REQUEST = {"total_max_attempts": 1, "mode": "standard"}
_ASKING_CONNECT_SECONDS = 2.0
_ASKING_READ_SECONDS = 4.0


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
    try:
        session = Session(region_name=settings.region)
        mail = _client(session, settings, settings.connect_timeout, settings.timeout)
        account = _client(session, settings, _ASKING_CONNECT_SECONDS, _ASKING_READ_SECONDS)
    except (BotoCoreError, ValueError) as exc:
        raise SettingsError(
            f"AWS settings: {type(exc).__name__}; see AWS_PROFILE, AWS_CONFIG_FILE, "
            "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, and the endpoint_url in MAILER_PROVIDERS"
        ) from exc
    mail.meta.events.register("before-send.sesv2.SendEmail", begin_current)
    mail.meta.events.register("before-parse.sesv2.SendEmail", note_answer_of_current)
    return Clients(session, mail, account)


def has_credentials(clients: Clients) -> bool:
    """Whether the chain found any when the clients were built; they never look again."""
    with suppress(BotoCoreError):
        return clients.session.get_credentials() is not None
    return True


def _client(
    session: Any, settings: SesSettings, connect_seconds: float, read_seconds: float
) -> Any:
    client = session.client(
        "sesv2",
        endpoint_url=settings.endpoint_url,
        config=Config(
            retries=dict(_ONE_REQUEST),
            connect_timeout=connect_seconds,
            read_timeout=read_seconds,
            max_pool_connections=settings.connections,
            tcp_keepalive=True,
        ),
    )
    if client.meta.config.retries != _ONE_REQUEST:
        raise SettingsError(
            "boto3: this version repeats requests by itself; install one that keeps "
            "total_max_attempts=1"
        )
    return client
