"""One error of pydantic, placed in the file that it is about."""

from dataclasses import dataclass

from pydantic_core import ErrorDetails

from testbed.document.problem import Location, Tree


@dataclass(frozen=True, slots=True)
class Finding:
    """An error with its location split into what the file holds and what pydantic added.

    Args:
        error: as pydantic reports it.
        location: in the file; of a missing key, where it should be.
        ends_in_label: the last step of pydantic's location is the label of a union member, not a key.
        written: what the file holds there; None for a missing key.
    """

    error: ErrorDetails
    location: Location
    ends_in_label: bool
    written: Tree

    @property
    def kind(self) -> str:
        """Pydantic's name for what is wrong."""
        return self.error["type"]


def place_error(error: ErrorDetails, tree: Tree) -> Finding:
    """The finding that *error* is in the file *tree*."""
    path = error["loc"]
    if error["type"] == "missing":
        location, _ = _align(path[:-1], tree)
        return Finding(error, (*location, path[-1]), ends_in_label=False, written=None)
    location, ends_in_key = _align(path, tree)
    return Finding(error, location, bool(path) and not ends_in_key, _entry(location, tree))


def _align(path: Location, tree: Tree) -> tuple[Location, bool]:
    """The steps of *path* that lead through *tree*, and whether the last one does.

    A tag may be spelt like a key, so both readings are tried: the one that keeps more steps wins, and of two
    equal ones the one that keeps the last step.
    """
    if not path:
        return (), False
    step, rest = path[0], path[1:]
    skipped, skipped_ends = _align(rest, tree)
    match tree, step:
        case dict(), str() if step in tree:
            taken, taken_ends = _align(rest, tree[step])
        case list(), int() if step < len(tree):
            taken, taken_ends = _align(rest, tree[step])
        case _:
            return skipped, skipped_ends
    taken, taken_ends = (step, *taken), taken_ends if rest else True
    if (len(skipped), skipped_ends) > (len(taken), taken_ends):
        return skipped, skipped_ends
    return taken, taken_ends


def _entry(location: Location, tree: Tree) -> Tree:
    for step in location:
        match tree, step:
            case dict(), str():
                tree = tree[step]
            case list(), int():
                tree = tree[step]
    return tree
