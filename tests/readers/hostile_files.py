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


def encode_text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def encode_name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


DTYPE = encode_name("numpy", "dtype")
RECONSTRUCT = encode_name("numpy.core.multiarray", "_reconstruct")
EMPTY_ARRAY = RECONSTRUCT + encode_name("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R"


def make_dtype(code: str, state: bytes) -> bytes:
    """`numpy.dtype(code, False, True)` and its state."""
    return DTYPE + encode_text(code) + b"\x89\x88\x87R" + state + b"b"


def make_plain_state(order: str = "<", flags: int = 0) -> bytes:
    parts = b"(K\x03" + encode_text(order) + b"NNN" + b"J\xff\xff\xff\xff" * 2
    return parts + b"K" + bytes([flags]) + b"t"


def make_array(shape: bytes, dtype: bytes, data: bytes) -> bytes:
    content = b"B" + struct.pack("<I", len(data)) + data
    return EMPTY_ARRAY + b"(K\x01" + shape + dtype + b"\x89" + content + b"tb"


def make_int64(value: int) -> bytes:
    """Encode an integer of numpy, which is not an `int`."""
    value_bytes = b"C\x08" + struct.pack("<q", value)
    return (
        encode_name("numpy.core.multiarray", "scalar")
        + make_dtype("i8", make_plain_state())
        + value_bytes
        + b"\x86R"
    )


def wrap_in_table(value: bytes) -> bytes:
    """Make a pickle that has the outer layout of HW-NAS-Bench."""
    return b"\x80\x04}" + encode_text("nasbench201") + value + b"s."


HOSTILE_PICKLES: dict[str, bytes] = {
    # Flags of numpy's dtypes: an array of 8-byte "objects" that are addresses of the attacker's choice.
    "dtype_flags": wrap_in_table(
        b"("
        + make_array(b"K\x01\x85", make_dtype("f8", make_plain_state("<", flags=63)), ADDRESS)
        + b"l"
    ),
    "dtype_objects": wrap_in_table(
        make_array(b"K\x01\x85", make_dtype("O8", make_plain_state("|", 63)), ADDRESS)
    ),
    "dtype_state_twice": wrap_in_table(
        make_array(
            b"K\x01\x85",
            make_dtype("f8", make_plain_state()) + make_plain_state("<", 63) + b"b",
            ADDRESS,
        )
    ),
    "ndarray_state_of_a_list": wrap_in_table(b"]" + make_plain_state() + b"b"),
    "shape_too_large": wrap_in_table(
        make_array(b"J\xff\xff\xff\x7f\x85", make_dtype("f8", make_plain_state()), ADDRESS)
    ),
    "shape_overflows": wrap_in_table(
        make_array(
            b"\x8a\x08" + struct.pack("<q", 2**62) + b"K\x04\x86",
            make_dtype("f8", make_plain_state()),
            b"",
        )
    ),
    "shape_of_numpy_integers": wrap_in_table(
        make_array(make_int64(2**62) + b"\x85", make_dtype("f8", make_plain_state()), ADDRESS)
    ),
    # Lengths that are claimed in a few bytes.
    "long_of_2_gb": b"\x80\x04\x8b\xff\xff\xff\x7f.",
    "bytes_of_64_gb": b"\x80\x04\x8e" + struct.pack("<Q", BIG) + b".",
    "bytearray_of_64_gb": b"\x80\x05\x96" + struct.pack("<Q", BIG) + b".",
    "text_of_64_gb": b"\x80\x04\x8d" + struct.pack("<Q", BIG) + b".",
    "frame_of_64_gb": b"\x80\x04\x95" + struct.pack("<Q", BIG) + b".",
    "memo_of_4_billion": b"\x80\x04Nr\xff\xff\xff\xff.",
    "bytearray_by_call": wrap_in_table(
        encode_name("builtins", "bytearray")
        + b"\x8a\x05"
        + (6 * 10**9).to_bytes(5, "little")
        + b"\x85R"
    ),
    "zeros_by_dtype": wrap_in_table(
        RECONSTRUCT + encode_name("numpy", "ndarray") + SIX_BILLION + b"\x85C\x01b\x87R"
    ),
    "text_dtype_of_gigabytes": wrap_in_table(make_dtype("U999999999", make_plain_state())),
    # Structures that are small in memory and endless when they are traversed.
    "list_in_itself": wrap_in_table(b"]q\x00h\x00a"),
    "doubled_lists": wrap_in_table(b"]" + b"q\x00]h\x00ah\x00a" * 60),
    "doubled_tuples": wrap_in_table(b")" + b"2\x86" * 60),
    "doubled_tuples_as_a_key": wrap_in_table(b"}" + b")" + b"2\x86" * 60 + b"Ns"),
    "deep_nesting": wrap_in_table(b"]" * 5000 + b"a" * 4999),
    # Code.
    "os_system": wrap_in_table(
        encode_name("os", "system") + encode_text("touch it_ran") + b"\x85R"
    ),
    "getattr_chain": wrap_in_table(
        encode_name("builtins", "getattr")
        + encode_name("os", "system")
        + encode_text("x")
        + b"\x86R"
    ),
    "instance": wrap_in_table(b"(ios\nsystem\n"),
    "object": wrap_in_table(
        b"(" + encode_name("os", "system") + encode_text("touch it_ran") + b"o"
    ),
    "new_object": wrap_in_table(encode_name("numpy", "ndarray") + b"K\x02\x85\x85\x81"),
    "persistent_id": wrap_in_table(encode_text("x") + b"Q"),
    "persistent_text": wrap_in_table(b"Px\n"),
    "extension": wrap_in_table(b"\x82\x01"),
    "out_of_band_buffer": wrap_in_table(b"\x97"),
    "attributes_of_a_name": wrap_in_table(DTYPE + b"}" + encode_text("a") + b"K\x01sb"),
    "call_of_data": wrap_in_table(b"](K\x01tR"),
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
    """Encode a tensor over the storage `0`, which has as many numbers as its bytes hold."""
    storage = (
        b"("
        + encode_text("storage")
        + encode_name("torch", "DoubleStorage")
        + encode_text("0")
        + encode_text("cpu")
        + b"K\x04tQ"
    )
    arguments = (
        b"("
        + storage
        + offset
        + size
        + stride
        + b"\x89"
        + encode_name("collections", "OrderedDict")
        + b")Rt"
    )
    return encode_name("torch._utils", "_rebuild_tensor_v2") + arguments + b"R"


def wrap_in_transnas(value: bytes) -> bytes:
    """Make a pickle with the outer layout of TransNAS-Bench-101; all its numbers are this value."""
    numbers = b""
    for split in ("train", "valid", "test"):
        numbers += encode_text(f"{split}_top1") + value
    results = b"}" + encode_text("metrics") + b"}(" + numbers + b"us"
    tasks = b"}" + encode_text("jigsaw") + results + b"s"
    micro = b"}" + encode_text("64-41414-3_33_333") + tasks + b"s"
    return b"\x80\x02}" + encode_text("data") + b"}" + encode_text("micro") + micro + b"ss."


def encode_int(value: int) -> bytes:
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
    "negative_offset": make_tensor(encode_int(-8), b"K\x01\x85", b"K\x01\x85"),
    "negative_stride": make_tensor(b"K\x00", b"K\x02\x85", encode_int(-1) + b"\x85"),
    "stride_zero_of_8_gb": make_tensor(b"K\x00", encode_int(10**9) + b"\x85", b"K\x00\x85"),
    "size_of_2_to_the_70": make_tensor(b"K\x00", encode_int(2**70) + b"\x85", b"K\x00\x85"),
    "true_is_no_size": make_tensor(b"K\x00", b"\x88\x85", b"K\x01\x85"),
    "more_strides_than_sizes": make_tensor(b"K\x00", b"K\x01\x85", b"K\x01K\x01\x86"),
}


def write_npz(path: Path, header: str, content: bytes, method: int = zipfile.ZIP_STORED) -> Path:
    """Write a numpy archive whose `x` has this header; `y` is valid."""
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


def dump_pickle(value: object, protocol: int = 4) -> bytes:
    return pickle.dumps(value, protocol=protocol)
