"""capture: frames of a live lab, as a pcapng file or through tshark."""

import io
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer

from mrc_testbed.capture.packet_recording import DISSECTOR, CaptureCount, PacketRecording, tshark_arguments
from mrc_testbed.capture.tap import SNAP_BYTES_MAX, Selection, Tap, select_ports
from mrc_testbed.cli.interruption import signals_stop
from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.output import Output
from mrc_testbed.cli.render import key_values, say, show, write_out
from mrc_testbed.cli.suggestion import nodes
from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.fault_log import FaultLog
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.units import parse_duration_ns

STDOUT: Final = "-"


@command(COMMANDS, "capture", flags=("name",))
def capture(
    settings: Settings,
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NODE|PORT]", autocompletion=nodes, help="Node or port, like h0, p0-t0-0 or p0-t0-0:4."
        ),
    ] = None,
    write: Annotated[
        str, typer.Option("-w", "--write", metavar="FILE", help="Output file, pcapng; - is stdout.")
    ] = "",
    tshark: Annotated[
        bool, typer.Option("--tshark", show_default=False, help="Show the packets, decoded, as they come.")
    ] = False,
    dissector: Annotated[
        bool,
        typer.Option("--dissector", show_default=False, help="Print the path of the Wireshark dissector."),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", show_default=False, help="All ports of the lab.")
    ] = False,
    plane: Annotated[
        int | None, typer.Option("--plane", min=0, metavar="NUMBER", help="Only ports of this plane.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("-c", "--count", min=1, metavar="NUMBER", help="Number of packets to capture."),
    ] = None,
    duration: Annotated[
        int | None,
        typer.Option(
            "--duration", "-d", parser=parse_duration_ns, metavar="TIME", help="Duration, like 10s."
        ),
    ] = None,
    snaplen: Annotated[
        int,
        typer.Option(
            "--snaplen", min=1, max=SNAP_BYTES_MAX, metavar="BYTES", help="Bytes kept of each packet."
        ),
    ] = SNAP_BYTES_MAX,
) -> None:
    """Capture the MRC packets of ports, until Ctrl-C.

    Also captures packets that a fault or a full queue drops, with a comment that
    says so; a comment marks the first packet after a fault begins or ends.
    tcpdump sees none of these packets: XDP bypasses the kernel's stack.

    [bold]Examples[/bold]

      mrc-testbed capture h0 --plane 2 -w out.pcapng
      mrc-testbed capture p0-t0-0:4 h3 --tshark -c 20
      mrc-testbed capture --all --snaplen 160 --duration 2s -w out.pcapng
      wireshark -X lua_script:$(mrc-testbed capture --dissector) out.pcapng
    """
    if dissector:
        write_out(settings, f"{DISSECTOR}\n")
        return
    if bool(write) == tshark:
        raise UsageError("give a destination: -w FILE, or --tshark")
    if bool(places) == everything:
        raise UsageError("give what to capture: nodes or ports like h0 or p0-t0-0:4, or --all")
    with lab.attach(settings.name) as attached:
        selection = select_ports(attached.clos, places or [], plane)
        forwarding = attached.spec.forwarding if tshark else None
        try:
            with _destination(write, forwarding) as file, Tap(attached, selection, snaplen) as tap:
                faults = FaultLog(Ledger(attached.paths.faults).events_path)
                recording = PacketRecording(tap, selection, file, snaplen, faults)
                with signals_stop(recording.stop):
                    recording.run(frames_max=count, duration_ns=duration)
                    recording.finish(frames_max=count)
        except BrokenPipeError:
            return  # whoever read the packets has seen enough
    _report(settings, write, selection, recording.count)


@contextmanager
def _destination(write: str, forwarding: str | None) -> Iterator[IO[bytes]]:
    """Open the file, or a tshark that knows the lab's *forwarding*."""
    if forwarding is not None:
        with _tshark(forwarding) as pipe:
            yield pipe
    elif write == STDOUT:
        if sys.stdout.isatty():
            raise UsageError(
                "pcapng cannot be shown on a terminal", hint="pipe it, name a file, or use --tshark"
            )
        with io.BufferedWriter(Output(sys.stdout.fileno(), is_for_reader=True)) as stdout:
            yield stdout
    else:
        with _created(Path(write)) as file:
            yield file


def _created(path: Path) -> IO[bytes]:
    try:
        return path.open("wb")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _tshark(forwarding: str) -> Iterator[IO[bytes]]:
    """Standard input of a tshark that ends when it is closed; Ctrl-C does not reach it."""
    try:
        process = subprocess.Popen(
            ["tshark", *tshark_arguments(forwarding), "-n", "-l", "-r", "-"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise PreflightError(
            "tshark is not installed",
            hint="apt-get install tshark, or write with -w FILE and open it elsewhere",
        ) from error
    if process.stdin is None:
        raise AssertionError("Popen was asked for a pipe")
    try:
        yield process.stdin
    finally:
        try:
            process.stdin.close()
        except BrokenPipeError:
            process.stdin = None
        process.wait()


def _report(settings: Settings, write: str, selection: Selection, count: CaptureCount) -> None:
    ports = len(selection.ports)
    if write in {"", STDOUT}:
        text = f"{count.frames} packets at {ports} ports, {count.lost_on_the_way} of them lost there"
        say(settings.stderr, f"{text}; {count.missed} were lost: they came too fast")
        return
    document: dict[str, Any] = {
        "lab": settings.name,
        "file": write,
        "ports": [port.name for port in selection.ports],
        "packets": count.frames,
        "lost_on_the_way": count.lost_on_the_way,
        "missed": count.missed,
    }
    show(
        settings,
        "Capture",
        document,
        lambda: key_values(
            [
                ("file", write),
                ("ports", str(ports)),
                ("packets", str(count.frames)),
                ("lost there", str(count.lost_on_the_way)),
                ("missed", f"{count.missed} were lost: they came too fast"),
            ]
        ),
    )
