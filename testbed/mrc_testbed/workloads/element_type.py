"""Element types and reductions by name, for specifications that compute nothing themselves. Pure."""

from typing import Final, Literal, get_args

DType = Literal["uint8", "int32", "int64", "float32", "float64"]
DTYPES: Final[tuple[DType, ...]] = get_args(DType)
ELEMENT_BYTES: Final[dict[DType, int]] = {"uint8": 1, "int32": 4, "int64": 8, "float32": 4, "float64": 8}

ReduceOp = Literal["sum", "min", "max"]
