"""mrc-testbed as a wheel brings it."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534


def pip_of(environment: Path) -> list[str]:
    """The pip of these tests, for another environment: one of its own would take seconds to make."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    return [*pip, "--python", str(environment / "bin" / "python")]


@dataclass(frozen=True)
class Installed:
    """mrc-testbed, in the empty folder *home*, with nothing else on PATH: no compiler, make, git, ip."""

    environment: Path
    home: Path

    @property
    def program(self) -> Path:
        return self.environment / "bin" / "mrc-testbed"

    def run(self, *arguments: str, user: int = NOBODY) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *arguments],
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": str(self.program.parent), "COLUMNS": "120"},
            user=user,
            group=user,
            extra_groups=(),
            capture_output=True,
            text=True,
            check=False,
        )

    def done(self, *arguments: str, user: int = NOBODY) -> str:
        """Run a command that must succeed and return its output."""
        ran = self.run(*arguments, user=user)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout
