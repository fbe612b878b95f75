"""The settings one by one: name, variable, default and meaning."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from mailer import settings_values as read
from mailer.errors import SettingsError


def _sender_domain(data: dict[str, Any]) -> str | None:
    sender = data.get("sender")
    return read.domain_of(sender) if sender else None


Duration = Annotated[float, BeforeValidator(read.seconds)]
PositiveDuration = Annotated[float, Field(gt=0), BeforeValidator(read.seconds)]
Count = Annotated[int, Field(ge=0), BeforeValidator(read.count)]
StreamOrders = Annotated[dict[str, tuple[SecretStr, ...]], BeforeValidator(read.orders)]
SignatureVersions = Annotated[Literal["1", "1,2", "2"], BeforeValidator(read.versions)]
PositiveCount = Annotated[int, Field(ge=1), BeforeValidator(read.count)]


class Settings(BaseModel):
    """All that can be set, already checked. Made by `mailer.settings.load` alone.

    Durations are seconds. URLs and the secret are `SecretStr`, so that no repr shows them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False
    )

    database_url: Annotated[SecretStr | None, BeforeValidator(read.database_url)] = Field(
        None,
        alias="DATABASE_URL",
        description="Where the outbox lives: `postgres://…`, `postgresql://…` or `sqlite:///file`. "
        "An application that binds its own database needs none.",
    )
    redis_url: Annotated[SecretStr | None, BeforeValidator(read.redis_url)] = Field(
        None,
        alias="REDIS_URL",
        description="`redis://…` or `rediss://…`; unset: no hints, the poll alone finds the work.",
    )
    providers: Annotated[tuple[SecretStr, ...], BeforeValidator(read.providers)] = Field(
        (),
        alias="MAILER_PROVIDERS",
        description="Provider URLs separated by commas or blanks, the preferred one first; "
        "passwords are percent-encoded. A worker needs one, an application none.",
    )
    stream_orders: StreamOrders = Field(
        default_factory=dict,
        alias="MAILER_STREAM_NAME",
        description="Provider URLs for the rows of one stream (its name in capitals in place of "
        "`NAME`), instead of `MAILER_PROVIDERS`.",
    )
    sender: Annotated[str | None, BeforeValidator(read.sender)] = Field(
        None,
        alias="MAILER_FROM",
        repr=False,
        description="The sender of messages that name none.",
    )
    return_path: Annotated[str | None, BeforeValidator(read.return_path)] = Field(
        None,
        alias="MAILER_RETURN_PATH",
        repr=False,
        description="The address that bounces of SMTP mail come back to, such as "
        "`bounces@mail.example.com`; each attempt gets its own, `bounces+…@mail.example.com`. "
        "Unset: they go to the message's own sender.",
    )
    message_id_domain: Annotated[str | None, BeforeValidator(read.domain)] = Field(
        default_factory=_sender_domain,
        alias="MAILER_MESSAGE_ID_DOMAIN",
        description="The right side of every Message-ID; unset: the domain of `MAILER_FROM`.",
    )
    secret: Annotated[SecretStr | None, BeforeValidator(read.secret)] = Field(
        None,
        alias="MAILER_SECRET",
        description="The key of Message-IDs, at least 16 characters, the same in every process.",
    )
    templates: Annotated[Path | None, BeforeValidator(read.folder)] = Field(
        None, alias="MAILER_TEMPLATES", description="The folder of versioned templates."
    )
    lease_seconds: PositiveDuration = Field(
        60.0,
        alias="MAILER_LEASE_SECONDS",
        description="How long a claim holds without renewal; it is renewed at every third of it.",
    )
    max_attempts: PositiveCount = Field(
        10,
        alias="MAILER_MAX_ATTEMPTS",
        description="Temporary refusals of one message before it fails.",
    )
    max_age_seconds: PositiveDuration = Field(
        259_200.0,
        alias="MAILER_MAX_AGE",
        description="How long a message is tried, whatever the reason that it does not go out.",
    )
    batch: PositiveCount = Field(
        200, alias="MAILER_BATCH", description="Messages claimed by one statement."
    )
    concurrency: PositiveCount = Field(
        32,
        alias="MAILER_CONCURRENCY",
        description="Calls in flight, and provider connections, in one worker process.",
    )
    poll_seconds: PositiveDuration = Field(
        1.0,
        alias="MAILER_POLL_SECONDS",
        description="How often an idle worker process looks for due messages by itself.",
    )
    retry_base_seconds: PositiveDuration = Field(
        15.0,
        alias="MAILER_RETRY_BASE",
        description="The longest wait before the second attempt; it doubles with each further one.",
    )
    retry_cap_seconds: PositiveDuration = Field(
        3_600.0,
        alias="MAILER_RETRY_CAP",
        description="The longest wait between two attempts.",
    )
    ambiguous_wait_seconds: Duration = Field(
        900.0,
        alias="MAILER_AMBIGUOUS_WAIT",
        description="How long an ambiguous message waits for evidence before its policy applies.",
    )
    max_resends: Count = Field(
        1,
        alias="MAILER_MAX_RESENDS",
        description="How often a message with `on_ambiguous` `resend` is sent again on a doubt.",
    )
    shutdown_seconds: Annotated[Duration, Field(le=22)] = Field(
        20.0,
        alias="MAILER_SHUTDOWN_SECONDS",
        description="How long a stopping worker waits for calls in flight, at most 22; "
        "what is still open then is written down as ambiguous.",
    )
    max_message_bytes: Annotated[PositiveCount, Field(ge=1_024)] = Field(
        10 * 1024 * 1024,
        alias="MAILER_MAX_MESSAGE_BYTES",
        description="The largest message that is accepted, composed and encoded, in bytes.",
    )
    sns_topic_arns: Annotated[tuple[str, ...], BeforeValidator(read.topics)] = Field(
        (),
        alias="MAILER_SNS_TOPIC_ARNS",
        description="The SNS topics that may speak, separated by commas or blanks; unset: none.",
    )
    sns_signature_versions: SignatureVersions = Field(
        "1,2",
        alias="MAILER_SNS_SIGNATURE_VERSIONS",
        description="The SignatureVersions that are accepted; `2` once all topics sign with it.",
    )
    sns_certificates: Annotated[Path | None, BeforeValidator(read.folder)] = Field(
        None,
        alias="MAILER_SNS_CERTIFICATES",
        description="A folder of signing certificates under the names that their URLs end in; "
        "with it none is fetched.",
    )
    event_max_age_seconds: Annotated[float | None, BeforeValidator(read.seconds)] = Field(
        None,
        gt=0,
        alias="MAILER_EVENT_MAX_AGE",
        description="How long ago an event may have been published; unset: no limit.",
    )
    sqs_queue_url: Annotated[str | None, BeforeValidator(read.queue_url)] = Field(
        None,
        alias="MAILER_SQS_QUEUE_URL",
        description="The queue that `mailer events consume` reads.",
    )
    port: Annotated[Count, Field(le=65_535)] = Field(
        8_000,
        alias="PORT",
        description="Where `mailer web` listens; 0: any free port.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        "auto",
        alias="MAILER_LOG",
        description="`json`, `text`, or `auto`: text on a terminal, JSON elsewhere.",
    )

    @property
    def database_address(self) -> str:
        """The URL of the database, for roles that cannot do without one."""
        return _present(self.database_url)

    @property
    def sqs_queue_address(self) -> str:
        """The URL of the queue, for the role that cannot do without one."""
        if self.sqs_queue_url is None:
            raise SettingsError("MAILER_SQS_QUEUE_URL: is not set; give the URL of the queue")
        return self.sqs_queue_url

    @property
    def renew_seconds(self) -> float:
        """How often the leases of calls in flight are renewed."""
        return self.lease_seconds / 3


def _present(secret: SecretStr | None) -> str:
    if secret is None:
        raise SettingsError("DATABASE_URL: is not set; give the URL of the outbox's database")
    return secret.get_secret_value()
