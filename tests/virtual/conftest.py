"""The library of virtual time; nothing here needs root."""

import sys

from drawings import few_drawings  # noqa: F401 - a fixture
from runs import ROOT
from virtual_library import library  # noqa: F401 - a fixture

sys.path.insert(0, str(ROOT))
