"""Which manager and which job a command means: found by the home, by an address, or by a checkpoint directory.

Separate from the commands, so that all of them understand the same words. The home's token is only ever sent to the
manager that leads in that home; another one gets what the environment says.

Flink: CustomCommandLine, which finds the cluster that a command of `flink` is meant for.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from flintstream.errors import EnvironmentSetupError, InvalidArgumentError, UnknownJobError, describe
from flintstream.jobs.client import Client, find_manager
from flintstream.jobs.leader import leader_of
from flintstream.jobs.view import JobView

HOME_VARIABLE, MANAGER_VARIABLE, TOKEN_VARIABLE = "FLINTSTREAM_HOME", "FLINTSTREAM_MANAGER", "FLINTSTREAM_TOKEN"
DEFAULT_HOME = "~/.flintstream"
SHORT_ID = 8


def home_of(given: str | None) -> Path:
    """Return the home of the manager on this machine: what was given, else what the environment says."""
    text = given or os.environ.get(HOME_VARIABLE) or DEFAULT_HOME
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        what, remedy = f"nobody knows whose home {text!r} is", f"give --home DIR, or set {HOME_VARIABLE}"
        raise InvalidArgumentError(describe(what, None, remedy)) from None


def check_readable(home: Path) -> None:
    """Refuse a home in which nobody can see whether a manager runs; one that is not there has none.

    Raises:
        EnvironmentSetupError: it is someone else's, or no directory.
    """
    try:
        if not home.exists() or (home.is_dir() and os.access(home, os.R_OK | os.X_OK)):
            return
    except OSError:
        pass  # what is above it cannot be read
    what, remedy = "the manager's home cannot be read", "ask as the user who started the manager, or name another home"
    raise EnvironmentSetupError(describe(what, str(home), remedy))


def manager_at(url: str | None, home: str | None) -> Client:
    """Return a client of the manager at an address, else of the one that leads in the home.

    Raises:
        NoManagerError: there is none.
        EnvironmentSetupError: the home cannot be read.
    """
    url = url or os.environ.get(MANAGER_VARIABLE) or None
    folder = home_of(home)
    if url is not None:
        return Client(url, token_for(url, folder))
    if leader_of(folder) is None:
        check_readable(folder)
    return find_manager(folder)


def token_for(url: str, home: Path) -> str | None:
    """Return the token for a manager at an address, if there is one that it may see."""
    given = os.environ.get(TOKEN_VARIABLE)
    if given:
        return given
    leader = leader_of(home)
    if leader is None or leader.url is None or leader.url.rstrip("/") != url.rstrip("/"):
        return None
    try:
        return (home / "token").read_text().strip() or None
    except OSError:
        return None


def is_here(url: str, home: Path) -> bool:
    """Whether a manager is on this machine, or at least shares the home: then it knows the same directories."""
    leader = leader_of(home)
    if leader is not None and leader.url is not None and leader.url.rstrip("/") == url.rstrip("/"):
        return True
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def manager_if_any(url: str | None, home: str | None) -> Client | None:
    """Return a client of the manager, None if nobody named one and none leads in the home."""
    if not url and not os.environ.get(MANAGER_VARIABLE) and leader_of(home_of(home)) is None:
        return None
    return manager_at(url, home)


@dataclass(frozen=True)
class Managed:
    """A job of a manager."""

    client: Client
    view: JobView


@dataclass(frozen=True)
class Directory:
    """A job by its checkpoint directory: no manager needs to know it."""

    path: str


def target_of(job: str, url: str | None, home: str | None) -> Managed | Directory:
    """Return what job is meant.

    What looks like a path is a checkpoint directory; any other word is a job of the manager, if there is one.

    Raises:
        UnknownJobError: there is a manager, and it is neither a job of it nor a directory.
        InvalidArgumentError: it may be several.
    """
    if "/" in job or job.startswith("."):
        return Directory(job)
    client = manager_if_any(url, home)
    if client is None:
        return Directory(job)
    is_directory = Path(job).is_dir()
    try:
        found = pick(client.jobs(), job)
    except UnknownJobError:
        if is_directory:
            return Directory(job)
        raise
    if is_directory:
        what = f"{job!r} is a job of the manager and a directory here"
        raise InvalidArgumentError(describe(what, None, f"write ./{job} or {found.id[:SHORT_ID]}"))
    return Managed(client, found)


def managed(job: str, url: str | None, home: str | None) -> Managed:
    """Return the manager's job that is meant.

    Raises:
        NoManagerError: there is no manager.
        UnknownJobError: it has no such job.
    """
    client = manager_at(url, home)
    return Managed(client, pick(client.jobs(), job))


def pick(jobs: Iterable[JobView], text: str) -> JobView:
    """Return the job that a word means: its id, its name, or the start of its id.

    Of several jobs with a name it is the one that has not ended, else the one that was submitted last.

    Raises:
        UnknownJobError: it means none.
        InvalidArgumentError: it means several.
    """
    known = list(jobs)
    for each in known:
        if each.id == text:
            return each
    named = [each for each in known if each.name == text]
    if named:
        alive = [each for each in named if not each.has_ended]
        return _only(alive, text) if alive else max(named, key=lambda each: each.submitted_ms)
    found = [each for each in known if text and each.id.startswith(text.lower())]
    if not found:
        raise UnknownJobError(describe(f"there is no job {text!r}", None, "flintstream list shows what there is"))
    return _only(found, text)


def _only(found: Sequence[JobView], text: str) -> JobView:
    if len(found) > 1:
        ids = ", ".join(f"{each.id[:SHORT_ID]} ({each.name})" for each in found)
        raise InvalidArgumentError(describe(f"{text!r} may be {ids}", None, "give more of the id"))
    return found[0]


def job_words(url: str | None, home: str | None) -> list[tuple[str, str]]:
    """Return what a shell may complete a job with: names that mean one job, and ids; each with what it is."""
    with suppress(Exception):  # a shell must never be disturbed while someone types
        client = manager_if_any(url, home)
        if client is not None:
            views = client.jobs()
            names = {view.name for view in views if not any(letter.isspace() for letter in view.name)}
            said = [(view.id, f"{view.name}, {view.status}") for view in views]
            return [*((name, "a job's name") for name in sorted(names)), *said]
    return []
