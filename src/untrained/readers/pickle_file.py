"""Read pickles of plain data without the `pickle` module.

A pickle is a program for a stack machine. The module `pickle` lets that program import any function
and call it. The interpreter here knows the same opcodes, refuses those that create instances, and
builds only None, bool, int, float, str, bytes, bytearray, list, tuple, dict, set, frozenset and
numpy arrays of plain types. A name such as `numpy.dtype` is never imported: it is a pair of
strings, and functions of this file replace the few calls that plain data need. `OrderedDict`
becomes a dict, and a numpy scalar becomes a Python number.

All lengths are compared with the remaining bytes of the file, and every object is charged to a
`MemoryAllowance`, which grows with the size of the file.
"""

import codecs
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import getsizeof
from typing import Any

import numpy as np

from untrained.readers.compressed_file import read_whole_file
from untrained.readers.limits import (
    DamagedFileError,
    MemoryAllowance,
    RefusedFileError,
    name_file_in_errors,
)
from untrained.readers.plain_arrays import PlainDtype, make_array, parse_dtype

# Memory that CPython uses, rounded up.
_SLOT_BYTES = 16  # a reference on the stack, and the same one in a list
_TUPLE_BYTES = 40  # without items
_TUPLE_ITEM_BYTES = 8
_MARK_BYTES = 96
_MEMO_BYTES = 100
_INTEGER_BYTES = 32
_LONG_INTEGER_BYTES = 48
_FLOAT_BYTES = 24
_LIST_BYTES = 56  # without items
_DICT_BYTES = 64
_SET_BYTES = 216
_NAME_BYTES = 200
_OBJECT_BYTES = 64  # the result of a call, without its content

Arguments = tuple[Any, ...]
Call = Callable[[Arguments, MemoryAllowance], object]

_MAX_DEPTH = 64
_MAX_INTEGER_BYTES = 16  # the magic number of old torch files has ten
_MAX_DIGITS = 40  # of an integer that is written as text
_MAX_LINE = 1000  # characters of a number or name that is written as text
_MAX_KEY = 10_000  # characters
_MAX_TUPLE_KEY = 16  # items
_LAST_PROTOCOL = 5


def read_pickle(path: Path) -> Any:
    """Read a pickle of plain data, optionally compressed (`.gz`, `.bz2`, `.pbz2`).

    Strings written by Python 2 are returned as bytes.

    Raises:
        UsageError: The file is damaged, or contains something other than plain data.
    """
    with name_file_in_errors(path):
        allowance = MemoryAllowance(path.stat().st_size)
        data = read_whole_file(path, allowance)
        value, _ = interpret_pickle(data, allowance)
        return value


@dataclass(frozen=True)
class PickleExtension:
    """Additional content that a file format such as that of torch allows.

    Attributes:
        names: Classes that may occur as arguments, as (module, name). They are never called.
        calls: Functions to call in place of those that the pickle names, by (module, name).
        load_reference: Loads the data that a persistent id refers to; None to refuse such data.
    """

    names: frozenset[tuple[str, str]] = frozenset()
    calls: Mapping[tuple[str, str], "Call"] = field(default_factory=dict)
    load_reference: Callable[[object], object] | None = None


_NO_EXTENSION = PickleExtension()


def interpret_pickle(
    data: bytes,
    allowance: MemoryAllowance,
    extension: PickleExtension = _NO_EXTENSION,
    start: int = 0,
) -> tuple[Any, int]:
    """Read the pickle that begins at `start`.

    Args:
        data: The file.
        allowance: Charged for every object.
        extension: Content that the format allows in addition to plain data.
        start: Position where the pickle begins.

    Returns:
        The value, and the position after its last opcode.
    """
    interpreter = _Interpreter(data, allowance, extension, start)
    value = interpreter.run()
    _check_plain(value, max_items=4 * len(data) + 1_000_000)
    return value, interpreter.position


# ------------------------------------------------------------------------------------ placeholders


@dataclass(frozen=True)
class GlobalName:
    """A name that occurs in a pickle. It is never imported."""

    module: str
    name: str


@dataclass
class PendingDtype:
    """Placeholder for `numpy.dtype(code)` until its state with the byte order is read."""

    dtype: PlainDtype
    memo_indices: list[int] = field(default_factory=list)


@dataclass
class PendingArray:
    """Placeholder for an array of numpy's `_reconstruct` until its state is read."""

    memo_indices: list[int] = field(default_factory=list)


