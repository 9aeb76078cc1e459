"""Which files of algorithms are found, and what is said of those that are not right."""

from pathlib import Path

import pytest

from mrc_agents.algorithms import CC, EV, AlgorithmError, find_algorithms, names_of, write_table

BUILT_IN = Path(__file__).parents[3] / "agents/mrc_agents" / "nic" / "bpf"
WHOLE = "mine_on_ack( mine_on_trim( mine_on_loss("


def put(folder: Path, name: str, text: str) -> Path:
    file = folder / CC.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_the_usual_one_is_number_0_and_one_of_the_users_own_has_a_place() -> None:
    names = names_of(CC)
    assert names[0] == CC.usual == "nscc"
    assert "aimd" in names
    assert names_of(EV)[0] == EV.usual == "shuffle"
    assert {"reps", "round_robin"} <= set(names_of(EV))


def test_a_file_of_the_users_own_is_found(tmp_path: Path) -> None:
    put(tmp_path, "mine.h", WHOLE + "mine_word( enum { MINE_CC_TYPE = 15 }")
    found = {each.name: each for each in find_algorithms(CC, [BUILT_IN, tmp_path])}
    assert list(found) == ["nscc", "aimd", "mine"]
    assert found["mine"].hooks == {"on_ack", "on_trim", "on_loss", "word"}
    assert found["aimd"].hooks == found["mine"].hooks - {"word"} | {"on_mark"}
    assert [each.cc_type for each in found.values()] == [0, 0, 15]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.h", WHOLE.replace("mine_on_trim(", ""), r"mine.h: lacks mine_on_trim\(\); a congestion"),
        ("mine.h", "", r"lacks mine_on_ack\(\), mine_on_trim\(\), mine_on_loss\(\);"),
        ("mine.h", WHOLE + "mine_word(", r"mine.h: mine_word\(\) and MINE_CC_TYPE, 1 to 15, come"),
        ("mine.h", WHOLE + "mine_word( MINE_CC_TYPE 16", r"mine_word\(\) and MINE_CC_TYPE, 1 to 15"),
        ("mine.h", WHOLE + "#define MINE_CC_TYPE 1", r"mine_word\(\) and MINE_CC_TYPE, 1 to 15"),
        ("mine.c", WHOLE, r"mine.c: a congestion control algorithm is a file NAME.h"),
        ("my-own.h", WHOLE, "my-own.h: a congestion control algorithm is a file NAME.h"),
        ("aimd.h", WHOLE.replace("mine", "aimd"), "aimd.h: there is another aimd already"),
        ("fixed.h", WHOLE.replace("mine", "fixed"), "fixed.h: there is another fixed already"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, name: str, text: str, message: str) -> None:
    put(tmp_path, name, text)
    with pytest.raises(AlgorithmError, match=message):
        write_table(tmp_path / "objects", [tmp_path])


def test_a_folder_without_algorithms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AlgorithmError, match="holds no folder cc/ nor ev/"):
        write_table(tmp_path / "objects", [tmp_path])


def test_what_has_not_changed_is_not_written(tmp_path: Path) -> None:
    put(tmp_path, "mine.h", WHOLE)
    objects = tmp_path / "objects"
    write_table(objects, [tmp_path])
    written = {file: file.stat().st_mtime_ns for file in objects.iterdir()}
    write_table(objects, [tmp_path])
    assert {file: file.stat().st_mtime_ns for file in objects.iterdir()} == written
