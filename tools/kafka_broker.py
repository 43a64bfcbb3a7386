"""Starts an Apache Kafka broker for tests: one process, no ZooKeeper, its data in a folder that can be thrown away.

``python tools/kafka_broker.py`` prints the broker's address and runs until Ctrl-C. The first time, it fetches the jars
with the Ivy that is part of PySpark, from the repository that Ivy knows by default, into ``.kafka/``; later starts take
about four seconds. Tests use the class `Broker`, which can also die and come back with the same data and address.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from flintstream.spark.java import spark_java_home

KAFKA = "4.1.0"
FOLDER = Path(__file__).resolve().parents[1] / ".kafka"
START_SECONDS = 60.0

_IVY = f"""\
<ivy-module version="2.0">
  <info organisation="flintstream" module="broker"/>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA}" conf="default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.24.3" conf="default"/>
  </dependencies>
</ivy-module>
"""

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
"""


class NoBrokerError(RuntimeError):
    """The jars cannot be had, or the broker does not start."""


def java() -> str:
    """Return the Java that Spark uses too."""
    return str(spark_java_home() / "bin" / "java")


def jars() -> Path:
    """Return the folder of the broker's jars, fetched if it is not there.

    Raises:
        NoBrokerError: they cannot be fetched; the message ends with what Ivy said.
    """
    folder = FOLDER / KAFKA
    if folder.is_dir():
        return folder
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        module = Path(scratch, "ivy.xml")
        module.write_text(_IVY)
        ivy = Path(pyspark.__file__).parent / "jars" / "*"
        command = [java(), "-cp", str(ivy), "org.apache.ivy.Main", "-ivy", str(module), "-confs", "default"]
        command += ["-cache", f"{scratch}/cache", "-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
        print(f"fetching the jars of Kafka {KAFKA} into {folder}", file=sys.stderr, flush=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch)
        fetched = Path(scratch, "jars")
        if done.returncode != 0 or not any(fetched.glob(f"kafka_2.13-{KAFKA}.jar")):
            msg = f"the jars of Kafka {KAFKA} cannot be fetched:\n{(done.stdout + done.stderr)[-2000:]}"
            raise NoBrokerError(msg)
        if not folder.is_dir():
            fetched.rename(folder)
    return folder


class Broker:
    """One broker with its data; a context manager that leaves nothing behind.

    Args:
        data: Where its data is; None for a temporary folder that goes with it.
        port: Where it listens; None for any free one.
    """

    def __init__(self, data: Path | None = None, port: int | None = None) -> None:
        self._temporary = data is None
        self.folder = Path(tempfile.mkdtemp(prefix="flintstream-kafka-")) if data is None else data
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = port or _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = self.folder / "server.properties"
        if not self._settings.exists():
            text = _SETTINGS.format(port=self.port, controller=_free_port(), data=self.folder / "data")
            self._settings.write_text(text)
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # With "=", since one name in 64 begins with a hyphen, which else would be taken for an option.
            named = f"--cluster-id={cluster}"
            self._run("kafka.tools.StorageTool", "format", named, "-c", str(self._settings)).wait()

    @property
    def servers(self) -> str:
        """The address, as clients want it."""
        return f"127.0.0.1:{self.port}"

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        command = [java(), *options, "-cp", str(jars() / "*"), *arguments]
        # A session of its own, so that Ctrl-C in a test run does not take the broker away from under the tests.
        with (self.folder / "log.txt").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    def start(self) -> Self:
        """Start, or start again with the same data; return once clients are served."""
        self._process = self._run("kafka.Kafka", str(self._settings))
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                msg = f"the broker did not start:\n{(self.folder / 'log.txt').read_text(errors='replace')[-2000:]}"
                raise NoBrokerError(msg)
            time.sleep(0.05)
        return self

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """Kill -9: what the broker had not written is lost to it, as in a power cut."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def wait(self) -> None:
        """Wait for the broker to end."""
        assert self._process is not None
        self._process.wait()

    def close(self) -> None:
        """Kill it and remove its data, if that is temporary."""
        self.kill()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the one that started it is gone, however that came about."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Run a broker until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Start an Apache Kafka broker for tests.")
    parser.add_argument("--port", type=int, help="where it listens; any free port by default")
    parser.add_argument("--data", type=Path, help="keep its data here; by default it is thrown away")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        with Broker(given.data, given.port) as broker:
            print(f"Kafka {KAFKA} listens on {broker.servers}; Ctrl-C ends it", flush=True)
            broker.wait()
    except KeyboardInterrupt:
        return 0
    except NoBrokerError as error:
        print(error, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
