"""Bundles from anybody: one message, status 2, and nothing of them left, whatever they hold."""

import gzip
import io
import json
import os
import tarfile
import tempfile
from functools import reduce
from operator import getitem
from typing import Any

import pytest
from bundle_zstd import zstd
from manifests import ENDED

from mrc_testbed.bundle import archive
from mrc_testbed.bundle.bundle import contain_page, opened
from mrc_testbed.campaign.tables import RunFolder, figure_rows, finished_runs, run_row
from mrc_testbed.cli.app import run
from mrc_testbed.errors import UsageError
from mrc_testbed.report.page import chart_script, page_head
from mrc_testbed.scenario.report.run_record import has_ended, load_manifest

ID = "20261121T170000Z-3fa2b1"
HEADER = {"schema_version": 1, "holds": "run", "name": "flap", "mrc_testbed": "0.2.0"}
MANIFEST = ENDED


def member(name, content=b"", **attributes):
    """A member of an archive, as tarfile writes it."""
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    for key, value in attributes.items():
        setattr(entry, key, value)
    return entry, content


def header(**changes):
    return member(f"{ID}/bundle.json", json.dumps(HEADER | changes).encode())


MANIFEST_MEMBER = member(f"{ID}/manifest.json", json.dumps(MANIFEST).encode())
SUMMARY = member(f"{ID}/summary.md", b"# flap: passed\n")


def tar(*members, tar_format=tarfile.USTAR_FORMAT):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tar_format) as written:
        for entry, content in members:
            written.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def packed(*members, tar_format=tarfile.USTAR_FORMAT):
    options: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}
    return zstd.compress(tar(*members, tar_format=tar_format), options=options)


def with_size(size):
    """An archive whose summary says that it has another size than it has."""
    found = tar(header(), MANIFEST_MEMBER, SUMMARY)
    start = found.index(SUMMARY[0].name.encode())
    entry = tarfile.TarInfo(SUMMARY[0].name)
    entry.size = size
    return zstd.compress(found[:start] + entry.tobuf(tarfile.GNU_FORMAT) + found[start + 512 :])


def with_window(log):
    options: dict[int, int] = {zstd.CompressionParameter.window_log: log}
    return zstd.compress(os.urandom(1 << 10) * (1 << 15), options=options)


