"""What is submitted to a manager: a program, how it is to run, and where; checked before anything is started.

A value of its own, because it is written by a client, sent over the network, kept in the manager's database and read by
the job's keeper: all of them speak of the same fields, and none of them trusts a document it did not write.

Flink: the body of `/jars/:id/run` (JarRunRequestBody), and the CLI's ProgramOptions.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NoReturn, cast

from flintstream.errors import EnvironmentSetupError, InvalidArgumentError, describe
from flintstream.model.restart import PREFIX, TYPE, check_key, known_keys, unused_keys
from flintstream.model.secrets import hidden, hidden_arguments

MOST_NAME = 200
MOST_TEXT = 100_000
"""Characters of one field: more is no setting, but an attempt to fill the disk."""
MOST_PARALLELISM = 32_768
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OWN_VARIABLES = frozenset({
    "FLINTSTREAM_SETTINGS", "FLINTSTREAM_IMPOSED", "FLINTSTREAM_REPORT", "FLINTSTREAM_ATTEMPT",
    "FLINTSTREAM_RESTART_LOG", "FLINTSTREAM_LIFELINE",
})  # fmt: skip
"""What a keeper and its program tell each other, and nobody else."""


@dataclass(frozen=True)
class JobSpec:
    """A job to be run.

    Args:
        program: The path of a script, relative to `working_directory` or to what was uploaded; or give `module`.
        module: The name of a module that is run as `python -m` would.
        entry: A class or a function of the program that is called, instead of running the program as a script.
        arguments: What the program finds in `sys.argv[1:]`.
        settings: Settings by Flink's names; what the program sets itself wins, except for restart strategies.
        name: What the job is called; without one it is the program's file or module.
        master: Spark's master; without one the job has a Spark of its own on this machine.
        parallelism: The parallelism of operators that name none, whatever the program says for all of them.
        savepoint: The savepoint that the job begins with.
        allow_non_restored: Whether state of the savepoint may be dropped that no operator has.
        working_directory: Where the program runs; without one, a directory of the job's own.
        environment: Variables of the program's environment besides those of the manager.
        python_path: Directories and archives to import from, before those of the manager.
    """

    program: str | None = None
    module: str | None = None
    entry: str | None = None
    arguments: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    name: str | None = None
    master: str | None = None
    parallelism: int | None = None
    savepoint: str | None = None
    allow_non_restored: bool = False
    working_directory: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    python_path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.program is None) == (self.module is None):
            _refuse("a job has either a program or a module", "give one of them")
        for what in ("program", "module", "entry", "name", "master", "savepoint", "working_directory"):
            _check_text(what, getattr(self, what))
        for what, texts in (("an argument", self.arguments), ("a directory to import from", self.python_path)):
            for text in texts:
                _check_text(what, text, may_be_empty=what == "an argument", may_have_lines=what == "an argument")
        for what, name in (("module", self.module), ("entry", self.entry)):
            if name is not None and not _MODULE.fullmatch(name):
                _refuse(f"{what} is {name!r}", "give a name such as pkg.module")
        if self.name is not None and len(self.name) > MOST_NAME:
            _refuse(f"the job's name has {len(self.name)} characters", f"give {MOST_NAME} or less")
        if self.parallelism is not None:
            check_parallelism(self.parallelism)
        self._check_mappings()

    def _check_mappings(self) -> None:
        for what, values in (("setting", self.settings), ("variable", self.environment)):
            for key, value in values.items():
                _check_text(f"the name of a {what}", key)
                _check_text(f"{what} {key!r}", value, may_be_empty=True, may_have_lines=True)
        for name in self.environment:
            if not _VARIABLE.fullmatch(name) or name in OWN_VARIABLES:
                _refuse(f"{name!r} cannot be a variable of the program's environment", "give it another name")
        check_restart(self.restart_settings)

    @property
    def restart_settings(self) -> dict[str, str]:
        """The settings that say when the job is started again; they hold whatever the program says."""
        return {key: value for key, value in self.settings.items() if key.startswith(PREFIX)}

    @property
    def shown_name(self) -> str:
        """What the job is called until its program says otherwise."""
        return self.name or self.module or Path(cast("str", self.program)).stem

    def without_secrets(self) -> JobSpec:
        """Return the same with stars for what nobody may read."""
        return replace(
            self,
            settings=hidden(self.settings),
            environment=hidden(self.environment),
            arguments=hidden_arguments(self.arguments),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        found = asdict(self)
        return {**found, "arguments": list(self.arguments), "python_path": list(self.python_path)}

    @staticmethod
    def from_json(document: object) -> JobSpec:
        """Read what anyone may have written.

        Raises:
            InvalidArgumentError: it is not the description of a job.
        """
        if not isinstance(document, Mapping):
            _refuse("it is not the description of a job", "give an object with a program")
        given = dict(cast("Mapping[str, Any]", document))
        unknown = sorted(str(name) for name in set(given) - {each.name for each in fields(JobSpec)})
        if unknown:
            _refuse(f"a job has no {', '.join(unknown)}", "take it out")
        for name, kind in _KINDS.items():
            if name in given and not _is_a(given[name], kind):
                _refuse(f"{name} is of the wrong type", f"give {kind}")
        for name in ("arguments", "python_path"):
            if name in given:
                given[name] = tuple(given[name])
        return JobSpec(**given)


_KINDS = {
    **dict.fromkeys(("program", "module", "entry", "name", "master", "savepoint", "working_directory"), "text"),
    **dict.fromkeys(("arguments", "python_path"), "a list of texts"),
    **dict.fromkeys(("settings", "environment"), "an object of texts"),
    "parallelism": "a whole number",
    "allow_non_restored": "true or false",
}


def _is_a(value: Any, kind: str) -> bool:
    if kind == "text":
        return value is None or isinstance(value, str)
    if kind == "a whole number":
        return value is None or (isinstance(value, int) and not isinstance(value, bool))
    if kind == "true or false":
        return isinstance(value, bool)
    if kind == "a list of texts":
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in cast("Sequence[Any]", value))
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(each, str) for key, each in cast("Mapping[Any, Any]", value).items()
    )


def check_parallelism(value: int) -> int:
    """Return a parallelism, or refuse it."""
    if isinstance(value, bool) or not 1 <= value <= MOST_PARALLELISM:
        _refuse(f"parallelism is {value!r}", f"give a whole number from 1 to {MOST_PARALLELISM}")
    return value


def check_restart(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return keys `restart-strategy.*` that were given from outside a program, or refuse them."""
    known = known_keys()
    for key, value in settings.items():
        if key not in known:
            _refuse(f"{key!r} cannot be set from outside the program", f"here: {', '.join(known)}")
        try:
            check_key(key, value)
        except InvalidArgumentError as error:
            # The line that it names is not the user's, who wrote none.
            clauses = [clause for clause in str(error).split("; ") if clause != error.location]
            raise InvalidArgumentError("; ".join(clauses)) from None
    unused = unused_keys(settings)
    if unused:
        _refuse(f"{', '.join(unused)} would have no effect", f"set {TYPE} to the strategy that has it")
    return settings


