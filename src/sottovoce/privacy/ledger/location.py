"""Where a ledger is: a file, memory, or a PostgreSQL database. What is shown of an address never holds a password."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import unquote

from sottovoce.errors import ParameterError

if TYPE_CHECKING:
    import sqlalchemy as sa

IN_MEMORY: Final = ":memory:"
"""Name of a ledger that forgets when the process ends; it must be asked for by this name."""
PICKLED: Final = "memory://"
"""What a ledger in memory is where it was pickled: no road takes it."""

_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.:-]*)://")
_SERVERS: Final = ("postgresql", "postgresql+psycopg")
_SECRET: Final = ("password", "sslpassword")
_FORM: Final = f"a file name, {IN_MEMORY} or postgresql://USER@HOST/DATABASE"


@final
@dataclass(frozen=True)
class Address:
    """A ledger's address, as SQLAlchemy is given it and as people may see it.

    Attributes:
        url: For the engine; its own repr hides the password.
        shown: The absolute path; or the address without a password, which leads to the same ledger where a password
            comes from elsewhere.
        name: A short name for messages.
        options: Connection arguments that are not to be shown.
    """

    url: sa.URL
    shown: str
    name: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str) -> Address:
        """Reads an address.

        Raises:
            ParameterError: It names a database that ledgers are not kept in, or cannot be read.

        Example:
            >>> Address.parse("postgresql://ann:secret@db.example/tickets").shown
            'postgresql://ann@db.example/tickets'
        """
        import sqlalchemy as sa

        if not isinstance(text, str) or not text:
            raise ParameterError("ledger", text if isinstance(text, str) else type(text).__name__, _FORM)
        if text.startswith(PICKLED):
            limit = "the path of a file, or a server: a ledger in memory stays in the process that made it"
            raise ParameterError("ledger", "one in memory, of another process", limit)
        if text == IN_MEMORY:
            return cls(sa.URL.create("sqlite"), text, "the in-memory ledger")
        if is_address(text):
            return _server(text)
        path = text
        with suppress(OSError):  # of a working folder that is gone; the file is refused by its name then
            path = os.path.abspath(text)  # the same file wherever the program goes
        return cls(sa.URL.create("sqlite", database=path), path, Path(path).name)

    @property
    def in_memory(self) -> bool:
        """Whether it forgets."""
        return self.shown == IN_MEMORY

    @property
    def is_server(self) -> bool:
        """Whether it is a PostgreSQL database."""
        return self.url.drivername.startswith("postgresql")

    @property
    def file(self) -> str | None:
        """The file, if it is one."""
        return None if self.in_memory or self.is_server else self.shown

    def without_password(self, text: str) -> str:
        """The text with every password of this address taken out."""
        for secret in (self.url.password, *self.options.values()):
            text = text.replace(str(secret), "***") if secret else text
        return text


@final
class Secret(str):
    """An address with a password: used as it is, and shown and pickled without the password.

    Example:
        >>> address = Secret.of("postgresql://ann:secret@db.example/tickets")
        >>> address, address == "postgresql://ann:secret@db.example/tickets"
        ('postgresql://ann@db.example/tickets', True)
    """

    __slots__ = ()

    @classmethod
    def of(cls, given: Any) -> Any:
        """The address so; anything else as it is."""
        if not isinstance(given, str) or not is_address(given):
            return given
        try:
            address = Address.parse(given)
        except ParameterError:
            return cls(given)
        return cls(given) if address.url.password or address.options else given

    @property
    def shown(self) -> str:
        """The address without the password; of one that ledgers cannot have, the scheme alone."""
        try:
            return Address.parse(str(self)).shown
        except ParameterError:
            return f"{self.partition('://')[0]}://..."

    def __repr__(self) -> str:
        return repr(self.shown)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self.shown,)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self


def is_address(text: str) -> bool:
    """Whether it is the address of a database server and not a file's name.

    Example:
        >>> is_address("postgresql:///tickets"), is_address("tickets.db")
        (True, False)
    """
    return _SCHEME.match(text) is not None


def _server(text: str) -> Address:
    import sqlalchemy as sa

    scheme = text.partition("://")[0]
    if scheme.lower() not in _SERVERS:
        raise ParameterError("ledger", f"{scheme}://...", _FORM)
    before, _, behind = text.partition("?")
    if before.count("@") > 1 or "@" in behind:  # else a part of a password would be shown as a host or a name
        limit = "an address with %40 in place of each @ of a name or a password, and %3F in place of each ?"
        raise ParameterError("ledger", f"{scheme}://...", limit)
    try:
        url = sa.make_url(text).set(drivername="postgresql+psycopg")
        secrets = {key: str(value) for key, value in url.query.items() if key.lower() in _SECRET}
    except (sa.exc.ArgumentError, ValueError):
        raise ParameterError("ledger", f"{scheme}://...", _FORM) from None
    url = url.difference_update_query(secrets)
    plain = url.set(drivername="postgresql", password=None)
    shown = sa.URL.create(
        "postgresql", plain.username, None, plain.host, plain.port, plain.database, plain.query
    ).render_as_string(hide_password=False)
    unread = any(f"{key}=" in unquote(shown).lower() for key in _SECRET)  # a password where none is read
    if unread or "@" in (plain.database or ""):
        limit = "an address with its password behind USER: or ?password=, and %2F in place of each / of a name"
        raise ParameterError("ledger", f"{scheme}://...", limit)
    where = plain.host or "this host"
    return Address(url, shown, f"{plain.database or 'postgresql'} on {where}", secrets)
