"""The composition root: orders from settings, limits from providers, Peewee off the event loop."""

import subprocess
import sys
from pathlib import Path

import peewee
import pytest

from mailer import database, health
from mailer.limits import LimitsKeeper
from mailer.loop import LoopThread
from mailer.provider import Limits
from mailer.settings import load
from mailer.tables import ProviderHealth
from mailer.wiring import build_providers
from tests.builders import PAST
from tests.work.scripted import ScriptedProvider


class Limited(ScriptedProvider):
    """Tells the limits that the test gives it, and counts how often it was asked."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.told = limits
        self.asked = 0

    async def limits(self) -> Limits:
        self.asked += 1
        return self.told


def keeper_of(provider: Limited, loop: LoopThread) -> LimitsKeeper:
    return LimitsKeeper({provider.name: provider}, loop)


@pytest.mark.usefixtures("outbox")
class TestLimits:
    def test_what_a_provider_tells_is_kept_and_one_worker_asks_for_all(self) -> None:
        provider, loop = Limited(Limits(14.0, 100.0)), LoopThread()
        loop.start()
        for _ in range(3):
            keeper_of(provider, loop).refresh()
        assert provider.asked == 1
        row = ProviderHealth.get()
        assert (row.rate, row.left_today, row.state) == (14.0, 100.0, "closed")
        ProviderHealth.update(limits_at=PAST).execute()
        keeper_of(provider, loop).refresh()
        assert provider.asked == 2
        loop.stop()

    def test_a_start_asks_at_once_because_the_settings_may_have_changed(self) -> None:
        provider, loop = Limited(Limits(14.0)), LoopThread()
        loop.start()
        keeper_of(provider, loop).refresh()
        provider.told = Limits()
        keeper_of(provider, loop).refresh(at_start=True)
        assert ProviderHealth.get().rate is None
        loop.stop()

    def test_a_quota_that_is_used_up_pauses_the_provider(self) -> None:
        provider, loop = Limited(Limits(14.0, 0.0)), LoopThread()
        loop.start()
        keeper_of(provider, loop).refresh()
        known = health.snapshot()[provider.name]
        assert (known.state, known.ready) == ("open", False)
        loop.stop()


def test_orders_come_from_the_settings_and_each_provider_is_built_once(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    settings = load(
        {
            "DATABASE_URL": "sqlite:///x",
            "MAILER_PROVIDERS": f"file://{first} file://{second}",
            "MAILER_STREAM_BULK": f"file://{second} file://{first}",
        }
    )
    orders, providers = build_providers(settings)
    one, two = f"file:{first}", f"file:{second}"
    assert [(each.streams, each.providers) for each in orders] == [
        (None, (one, two)),
        (("bulk",), (two, one)),
    ]
    assert list(providers) == [one, two]


def test_a_query_without_a_connection_is_an_error_and_no_hidden_connection(
    database_url: str,
) -> None:
    """What keeps Peewee off the event loop: a worker's database never connects by itself."""
    opened = database.connect_worker(database_url, connections=2)
    with pytest.raises(peewee.InterfaceError):
        opened.execute_sql("SELECT 1")
    with opened.connection_context():
        assert opened.execute_sql("SELECT 1").fetchone() == (1,)
    assert opened.is_closed()
    if hasattr(opened, "close_all"):
        opened.close_all()


def test_an_application_loads_no_provider_no_broker_and_no_web_framework(
    database_url: str, tmp_path: Path
) -> None:
    """Not at the import, and not when it enqueues without a broker."""
    from tests.builders import SECRET, prepare

    prepare(database_url)
    script = (
        "import sys, mailer\n"
        f"db = mailer.connect({database_url!r})\n"
        "with db.atomic():\n"
        "    mailer.enqueue(dedup_key='k', to='a@example.com', subject='Hi', text='Hello')\n"
        "db.close()\n"
        "heavy = {'boto3', 'botocore', 'aiosmtplib', 'starlette', 'uvicorn', 'dramatiq', 'redis'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)\n"
    )
    environ = {
        "MAILER_FROM": "Shop <shop@example.com>",
        "MAILER_SECRET": SECRET,
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    ended = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
