"""Finding the peak: the search on made-up jobs with a known knee, what epochs say of a rate, and a real program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.jobs.command import main
from flintstream.jobs.command_bench import verdict
from flintstream.jobs.peak import CLIMB_MS, Search, Step, is_enough, limit_of
from flintstream.jobs.peak_plot import HEIGHT, plot
from flintstream.jobs.peak_run import epochs_since, set_rate, step_of
from tests.unit.values import law


def made_up(capacity: float) -> Any:
    """Return a job that reads up to `capacity` records a second; near it latency climbs, as in a queue."""

    def measure(rate: float) -> Step:
        if rate >= capacity:
            return Step(rate, capacity, 10, 8000, 9000, 9500, 9900)
        p95 = 100 / (1 - rate / capacity)
        return Step(rate, rate, 10, p95 / 2, p95, 1.2 * p95, 2 * p95)

    return measure


def search_through(search: Search, measure: Any) -> None:
    while (rate := search.next_rate()) is not None:
        search.learn(measure(rate))


@law
@given(st.floats(2_000, 5e7), st.floats(10, 1_000), st.integers(0, 6))
def test_the_knee_lies_below_what_the_job_bears_and_near_it(capacity, first, refinements):
    search = Search(first, 1e8, refinements)
    search_through(search, made_up(capacity))
    found = search.result()
    assert found.knee is not None
    assert found.is_bounded
    assert found.knee.rate < capacity
    # The first step doubles, so the knee is at most a factor of two away from where latency is too much.
    too_much = min(step.rate for step in found.steps if not is_enough(step, found.limit_ms))
    assert found.knee.rate < too_much <= 2 * found.knee.rate * 1.0001
    assert [step.rate for step in found.steps] == sorted(step.rate for step in found.steps)


def test_more_refinements_come_nearer():
    def gap(refinements: int) -> float:
        search = Search(100, 1e8, refinements)
        search_through(search, made_up(10_000))
        found = search.result()
        assert found.knee is not None
        return min(step.rate for step in found.steps if step.rate > found.knee.rate) / found.knee.rate

    assert gap(4) < gap(2) < gap(0)


def test_a_first_rate_that_is_too_much_is_lowered():
    search = Search(1_000_000, 1e8, 2)
    search_through(search, made_up(3_000))
    found = search.result()
    assert found.knee is not None
    assert 300 < found.knee.rate < 3_000


def test_a_job_that_bears_everything_has_no_knee():
    search = Search(1000, 64_000, 3)
    search_through(search, made_up(1e12))
    found = search.result()
    assert not found.is_bounded
    assert [step.rate for step in found.steps] == [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000]
    assert "no knee up to 64,000" in verdict(found)


def test_a_job_that_bears_nothing_is_given_up():
    search = Search(1000, 1e6, 3)
    search_through(search, lambda rate: Step(rate, 0.0, 1))
    assert search.result().knee is None
    assert "no rate was low enough" in verdict(search.result())


def test_latency_has_climbed_by_a_limit_that_can_be_given():
    steps = [Step(100, 100, 5, 5, 10, 12, 20), Step(200, 200, 5, 5, 300, 400, 500)]
    assert limit_of(steps) == 10 + CLIMB_MS
    assert is_enough(steps[1], limit_of(steps))
    assert not is_enough(steps[1], limit_of(steps, 100))
    # A job whose sinks measure no latency is judged by whether it keeps up.
    assert is_enough(Step(100, 99, 5), None)
    assert not is_enough(Step(100, 90, 5), None)


def epoch(number: int, began: float, seconds: float, records: int, **latency: float) -> dict[str, Any]:
    found = {"sink": latency} if latency else {}
    return {
        "epoch": number,
        "committed_ms": began + 1000 * seconds,
        "seconds": seconds,
        "records_in": records,
        "latency_ms": found,
    }


def test_what_epochs_say_of_a_rate():
    epochs = [
        epoch(1, 0, 1.0, 99_999),
        epoch(2, 1000, 0.5, 500, p50=9.0, p95=9.0, p99=9.0, max=9.0),
        epoch(3, 2000, 0.5, 1000, p50=10.0, p95=20.0, p99=30.0, max=40.0),
        epoch(4, 3000, 0.5, 1000, p50=30.0, p95=40.0, p99=50.0, max=60.0),
    ]
    since = epochs_since([*map(json.dumps, epochs), '{"epoch": 5, "comm'], 1000)
    assert [each["epoch"] for each in since] == [2, 3, 4]
    assert step_of(1000, since, now_ms=4000, since_ms=1000) == Step(1000, 1000.0, 3, 20.0, 30.0, 40.0, 60.0)
    # Epochs that grow have read all that was due when they began, and yet fall behind: 500 a second, not 1000.
    growing = [epoch(1, 0, 1.0, 500), epoch(2, 1000, 2.0, 1000), epoch(3, 3000, 4.0, 2000)]
    assert step_of(1000, growing, now_ms=7000, since_ms=0).achieved == 500
    # One long epoch in all that time: the job has read less than was due.
    assert step_of(1000, since[:1], now_ms=11_000, since_ms=1000).achieved == 50
    assert step_of(1000, [], now_ms=11_000, since_ms=1000) == Step(1000, 0.0, 0)


def test_the_slowest_sink_counts():
    both = epoch(2, 1000, 0.5, 10)
    fast, slow = {"p50": 1, "p95": 2, "p99": 3, "max": 4}, {"p50": 5, "p95": 6, "p99": 7, "max": 8}
    both["latency_ms"] = {"fast": fast, "slow": slow}
    step = step_of(10, [epoch(1, 0, 0.5, 10), both], now_ms=2000, since_ms=0)
    assert (step.p50, step.p95, step.p99, step.max) == (5, 6, 7, 8)


def test_a_rate_is_never_half_written(tmp_path: Path):
    set_rate(tmp_path / "rate", 1234.5678)
    assert (tmp_path / "rate").read_text() == "1234.57\n"
    assert [path.name for path in tmp_path.iterdir()] == ["rate"]


def test_a_plot_shows_the_bend_and_the_knee():
    points = [(1000.0, 100.0), (2000.0, 110.0), (4000.0, 130.0), (8000.0, 5000.0)]
    picture = plot(points, points[2], ("rate", "p95 (ms)"))
    lines = picture.splitlines()
    assert len(lines) == HEIGHT + 3
    assert "●" in picture
    assert lines[1].lstrip().startswith("5 k")
    assert "1 k" in lines[-1]
    assert lines[-1].rstrip().endswith("8 k")
    plain = plot(points, points[2], ("rate", "p95 (ms)"), is_plain=True)
    assert plain.isascii()
    assert "X" in plain
    assert plot([], None, ("a", "b")) == "nothing to plot"
    assert "●" in plot(points[:1], points[0], ("a", "b"))


PROGRAM = """
    import sys
    import time

    from flintstream import DataGeneratorSource, DiscardingSink, StreamExecutionEnvironment, sequence

    count = int(sys.argv[1]) if len(sys.argv) > 1 else None
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_parallelism(1)
    env.set_checkpoint_dir("production")
    numbers = env.from_source(DataGeneratorSource({"n": sequence()}, rate=5, splits=1, count=count))

    def slow(row):
        time.sleep(0.002)
        return row.n

    numbers.map(slow).sink_to(DiscardingSink())
    env.execute("slow")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "app.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


