"""Headers of libmrc have the names, values and layouts of the API: ours, and OCP's where there are any."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from mrc_agents.objects import OBJECTS_DIR

OURS = OBJECTS_DIR.parent / "include"
THEIRS = os.environ.get("MRC_OCP_HEADERS")
FACTS = Path(__file__).with_name("libmrc_api.txt")
HEADERS = "#include <mrc.h>\n#include <mrc_ctl.h>\n"


def clang(folder: Path, source: str, *options: str) -> str:
    command = ["clang", f"-I{folder}", "-x", "c", "-std=gnu11", *options, "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def described(folder: Path) -> str:
    """Constants, structures with the offset of each field, and functions of the headers in a folder."""
    text = re.sub(r"\s+", " ", clang(folder, HEADERS, "-E", "-P"))
    macros = re.findall(r"#define (MRC_\w+) \S", clang(folder, HEADERS, "-dM", "-E"))
    enumerators = re.findall(r"MRC_\w+", " ".join(re.findall(r"enum mrc_\w+ \{.*?\}", text)))
    names = sorted({*enumerators, *macros} - {"MRC_CTL_EV_UNPOPULATED"})
    values = HEADERS + "".join(f"long v_{name} = {name};\n" for name in names)
    constants = re.findall(r"@v_(MRC_\w+) = .*?i64 (-?\d+)", clang(folder, values, "-S", "-emit-llvm", "-o-"))
    structures = sorted(set(re.findall(r"struct (mrc_\w+) \{", text)))
    used = HEADERS + "".join(f"char s_{name}[sizeof(struct {name})];\n" for name in structures)
    dumped = clang(folder, used, "-fsyntax-only", "-Xclang", "-fdump-record-layouts").split("*** Dumping")
    layouts = [part.split("\n\n")[0] for part in dumped if re.search(r"\n +0 \| struct mrc_\w+\n", part)]
    bare = [re.sub(r"\(unnamed at .*?\)|^.*Record Layout\n", "", part) for part in layouts]
    functions = re.findall(r"(?<=; )[^;{}]*?\bmrc_\w+\([^;{}]*\)(?=;)", text)
    types = [re.sub(r" ?\w+ ?(?=[,)])", "", each).replace("( ", "(") for each in functions]
    return "\n".join([*map(" ".join, constants), *sorted(bare), *sorted(types)]) + "\n"


@pytest.mark.parametrize("folder", [OURS, *([Path(THEIRS)] if THEIRS else [])], ids=str)
def test_headers_are_those_of_the_api(folder: Path) -> None:
    """MRC_OCP_HEADERS may name a folder with OCP's headers."""
    assert described(folder) == FACTS.read_text()


def test_libibverbs_has_the_layout_that_programs_were_compiled_for() -> None:
    clang(OURS, Path(__file__).with_name("libibverbs_layout.c").read_text(), "-fsyntax-only")