# ------------------------------------------------------------------------------------- interpreter


class _Interpreter:
    """The stack machine of one pickle.

    `stack` holds the items above the last mark, `lower_stacks` those below each mark.
    """

    def __init__(
        self,
        data: bytes,
        allowance: MemoryAllowance,
        extension: PickleExtension,
        start: int,
    ) -> None:
        self.data = data
        self.position = start
        self.allowance = allowance
        self.extension = extension
        self.stack: list[object] = []
        self.lower_stacks: list[list[object]] = []
        self.memo: dict[int, object] = {}

    def run(self) -> object:
        """Execute opcodes until STOP, and return the value on the stack."""
        data = self.data
        end = len(data)
        while self.position < end:
            opcode = data[self.position]
            self.position += 1
            if opcode == _STOP:
                if len(self.stack) != 1 or self.lower_stacks:
                    raise DamagedFileError("its stack does not end with exactly one value")
                return self.stack.pop()
            operation = _OPERATIONS.get(opcode)
            if operation is None:
                raise DamagedFileError(f"it has the unknown opcode {opcode}")
            operation(self)
        raise DamagedFileError("it ends before its last opcode")

    # Reading bytes.

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes.

        Raises:
            DamagedFileError: The file has fewer bytes.
        """
        start = self.position
        if count < 0 or count > len(self.data) - start:
            raise DamagedFileError(
                f"it declares {count} bytes, but only {len(self.data) - start} are left"
            )
        self.position = start + count
        return self.data[start : start + count]

    def take_number(self, size: int) -> int:
        """Read an unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def take_line(self) -> bytes:
        """Return the bytes before the next line break, without it."""
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise DamagedFileError("a line has no end")
        return self.take(end + 1 - self.position)[:-1]

    def take_short_line(self) -> str:
        line = self.take_line()
        if len(line) > _MAX_LINE:
            raise DamagedFileError(f"a number or a name has {len(line)} characters")
        return line.decode("utf-8")

    # Using the stack.

    def push(self, value: object, count: int) -> None:
        """Push a value that takes `count` bytes."""
        self.allowance.charge(count + _SLOT_BYTES)
        self.stack.append(value)

    def pop_mark(self) -> list[object]:
        """Remove the last mark and the items above it, and return the items."""
        items = self.stack
        self.stack = self.lower_stacks.pop()
        return items

    def remember(self, index: int) -> None:
        """Store the top of the stack in the memo."""
        top = self.stack[-1]
        self.allowance.charge(_MEMO_BYTES)
        self.memo[index] = top
        if isinstance(top, PendingArray | PendingDtype):
            top.memo_indices.append(index)

    def replace_top(self, pending: PendingArray | PendingDtype, value: object) -> None:
        """Replace a placeholder on the stack and in the memo by the finished value."""
        self.stack[-1] = value
        for index in pending.memo_indices:
            if self.memo.get(index) is pending:
                self.memo[index] = value


_Operation = Callable[[_Interpreter], None]
_OPERATIONS: dict[int, _Operation] = {}
_STOP = ord(".")


def _operation(opcode: bytes) -> Callable[[_Operation], _Operation]:
    """Register the decorated function for an opcode."""

    def register(operation: _Operation) -> _Operation:
        _OPERATIONS[opcode[0]] = operation
        return operation

    return register


# Opcodes without a value.


@_operation(b"\x80")
def _run_proto(machine: _Interpreter) -> None:
    version = machine.take_number(1)
    if version > _LAST_PROTOCOL:
        raise DamagedFileError(
            f"it uses pickle protocol {version}; protocols up to {_LAST_PROTOCOL} are supported"
        )


@_operation(b"\x95")
def _run_frame(machine: _Interpreter) -> None:
    """Skip the length of a frame, which only helps readers that do not read the whole file."""
    count = machine.take_number(8)
    if count > len(machine.data) - machine.position:
        raise DamagedFileError(f"it announces a frame of {count} bytes")


@_operation(b"(")
def _run_mark(machine: _Interpreter) -> None:
    machine.allowance.charge(_MARK_BYTES)
    machine.lower_stacks.append(machine.stack)
    machine.stack = []


@_operation(b"0")
def _run_pop(machine: _Interpreter) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.pop_mark()


