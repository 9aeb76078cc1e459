"""BPF objects of which the verifier refuses one."""

import os
import subprocess
from pathlib import Path

from mrc_agents.objects import OBJECTS_DIR

ROOT = Path(__file__).parents[3]


def objects_with_a_refused_one(folder: Path, source: str) -> Path:
    """Make a folder of all objects in *folder*, where that of *source*, a file of mrc_agents/, is refused: it
    has one program more, which reads what may be beyond the packet.
    """
    objects = folder / "objects"
    objects.mkdir()
    for file in OBJECTS_DIR.iterdir():
        (objects / file.name).symlink_to(file)
    target = (objects / Path(source).name).with_suffix(".o")
    target.unlink()
    code = folder / Path(source).name
    code.write_text(
        f'#include "{ROOT}/agents/mrc_agents/{source}"\n'
        'SEC("xdp") int refused(struct xdp_md *ctx) { return *(int *)(long)ctx->data; }\n'
    )
    command = ["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g"]
    command += [f"-I{ROOT}/agents/mrc_agents/include", f"-I{ROOT}/agents/mrc_agents", f"-I{OBJECTS_DIR}"]
    command += ["-idirafter", f"/usr/include/{os.uname().machine}-linux-gnu"]
    subprocess.run([*command, "-c", str(code), "-o", str(target)], check=True)
    return objects
