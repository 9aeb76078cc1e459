"""Colours of planes that colour-blind people can tell apart, the same in every drawing.

Eight hues after Okabe and Ito, with yellow and black replaced by an olive and a grey that show on white and
on dark ground alike; planes 8 to 15 have the hue of plane - 8 and dashed lines. Drawings label planes too, so
that colour is never the only cue.

Source: M. Okabe, K. Ito, "Color Universal Design", 2008.
"""

from typing import Final

_HUES: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#9a8f00", "#7f7f7f")


def plane_colour(plane: int) -> str:
    """Colour of a plane, `#rrggbb`."""
    return _HUES[plane % len(_HUES)]


def plane_is_dashed(plane: int) -> bool:
    """Return True if the lines of a plane are dashed, because its hue is already another plane's."""
    return plane >= len(_HUES)