WHOLE = packed(header(), MANIFEST_MEMBER, SUMMARY)
LINKS: dict[str, dict[str, Any]] = {
    "symbolic link": {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"},
    "hard link": {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"},
    "character device": {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5},
    "block device": {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0},
    "FIFO": {"type": tarfile.FIFOTYPE},
    "folder": {"type": tarfile.DIRTYPE},
    "contiguous file": {"type": tarfile.CONTTYPE},
    "sparse file": {"type": tarfile.GNUTYPE_SPARSE},
}
NAMES = {
    "up": f"{ID}/../x",
    "far up": f"{ID}/../../../../../../x",
    "absolute": "/x",
    "another folder": "20261121T170000Z-000000/summary.md",
    "deep": f"{ID}/a/summary.md",
    "none of ours": f"{ID}/.bashrc",
    "of a campaign": f"{ID}/runs/flap/{ID}/summary.md",
    "second header": f"{ID}/bundle.json",
    "twice": f"{ID}/manifest.json",
    "with an escape": f"{ID}/\x1b[31m",
    "newline": f"{ID}/summary.md\n",
}
HEADERS: dict[str, dict[str, Any]] = {
    "newer": {"schema_version": 2},
    "no version": {"schema_version": None},
    "holds": {"holds": "lab"},
    "name": {"name": "../../x"},
    "steering name": {"name": "a\x1b[31m"},
    "name of another type": {"name": 5},
    "campaign without a journal": {"holds": "campaign"},
}
ARCHIVES = {
    **{
        what: packed(header(), MANIFEST_MEMBER, member(SUMMARY[0].name, **how)) for what, how in LINKS.items()
    },
    **{what: packed(header(), MANIFEST_MEMBER, member(name, b"x")) for what, name in NAMES.items()},
    **{f"header: {what}": packed(header(**how), MANIFEST_MEMBER, SUMMARY) for what, how in HEADERS.items()},
    "header: not first": packed(MANIFEST_MEMBER, header(), SUMMARY),
    "header: not JSON": packed(member(f"{ID}/bundle.json", b"{"), MANIFEST_MEMBER, SUMMARY),
    "header: a list": packed(member(f"{ID}/bundle.json", b"[]"), MANIFEST_MEMBER, SUMMARY),
    "header: nested": packed(member(f"{ID}/bundle.json", b"[" * 100_000), MANIFEST_MEMBER, SUMMARY),
    "header: not UTF-8": packed(member(f"{ID}/bundle.json", b"\xff"), MANIFEST_MEMBER, SUMMARY),
    "header: alone": packed(header()),
    "no member": packed(),
    "extended header": packed(
        header(), MANIFEST_MEMBER, member(f"{ID}/{'x' * 300}", b"x"), tar_format=tarfile.PAX_FORMAT
    ),
    "long name": packed(
        header(), MANIFEST_MEMBER, member(f"{ID}/{'x' * 300}", b"x"), tar_format=tarfile.GNU_FORMAT
    ),
    "negative size": with_size(-(1 << 40)),
    "huge size": with_size(1 << 43),
    "size beyond the file": with_size(1 << 20),
    "memory for its window": with_window(27),
    "something behind": packed(header(), MANIFEST_MEMBER, SUMMARY) + zstd.compress(b"x" * 2048),
    "not a tar": zstd.compress(b"x" * 4096),
    "damaged header": zstd.compress(tar(header(), MANIFEST_MEMBER).replace(b"ustar", b"ustaa")),
    "not zstd": gzip.compress(tar(header(), MANIFEST_MEMBER, SUMMARY)),
    "text": b"apiVersion: mrc-testbed/v1\n",
    "empty": b"",
    "zeros": bytes(4096),
}

UNBUNDLE = ["bundle", "open", "--into", "target"]
OTHERS = (["report"], ["campaign", "show"], ["replay", "--virtual"])


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Hands a file to each command that opens bundles; nothing of it is left anywhere."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    monkeypatch.chdir(tmp_path)

    def look(path, commands=(UNBUNDLE, *OTHERS)):
        before = sorted(tmp_path.rglob("*"))
        for command in commands:
            arguments = [*command, str(path)]
            assert run(arguments) == 2, arguments
            said = capsys.readouterr()
            assert said.out == ""
            assert said.err.count("error:") == 1
            assert "bug of mrc-testbed" not in said.err
            assert "\x1b" not in said.err
        assert sorted(tmp_path.rglob("*")) == before

    return look


@pytest.mark.parametrize("what", ARCHIVES)
def test_what_no_bundle_holds_is_refused(refused, tmp_path, what):
    path = tmp_path / "x.tar.zst"
    path.write_bytes(ARCHIVES[what])
    refused(path)


def test_a_whole_one_is_opened(tmp_path):
    """So that the others are refused for what is wrong with them."""
    (tmp_path / "x").write_bytes(WHOLE)
    assert run(["report", str(tmp_path / "x")]) == 0


def test_one_that_is_cut_short_anywhere_is_refused(refused, tmp_path):
    path = tmp_path / "x.tar.zst"
    for length in (*range(1, len(WHOLE), 19), *range(len(WHOLE) - 8, len(WHOLE))):
        path.write_bytes(WHOLE[:length])
        refused(path, [UNBUNDLE])


def test_one_with_a_bit_flipped_is_refused_or_the_same(refused, tmp_path):
    path = tmp_path / "x.tar.zst"
    for place in range(5, len(WHOLE), 13):  # behind the magic number and the frame's flags
        damaged = bytearray(WHOLE)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        refused(path, [UNBUNDLE])


def test_one_that_grows_beyond_measure_is_refused_before_it_has(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "UNPACKED_FREE_BYTES", 1 << 20)
    path, zeros = tmp_path / "x.tar.zst", bytes(2 << 20)
    path.write_bytes(packed(header(), member(f"{ID}/manifest.json", zeros)))
    assert path.stat().st_size * archive.UNPACKED_RATIO_MAX < len(zeros)
    refused(path)
    path.write_bytes(packed(header(), MANIFEST_MEMBER, SUMMARY) + zstd.compress(zeros))
    refused(path)


def test_more_files_than_a_bundle_has_are_refused(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MEMBERS_MAX", 2)
    (tmp_path / "x").write_bytes(WHOLE)
    refused(tmp_path / "x")


def test_what_is_no_file_is_refused_at_once(refused, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in (tmp_path / "fifo", tmp_path / "link", tmp_path / "none"):
        refused(path)


def packed_folder(folder, changes):
    """A bundle of a result folder in which texts of some files are replaced."""
    holds = "campaign" if (folder / "journal.jsonl").is_file() else "run"
    members = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "latest" not in path.parts:
            name, text = str(path.relative_to(folder)), path.read_text()
            for old, new in changes.get(name, {}).items():
                assert old in text
                text = text.replace(old, new)
            members.append(member(f"{ID}/{name}", text.encode()))
    return packed(header(holds=holds), *members)


OUTSIDE = "../../../../outside"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("plan.json", '"scenario": "flap"', f'"scenario": "{OUTSIDE}"'),
        ("plan.json", '"fault_id": "flap1"', f'"fault_id": "{OUTSIDE}"'),
        ("plan.json", '"schema_version": 3', '"schema_version": 4'),
        ("plan.json", "{", "{{"),
    ],
)
def test_a_plan_that_names_a_file_outside_is_not_carried_out(refused, campaign, tmp_path, file, old, new):
    changes = {file: {old: new}}
    (tmp_path / "x").write_bytes(packed_folder(finished_runs(campaign)[0].path, changes))
    refused(tmp_path / "x", [["replay", "--virtual"]])


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("plan.json", '"name": "flap"', f'"name": "{OUTSIDE}"'),
        ("plan.json", '"index": 1,', f'"index": "1/{OUTSIDE}",'),
        ("plan.json", '"runs": [', '"runs": [5, '),
        ("plan.json", '"schema_version": 2', '"schema_version": 3'),
        ("plans/0001.json", '"scenario": "flap"', f'"scenario": "{OUTSIDE}"'),
        ("journal.jsonl", '"runs/flap/', f'"runs/{OUTSIDE}/'),
        ("journal.jsonl", '"runs/flap/', '"/runs/flap/'),
    ],
)
def test_a_campaign_that_names_a_file_outside_is_refused(refused, campaign, tmp_path, file, old, new):
    (tmp_path / "x").write_bytes(packed_folder(campaign, {file: {old: new}}))
    refused(tmp_path / "x", [["campaign", "report"], ["replay", "--virtual"]])