@_operation(b"1")
def _run_pop_mark(machine: _Interpreter) -> None:
    machine.pop_mark()


@_operation(b"2")
def _run_dup(machine: _Interpreter) -> None:
    machine.push(machine.stack[-1], 0)


# Constants.


@_operation(b"N")
def _run_none(machine: _Interpreter) -> None:
    machine.push(None, 0)


@_operation(b"\x88")
def _run_true(machine: _Interpreter) -> None:
    machine.push(True, 0)


@_operation(b"\x89")
def _run_false(machine: _Interpreter) -> None:
    machine.push(False, 0)


@_operation(b"I")
def _run_int(machine: _Interpreter) -> None:
    """Push a decimal number; old protocols write booleans as `00` and `01`."""
    text = machine.take_short_line()
    if text == "00":
        machine.push(False, 0)
    elif text == "01":
        machine.push(True, 0)
    else:
        machine.push(_parse_integer(text), _INTEGER_BYTES)


@_operation(b"L")
def _run_long(machine: _Interpreter) -> None:
    machine.push(_parse_integer(machine.take_short_line().removesuffix("L")), _INTEGER_BYTES)


@_operation(b"J")
def _run_binint(machine: _Interpreter) -> None:
    machine.push(int.from_bytes(machine.take(4), "little", signed=True), _INTEGER_BYTES)


@_operation(b"K")
def _run_binint1(machine: _Interpreter) -> None:
    # Small integers are shared objects in CPython, so they take no memory.
    machine.push(machine.take_number(1), 0)


@_operation(b"M")
def _run_binint2(machine: _Interpreter) -> None:
    machine.push(machine.take_number(2), _INTEGER_BYTES)


@_operation(b"\x8a")
def _run_long1(machine: _Interpreter) -> None:
    _push_long(machine, machine.take_number(1))


@_operation(b"\x8b")
def _run_long4(machine: _Interpreter) -> None:
    _push_long(machine, machine.take_number(4))


@_operation(b"F")
def _run_float(machine: _Interpreter) -> None:
    machine.push(float(machine.take_short_line()), _FLOAT_BYTES)


@_operation(b"G")
def _run_binfloat(machine: _Interpreter) -> None:
    (value,) = struct.unpack(">d", machine.take(8))
    machine.push(value, _FLOAT_BYTES)


# Strings and bytes. Strings of Python 2 become bytes.


@_operation(b"S")
def _run_string(machine: _Interpreter) -> None:
    line = machine.take_line().strip()
    if len(line) < 2 or line[:1] not in (b"'", b'"') or line[-1:] != line[:1]:
        raise DamagedFileError("a string is not in quotation marks")
    value, _ = codecs.escape_decode(line[1:-1])
    _push_sized(machine, value)


@_operation(b"T")
def _run_binstring(machine: _Interpreter) -> None:
    _push_sized(machine, machine.take(machine.take_number(4)))


@_operation(b"U")
def _run_short_binstring(machine: _Interpreter) -> None:
    _push_sized(machine, machine.take(machine.take_number(1)))


@_operation(b"B")
def _run_binbytes(machine: _Interpreter) -> None:
    _push_sized(machine, machine.take(machine.take_number(4)))


@_operation(b"\x8e")
def _run_binbytes8(machine: _Interpreter) -> None:
    _push_sized(machine, machine.take(machine.take_number(8)))


@_operation(b"C")
def _run_short_binbytes(machine: _Interpreter) -> None:
    _push_sized(machine, machine.take(machine.take_number(1)))


@_operation(b"\x96")
def _run_bytearray8(machine: _Interpreter) -> None:
    _push_sized(machine, bytearray(machine.take(machine.take_number(8))))


@_operation(b"V")
def _run_unicode(machine: _Interpreter) -> None:
    _push_sized(machine, machine.take_line().decode("raw-unicode-escape"))


@_operation(b"X")
def _run_binunicode(machine: _Interpreter) -> None:
    _push_text(machine, machine.take_number(4))


@_operation(b"\x8c")
def _run_short_binunicode(machine: _Interpreter) -> None:
    _push_text(machine, machine.take_number(1))


@_operation(b"\x8d")
def _run_binunicode8(machine: _Interpreter) -> None:
    _push_text(machine, machine.take_number(8))


# Containers.


@_operation(b"]")
def _run_empty_list(machine: _Interpreter) -> None:
    machine.push([], _LIST_BYTES)


