"""`flintstream bench app.py --find-peak`: raises the rate of a program's sources until its latency climbs.

Flink: nothing like it.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flintstream.errors import InvalidArgumentError, JobError, describe
from flintstream.jobs.command_run import Master, Parallelism
from flintstream.jobs.launch import Given
from flintstream.jobs.options import AsJson, Entry, Module, Settings
from flintstream.jobs.peak import Peak, Search, Step, is_enough
from flintstream.jobs.peak_plot import plot
from flintstream.jobs.peak_run import paced_program
from flintstream.jobs.shown import show_json, show_table, span, tell, telling, waiting

MIXED = {"allow_extra_args": True}
"""Options may stand on both sides of the program: it is measured, so those of the measurement are the usual ones."""
MOST_RATE = 100_000_000.0
NAMES = ("records/s wanted", "read", "p50", "p95", "p99", "max", "epochs", "")


@telling
def bench(
    context: typer.Context,
    program: Annotated[
        str, typer.Argument(help="A script, or with -m the name of a module; its own arguments follow, behind --.")
    ],
    find_peak: Annotated[
        bool, typer.Option("--find-peak", help="Raise the rate until latency climbs, and show where it does.")
    ] = False,
    rate: Annotated[
        float, typer.Option(min=1.0, help="Records per second over all sources: of the only step, or of the first.")
    ] = 1000.0,
    most: Annotated[float, typer.Option(min=1.0, help="With --find-peak: no rate above this.")] = MOST_RATE,
    seconds: Annotated[float, typer.Option(min=0.5, help="How long each rate is measured.")] = 10.0,
    refinements: Annotated[
        int, typer.Option(min=0, max=10, help="With --find-peak: how often the gap at the knee is halved.")
    ] = 3,
    latency: Annotated[
        float | None, typer.Option(min=0.001, help="With --find-peak: p95 above so many seconds is too much.")
    ] = None,
    is_module: Module = False,
    entry: Entry = None,
    master: Master = None,
    parallelism: Parallelism = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Measure a program of yours at a rate, or find the highest rate that it bears.

    Its state goes to a directory of the benchmark's own; its sinks are real, so give it others than in production.
    """
    if not find_peak and (most != MOST_RATE or refinements != 3 or latency is not None):
        what = "--most, --refinements and --latency are for --find-peak"
        raise InvalidArgumentError(describe(what, None, "leave them out, or add --find-peak"))
    if find_peak and most < rate:
        raise _below(most, rate)
    given = Given(
        program=program,
        arguments=tuple(context.args),
        is_module=is_module,
        entry=entry,
        settings=tuple(settings or ()),
        master=master,
        parallelism=parallelism,
    )
    limit_ms = None if latency is None else 1000 * latency
    search = Search(rate, most if find_peak else rate, refinements, limit_ms)
    try:
        _measure(given, search, seconds)
    except KeyboardInterrupt:
        # Minutes were spent on the steps so far: whoever has seen enough sees them before the command ends.
        _show(search.result(), find_peak, seconds, as_json)
        raise
    if not search.result().steps:
        raise _nothing_measured()
    _show(search.result(), find_peak, seconds, as_json)


def _below(most: float, rate: float) -> InvalidArgumentError:
    what = f"--most {most:g} is below --rate {rate:g}, the first to be measured"
    return InvalidArgumentError(describe(what, None, "give a higher --most, or a lower --rate"))


def _nothing_measured() -> JobError:
    what = "nothing was measured: the input ended within the first step"
    return JobError(describe(what, None, "give the program endless sources, or fewer --seconds"))


def _measure(given: Given, search: Search, seconds: float) -> None:
    """Measure one rate after the other, as the search asks for them."""
    first = search.next_rate()
    assert first is not None
    with paced_program(given, first) as program:
        with waiting("starting the program"):
            program.wait_until_it_reads()
        while (rate := search.next_rate()) is not None:
            with waiting(f"measuring {rate:,.0f} records/s"):
                step = program.measure(rate, seconds)
            if step is None:
                tell("the input ended: what follows is measured up to there; endless sources give more")
                return
            search.learn(step)
            tell(f"{rate:,.0f} records/s wanted, {step.achieved:,.0f} read, p95 {span(step.p95)}")


def _show(found: Peak, find_peak: bool, seconds: float, as_json: bool) -> None:
    if as_json:
        show_json({**found.as_dict(), "seconds": seconds})
        return
    if not found.steps:
        typer.echo("nothing was measured yet")
        return
    show_table(NAMES, [_row(step, found, find_peak) for step in found.steps])
    if not find_peak:
        return
    points = [(step.rate, step.p95) for step in found.steps if step.p95 is not None]
    knee = found.knee
    marked = None if knee is None or knee.p95 is None else (knee.rate, knee.p95)
    is_plain = "utf" not in (sys.stdout.encoding or "").lower()
    typer.echo("\n" + plot(points, marked, ("records per second", "p95 latency (ms)"), is_plain=is_plain))
    typer.echo(f"\n{verdict(found)}")


def _row(step: Step, found: Peak, find_peak: bool) -> tuple[object, ...]:
    if step is found.knee:
        word = "knee" if find_peak else ""
    else:
        word = "" if is_enough(step, found.limit_ms) else "too much" if step.keeps_up else "falls behind"
    times = (span(value) for value in (step.p50, step.p95, step.p99, step.max))
    return (round(step.rate), round(step.achieved), *times, step.epochs, word)


def verdict(found: Peak) -> str:
    """Return what was found in a sentence."""
    peak = f"most that was read: {found.peak:,.0f} records/s"
    if found.knee is None:
        return f"no rate was low enough for the job to keep up; {peak}"
    knee = f"{found.knee.rate:,.0f} records/s with p95 {span(found.knee.p95)}"
    if not found.is_bounded:
        return f"no knee up to {knee}: go on with higher rates (--rate, --most); {peak}"
    above = next(step for step in found.steps if step.rate > found.knee.rate)
    return f"knee: {knee}; above it {'latency climbs' if above.keeps_up else 'the job falls behind'}; {peak}"
