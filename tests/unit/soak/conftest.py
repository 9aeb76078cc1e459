"""The simulated lab of tests/unit/scenario."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "scenario"))
