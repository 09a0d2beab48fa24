"""CIFAR's pickled batches, read without running anything that is inside them.

A pickle is a program. This reader knows the five names that numpy writes into a batch, replaces each by a
stand-in that only keeps the values, and refuses every other name before it is looked up.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from alu.errors import DataError, UntrustedError


def read_pickled(content: bytes, who: str) -> dict[str, Any]:
    """The dictionary of a pickled batch; its arrays become uint8 NumPy arrays, the rest stays as it is."""
    try:
        value = _Reader(io.BytesIO(content), encoding="latin1").load()
    except UntrustedError as error:
        raise UntrustedError(f"{who} is refused. {error}") from None
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"{who} is not a pickled CIFAR batch ({error}). Get a fresh copy of the archive.") from error
    if not isinstance(value, dict):
        raise DataError(f"{who} holds a {type(value).__name__}; a CIFAR batch is a dictionary. Get a fresh copy.")
    plain: dict[str, Any] = {}
    for key, item in value.items():
        name = key.decode("latin1") if isinstance(key, bytes) else str(key)
        plain[name] = item.array(f"{name} in {who}") if isinstance(item, _Array) else item
    return plain


class _DType:
    """Stands in for numpy.dtype."""

    def __init__(self, code: object = "", *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        pass  # byte order, which single bytes do not have


class _Array:
    """Stands in for numpy.ndarray and keeps the state that its pickle carries."""

    def __init__(self, *_: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def array(self, who: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The uint8 array that the state describes."""
        try:
            _, shape, dtype, fortran, content = self.state
            data = content.encode("latin1") if isinstance(content, str) else bytes(content)
            if dtype.code not in ("u1", b"u1"):
                raise TypeError(f"its type is {dtype.code!r}; CIFAR's pixels are unsigned bytes")
            return np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{who} is not a whole array ({error}). Get a fresh copy of the archive.") from error


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, *_: object) -> bytes:
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _DType,
    ("_codecs", "encode"): _encode,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise UntrustedError(
                f"The pickle asks for {module}.{name}, which no CIFAR batch needs and which would run code. "
                "Nothing was run. Get the archive from its official place."
            )
        return _STAND_INS[module, name]

    def persistent_load(self, pid: object) -> Any:
        raise UntrustedError(f"The pickle refers to the outside object {pid!r}, which no CIFAR batch does.")
