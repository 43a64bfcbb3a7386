"""A schema of a server for one test, and how to look into it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import psycopg

from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions
from tools.servers import Postgres

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Database:
    """What tests ask of a database."""

    server: Postgres
    schema: str

    @staticmethod
    def fresh(server: Postgres) -> Database:
        database = Database(server, f"test{next(_NUMBERS)}")
        database.ask(f"create schema {database.schema}")
        return database

    @property
    def url(self) -> str:
        return f"{self.server.url}?currentSchema={self.schema}"

    @property
    def options(self) -> JdbcConnectionOptions:
        builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(self.url)
        return builder.with_user_name("flint").with_password(self.server.password).build()

    def ask(self, sql: str) -> list[Any]:
        """Run SQL, and return its rows if it gives any."""
        where = {"host": "127.0.0.1", "port": self.server.port, "dbname": "postgres", "user": "flint"}
        options = f"-c search_path={self.schema} -c TimeZone=UTC"
        with psycopg.connect(**where, password=self.server.password, options=options, autocommit=True) as link:
            found = link.execute(sql)
            return found.fetchall() if found.description is not None else []


def tries(number: int) -> JdbcExecutionOptions:
    return JdbcExecutionOptions.builder().with_max_retries(number).build()
