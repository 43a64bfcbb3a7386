"""One chaos run: servers, feed and job together, killed by plan, and the verdict at the end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.feed import PARTITIONS, Feed
from tests.chaos.plan import JOB, Kill, plan_kills
from tests.chaos.processes import Lives
from tests.chaos.record import Record
from tests.chaos.verdict import Verdict, judge
from tests.kafka.broker import Cluster
from tests.postgres.database import Database
from tools.kafka_broker import Broker
from tools.servers import Postgres

PATIENCE = 300.0
"""Seconds without a committed epoch after which a job counts as stuck; the machine may be busy."""
SAMPLE_SECONDS = 5.0
TICK = 0.02
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000000",
    "restart-strategy.fixed-delay.delay": "1s",
}
TABLE = "create table {} (key bigint not null, start bigint not null, n bigint not null, total bigint not null)"


@dataclass(frozen=True)
class Setup:
    """What a run shall be; without `supervised` the run itself starts the program again."""

    folder: Path
    seconds: float
    kills: int
    kinds: Sequence[str]
    seed: int
    rate: int
    runtime: str = "spark"
    longest_down: float = 8.0
    supervised: bool = True
    say: Callable[[str], None] = print


class StuckError(Exception):
    """The job does not get on any more."""


class Run:
    """Holds the servers of a run; everything happens in the thread that calls `go`.

    The broker dies with the thread that started it, so servers are started again by that thread, too.
    """

    def __init__(self, setup: Setup, broker: Broker, server: Postgres) -> None:
        self.setup = setup
        self._broker = broker
        self._server = server
        self.record = Record(setup.folder / "diary.jsonl")
        self._rng = random.Random(setup.seed)
        self._cluster = Cluster(broker.servers)
        self._database = Database.fresh(server)
        self._back: list[tuple[float, str]] = []
        self._sampled = 0.0
        self.sent = 0
        self._lives = Lives(setup.folder, self._arguments(), supervised=setup.supervised)

    def _arguments(self) -> list[str]:
        given = {
            "servers": self._broker.servers,
            "database": self._database.url,
            "password": self._server.password,
            "checkpoints": str(self.setup.folder / "checkpoints"),
            "diary": str(self.record.diary),
            "runtime": self.setup.runtime,
        }
        scratch = self.setup.folder / "scratch"
        java = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData"
        settings = dict(RESTARTS)
        if self.setup.runtime == "spark":
            settings |= {"spark.local.dir": str(scratch), "spark.driver.extraJavaOptions": java}
        words = [word for name, value in given.items() for word in (f"--{name}", value)]
        return words + [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]

    def go(self) -> Verdict:
        """Run, and return the verdict; whatever goes wrong, the job is gone afterwards."""
        # Records have the dates of event time, which is long ago: none may be dropped for its age.
        for topic in ("readings", "windows", "running"):
            self._cluster.topic(PARTITIONS, topic, **{"retention.ms": "-1"})
        for table in ("windows", "slots"):
            self._database.ask(TABLE.format(table))
        feed = Feed(self._broker.servers, self.setup.rate)
        feed.start()
        try:
            self._wait_for_commit(0.0)
            self._torment()
            self.sent = feed.stop(PATIENCE)
            self._come_to_rest(feed)
        finally:
            self._lives.stop(30.0)
        verdict = judge(self._cluster, self._database, self.sent, self.setup.rate)
        repeated = self.record.repeated_epochs()
        verdict.check("epochs", not repeated, f"committed twice: {repeated}")
        unknown = [kind for kind, each in self.record.recoveries().items() if max(each) == float("inf")]
        verdict.check("epochs", not unknown, f"no epoch was committed after a kill of {unknown}")
        return verdict

    def _torment(self) -> None:
        """Kill by plan until the time is over and all servers are back; on a slow machine some time more."""
        setup, started, now = self.setup, time.monotonic(), 0.0
        kills = plan_kills(setup.seed, setup.seconds, setup.kills, setup.kinds, setup.longest_down)
        longest = setup.seconds * 1.25 + 60
        while self._back or now < (longest if kills else setup.seconds):
            self._tend()
            now = time.monotonic() - started
            if kills and kills[0].at <= now < longest and self._strike(kills[0], now):
                kills.pop(0)
            time.sleep(TICK)
        self.record.left_out, self.record.seconds = len(kills), now

    def _tend(self) -> None:
        """Keep the job running, bring servers back that have been down long enough, look at memory now and then."""
        self._lives.tend()
        now = time.monotonic()
        for due, kind in [each for each in self._back if now >= each[0]]:
            self._back.remove((due, kind))
            (self._broker if kind == "broker" else self._server).start()
            self.setup.say(f"  {kind} is back")
        if now - self._sampled >= SAMPLE_SECONDS:
            self._sampled = now
            self.record.memory.append(self._lives.memory())
            checkpoints = self.setup.folder / "checkpoints"
            self.record.files.append(sum(1 for path in checkpoints.rglob("*") if path.is_file()))
        commits = self.record.commits()
        last = max([self._lives.started_at, *([commits[-1]["at"]] if commits else [])])
        if time.time() - last > PATIENCE:
            msg = f"no epoch was committed for {PATIENCE:.0f} s"
            raise StuckError(msg)

    def _strike(self, kill: Kill, now: float) -> bool:
        """Kill; return False if there is nothing to kill yet."""
        if kill.is_patient and not self._has_recovered():
            return False
        if kill.kind in JOB:
            at = time.time()
            if not self._lives.strike(kill.kind, self._rng):
                return False
        else:
            if any(kind == kill.kind for _, kind in self._back):
                return False
            at = time.time()
            (self._broker if kill.kind == "broker" else self._server).kill()
            self._back.append((time.monotonic() + kill.down, kill.kind))
        self.record.kills.append((at, kill.kind))
        epoch = int((self.record.commits() or [{"epoch": 0}])[-1]["epoch"])
        self.setup.say(f"{now:6.1f} s  {kill.kind} killed after epoch {epoch}")
        return True

    def _has_recovered(self) -> bool:
        """Whether an epoch was committed since the last kill."""
        commits, kills = self.record.commits(), self.record.kills
        return not kills or (bool(commits) and commits[-1]["at"] > kills[-1][0])

    def _wait_for_commit(self, read: float) -> None:
        """Wait until so many records have been read and what follows from them is out."""
        while not self._has_read(read):
            self._tend()
            time.sleep(TICK)

    def _has_read(self, number: float) -> bool:
        commits = self.record.commits()
        return bool(commits) and commits[-1]["read"] >= number

    def _come_to_rest(self, feed: Feed) -> None:
        """Carry event time past the end, again until an epoch tells that it is out: one killed in between does not."""
        wanted = feed.close_time(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while not self._has_read(wanted):
            if time.monotonic() > deadline:
                msg = f"the input was not read to its end within {PATIENCE:.0f} s"
                raise StuckError(msg)
            until = time.monotonic() + 5.0
            while time.monotonic() < until and not self._has_read(wanted):
                self._tend()
                time.sleep(TICK)
            feed.close_time(PATIENCE)


def run(setup: Setup) -> tuple[Verdict, Record]:
    """Start servers, run, and return the verdict with what was seen; evidence stays in the folder."""
    with Broker(setup.folder / "kafka") as broker, Postgres() as server:
        one = Run(setup, broker, server)
        verdict = one.go()
        verdict.keep(setup.folder / "verdict.json")
        return verdict, one.record
