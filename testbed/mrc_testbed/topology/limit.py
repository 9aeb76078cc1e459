"""Limits that a model field cannot state by itself, collected so that each gets a line of the file."""

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from mrc_testbed.document.problem import Location


class LimitProblems:
    """Cross-field errors, each at the key it is about."""

    def __init__(self) -> None:
        self._details: list[InitErrorDetails] = []

    def __bool__(self) -> bool:
        return bool(self._details)

    def add(self, key: str | Location, value: object, message: str) -> None:
        """Notes that *value*, at a dotted key or a location of keys and list indices, breaks a limit."""
        error = PydanticCustomError("topology_limit", "{message}", {"message": message})
        location = tuple(key.split(".")) if isinstance(key, str) else key
        self._details.append(InitErrorDetails(type=error, loc=location, input=value))

    def raise_if_any(self, title: str) -> None:
        """Ends the validation of the model *title* if anything was noted.

        Raises:
            ValidationError: all that was noted.
        """
        if self._details:
            raise ValidationError.from_exception_data(title, self._details)
