"""Settings whose values nobody may read: told apart by their names, and replaced by stars wherever they are shown.

One list for all who show settings (plans, job views, reports, logs), so that none of them forgets a spelling.

Flink: GlobalConfiguration.isSensitive and its list of words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

HIDDEN = "******"
_WORDS = (
    "password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "accesskey", "accountkey",
    "servicekey", "privatekey", "authparams", "basicauth", "jaasconfig", "httpheaders", "authorization",
)  # fmt: skip
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<who>[^/\s@]*)@")


def is_secret(name: str) -> bool:
    """Whether a setting, a variable or an option has a name that secrets have.

    >>> is_secret("spark.ssl.key-password"), is_secret("AWS_SECRET_ACCESS_KEY"), is_secret("parallelism.default")
    (True, True, False)
    """
    plain = re.sub(r"[^a-z]", "", name.lower())
    return any(word in plain for word in _WORDS)


def hidden(values: Mapping[str, str]) -> dict[str, str]:
    """Return settings with stars for what is secret, passwords inside of addresses among it.

    >>> hidden({"redis.password": "x", "url": "redis://me:pw@host/0", "n": "1"})
    {'redis.password': '******', 'url': 'redis://******@host/0', 'n': '1'}
    """
    return {name: HIDDEN if is_secret(name) else without_passwords(value) for name, value in values.items()}


def hidden_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a program's arguments with stars for the values of options whose names secrets have.

    >>> hidden_arguments(["--token=abc", "--password", "pw", "--rate", "5"])
    ('--token=******', '--password', '******', '--rate', '5')
    """
    shown: list[str] = []
    is_next_secret = False
    for text in arguments:
        name, separator, _ = text.partition("=")
        if is_next_secret and not text.startswith("-"):
            shown.append(HIDDEN)
        elif separator and is_secret(name):
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(without_passwords(text))
        is_next_secret = not separator and text.startswith("-") and is_secret(name)
    return tuple(shown)


def without_passwords(text: str) -> str:
    """Return text with stars for who logs in, and by which password, in the addresses that it has."""
    return _ADDRESS.sub(lambda found: f"{found['scheme']}{HIDDEN}@", text)