def check_program(spec: JobSpec, files: Path | None) -> None:
    """Refuse a job whose program is not there."""
    base = Path(spec.working_directory) if spec.working_directory is not None else files
    if spec.working_directory is not None and not _is_there(Path(spec.working_directory), Path.is_dir):
        what = f"there is no directory {spec.working_directory!r}"
        _refuse(what, "name one in which the program can run")
    if spec.program is None:
        return
    if files is None and base is None and not Path(spec.program).is_absolute():
        what = f"program {spec.program!r} is relative to no directory"
        _refuse(what, "give its whole path, or a working directory")
    # What was uploaded comes before what lies where the program runs.
    places = [each / spec.program for each in (files, base) if each is not None] or [Path(spec.program)]
    if not any(_is_there(place, Path.exists) for place in places):
        _refuse(f"there is no program {spec.program!r}", "give the path of a script")


def _is_there(path: Path, look: Callable[[Path], bool]) -> bool:
    try:
        return look(path)
    except OSError:
        return False  # no file system could have a file of that name, or whoever asks may not see it


def token_of(home: Path) -> str:
    """Return the word by which clients prove that they may read a manager's home; made if there is none.

    Raises:
        EnvironmentSetupError: the file is there, and empty; or the home cannot be written.
    """
    path = home / "token"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make_token(home, path)
        found = path.read_text().strip()
    except OSError as error:
        raise unusable_home(home, error) from None
    if not found:
        raise EnvironmentSetupError(describe("the manager's token is empty", str(path), "remove the file"))
    return found


def _make_token(home: Path, path: Path) -> None:
    staged = home / f".token.{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        # Whole or not at all, and of several who make one the first.
        with suppress(FileExistsError):
            os.link(staged, path)
    finally:
        staged.unlink(missing_ok=True)


def unusable_home(home: Path, error: OSError) -> EnvironmentSetupError:
    """Return the error that tells why nothing can be written into a home."""
    what = f"the manager's home cannot be used ({error.strerror})"
    return EnvironmentSetupError(describe(what, str(error.filename or home), "mend it, or name another: --home DIR"))


def read_spec(path: Path) -> JobSpec:
    """Read the description of a job that a manager wrote."""
    return JobSpec.from_json(json.loads(path.read_text()))


def _check_text(what: str, value: str | None, may_be_empty: bool = False, may_have_lines: bool = False) -> None:
    if value is None:
        return
    if not value and not may_be_empty:
        _refuse(f"{what} is empty", "leave it out, or say something")
    if len(value) > MOST_TEXT:
        _refuse(f"{what} has {len(value)} characters", f"give {MOST_TEXT} or less")
    if "\0" in value or (not may_have_lines and not value.isprintable()):
        _refuse(f"{what} has characters that cannot be printed", "take them out")


def _refuse(what: str, remedy: str) -> NoReturn:
    raise InvalidArgumentError(describe(what, None, remedy))