def test_the_campaign_itself_is_not_refused(campaign, tmp_path):
    (tmp_path / "x").write_bytes(packed_folder(campaign, {}))
    assert run(["campaign", "report", str(tmp_path / "x")]) == 0


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(child, (*path, key))


def at(value, path):
    return reduce(getitem, path, value)


def replaced(value, path, other):
    if not path:
        return other
    key, *rest = path
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[key] = replaced(value[key], rest, other)
    return copied


HOSTILE: tuple[Any, ...] = (None, [], {}, [[]], "\x1b[2J", "p99(", -1, 1.5, True)


def test_a_manifest_with_any_value_replaced_is_refused_or_read(campaign, tmp_path):
    """Also a value that is accepted must be good for whatever reads it."""
    [run_folder, *_] = finished_runs(campaign)
    manifest = json.loads((run_folder.path / "manifest.json").read_text())
    path = tmp_path / "manifest.json"
    refused_count = 0
    for place in places(manifest):
        for hostile in HOSTILE:
            path.write_text(json.dumps(replaced(manifest, place, hostile)))
            try:
                found = load_manifest(path)
            except UsageError as error:
                refused_count += error.message.isprintable()
                continue
            if has_ended(found):
                run_row(RunFolder(tmp_path, found, {}))
                list(figure_rows(RunFolder(tmp_path, found, {})))
    assert refused_count > 500


