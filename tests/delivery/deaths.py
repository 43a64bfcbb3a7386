"""Jobs in this process that die at a chosen step of an epoch's commit, as if the driver had been killed there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from flintstream import StreamExecutionEnvironment
from flintstream.state.storage import LocalStorage

PHASES = ("before the manifest", "after the manifest", "after the commit")


class Death(BaseException):
    """The end of a driver; nobody handles it."""


@contextmanager
def dying(phase: str, epoch: int) -> Iterator[None]:
    """Let the driver die around the creation of an epoch's manifest."""
    publish = LocalStorage.publish
    wanted = f"manifests/{epoch:012d}.json"

    def publish_and_die(self: LocalStorage, path: str, *rest: Any) -> bool:
        if path == wanted and phase == "before the manifest":
            raise Death
        created = publish(self, path, *rest)
        if path == wanted and phase == "after the manifest":
            raise Death
        return created

    with mock.patch.object(LocalStorage, "publish", publish_and_die):
        yield


def run_and_die(env: StreamExecutionEnvironment, phase: str, epoch: int) -> None:
    """Run what was declared until it dies at a phase of an epoch."""

    def listen(manifest: Any, *_: Any) -> None:
        if phase == "after the commit" and manifest.epoch == epoch:
            raise Death

    env.add_listener(listen)
    with dying(phase, epoch):
        try:
            env.execute("job")
        except Death:
            return
    raise AssertionError(f"nothing died {phase} of epoch {epoch}")


Declare = Callable[[StreamExecutionEnvironment], None]


def die_and_recover(
    new_env: Callable[[], StreamExecutionEnvironment],
    declare: Declare,
    phase: str,
    look: Callable[[], Any],
    epoch: int = 2,
) -> tuple[Any, Any]:
    """Run a program that dies and is started again; return what `look` sees at its death and at its end."""
    env = new_env()
    declare(env)
    run_and_die(env, phase, epoch)
    seen = look()
    env = new_env()
    declare(env)
    env.execute("job")
    return seen, look()
