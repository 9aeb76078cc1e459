"""serve | top: a lab live, in a browser or a terminal."""

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich.live import Live

from mrc_agents.clock import monotonic_ns
from mrc_testbed.cli.options import COMMANDS, AddressOption, PortOption, Settings, command
from mrc_testbed.cli.render import say, show, write_out
from mrc_testbed.errors import FabricError, TestbedError, UsageError
from mrc_testbed.live.control import ClearRequest, FaultRequest, LabControl
from mrc_testbed.live.feed import DEFAULT_INTERVAL_NS, Feed, Update
from mrc_testbed.live.page_data import update_document
from mrc_testbed.live.server import live_server
from mrc_testbed.live.terminal import SORTS, Screen, View, render, sorted_links
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS
from mrc_testbed.units import format_duration_ns, parse_duration_ns

_FLAP_S: Final = 5.0
_KEY_WAIT_S: Final = 0.25
_KEYS: Final = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[5~": "page-up", b"\x1b[6~": "page-down"}
_PAGE_LINES: Final = 10
_WAIT_S: Final = 60.0
_INTERVAL_MIN_NS: Final = 100_000_000
_INTERVAL_MAX_NS: Final = 60_000_000_000

IntervalOption = Annotated[
    int | None,
    typer.Option(
        "--interval",
        "-i",
        parser=parse_duration_ns,
        metavar="TIME",
        help="Time between two readings.",
        show_default=format_duration_ns(DEFAULT_INTERVAL_NS),
    ),
]


@command(COMMANDS, "serve", flags=("name",), needs_root=True)
def serve(
    settings: Settings,
    address: AddressOption = DEFAULT_ADDRESS,
    port: PortOption = 0,
    interval: IntervalOption = None,
) -> None:
    """Show a running lab live in a browser.

    The page shows load and state of each link, goodput, RTT percentiles, EV
    states, faults, events and step times. Choose a link, node or plane to break
    it, or two hosts to see their paths. It needs no Grafana and no Internet.

    The address is printed on stdout. Its part after # is a token: only with it
    may a browser inject faults; without it, it may look.

    [bold]Examples[/bold]

      mrc-testbed serve
      mrc-testbed serve --port 8000 --interval 500ms
      ssh -L 8000:127.0.0.1:8000 lab-machine    then serve there with --port 8000
    """
    with (
        Feed(settings.name, checked_interval_ns(interval)) as feed,
        live_server(feed, address, port) as server,
    ):
        say(settings.stderr, f"lab {settings.name} is shown at (Ctrl-C ends)")
        write_out(settings, f"{server.url}\n")
        threading.Event().wait()


@command(COMMANDS, "top", flags=("name",), needs_root=True)
def top(
    settings: Settings,
    once: Annotated[bool, typer.Option("--once", help="Print one picture and end.")] = False,
    interval: IntervalOption = None,
) -> None:
    """Show a running lab live in the terminal.

    Shows jobs and their step time, faults, events, links, EV states by plane, RTT
    and goodput. Keys: q quits, p pauses, s sorts links, arrows choose a link,
    f flaps it for 5 s, c clears manual faults, PgUp and PgDn scroll.

    Without a terminal, or with --once, prints one picture.

    [bold]Examples[/bold]

      mrc-testbed top
      mrc-testbed top --once
      mrc-testbed top --once -o json
    """
    with Feed(settings.name, checked_interval_ns(interval)) as feed:
        if once or not (settings.stdout.is_terminal and sys.stdin.isatty()):
            update = _first_picture(feed)
            now_ns = monotonic_ns()
            document = update_document(update, now_ns, with_history=False)
            show(settings, "LabPicture", document, lambda: render(settings.name, update, View(), now_ns))
        else:
            _watch(settings, feed)


def _first_picture(feed: Feed) -> Update:
    seen = 0
    while True:
        update = feed.wait(seen, _WAIT_S)
        if update is None or update.problem is not None:
            why = "nothing was read from it" if update is None else update.problem
            raise FabricError(f"lab {feed.lab!r} cannot be shown: {why}")
        if update.snapshot is not None:
            return update
        seen = update.number


def _watch(settings: Settings, feed: Feed) -> None:
    control, view, shown = LabControl(feed.lab), View(), feed.latest
    settings.progress.hide()
    keyboard = sys.stdin.fileno()
    with (
        Live(console=settings.stdout, screen=True, auto_refresh=False) as screen,
        _without_echo(keyboard),
    ):
        while True:
            if not view.is_paused:
                shown = feed.latest
            screen.update(Screen(feed.lab, shown, view, monotonic_ns()), refresh=True)
            key = _key(keyboard, _KEY_WAIT_S)
            if key == "q":
                return
            if key is not None:
                view = _on_key(key, view, shown, control)


def _on_key(key: str, view: View, shown: Update, control: LabControl) -> View:
    """View after a key."""
    match key:
        case "p":
            return replace(view, is_paused=not view.is_paused)
        case "s":
            return replace(view, sort=SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)])
        case "up" | "down":
            return replace(view, chosen=_neighbour(view, shown, 1 if key == "down" else -1))
        case "page-up" | "page-down":
            step = _PAGE_LINES if key == "page-down" else -_PAGE_LINES
            return replace(view, chosen="", scrolled=max(0, view.scrolled + step))
        case "f" | "c":
            return replace(view, answer=_change(key, view, control))
        case _:
            return view


def _neighbour(view: View, shown: Update, step: int) -> str:
    if shown.snapshot is None:
        return view.chosen
    names = [link.name for link in sorted_links(shown.snapshot, view.sort)]
    if view.chosen not in names:
        return names[0]
    return names[max(0, min(len(names) - 1, names.index(view.chosen) + step))]


def _change(key: str, view: View, control: LabControl) -> str:
    """Make the change that a key asks for and return a sentence about it."""
    try:
        if key == "c":
            cleared = control.clear(ClearRequest())
            return f"cleared {', '.join(cleared)}" if cleared else "no manual fault was active"
        if not view.chosen:
            return "choose a link with the arrows first"
        wanted = FaultRequest(kind="link-flap", link=view.chosen, seconds=_FLAP_S)
        return f"fault {control.inject(wanted)} added: {view.chosen} flaps for {_FLAP_S:.0f} s"
    except TestbedError as error:
        return error.message


def checked_interval_ns(interval_ns: int | None) -> int:
    """Check --interval."""
    if interval_ns is None:
        return DEFAULT_INTERVAL_NS
    if not _INTERVAL_MIN_NS <= interval_ns <= _INTERVAL_MAX_NS:
        raise UsageError(
            f"--interval {format_duration_ns(interval_ns)} is not between "
            f"{format_duration_ns(_INTERVAL_MIN_NS)} and {format_duration_ns(_INTERVAL_MAX_NS)}"
        )
    return interval_ns


def _key(descriptor: int, timeout_s: float) -> str | None:
    """A key, arrows and page keys by name; None when none was pressed in time."""
    ready, _, _ = select.select([descriptor], [], [], timeout_s)
    if not ready:
        return None
    typed = os.read(descriptor, 8)
    return _KEYS.get(typed) or typed[:1].decode("latin-1") or "q"


@contextmanager
def _without_echo(descriptor: int) -> Iterator[None]:
    """Let a terminal give keys as they are pressed, and echo nothing."""
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
