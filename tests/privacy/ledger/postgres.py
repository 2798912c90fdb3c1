"""A throw-away PostgreSQL server for tests: its own cluster in a temporary folder, on a unix socket alone, fsync on.

The server's programs are looked for in PATH and where Debian keeps them; as root on a Debian machine without them they
are installed. Where there is no server the tests that need one are skipped, with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

USER = "postgres"
PASSWORD = "correct horse battery"
"""Of the role ``clerk``, the only one that is asked for a password."""

_EMPTY = """DO $$ DECLARE one text; BEGIN
  FOR one IN SELECT nspname FROM pg_namespace WHERE nspname <> 'information_schema' AND NOT starts_with(nspname, 'pg_')
  LOOP EXECUTE format('DROP SCHEMA %I CASCADE', one); END LOOP;
  CREATE SCHEMA public; END $$"""
_HBA = "local all clerk scram-sha-256\nlocal all all trust\n"


@dataclass
class Server:
    """A running server: where its programs and its socket are, and who runs it."""

    programs: Path
    folder: Path
    as_user: list[str]
    made: int = 0
    emptied: bool = False

    def run(self, program: str, *arguments: str, check: bool = True) -> str:
        words = [*self.as_user, str(self.programs / program), *arguments]
        done = subprocess.run(words, capture_output=True, text=True, cwd="/")
        if check and done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Runs one statement and returns the first value that it finds."""
        import psycopg

        with psycopg.connect(host=str(self.folder), user=USER, dbname=database, autocommit=True) as connection:
            found = connection.execute(statement)
            return str(found.fetchone()[0]) if found.description else ""

    def start(self) -> None:
        settings = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c max_connections=150"
        log = str(self.folder / "log")
        self.run("pg_ctl", "start", "-w", "-t", "180", "-D", str(self.folder / "data"), "-l", log, "-o", settings)

    def guard(self) -> subprocess.Popen[bytes]:
        """A process that stops the server when this one is gone, however it went."""
        words = ["sh", "-c", 'read _; "$0" stop -m immediate -D "$1"', str(self.programs / "pg_ctl")]
        return subprocess.Popen(
            [*self.as_user, *words, str(self.folder / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def stop(self, mode: str = "fast") -> None:
        """Stops it; ``immediate`` is as if the power had failed."""
        self.run("pg_ctl", "stop", "-w", "-D", str(self.folder / "data"), "-m", mode, check=False)

    def set(self, name: str, value: str) -> None:
        """Changes a setting of the running server, and waits until new connections have it."""
        self.sql(f"ALTER SYSTEM SET {name} = {value}")
        self.sql("SELECT pg_reload_conf()")
        while self.sql(f"SHOW {name}") != value:
            time.sleep(0.05)

    def new_database(self) -> str:
        """Makes an empty database and returns its address."""
        self.made += 1
        self.sql(f"CREATE DATABASE ledger_{self.made}")
        return self.address(f"ledger_{self.made}")

    def emptied_database(self) -> str:
        """As ``new_database``, but one and the same each time, without whatever was in it: that takes no time."""
        name = "ledger_emptied"
        if not self.emptied:
            self.sql(f"CREATE DATABASE {name}")
            self.emptied = True
        self.sql(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'")
        self.sql(_EMPTY, name)
        return self.address(name)

    def address(self, database: str, who: str = USER) -> str:
        return f"postgresql://{who}@/{database}?host={self.folder}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    programs = _programs() or _installed()
    if programs is None:
        pytest.skip("no PostgreSQL server programs (initdb, pg_ctl) are on this machine")
    folder = Path(tempfile.mkdtemp(prefix="sotto-pg-"))
    server = Server(programs, folder, [])
    if os.geteuid() == 0:  # the server refuses root
        try:
            shutil.chown(folder, USER, USER)
        except LookupError:
            shutil.rmtree(folder)
            pytest.skip(f"there is no user {USER!r} to run a PostgreSQL server as")
        server.as_user = ["runuser", "-u", USER, "--"]
    try:
        server.run(
            "initdb", "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"
        )
        with (folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write("fsync = on\n")
        (folder / "data" / "pg_hba.conf").write_text(_HBA)
        server.start()
        server.sql(f"CREATE ROLE clerk LOGIN PASSWORD '{PASSWORD}'")
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"a PostgreSQL server cannot be started here: {error}")
    with server.guard() as guard:
        yield server
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: Server) -> str:
    """The address of an empty database, which nobody had before: its settings may be changed."""
    return postgres_server.new_database()


@pytest.fixture
def emptied_url(postgres_server: Server) -> str:
    """The address of an empty database, which may have settings of its own no longer than a test."""
    return postgres_server.emptied_database()


def _programs() -> Path | None:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    found = [Path(program).resolve().parent for program in [shutil.which("initdb")] if program]
    needed = ("initdb", "pg_ctl", "postgres")
    return next((one for one in [*found, *debian] if all((one / name).exists() for name in needed)), None)


def _installed() -> Path | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    words = ["apt-get", "install", "-y", "--no-install-recommends", "postgresql"]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(words, capture_output=True, env=quiet, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return _programs() if done.returncode == 0 else None


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a new ledger can be kept, on either kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "tickets.db")
    server: Server = request.getfixturevalue("postgres_server")
    return server.emptied_database()