@_operation(b"l")
def _run_list(machine: _Interpreter) -> None:
    items = machine.pop_mark()
    machine.push(items, _LIST_BYTES)


@_operation(b"a")
def _run_append(machine: _Interpreter) -> None:
    item = machine.stack.pop()
    _extend_list(machine, machine.stack[-1], [item])


@_operation(b"e")
def _run_appends(machine: _Interpreter) -> None:
    items = machine.pop_mark()
    _extend_list(machine, machine.stack[-1], items)


@_operation(b")")
def _run_empty_tuple(machine: _Interpreter) -> None:
    machine.push((), 0)


@_operation(b"t")
def _run_tuple(machine: _Interpreter) -> None:
    items = tuple(machine.pop_mark())
    machine.push(items, getsizeof(items))


@_operation(b"\x85")
def _run_tuple1(machine: _Interpreter) -> None:
    _push_tuple(machine, 1)


@_operation(b"\x86")
def _run_tuple2(machine: _Interpreter) -> None:
    _push_tuple(machine, 2)


@_operation(b"\x87")
def _run_tuple3(machine: _Interpreter) -> None:
    _push_tuple(machine, 3)


@_operation(b"}")
def _run_empty_dict(machine: _Interpreter) -> None:
    machine.push({}, _DICT_BYTES)


@_operation(b"d")
def _run_dict(machine: _Interpreter) -> None:
    items = machine.pop_mark()
    machine.push({}, _DICT_BYTES)
    _fill_dict(machine.stack[-1], items, machine.allowance)


@_operation(b"s")
def _run_setitem(machine: _Interpreter) -> None:
    value = machine.stack.pop()
    key = machine.stack.pop()
    _fill_dict(machine.stack[-1], [key, value], machine.allowance)


@_operation(b"u")
def _run_setitems(machine: _Interpreter) -> None:
    items = machine.pop_mark()
    _fill_dict(machine.stack[-1], items, machine.allowance)


@_operation(b"\x8f")
def _run_empty_set(machine: _Interpreter) -> None:
    machine.push(set(), _SET_BYTES)


@_operation(b"\x90")
def _run_additems(machine: _Interpreter) -> None:
    items = machine.pop_mark()
    members = machine.stack[-1]
    if type(members) is not set:
        raise DamagedFileError("members are added to something that is not a set")
    # Sets grow in steps, so the memory is measured instead of computed.
    size_before = getsizeof(members)
    for item in items:
        _check_key(item)
        members.add(item)
    machine.allowance.charge(getsizeof(members) - size_before)


@_operation(b"\x91")
def _run_frozenset(machine: _Interpreter) -> None:
    members = _make_set(machine.pop_mark(), machine.allowance)
    machine.push(frozenset(members), 2 * getsizeof(members))


# The memo.


@_operation(b"p")
def _run_put(machine: _Interpreter) -> None:
    machine.remember(_parse_memo_index(machine.take_short_line()))


@_operation(b"q")
def _run_binput(machine: _Interpreter) -> None:
    machine.remember(machine.take_number(1))


@_operation(b"r")
def _run_long_binput(machine: _Interpreter) -> None:
    machine.remember(machine.take_number(4))


@_operation(b"\x94")
def _run_memoize(machine: _Interpreter) -> None:
    machine.remember(len(machine.memo))


@_operation(b"g")
def _run_get(machine: _Interpreter) -> None:
    _push_remembered(machine, _parse_memo_index(machine.take_short_line()))


@_operation(b"h")
def _run_binget(machine: _Interpreter) -> None:
    _push_remembered(machine, machine.take_number(1))


@_operation(b"j")
def _run_long_binget(machine: _Interpreter) -> None:
    _push_remembered(machine, machine.take_number(4))


# Names, calls and states. With these opcodes, the module `pickle` would run code.


@_operation(b"c")
def _run_global(machine: _Interpreter) -> None:
    module = machine.take_short_line()
    name = machine.take_short_line()
    _push_global(machine, module, name)


@_operation(b"\x93")
def _run_stack_global(machine: _Interpreter) -> None:
    name = machine.stack.pop()
    module = machine.stack.pop()
    if type(module) is not str or type(name) is not str:
        raise DamagedFileError("it asks for something whose name is not a string")
    _push_global(machine, module, name)


