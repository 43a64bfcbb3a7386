"""How a URL is read, and that no secret shows."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions
from flintstream.errors import InvalidArgumentError


def built(url: str) -> JdbcConnectionOptions:
    return JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("jdbc:postgresql://db/shop", {"host": "db", "port": "5432", "dbname": "shop"}),
        (
            "postgresql://u:p%40ss@db:1/a%20b",
            {"host": "db", "port": "1", "dbname": "a b", "user": "u", "password": "p@ss"},
        ),
        ("postgres://a:1,b/", {"host": "a,b", "port": "1,5432"}),
        ("jdbc:postgresql://[::1]:7/x?user=me&password=w", {"host": "::1", "port": "7", "user": "me", "password": "w"}),
        (
            "jdbc:postgresql:///x?ssl=true&connectTimeout=3",
            {"host": "localhost", "sslmode": "require", "connect_timeout": "3"},
        ),
        ("jdbc:postgresql://db/x?ApplicationName=me", {"application_name": "me"}),
    ],
)
def test_a_url_is_read(url: str, settings: dict[str, str]) -> None:
    found = built(url).settings()
    assert {name: found.get(name) for name in settings} == settings


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("jdbc:mysql://db/shop", "there is no JDBC connector for mysql"),
        ("db/shop:secret@", "this is no URL of a database"),
        ("jdbc:postgresql://db:port:secret/shop", "this is no address of a database"),
        ("jdbc:postgresql://db/shop?loadBalance=secret", "the URL has an option 'loadBalance' that is not known"),
    ],
)
def test_a_url_that_cannot_be_read_is_refused_and_not_shown(url: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message + r"; test_options\.py:\d+; ") as caught:
        built(url)
    assert "secret" not in str(caught.value)


def test_options_are_asked_for_and_show_no_secret() -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://db:1/shop")
    options = builder.with_user_name("me").with_password("secret").with_driver_name("org.postgresql.Driver").build()
    assert (options.get_db_url(), options.get_driver_name()) == ("jdbc:postgresql://db:1/shop", "org.postgresql.Driver")
    assert (options.get_user_name(), options.get_password()) == ("me", "secret")
    assert repr(options) == str(options) == "JdbcConnectionOptions(db:1/shop as me)"
    assert options.without_secrets("password secret!") == "password ***!"
    assert pickle.loads(pickle.dumps(options)) == options


def test_other_drivers_and_no_url_are_refused() -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    with pytest.raises(InvalidArgumentError, match=r"there is no driver 'com.mysql.Driver'; test_options\.py:\d+"):
        builder.with_driver_name("com.mysql.Driver")
    with pytest.raises(InvalidArgumentError, match=r"not said where the database is; test_options\.py:\d+"):
        builder.build()


@pytest.mark.parametrize(("size", "retries"), [(1, 0), (77, 9)])
def test_execution_options(size: int, retries: int) -> None:
    options: Any = JdbcExecutionOptions.builder().with_batch_size(size).with_max_retries(retries).build()
    assert (options.get_batch_size(), options.get_max_retries(), options.get_batch_interval_ms()) == (size, retries, 0)
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_size(), defaults.get_max_retries()) == (5000, 3)
