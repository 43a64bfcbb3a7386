"""How to reach a database, and how to write to it: the options of all JDBC connectors.

Flink: JdbcConnectionOptions and JdbcExecutionOptions, as pyflink.datastream.connectors.jdbc spells them.
Differs from Flink: there is no JDBC below. A URL of JDBC, or of PostgreSQL's own clients, is read here; other databases
are refused. Nothing here shows a password, but for the getter that is asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import parse_qsl, unquote

from flintstream.errors import InvalidArgumentError
from flintstream.model.location import refused
from flintstream.model.no_effect import warn_once

DRIVER = "org.postgresql.Driver"
DEFAULT_BATCH_SIZE = 5000
DEFAULT_MAX_RETRIES = 3
_URL = re.compile(r"(?:jdbc:)?postgres(?:ql)?://(?:([^:@/]*)(?::([^@/]*))?@)?([^/?@]*)(?:/([^?]*))?(?:\?(.*))?")
_OTHER = re.compile(r"jdbc:(\w+):")
_NAMES = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "connectTimeout": "connect_timeout",
    "connect_timeout": "connect_timeout",
    "ApplicationName": "application_name",
    "application_name": "application_name",
    "currentSchema": "search_path",
}
"""What may stand behind the question mark of a URL, in JDBC's words or libpq's."""


class JdbcConnectionOptions:
    """Where a PostgreSQL database is and who asks; made by its builder.

    >>> options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db:5432/shop")
    >>> options.with_user_name("flint").with_password("secret").build()
    JdbcConnectionOptions(db:5432/shop as flint)
    """

    def __init__(self, url: str, driver_name: str | None, user_name: str | None, password: str | None) -> None:
        self._url = url
        self._driver_name = driver_name
        self._parameters = _read_url(url)
        if user_name is not None:
            self._parameters["user"] = user_name
        if password is not None:
            self._parameters["password"] = password

    def get_db_url(self) -> str:
        """Return the URL as it was given."""
        return self._url

    def get_driver_name(self) -> str | None:
        """Return the driver's name, if one was given."""
        return self._driver_name

    def get_user_name(self) -> str | None:
        """Return who asks."""
        return self._parameters.get("user")

    def get_password(self) -> str | None:
        """Return the password."""
        return self._parameters.get("password")

    @property
    def place(self) -> str:
        """The database's address without secrets."""
        hosts, ports = self._parameters["host"].split(","), self._parameters["port"].split(",")
        addresses = ",".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=True))
        return f"{addresses}/{self._parameters.get('dbname', '')}"

    def settings(self) -> dict[str, Any]:
        """Return the arguments that the client library connects with; times are in UTC both ways."""
        settings = dict(self._parameters)
        schema = settings.pop("search_path", None)
        # Whoever stands still in the midst of a transaction must not hold its locks for ever.
        options = "-c TimeZone=UTC -c idle_in_transaction_session_timeout=60000"
        options += f" -c search_path={schema}" if schema else ""
        return {"connect_timeout": "10", "application_name": "flintstream", **settings, "options": options}

    def without_secrets(self, text: str) -> str:
        """Return a text in which no password is left."""
        password = self.get_password()
        return text.replace(password, "***") if password else text

    def __repr__(self) -> str:
        return f"JdbcConnectionOptions({self.place} as {self.get_user_name() or 'nobody'})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JdbcConnectionOptions) and self._parameters == other._parameters

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._parameters.items())))

    class JdbcConnectionOptionsBuilder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._url: str | None = None
            self._driver_name: str | None = None
            self._user_name: str | None = None
            self._password: str | None = None

        def with_url(self, url: str) -> Self:
            """Set where the database is: "jdbc:postgresql://host:5432/database"."""
            _read_url(url)
            self._url = url
            return self

        def with_driver_name(self, driver_name: str) -> Self:
            """Name Flink's driver; it must be that of PostgreSQL, and need not be named."""
            if driver_name != DRIVER:
                what = f"there is no driver {driver_name!r:.100}"
                raise refused(InvalidArgumentError, what, f"leave it out, or name {DRIVER!r}")
            self._driver_name = driver_name
            return self

        def with_user_name(self, user_name: str) -> Self:
            """Set who asks."""
            self._user_name = str(user_name)
            return self

        def with_password(self, password: str) -> Self:
            """Set the password."""
            self._password = str(password)
            return self

        def build(self) -> JdbcConnectionOptions:
            """Return the options."""
            if self._url is None:
                what = "it is not said where the database is"
                raise refused(InvalidArgumentError, what, 'with_url("jdbc:postgresql://host:5432/database")')
            return JdbcConnectionOptions(self._url, self._driver_name, self._user_name, self._password)