@_operation(b"R")
def _run_reduce(machine: _Interpreter) -> None:
    arguments = machine.stack.pop()
    function = machine.stack.pop()
    if type(function) is not GlobalName or type(arguments) is not tuple:
        raise DamagedFileError("it calls something that is not a function")
    key = (function.module, function.name)
    call = _CALLS.get(key) or machine.extension.calls.get(key)
    if call is None:
        raise RefusedFileError(
            f"it calls {function.module}.{function.name}, which plain data never do"
        )
    machine.push(call(arguments, machine.allowance), _OBJECT_BYTES)


@_operation(b"b")
def _run_build(machine: _Interpreter) -> None:
    """Set the state of a numpy array or dtype; other values of plain data have no state."""
    state = machine.stack.pop()
    pending = machine.stack[-1]
    if type(pending) is PendingDtype:
        machine.replace_top(pending, _finish_dtype(pending, state))
    elif type(pending) is PendingArray:
        machine.replace_top(pending, _finish_array(state, machine.allowance))
    else:
        raise DamagedFileError("it sets attributes of plain data")


@_operation(b"Q")
def _run_binpersid(machine: _Interpreter) -> None:
    reference = machine.stack.pop()
    load_reference = machine.extension.load_reference
    if load_reference is None:
        raise make_missing_tensor_error()
    machine.push(load_reference(reference), _OBJECT_BYTES)


@_operation(b"P")
def _run_persid(machine: _Interpreter) -> None:
    raise make_missing_tensor_error()


def make_missing_tensor_error() -> RefusedFileError:
    """Make the error for a persistent id that does not refer to data in the file."""
    return RefusedFileError("it points to tensors that are not in the file")


def _refuse_instances(machine: _Interpreter) -> None:
    """Reject INST, OBJ, NEWOBJ and NEWOBJ_EX, which create instances of classes."""
    raise RefusedFileError("it asks for an instance of a class, which plain data never need")


def _refuse_extension_codes(machine: _Interpreter) -> None:
    raise RefusedFileError("it asks for an extension code, which plain data never need")


def _refuse_buffers(machine: _Interpreter) -> None:
    raise RefusedFileError("it asks for a buffer that is not in the file")


for _code in (b"o", b"\x81", b"\x92"):
    _OPERATIONS[_code[0]] = _refuse_instances
for _code in (b"\x82", b"\x83", b"\x84"):
    _OPERATIONS[_code[0]] = _refuse_extension_codes
for _code in (b"\x97", b"\x98"):
    _OPERATIONS[_code[0]] = _refuse_buffers


@_operation(b"i")
def _run_inst(machine: _Interpreter) -> None:
    module = machine.take_short_line()
    name = machine.take_short_line()
    # For an unknown class, this raises an error that names it.
    _push_global(machine, module, name)
    _refuse_instances(machine)


# -------------------------------------------------------------------------------- parts of opcodes


def _parse_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise DamagedFileError(f"an integer has {len(text)} digits")
    return int(text)


def _parse_memo_index(text: str) -> int:
    index = _parse_integer(text)
    if not 0 <= index < 2**32:
        raise DamagedFileError(f"{index} is not an index of the memo")
    return index


def _push_long(machine: _Interpreter, count: int) -> None:
    if count > _MAX_INTEGER_BYTES:
        raise DamagedFileError(f"an integer has {count} bytes")
    machine.push(int.from_bytes(machine.take(count), "little", signed=True), _LONG_INTEGER_BYTES)


def _push_text(machine: _Interpreter, count: int) -> None:
    _push_sized(machine, machine.take(count).decode("utf-8", "surrogatepass"))


def _push_sized(machine: _Interpreter, value: str | bytes | bytearray) -> None:
    machine.push(value, getsizeof(value))


def _push_tuple(machine: _Interpreter, count: int) -> None:
    items = tuple(machine.stack[-count:])
    if len(items) != count:
        raise DamagedFileError("a tuple has too few items")
    del machine.stack[-count:]
    machine.push(items, _TUPLE_BYTES + _TUPLE_ITEM_BYTES * count)


def _push_remembered(machine: _Interpreter, index: int) -> None:
    if index not in machine.memo:
        raise DamagedFileError(f"it asks for the value {index} before it was stored")
    machine.push(machine.memo[index], 0)


