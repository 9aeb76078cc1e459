"""Failures in an agent's replies to applications."""

import contextlib
import errno
from collections.abc import Iterator

from mrc_agents.abi import ApplicationLimit, ApplicationReply
from mrc_agents.errors import TestbedError, UsageError
from mrc_agents.nic.memory import NoRoomError


@contextlib.contextmanager
def reported_in(reply: ApplicationReply) -> Iterator[None]:
    """Puts a failure into the reply."""
    try:
        yield
    except NoRoomError as error:
        refuse(reply, errno.ENOMEM, error.message)
    except UsageError as error:
        refuse(reply, error.number, error.message)
    except TestbedError as error:
        refuse(reply, errno.EINVAL, error.message)
    except OSError as error:
        refuse(reply, error.errno or errno.EIO, str(error.strerror))


def refuse(reply: ApplicationReply, error: int, text: str) -> None:
    """Puts an errno and its explanation into the reply."""
    reply.error = error
    data = text.encode(errors="replace")[: ApplicationLimit.TEXT - 1]
    reply.text[: len(data)] = list(data)
