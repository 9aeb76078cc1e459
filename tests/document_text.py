"""Files of the project's kinds, as text."""


def document(text: str) -> str:
    """A file, from its kind and metadata in a first line, and its spec, in flow style or as lines."""
    head, _, spec = text.partition("\n")
    kind, _, metadata = head.partition(" ")
    gap = " " if spec.startswith("{") else "\n"
    return f"apiVersion: mrc-testbed/v1\nkind: {kind}\nmetadata: {metadata}\nspec:{gap}{spec}"