def _push_global(machine: _Interpreter, module: str, name: str) -> None:
    key = (module, name)
    extension = machine.extension
    is_plain = key in _CALLS or key in _ARGUMENT_NAMES
    if not is_plain and key not in extension.calls and key not in extension.names:
        raise RefusedFileError(f"it asks for {module}.{name}, which plain data never need")
    machine.push(GlobalName(module, name), _NAME_BYTES)


def _extend_list(machine: _Interpreter, target: object, items: Sequence[object]) -> None:
    if type(target) is not list:
        raise DamagedFileError("items are appended to something that is not a list")
    machine.allowance.charge(_SLOT_BYTES * len(items))
    target.extend(items)


def _fill_dict(target: object, items: Sequence[object], allowance: MemoryAllowance) -> None:
    """Put alternating keys and values into a dict."""
    # The interpreter builds no subclasses, so exact types are compared.
    if type(target) is not dict or len(items) % 2:
        raise DamagedFileError(
            "keys and values are put into something that is not a dictionary, or a value is missing"
        )
    size_before = getsizeof(target)
    for key_index in range(0, len(items), 2):
        key = items[key_index]
        _check_key(key)
        target[key] = items[key_index + 1]
    allowance.charge(getsizeof(target) - size_before)


def _check_key(key: object) -> None:
    """Reject keys that take long to hash: nested tuples could double the time with every level."""
    if type(key) is tuple:
        if len(key) > _MAX_TUPLE_KEY:
            raise RefusedFileError(f"a key is a tuple of {len(key)} items")
        for item in key:
            _check_simple_key(item)
    else:
        _check_simple_key(key)


def _check_simple_key(key: Any) -> None:
    kind = type(key)
    if kind is int:
        if not -(2**63) <= key < 2**64:
            raise RefusedFileError("a key is an integer of more than 64 bits")
    elif kind is str or kind is bytes:
        if len(key) > _MAX_KEY:
            raise RefusedFileError(f"a key has {len(key)} characters")
    elif kind is not float and kind is not bool and key is not None:
        raise RefusedFileError("a key is not a string, a number or a short tuple of them")


# ------------------------------------------------------------------------ the calls of plain data


def _make_dict(arguments: Arguments, allowance: MemoryAllowance) -> dict[object, object]:
    """Emulate `OrderedDict()`, or `OrderedDict(pairs)` as Python 2 wrote it."""
    mapping: dict[object, object] = {}
    if arguments:
        (pairs,) = arguments
        if type(pairs) is not list:
            raise DamagedFileError("a dictionary is not made of a list of pairs")
        items = []
        for pair in pairs:
            if type(pair) not in (list, tuple) or len(pair) != 2:
                raise DamagedFileError("a dictionary is not made of a list of pairs")
            items.extend(pair)
        allowance.charge(_SLOT_BYTES * len(items))
        _fill_dict(mapping, items, allowance)
    return mapping


def _make_set(items: Any, allowance: MemoryAllowance) -> set[object]:
    if type(items) not in (list, tuple, set):
        raise DamagedFileError("a set is not made of a list")
    members = set()
    for item in items:
        _check_key(item)
        members.add(item)
    allowance.charge(getsizeof(members))
    return members


def _call_set(arguments: Arguments, allowance: MemoryAllowance) -> set[object]:
    (items,) = arguments or ((),)
    return _make_set(items, allowance)


def _call_frozenset(arguments: Arguments, allowance: MemoryAllowance) -> frozenset[object]:
    return frozenset(_call_set(arguments, allowance))


def _call_bytes(arguments: Arguments, allowance: MemoryAllowance) -> bytes:
    """Emulate `bytes()`: old protocols write empty bytes in this way."""
    if arguments:
        raise DamagedFileError("bytes() has arguments")
    return b""


def _call_bytearray(arguments: Arguments, allowance: MemoryAllowance) -> bytearray:
    if not arguments:
        return bytearray()
    if len(arguments) == 1 and type(arguments[0]) is bytes:
        allowance.charge(len(arguments[0]))
        return bytearray(arguments[0])
    return bytearray(_call_encode(arguments, allowance))


def _call_encode(arguments: Arguments, allowance: MemoryAllowance) -> bytes:
    """Emulate `encode(text, "latin1")`: old protocols write bytes in this way."""
    text, encoding = arguments
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise DamagedFileError("bytes are not written as Latin-1")
    allowance.charge(len(text))
    return text.encode("latin-1")


def _call_dtype(arguments: Arguments, allowance: MemoryAllowance) -> PendingDtype:
    code, _, _ = arguments
    return PendingDtype(parse_dtype(code))


