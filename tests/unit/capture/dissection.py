"""The output of tshark with our dissector."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mrc_testbed.capture.packet_recording import (
    interface_block,
    packet_block,
    section_header,
    tshark_arguments,
)

_SEPARATOR: Final = "\x1f"


def run_tshark(
    frames: Sequence[bytes], *arguments: str, kept_bytes: int | None = None, forwarding: str = "srv6"
) -> str:
    """The output of tshark about *frames*, of each of which *kept_bytes* were captured."""
    blocks = [section_header("test"), interface_block("p0-t0-0:4", "T0 up", kept_bytes or 0)]
    blocks += [
        packet_block(0, 10**18 + number, frame[:kept_bytes], len(frame))
        for number, frame in enumerate(frames)
    ]
    with tempfile.NamedTemporaryFile(suffix=".pcapng") as file:
        Path(file.name).write_bytes(b"".join(blocks))
        return subprocess.run(
            ["tshark", *tshark_arguments(forwarding), "-n", "-r", file.name, *arguments],
            capture_output=True,
            text=True,
            check=True,
        ).stdout


def fields(
    frames: Sequence[bytes], names: Sequence[str], *, forwarding: str = "srv6", **more: int
) -> list[Mapping[str, list[str]]]:
    """All values of the fields *names*, by name, of each frame."""
    options = ["-T", "fields", "-E", f"separator={_SEPARATOR}", "-E", "aggregator=|"]
    for name in names:
        options += ["-e", name]
    rows = run_tshark(frames, *options, forwarding=forwarding, **more).split("\n")[:-1]
    assert len(rows) == len(frames)
    named = (zip(names, row.split(_SEPARATOR), strict=True) for row in rows)
    return [{name: text.split("|") if text else [] for name, text in row} for row in named]


def number(text: str) -> int:
    """A field's value: tshark prints flags as 1 or True, by its version."""
    return {"True": 1, "False": 0}[text] if text in {"True", "False"} else int(text, 0)
