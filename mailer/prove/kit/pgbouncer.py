"""PgBouncer in transaction mode, as platforms put it between workers and PostgreSQL."""

from mailer.prove.kit.binaries import find_pgbouncer, unprivileged
from mailer.prove.kit.processes import Home, OwnServer, ServerProcess

_CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={postgres} user=mailer

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
max_client_conn = 400
server_reset_query_always = 0
ignore_startup_parameters = options,extra_float_digits
server_login_retry = 0.2
server_connect_timeout = 3
"""
"""`options` has to be ignored: libpq sends a session's settings there, and none is shared."""


class PgBouncer(OwnServer):
    """A pooler of our own before the PostgreSQL on that port. Raises NoServer."""

    def __init__(self, postgres_port: int) -> None:
        self._program = find_pgbouncer()
        self._postgres_port = postgres_port
        self._account = unprivileged()
        super().__init__(Home(self._account))

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    def _settle_on(self, port: int) -> None:
        self._port = port

    def _launch(self) -> ServerProcess:
        file = self._home.path / "pgbouncer.ini"
        file.write_text(_CONFIGURATION.format(postgres=self._postgres_port, port=self._port))
        return ServerProcess(
            [str(self._program), str(file)], self._home, ready="process up", account=self._account
        )
