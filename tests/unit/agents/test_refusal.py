import errno

import pytest

from mrc_agents.bpf.refusal import ObjectRefusedError

LOG = "\n".join(f"{line}: (95) exit" for line in range(100))


@pytest.mark.parametrize(
    ("number", "log", "advice"),
    [
        (errno.EPERM, "", "run it as root"),
        (errno.EACCES, LOG, "compile with the distribution's clang"),
        (errno.EINVAL, LOG, "compile with the distribution's clang"),
        (errno.EINVAL, "", "boot a distribution's kernel"),
        (errno.E2BIG, LOG, "more than this kernel's verifier looks at"),
        (errno.ENOMEM, "", "free memory"),
        (errno.EMFILE, "", "ulimit -n"),
    ],
)
def test_each_refusal_says_what_to_do(number: int, log: str, advice: str) -> None:
    refused = ObjectRefusedError("rc.bpf.o", number, log)
    assert refused.hint is not None
    assert advice in refused.hint
    assert refused.exit_code == 3


def test_the_message_ends_with_the_end_of_the_log_and_the_log_is_whole() -> None:
    refused = ObjectRefusedError("rc.bpf.o", errno.EACCES, LOG)
    assert refused.message.splitlines() == [refused.reason, *LOG.splitlines()[-30:]]
    assert refused.reason == "the kernel refused rc.bpf.o: Permission denied (errno 13)"
    assert refused.log == LOG
