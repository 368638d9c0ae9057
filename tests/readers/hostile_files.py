"""Files that attack their reader, each a few hundred bytes, written opcode by opcode."""

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np

BIG = 2**36
SIX_BILLION = b"\x8a\x05" + (6 * 10**9).to_bytes(5, "little")
ADDRESS = struct.pack("<Q", 0x414141414141)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


DTYPE = name("numpy", "dtype")
RECONSTRUCT = name("numpy.core.multiarray", "_reconstruct")
EMPTY_ARRAY = RECONSTRUCT + name("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R"


def make_dtype(code: str, state: bytes) -> bytes:
    """`numpy.dtype(code, False, True)` and its state."""
    return DTYPE + text(code) + b"\x89\x88\x87R" + state + b"b"


def plain_state(order: str = "<", flags: int = 0) -> bytes:
    parts = b"(K\x03" + text(order) + b"NNN" + b"J\xff\xff\xff\xff" * 2
    return parts + b"K" + bytes([flags]) + b"t"


def make_array(shape: bytes, dtype: bytes, data: bytes) -> bytes:
    content = b"B" + struct.pack("<I", len(data)) + data
    return EMPTY_ARRAY + b"(K\x01" + shape + dtype + b"\x89" + content + b"tb"


def make_int64(value: int) -> bytes:
    """An integer of numpy, which is no `int`."""
    data = b"C\x08" + struct.pack("<q", value)
    return (
        name("numpy.core.multiarray", "scalar") + make_dtype("i8", plain_state()) + data + b"\x86R"
    )


def in_table(value: bytes) -> bytes:
    """A pickle that has the outer layout of HW-NAS-Bench."""
    return b"\x80\x04}" + text("nasbench201") + value + b"s."


HOSTILE_PICKLES: dict[str, bytes] = {
    # Flags of numpy's dtypes: an array of 8-byte "objects" that are addresses of the attacker's choice.
    "dtype_flags": in_table(
        b"("
        + make_array(b"K\x01\x85", make_dtype("f8", plain_state("<", flags=63)), ADDRESS)
        + b"l"
    ),
    "dtype_objects": in_table(
        make_array(b"K\x01\x85", make_dtype("O8", plain_state("|", 63)), ADDRESS)
    ),
    "dtype_state_twice": in_table(
        make_array(
            b"K\x01\x85", make_dtype("f8", plain_state()) + plain_state("<", 63) + b"b", ADDRESS
        )
    ),
    "ndarray_state_of_a_list": in_table(b"]" + plain_state() + b"b"),
    "shape_too_large": in_table(
        make_array(b"J\xff\xff\xff\x7f\x85", make_dtype("f8", plain_state()), ADDRESS)
    ),
    "shape_overflows": in_table(
        make_array(
            b"\x8a\x08" + struct.pack("<q", 2**62) + b"K\x04\x86",
            make_dtype("f8", plain_state()),
            b"",
        )
    ),
    "shape_of_numpy_integers": in_table(
        make_array(make_int64(2**62) + b"\x85", make_dtype("f8", plain_state()), ADDRESS)
    ),
    # Lengths that are claimed in a few bytes.
    "long_of_2_gb": b"\x80\x04\x8b\xff\xff\xff\x7f.",
    "bytes_of_64_gb": b"\x80\x04\x8e" + struct.pack("<Q", BIG) + b".",
    "bytearray_of_64_gb": b"\x80\x05\x96" + struct.pack("<Q", BIG) + b".",
    "text_of_64_gb": b"\x80\x04\x8d" + struct.pack("<Q", BIG) + b".",
    "frame_of_64_gb": b"\x80\x04\x95" + struct.pack("<Q", BIG) + b".",
    "memo_of_4_billion": b"\x80\x04Nr\xff\xff\xff\xff.",
    "bytearray_by_call": in_table(
        name("builtins", "bytearray") + b"\x8a\x05" + (6 * 10**9).to_bytes(5, "little") + b"\x85R"
    ),
    "zeros_by_dtype": in_table(
        RECONSTRUCT + name("numpy", "ndarray") + SIX_BILLION + b"\x85C\x01b\x87R"
    ),
    "text_dtype_of_gigabytes": in_table(make_dtype("U999999999", plain_state())),
    # Structures that are small in memory and have no end when somebody walks through them.
    "list_in_itself": in_table(b"]q\x00h\x00a"),
    "doubled_lists": in_table(b"]" + b"q\x00]h\x00ah\x00a" * 60),
    "doubled_tuples": in_table(b")" + b"2\x86" * 60),
    "doubled_tuples_as_a_key": in_table(b"}" + b")" + b"2\x86" * 60 + b"Ns"),
    "deep_nesting": in_table(b"]" * 5000 + b"a" * 4999),
    # Code.
    "os_system": in_table(name("os", "system") + text("touch it_ran") + b"\x85R"),
    "getattr_chain": in_table(
        name("builtins", "getattr") + name("os", "system") + text("x") + b"\x86R"
    ),
    "instance": in_table(b"(ios\nsystem\n"),
    "object": in_table(b"(" + name("os", "system") + text("touch it_ran") + b"o"),
    "new_object": in_table(name("numpy", "ndarray") + b"K\x02\x85\x85\x81"),
    "persistent_id": in_table(text("x") + b"Q"),
    "persistent_text": in_table(b"Px\n"),
    "extension": in_table(b"\x82\x01"),
    "out_of_band_buffer": in_table(b"\x97"),
    "attributes_of_a_name": in_table(DTYPE + b"}" + text("a") + b"K\x01sb"),
    "call_of_data": in_table(b"](K\x01tR"),
}


def write_torch_zip(
    path: Path, pickled: bytes, storages: dict[str, bytes], method: int = zipfile.ZIP_STORED
) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("archive/data.pkl", pickled)
        for key, content in storages.items():
            archive.writestr(f"archive/data/{key}", content)
    return path


def make_tensor(offset: bytes, size: bytes, stride: bytes) -> bytes:
    """A tensor over the storage `0`, which has as many numbers as its bytes hold."""
    storage = (
        b"("
        + text("storage")
        + name("torch", "DoubleStorage")
        + text("0")
        + text("cpu")
        + b"K\x04tQ"
    )
    arguments = (
        b"("
        + storage
        + offset
        + size
        + stride
        + b"\x89"
        + name("collections", "OrderedDict")
        + b")Rt"
    )
    return name("torch._utils", "_rebuild_tensor_v2") + arguments + b"R"


def in_transnas(value: bytes) -> bytes:
    """A pickle with the outer layout of TransNAS-Bench-101, all of whose numbers are this value."""
    numbers = b""
    for split in ("train", "valid", "test"):
        numbers += text(f"{split}_top1") + value
    results = b"}" + text("metrics") + b"}(" + numbers + b"us"
    tasks = b"}" + text("jigsaw") + results + b"s"
    micro = b"}" + text("64-41414-3_33_333") + tasks + b"s"
    return b"\x80\x02}" + text("data") + b"}" + text("micro") + micro + b"ss."


def int_bytes(value: int) -> bytes:
    return b"\x8a\x0a" + value.to_bytes(10, "little", signed=True)


HOSTILE_TENSORS: dict[str, bytes] = {
    # `offset + (size - 1) * stride` overflows to a small number where sizes are integers of numpy.
    "numpy_sizes_overflow": make_tensor(
        b"K\x00", make_int64(2**61 + 1) + b"\x85", make_int64(8) + b"\x85"
    ),
    "numpy_offset_overflows": make_tensor(
        make_int64(-(2**62)), b"K\x02\x85", make_int64(2**62) + b"\x85"
    ),
    "numpy_stride_reads_the_heap": make_tensor(
        b"K\x00", make_int64(3) + b"\x85", make_int64(2**63 - 1) + b"\x85"
    ),
    "reaches_outside": make_tensor(b"K\x00", b"K\x64\x85", b"K\x01\x85"),
    "offset_outside": make_tensor(b"K\x64", b"K\x01\x85", b"K\x01\x85"),
    "negative_offset": make_tensor(int_bytes(-8), b"K\x01\x85", b"K\x01\x85"),
    "negative_stride": make_tensor(b"K\x00", b"K\x02\x85", int_bytes(-1) + b"\x85"),
    "stride_zero_of_8_gb": make_tensor(b"K\x00", int_bytes(10**9) + b"\x85", b"K\x00\x85"),
    "size_of_2_to_the_70": make_tensor(b"K\x00", int_bytes(2**70) + b"\x85", b"K\x00\x85"),
    "true_is_no_size": make_tensor(b"K\x00", b"\x88\x85", b"K\x01\x85"),
    "more_strides_than_sizes": make_tensor(b"K\x00", b"K\x01\x85", b"K\x01K\x01\x86"),
}


def write_npz(path: Path, header: str, content: bytes, method: int = zipfile.ZIP_STORED) -> Path:
    """A numpy archive whose `x` has this header; `y` is in order."""
    labels = io.BytesIO()
    np.save(labels, np.arange(4))
    packed = header.ljust(117).encode() + b"\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(packed)) + packed + content
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x.npy", array)
        archive.writestr("y.npy", labels.getvalue())
    return path


def encrypt_flags(path: Path) -> Path:
    """Mark every member of a zip archive as encrypted, in its own header and in the directory."""
    content = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.find(signature)
        while start >= 0:
            content[start + place] |= 1
            start = content.find(signature, start + 4)
    path.write_bytes(content)
    return path


def plain_pickle(value: object, protocol: int = 4) -> bytes:
    return pickle.dumps(value, protocol=protocol)