@pytest.mark.row(128)
@pytest.mark.slow
def test_the_knee_of_a_program_that_can_do_500_a_second(program: Path, tmp_path: Path):
    options = ["--find-peak", "--rate", "50", "--seconds", "1", "--refinements", "1", "--json"]
    command = [sys.executable, "-m", "flintstream", "bench", str(program), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # A record takes 2 ms at least, so no more than 500 a second can be read, whatever the machine.
    assert found["is_bounded"]
    assert 0 < found["knee"]["rate"] < 550
    assert found["peak"] <= 550
    assert any(step["achieved"] < 0.95 * step["rate"] or step["p95"] > found["limit_ms"] for step in found["steps"])
    # The program's own directory, which production may use, was not touched.
    assert not (tmp_path / "production").exists()


def test_a_program_that_fails_is_told_in_its_own_words(program: Path, capsys: pytest.CaptureFixture[str]):
    program.write_text("raise SystemExit('no input today')\n")
    assert main(["bench", str(program)]) == 1
    assert "ended before it read anything" in capsys.readouterr().err


def test_input_that_ends_ends_the_measurement(program: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "--rate", "1000", str(program), "200", "--seconds", "60", "--json"]) == 1
    told = capsys.readouterr()
    assert "the input ended" in told.err
    # A script that reads no numbers learns that there are none.
    assert json.loads(told.err.splitlines()[-1])["error"].startswith("nothing was measured")
    assert told.out == ""


def test_arguments_of_the_program_stand_behind_two_dashes(program: Path, capsys: pytest.CaptureFixture[str]):
    program.write_text("import sys\nraise SystemExit(f'was given {sys.argv[1:]}')\n")
    assert main(["bench", str(program), "--find-peak", "--", "--rate", "fast", "--", "7"]) == 1
    assert "was given ['--rate', 'fast', '--', '7']" in capsys.readouterr().err
    # What is misspelt is not silently given to the program.
    assert main(["bench", str(program), "--find-peek"]) == 2
    assert "--find-peek" in capsys.readouterr().err


def test_whoever_interrupts_a_search_sees_what_it_has_found(program: Path, tmp_path: Path):
    command = [sys.executable, "-m", "flintstream", "bench", str(program), "--find-peak"]
    options = ["--rate", "50", "--most", "100", "--seconds", "1"]
    where = {**os.environ, "TMPDIR": str(tmp_path)}
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, *options], text=True, cwd=tmp_path, env=where, **told) as search:
        assert search.stderr is not None
        first = search.stderr.readline()
        search.send_signal(signal.SIGINT)
        shown, rest = search.communicate(timeout=60)
    assert first.startswith("50 records/s wanted"), first + rest
    assert search.returncode == 130
    assert "no knee up to 50 records/s" in shown
    # The program has ended, and nothing of the benchmark is left.
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(program) in (each.info["cmdline"] or ())]


@pytest.mark.parametrize("option", [["--most", "5"], ["--refinements", "1"], ["--latency", "2"]])
def test_options_of_the_search_are_for_the_search(option, program: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bench", *option, str(program)]) == 2
    assert "--find-peak" in capsys.readouterr().err


def test_a_search_does_not_end_below_its_first_rate(program: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "--find-peak", "--rate", "5000", "--most", "10", str(program)]) == 2
    assert "--most 10 is below --rate 5000" in capsys.readouterr().err


def test_a_program_that_is_not_there_is_not_started(program: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "nofile.py"]) == 2
    assert capsys.readouterr().err == "flintstream: there is no program 'nofile.py'; give the path of a script\n"
