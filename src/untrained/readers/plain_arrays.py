"""Make numpy arrays of numbers or strings from bytes, after checking all lengths."""

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from untrained.readers.limits import DamagedFileError, MemoryAllowance, RefusedFileError

AnyArray = NDArray[Any]  # the type of its items is known only from the file
_NUMBER_CODES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
_STRING_CODE = re.compile(r"[SU]([1-9][0-9]{0,5})")
_MAX_AXES = 32
_MAX_CODE_POINT = 0x10FFFF  # of Unicode


@dataclass(frozen=True)
class PlainDtype:
    """The type of the items of an array: a numpy code such as `f8` or `U5`, and the byte order."""

    code: str
    byte_order: str = "<"

    @property
    def item_bytes(self) -> int:
        """Size of an item in bytes."""
        return np.dtype(self.code).itemsize

    def to_numpy(self) -> np.dtype[Any]:
        """Return the dtype as numpy represents it."""
        return np.dtype(self.byte_order + self.code)


def parse_dtype(code: object, byte_order: object = "<") -> PlainDtype:
    """Return the dtype with this numpy code.

    Raises:
        RefusedFileError: The items are not numbers or short strings, but for example objects or
            dates.
        DamagedFileError: The code is not text, or there is no such byte order.
    """
    code_text = _to_text(code)
    order_text = _to_text(byte_order)
    if code_text not in _NUMBER_CODES and not _STRING_CODE.fullmatch(code_text):
        raise RefusedFileError(
            f"it has an array of type {code_text!r}; only numbers and short strings are supported"
        )
    if order_text not in ("<", ">", "|"):
        raise DamagedFileError(f"an array has the byte order {order_text!r}")
    # `|` means that the byte order does not matter, as for single bytes.
    if order_text == "|":
        order_text = "<"
    return PlainDtype(code_text, order_text)


def make_array(
    data: object,
    dtype: object,
    shape: object,
    allowance: MemoryAllowance,
    *,
    column_major: bool = False,
) -> AnyArray:
    """Copy bytes into a new array in the byte order of this machine.

    Args:
        data: The items as bytes, as many as the shape needs.
        dtype: A `PlainDtype`.
        shape: A tuple of integers.
        allowance: Charged for the copy.
        column_major: Whether the first axis varies fastest.
    """
    if type(data) not in (bytes, bytearray) or type(dtype) is not PlainDtype:
        raise DamagedFileError("an array is not described by bytes and a type")
    assert isinstance(data, bytes | bytearray)
    assert isinstance(dtype, PlainDtype)
    sizes = check_sizes(shape)
    expected_bytes = math.prod(sizes) * dtype.item_bytes
    if expected_bytes != len(data):
        raise DamagedFileError(
            f"an array of shape {sizes} takes {expected_bytes} bytes, but there are {len(data)}"
        )
    # The check of the items and the final conversion may each make a copy.
    allowance.charge(2 * expected_bytes)
    items = check_items(np.frombuffer(data, dtype.to_numpy()), dtype)
    reshaped: AnyArray = items.reshape(sizes, order="F" if column_major else "C")
    return reshaped.astype(np.dtype(dtype.code))


def make_strided_array(
    storage: AnyArray, offset: object, shape: object, strides: object, allowance: MemoryAllowance
) -> AnyArray:
    """Copy a view of a flat storage, as torch describes a tensor, into a new array.

    Args:
        storage: A flat array.
        offset: Index of the tensor's first number.
        shape: A tuple of integers.
        strides: A tuple of integers, counted in elements.
        allowance: Charged for the copy.
    """
    sizes = check_sizes(shape)
    element_strides = check_sizes(strides)
    if type(offset) is not int or offset < 0 or len(sizes) != len(element_strides):
        raise DamagedFileError(f"a tensor of shape {sizes} has an impossible offset or strides")
    count = math.prod(sizes)
    allowance.charge(count * storage.itemsize)
    if count == 0:
        return np.zeros(sizes, storage.dtype)
    last = offset
    for size, stride in zip(sizes, element_strides, strict=True):
        last += (size - 1) * stride
    if last >= storage.size:
        raise RefusedFileError(
            f"a tensor of shape {sizes} reaches outside its {storage.size} numbers"
        )
    byte_strides = []
    for size, stride in zip(sizes, element_strides, strict=True):
        # The stride of an axis of length 1 is never used, so it may be any number.
        byte_strides.append(stride * storage.itemsize if size > 1 else 0)
    view = np.lib.stride_tricks.as_strided(storage[offset:], sizes, byte_strides)
    return view.copy()


def check_sizes(sizes: object) -> tuple[int, ...]:
    """Return a shape as a tuple.

    Raises:
        DamagedFileError: It is not a tuple or list of non-negative Python integers.
    """
    if type(sizes) not in (tuple, list):
        raise DamagedFileError("a shape is not a tuple")
    assert isinstance(sizes, tuple | list)
    if len(sizes) > _MAX_AXES:
        raise DamagedFileError(f"an array has {len(sizes)} axes")
    for size in sizes:
        if type(size) is not int or not 0 <= size < 2**63:
            raise DamagedFileError("a length of an array is not a non-negative integer")
    return tuple(sizes)


def check_items(items: AnyArray, dtype: PlainDtype) -> AnyArray:
    """Return a flat array whose items are all valid. Booleans are converted, strings are checked.

    Raises:
        DamagedFileError: A string has characters that do not exist in Unicode.
    """
    if dtype.code == "b1":
        return make_booleans(items.view(np.uint8))
    if dtype.code.startswith("U"):
        code_points = items.view(dtype.byte_order + "u4")
        if code_points.size and int(code_points.max()) > _MAX_CODE_POINT:
            raise DamagedFileError("an array of strings has characters that do not exist")
    return items


def make_booleans(content: AnyArray) -> AnyArray:
    """Return False for every byte 0 and True for all others. numpy needs booleans to be 0 or 1."""
    booleans: AnyArray = content != 0
    return booleans


def _to_text(value: object) -> str:
    """Return a numpy type code or byte order as a string; Python 2 wrote it as bytes."""
    if type(value) is bytes:
        return value.decode("latin1")
    if type(value) is str:
        return value
    raise DamagedFileError("the type or the byte order of an array is not text")