def _read_url(url: str) -> dict[str, str]:
    other = _OTHER.match(str(url))
    if other is not None and other[1] != "postgresql":
        remedy = "read it with env.from_dataframe(spark.read.jdbc(...)), write to it with a Sink of your own"
        raise refused(InvalidArgumentError, f"there is no JDBC connector for {other[1]}", remedy)
    found = _URL.fullmatch(str(url))
    if found is None:
        # The URL itself is not shown: a password may be in it.
        raise refused(
            InvalidArgumentError, "this is no URL of a database", 'write "jdbc:postgresql://host:5432/database"'
        )
    user, password, addresses, database, query = found.groups()
    hosts, ports = zip(*map(_address, (addresses or "localhost").split(",")), strict=True)
    parameters = {"host": ",".join(hosts), "port": ",".join(ports)}
    if database:
        parameters["dbname"] = unquote(database)
    if user:
        parameters["user"] = unquote(user)
    if password:
        parameters["password"] = unquote(password)
    return {**parameters, **_query(dict(parse_qsl(query or "", keep_blank_values=True)))}


def _address(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"(\[[^\]]+\]|[^:]*)(?::(\d+))?", text)
    if found is None:
        raise refused(InvalidArgumentError, "this is no address of a database", 'write "host:5432"')
    return found[1].strip("[]") or "localhost", found[2] or "5432"


def _query(given: Mapping[str, str]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in given.items():
        if name == "ssl":
            parameters.setdefault("sslmode", "require" if value.lower() in ("", "true") else "disable")
        elif name in _NAMES:
            parameters[_NAMES[name]] = value
        else:
            remedy = f"leave it out, or use one of {', '.join(['ssl', *_NAMES])}"
            raise refused(InvalidArgumentError, f"the URL has an option {name!r} that is not known", remedy)
    return parameters


class JdbcExecutionOptions:
    """How rows are written: how many at a time, and how often a failure is tried again; made by its builder.

    >>> JdbcExecutionOptions.builder().with_batch_size(200).with_max_retries(5).build()
    JdbcExecutionOptions(batch_size=200, max_retries=5)
    """

    def __init__(self, batch_size: int | None, max_retries: int) -> None:
        self.given_batch_size = batch_size
        self._max_retries = max_retries

    def get_batch_interval_ms(self) -> int:
        """Return 0: there is no interval, the end of an epoch writes what is left."""
        return 0

    def get_batch_size(self) -> int:
        """Return how many rows are written at a time."""
        return DEFAULT_BATCH_SIZE if self.given_batch_size is None else self.given_batch_size

    def get_max_retries(self) -> int:
        """Return how often a failure of the connection is tried again."""
        return self._max_retries

    def __repr__(self) -> str:
        return f"JdbcExecutionOptions(batch_size={self.get_batch_size()}, max_retries={self._max_retries})"

    @staticmethod
    def defaults() -> JdbcExecutionOptions:
        """Return 5000 rows at a time, and three more tries."""
        return JdbcExecutionOptions(None, DEFAULT_MAX_RETRIES)

    @staticmethod
    def builder() -> JdbcExecutionOptions.Builder:
        """Return a builder."""
        return JdbcExecutionOptions.Builder()

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._batch_size: int | None = None
            self._max_retries = DEFAULT_MAX_RETRIES

        def with_batch_size(self, size: int) -> Self:
            """Write so many rows in one transaction; has no meaning where an epoch is one."""
            self._batch_size = _count("the batch size", size, 1)
            return self

        def with_batch_interval_ms(self, interval_ms: int) -> Self:
            """Accept and ignore: what a batch has not filled is written at the end of the epoch."""
            _count("the batch interval", interval_ms, 0)
            warn_once("with_batch_interval_ms(...)", "rows are written at the end of an epoch at the latest")
            return self

        def with_max_retries(self, max_retries: int) -> Self:
            """Try again so often if the connection fails, each time a second later than the time before."""
            self._max_retries = _count("the number of retries", max_retries, 0)
            return self

        def build(self) -> JdbcExecutionOptions:
            """Return the options."""
            return JdbcExecutionOptions(self._batch_size, self._max_retries)


def _count(name: str, number: Any, least: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise refused(InvalidArgumentError, f"{name} is {number!r:.100}", f"give a whole number from {least} on")
    return number
