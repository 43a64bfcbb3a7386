"""What all tests share: one JVM for all that is marked `spark`, and environments by the name of their runtime."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import settings

from flintstream import Configuration, StreamExecutionEnvironment
from flintstream.spark.session import create_session

pytest_plugins = ["tests.capability_table"]
# A manager that happens to run on this machine is no business of a test.
os.environ["FLINTSTREAM_HOME"] = str(Path(tempfile.gettempdir()) / f"flintstream-tests-{os.getpid()}")
os.environ.pop("FLINTSTREAM_MANAGER", None)
os.environ.pop("FLINTSTREAM_TOKEN", None)

ROOT = Path(__file__).resolve().parent.parent
# A change is judged by the same examples as the one before it; `make laws` looks for new ones.
settings.register_profile("same examples", derandomize=True, deadline=None)
settings.register_profile("new examples", deadline=None)
settings.load_profile("new examples" if os.environ.get("FLINTSTREAM_NEW_EXAMPLES") else "same examples")


class MakeEnv(Protocol):
    """Makes an environment on a runtime; settings go by Flink's names, with the commonest as arguments."""

    def __call__(
        self,
        runtime: str,
        parallelism: int = 2,
        *,
        max_records: int = 0,
        checkpoint_dir: Path | None = None,
        settings: dict[str, str] | None = None,
    ) -> StreamExecutionEnvironment: ...


@pytest.fixture(scope="session")
def spark_session() -> Iterator[Any]:
    """The only Spark session of a test run; jobs make sessions of their own from it."""
    # Workers import what the test modules define, wherever pytest was started.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)])))
        session = create_session(2, "flintstream tests", {})
    yield session
    session.stop()


@pytest.fixture
def make_env(request: pytest.FixtureRequest) -> MakeEnv:
    """A factory of fresh environments with parallelism 2; Spark starts when the first one asks for it."""

    def make(
        runtime: str,
        parallelism: int = 2,
        *,
        max_records: int = 0,
        checkpoint_dir: Path | None = None,
        settings: dict[str, str] | None = None,
    ) -> StreamExecutionEnvironment:
        session = request.getfixturevalue("spark_session") if runtime == "spark" else None
        configuration = Configuration.from_dict({"flintstream.epoch.max-records": str(max_records), **(settings or {})})
        env = StreamExecutionEnvironment.get_execution_environment(configuration, spark=session, runtime=runtime)
        if checkpoint_dir is not None:
            env.set_checkpoint_dir(str(checkpoint_dir))
        return env.set_parallelism(parallelism)

    return make


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def runtime(request: pytest.FixtureRequest) -> str:
    """The name of a runtime; a test that asks for it runs on both."""
    return request.param


@pytest.fixture
def new_env(make_env: MakeEnv, runtime: str) -> Callable[..., StreamExecutionEnvironment]:
    """`make_env` on the runtime at hand."""
    return lambda *arguments, **named: make_env(runtime, *arguments, **named)


@pytest.fixture
def env(new_env: Callable[..., StreamExecutionEnvironment]) -> StreamExecutionEnvironment:
    """A fresh environment with parallelism 2 on the runtime at hand."""
    return new_env()
