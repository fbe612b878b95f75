"""django-post_office's side: `python -m benchmarks.peers.post_office_worker prepare|work`."""

import os
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import django  # type: ignore[import-not-found]
from django.conf import settings  # type: ignore[import-not-found]
from django.core.management import call_command  # type: ignore[import-not-found]

from benchmarks.letter import ENVELOPE_SENDER, HTML, RECIPIENT, SENDER, SUBJECT, TEXT

_PAUSE_SECONDS = 0.1
_IS_READY = os.environ["BENCHMARK_COMPOSE"] == "ready"


def _configure() -> None:
    database = urlsplit(os.environ["BENCHMARK_DATABASE"])
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "post_office"],
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": database.path[1:],
                "USER": database.username,
                "PASSWORD": database.password or "",
                "HOST": database.hostname,
                "PORT": database.port,
            }
        },
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
        USE_TZ=True,
        EMAIL_HOST="127.0.0.1",
        EMAIL_PORT=int(os.environ["BENCHMARK_SINK"]),
        POST_OFFICE={
            "BATCH_SIZE": 5000,
            "BACKENDS": {
                "default": "benchmarks.peers.post_office_ready.ReadyBackend"
                if _IS_READY
                else "django.core.mail.backends.smtp.EmailBackend"
            },
        },
    )
    django.setup()


def _prepare() -> None:
    from post_office import mail  # type: ignore[import-not-found]

    call_command("migrate", verbosity=0)
    sender = ENVELOPE_SENDER if _IS_READY else SENDER
    mail.send(RECIPIENT, sender, subject=SUBJECT, message=TEXT, html_message=HTML)


def _work() -> None:
    processes = int(os.environ["BENCHMARK_PROCESSES"])
    with tempfile.TemporaryDirectory() as folder:
        lockfile = str(Path(folder) / "lock")
        print("ready", flush=True)
        while True:
            call_command("send_queued_mail", processes=processes, lockfile=lockfile)
            time.sleep(_PAUSE_SECONDS)


def main() -> None:
    """Do the one or the other."""
    _configure()
    {"prepare": _prepare, "work": _work}[sys.argv[1]]()


if __name__ == "__main__":
    main()
