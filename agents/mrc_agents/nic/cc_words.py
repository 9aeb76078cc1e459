"""Parameters of a CC profile as libmrc has them: struct mrc_ctl_cc_nscc_cfg, a word for each member."""

import struct
from collections.abc import Iterable
from math import isfinite
from typing import Any, Final

from mrc_agents.errors import UsageError
from mrc_agents.protocol.cc_profile import ATTRIBUTES, NO_QA_THRESHOLD_NS, CcProfile, Setting

_NAMES: Final = (
    *("disable_qa", "adjust_bytes_threshold", "adjust_period_threshold", "base_rtt", "eta", "fi"),
    *("fi_scale", "gamma", "max_md_jump", "max_cwnd", "qa_gate", "qa_threshold", "target_delay"),
)
_FLOATS: Final = {"eta", "fi", "fi_scale", "gamma", "max_md_jump"}
_BYTES: Final = {"disable_qa", "qa_gate"}
"""Members of a byte, in words whose other bytes are padding."""
_DEFAULTED: Final = {"base_rtt", "fi", "max_cwnd", "qa_threshold", "target_delay"}
"""0 stands for the NIC's default."""


def cc_config(words: Iterable[Any]) -> dict[str, Setting]:
    """Parameters by standard name."""
    config: dict[str, Setting] = {}
    for name, word in zip(_NAMES, words, strict=False):
        value: float = word & 0xFF if name in _BYTES else word
        if name in _FLOATS:
            value = struct.unpack("f", struct.pack("I", word))[0]
        unit = ATTRIBUTES[name].unit
        if not isfinite(value):
            raise UsageError(f"CC profile: {name} is {value}, expected a number")
        if value or name not in _DEFAULTED:
            config[name] = bool(value) if unit == "bool" else value if unit == "ratio" else round(value)
    if config.get("qa_threshold") == NO_QA_THRESHOLD_NS:
        config["qa_threshold"] = None
    return config


def cc_words(profile: CcProfile) -> list[int]:
    """The words of the parameters in force; a threshold that no delay is above has all bits set."""
    names = profile.__match_args__
    values = {name.removesuffix("_ns").removesuffix("_bytes"): getattr(profile, name) for name in names}
    if values["qa_threshold"] is None:
        values["qa_threshold"] = NO_QA_THRESHOLD_NS
    return [
        struct.unpack("I", struct.pack("f", values[name]))[0] if name in _FLOATS else int(values[name])
        for name in _NAMES
    ]
