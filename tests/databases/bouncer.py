"""A pgbouncer of the tests' own, in transaction mode, in front of a PostgreSQL."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from tests.servers import Server, as_user, found_program, server_folder


class Pgbouncer(Server):
    name = "pgbouncer"

    def __init__(self, folder: Path, behind: Server, pool_size: int) -> None:
        super().__init__(folder)
        self.program = found_program("pgbouncer", "pgbouncer: apt-get install pgbouncer")
        self._write("users", '"holdfast" ""\n')
        self._write(
            "pgbouncer.ini",
            f"""
            [databases]
            * = host=127.0.0.1 port={behind.port} user=holdfast
            [pgbouncer]
            listen_addr = 127.0.0.1
            listen_port = {self.port}
            unix_socket_dir =
            auth_type = trust
            auth_file = {folder / "users"}
            admin_users = holdfast
            pool_mode = transaction
            default_pool_size = {pool_size}
            max_client_conn = 500
            """,
        )

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text("\n".join(line.strip() for line in text.splitlines()) + "\n")
        if who := as_user():
            os.chown(path, who["user"], who["group"])

    def url(self, database: str) -> str:
        return f"postgresql://holdfast@127.0.0.1:{self.port}/{database}"

    def command(self) -> list[str]:
        return [self.program, str(self.folder / "pgbouncer.ini")]

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


@contextlib.contextmanager
def pgbouncer(behind: Server, pool_size: int) -> Iterator[Pgbouncer]:
    with server_folder() as folder:
        server = Pgbouncer(folder, behind, pool_size)
        server.start()
        try:
            yield server
        finally:
            server.stop()
