"""Labs in network namespaces without any extra, though a Docker Engine listens."""

import socket
from pathlib import Path

import pytest
from core_only import commands
from document_text import document

TOPOLOGY = document("""\
Topology {name: small}
{planes: 2, t0: 2, t1: 1, hosts_per_t0: 1}
""")
SCENARIO = document("""\
Scenario {name: write, description: A write from one host to the other.}
  seed: 5
  topology: {planes: 2, t0: 2, t1: 1, hosts_per_t0: 1}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 200ms}
  expect: [wrong_bytes == 0]
""")
WORK = """\
up -t small.yaml
status
bench write-bw h0 h1 --size 64KiB --duration 300ms
fault add link-down --link p0-t0-0:1 --for 100ms
fault list
fault clear --all
run write.yaml
exec h0 -- true
launch -- true
ev list h0 h1
inspect --queues
capture h0:0 --write h0.pcapng --duration 100ms
top --once
logs
""".splitlines()

ENDS = """\
up -n other --runtime docker
shell
serve --port 0 --timeout 10s
down
status
""".splitlines()
MISSING = "the Python package {} is missing; it comes with mrc-testbed[lab]"


@pytest.mark.slow("twenty commands, each a process of its own")
@pytest.mark.ci
def test_a_lab_is_made_used_and_removed(lab_name: str, state_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(TOPOLOGY)
    (tmp_path / "write.yaml").write_text(SCENARIO)
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(f"{state_dir}/engine.sock")
        engine.listen()
        place = {"MRC_TESTBED_NAME": lab_name, "DOCKER_HOST": f"unix://{state_dir}/engine.sock"}
        ended = commands([*WORK, *ENDS], tmp_path, **place)
    done, (docker, shell, served, _, gone) = ended[: len(WORK)], ended[len(WORK) :]
    # 7: the machine was so busy that the run is untrusted
    well = {text: {0, 7} if text.startswith("run") else {0} for text in WORK}
    failed = [(text, each) for text, each in zip(WORK, done, strict=True) if each.status not in well[text]]
    assert failed == []
    # a busy machine takes long enough for lines of progress before it
    assert done[0].stderr.endswith(f"runtime netns: {MISSING.format('docker')}\n")
    for refused, package in ((docker, "docker"), (shell, "mininet")):
        assert refused.status == 3
        assert MISSING.format(package) in refused.stderr
    assert served.stdout.startswith("http://127.0.0.1:")
    assert "there is no lab" in gone.stderr
