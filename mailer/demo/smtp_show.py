"""The show over SMTP: taken, greylisted, refused, and in doubt until an operator has looked."""

from collections.abc import Mapping
from contextlib import suppress

from mailer.demo.app import Declined, SignUps, decline
from mailer.demo.sink import HOST, Entry, Relay, running
from mailer.demo.stage import Stage
from mailer.demo.story import (
    DECLINED_EMAIL,
    DECLINED_NAME,
    STORIES,
    TEMPERS,
    contradictions,
    taken,
)
from mailer.outcome import Outcome
from mailer.settings_fields import Settings
from mailer.states import RowState

SHOWN = (
    "The record and the relay's log agree: three messages taken, each of them once, one",
    "refused, and nothing of what was rolled back.",
    "This was one process on SQLite with a scripted relay. Production is PostgreSQL,",
    "worker processes that may be killed at any moment, and a provider of yours.",
)
COMMANDS = (
    "status",
    "list --state failed",
    "requeue 3 --why 'the mailbox exists now'",
    "show 3",
)

NEWS: Mapping[str, str] = {
    Outcome.ACCEPTED: "the relay took responsibility ({code})",
    Outcome.RETRYABLE: "refused for now ({code}): {decision}",
    Outcome.PERMANENT: "refused for good ({code}): another try cannot help",
    Outcome.AMBIGUOUS: "no reply after the final dot: it may have been taken, so it waits",
}


def play(stage: Stage) -> None:
    """Go through all chapters."""
    with running(TEMPERS) as relay:
        url = f"smtp://{HOST}:{relay.port}?tls=none&timeout=5&data_timeout=5"
        settings = stage.settings(url)
        _introduce(stage, relay)
        _sign_up(stage, settings)
        with stage.worker(settings):
            _watch(stage)
            _check(stage, relay, settled=False)
            if not stage.broken:
                _settle(stage, relay)
                _check(stage, relay, settled=True)
        stage.screen.title("4. What `mailer show` has on each of them")
        stage.tell()


def _introduce(stage: Stage, relay: Relay) -> None:
    stage.screen.title("mailer demo")
    stage.screen.say(
        f"One process: SQLite in {stage.folder},",
        f"a worker, and an SMTP relay with scripted answers on {HOST}:{relay.port}.",
        "Nothing leaves this machine, and none of your settings are read.",
    )


def _sign_up(stage: Stage, settings: Settings) -> None:
    stage.screen.title("1. An application signs people up")
    with stage.application(settings) as app:
        stage.screen.say("Each account and the intent to welcome it are one transaction:")
        stage.sign_up(app, STORIES)
        _sign_up_in_vain(stage, app)
        _ask_twice(stage, app)
    stage.screen.say("No worker runs yet: what is committed waits, and survives a crash.")


def _sign_up_in_vain(stage: Stage, app: SignUps) -> None:
    with suppress(Declined):
        app.sign_up(DECLINED_NAME, DECLINED_EMAIL, decline)
    if app.account_of(DECLINED_EMAIL) is not None:
        stage.broken.append("the sign-up that was rolled back left an account")
    stage.screen.say(
        f"{DECLINED_NAME}'s payment is declined: account and intent are rolled back together.",
    )


def _ask_twice(stage: Stage, app: SignUps) -> None:
    story = STORIES[0]
    account = app.account_of(story.email)
    if account is None:
        stage.broken.append(f"{story.name}'s account is missing")
        return
    row, created = app.welcome(account)
    if created:
        stage.broken.append("asking twice under one key made two messages")
    stage.screen.say(
        f"{story.name}'s form arrives twice: the same key is the same message, {row.id}."
    )


def _watch(stage: Stage) -> None:
    stage.screen.title("2. A worker sends")
    stage.screen.say(
        "The relay takes Ana's mail at once, and Ben's when asked again (greylisting). It",
        "knows no Cleo. It takes Dan's, and the connection is lost before it can say so.",
    )
    stage.watch(NEWS)


def _settle(stage: Stage, relay: Relay) -> None:
    stage.screen.title("3. An operator settles what is in doubt")
    for each in stage.timelines():
        if each.message.state == RowState.AMBIGUOUS:
            number = each.message.id
            stage.screen.say(f"The relay's own log is the evidence on message {number}:")
            stage.settle(number, relay_line(taken(each, relay.log)[0]), "relay log")


def _check(stage: Stage, relay: Relay, *, settled: bool) -> None:
    stage.broken += contradictions(stage.timelines(), relay.log, settled=settled)


def relay_line(taken: Entry) -> str:
    """The line of the relay's log on a message it took, with the address left out."""
    reply = taken.reply or "connection lost before the reply"
    return (
        f"{taken.at:%H:%M:%S} {taken.queue_id} X-Outbox-Id {taken.outbox_id}, "
        f"X-Outbox-Attempt {taken.attempt}: taken, {reply}"
    )