def test_a_manifest_with_a_key_that_nobody_knows_is_read(campaign, tmp_path):
    [run_folder, *_] = finished_runs(campaign)
    manifest = json.loads((run_folder.path / "manifest.json").read_text())
    path = tmp_path / "manifest.json"
    objects = {place: value for place in places(manifest) if isinstance(value := at(manifest, place), dict)}
    assert {(), ("provenance",)} < objects.keys()
    for place, value in objects.items():
        if place[-1:] == ("measured",):
            continue  # its keys are quantities
        changed = replaced(manifest, place, value | {"later": 1})
        path.write_text(json.dumps(changed))
        assert load_manifest(path) == changed


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff", b"[]", b"5"])
@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "histograms.json", "events.jsonl"])
def test_a_file_that_is_not_what_a_run_writes_is_refused(refused, campaign, tmp_path, name, content):
    folder = finished_runs(campaign)[0].path
    if not content and name == "events.jsonl":
        return  # of a run in which nothing happened
    (folder / name).write_bytes(content)
    members = [
        member(f"{ID}/{path.name}", path.read_bytes()) for path in sorted(folder.iterdir()) if path.is_file()
    ]
    (tmp_path / "x").write_bytes(packed(header(), *members))
    refused(tmp_path / "x")


def test_many_frames_are_refused_at_once(refused, tmp_path):
    (tmp_path / "x").write_bytes(zstd.compress(b"") * 1000 + WHOLE)
    refused(tmp_path / "x")


PAGE = """<!DOCTYPE html><html><head><META HTTP-EQUIV=refresh content='0;url=//a.example'></head>
<body>of a run<script>document.title = 'run'</script></body></html>"""


@pytest.mark.parametrize("begins", ["", page_head(chart_script()), page_head("document.title = 'run'")])
def test_a_page_of_somebody_else_runs_nothing_and_leads_nowhere(tmp_path, begins):
    page = member(f"{ID}/report.html", (begins + PAGE).encode())
    (tmp_path / "x").write_bytes(packed(header(), MANIFEST_MEMBER, page))
    with opened(tmp_path / "x") as unpacked:
        text = (unpacked / "report.html").read_text()
    assert text.startswith(page_head(chart_script()))
    assert text.lower().count(" http-equiv") == 1


def test_a_page_of_ours_stays_as_it_is(campaign):
    for page in campaign.rglob("*.html"):
        assert contain_page(page.read_text()) == page.read_text()


DRAWING = '<svg xmlns="http://www.w3.org/2000/svg">{}</svg>'


@pytest.mark.parametrize(
    "inner",
    [
        "<script>1</script>",
        '<rect onload="1"/>',
        '<a href="//a.example"><text>a</text></a>',
        '<rect xmlns:x="http://www.w3.org/1999/xlink" x:href="//a.example"/>',
        "<style>@import '//a.example'</style>",
        "<style>rect { fill: url(//a.example) }</style>",
        '<style>rect { fill: url("#a") }</style>',
        "<style>rect { fill: url(#a),url(//a.example) }</style>",
        '<use xlink:href="//a.example#a"/>',
        '<use xlink:href="other.svg#a"/>',
        '<use xlink:href="#a" xlink:href="//a.example"/>',
        '<use href="data:image/svg+xml,x"/>',
        '<rect clip-path="url(other.svg#a)"/>',
        '<g id="b"><use xlink:href="#a"/></g><use xlink:href="#b"/>',
        '<g xml:id="b"><path/></g><use xlink:href="#b"/>',
        '<g id="&#98;"><path/></g><path id="b"/><use xlink:href="#b"/>',
        "<foreignObject/>",
        "<rect",
        "<!-- -->",
    ],
)
def test_a_drawing_that_is_more_than_shapes_is_refused(refused, tmp_path, inner):
    drawing = member(f"{ID}/figure.svg", DRAWING.format(inner).encode())
    (tmp_path / "x").write_bytes(packed(header(), MANIFEST_MEMBER, drawing))
    refused(tmp_path / "x")