def _call_reconstruct(arguments: Arguments, allowance: MemoryAllowance) -> PendingArray:
    array_class, _, _ = arguments
    if array_class != GlobalName("numpy", "ndarray"):
        raise DamagedFileError("_reconstruct makes something other than an array")
    return PendingArray()


def _call_frombuffer(arguments: Arguments, allowance: MemoryAllowance) -> object:
    """Emulate `_frombuffer`: protocol 5 writes numpy arrays in this way."""
    data, dtype, shape, order = arguments
    if order not in ("C", "F"):
        raise DamagedFileError("an array has an unknown order")
    return make_array(data, _resolve_dtype(dtype), shape, allowance, column_major=order == "F")


def _call_scalar(arguments: Arguments, allowance: MemoryAllowance) -> object:
    """Convert a numpy scalar to a Python number."""
    dtype, data = arguments
    return make_array(data, _resolve_dtype(dtype), (), allowance).item()


def _resolve_dtype(dtype: object) -> object:
    """Return the dtype that a placeholder stands for; without a state, its byte order is `<`."""
    if type(dtype) is PendingDtype:
        return dtype.dtype
    return dtype


def _finish_dtype(pending: PendingDtype, state: object) -> PlainDtype:
    """Read the state of a dtype.

    It consists of version, byte order, subarray, names, fields, item size, alignment and flags.
    """
    if type(state) is not tuple or len(state) != 8:
        raise DamagedFileError("the state of a dtype has an unknown form")
    _, byte_order, subarray, names, fields, _, _, _ = state
    if subarray is not None or names is not None or fields is not None:
        raise RefusedFileError(
            "it has an array of records; only numbers and short strings are supported"
        )
    return parse_dtype(pending.dtype.code, byte_order)


def _finish_array(state: object, allowance: MemoryAllowance) -> object:
    """Read the state of an array: version, shape, dtype, order and bytes."""
    if type(state) is not tuple or len(state) != 5:
        raise DamagedFileError("the state of an array has an unknown form")
    _, shape, dtype, column_major, data = state
    return make_array(
        data, _resolve_dtype(dtype), shape, allowance, column_major=column_major is True
    )


_CALLS: dict[tuple[str, str], Call] = {
    ("collections", "OrderedDict"): _make_dict,
    ("_codecs", "encode"): _call_encode,
    ("numpy", "dtype"): _call_dtype,
}
for _builtins in ("builtins", "__builtin__"):
    _CALLS[_builtins, "set"] = _call_set
    _CALLS[_builtins, "frozenset"] = _call_frozenset
    _CALLS[_builtins, "bytes"] = _call_bytes
    _CALLS[_builtins, "bytearray"] = _call_bytearray
for _core in ("core", "_core"):  # numpy 2 renamed `core` to `_core`
    _CALLS[f"numpy.{_core}.multiarray", "_reconstruct"] = _call_reconstruct
    _CALLS[f"numpy.{_core}.multiarray", "scalar"] = _call_scalar
    _CALLS[f"numpy.{_core}.numeric", "_frombuffer"] = _call_frombuffer
_ARGUMENT_NAMES = {("numpy", "ndarray")}  # names that occur as arguments and are never called


# ------------------------------------------------------------------------------------- the result

_LEAF_TYPES = {type(None), bool, int, float, str, bytes, bytearray, np.ndarray}


def _check_plain(value: object, max_items: int) -> None:
    """Check that a value consists of plain data only, with limited depth and size.

    A few bytes can put a list into itself, or each list twice into the next one. Iterating over
    such a value would take forever. So an item that occurs several times is counted each time.
    """
    count = 0
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        current, depth = pending.pop()
        kind = type(current)
        if kind in _LEAF_TYPES:
            continue
        if depth > _MAX_DEPTH:
            raise RefusedFileError(f"it is nested deeper than {_MAX_DEPTH} levels")
        if kind is dict:
            children: Any = current.values()  # keys were checked when they were added
        elif kind in (list, tuple, set, frozenset):
            children = current
        else:
            raise DamagedFileError("it contains a function or a class")
        count += len(current)
        if count > max_items:
            raise RefusedFileError("it repeats its parts too often to fit into memory")
        for child in children:
            if type(child) not in _LEAF_TYPES:
                pending.append((child, depth + 1))
