"""Seeded mutations of files: of raw bytes, and of the content of archives and checked records."""

import bz2
import gzip
import io
import json
import pickletools
import random
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

from tests.benchmarks.publishers import frame_record

INTERESTING_BYTES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF, 0x28, 0x2E, 0x5D, 0x7D)
POWERS = (7, 8, 15, 16, 31, 32, 36, 62, 63, 64)
INTERESTING_NUMBERS = (0, 1, *(2**power - 1 for power in POWERS), 2**31, 2**36)

# Pieces of pickles: names, calls, states, long lengths, the memo, marks.
PICKLE_PIECES = (
    b"cos\nsystem\n",
    b"cbuiltins\neval\n",
    b"cnumpy\ndtype\n",
    b"cnumpy\nndarray\n",
    b"cnumpy.core.multiarray\n_reconstruct\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ccollections\nOrderedDict\n",
    b"(S'echo'\ntR",
    b"X\x02\x00\x00\x00O8\x89\x88\x87R",
    b"X\x02\x00\x00\x00f8\x89\x88\x87R",
    b"R",
    b"b",
    b"o",
    b"\x81",
    b"\x92",
    b"Q",
    b"2",
    b"(",
    b"0",
    b"1",
    b"]",
    b"}",
    b"\x8f",
    b"\x94",
    b"q\x00",
    b"h\x00",
    b"h\x01",
    b"a",
    b"s",
    b"e",
    b"u",
    b"t",
    b"\x85",
    b"\x86",
    b"\x93",
    b"\x91",
    b"\x8a\xff",
    b"\x8b\xff\xff\xff\x7f",
    b"B\xff\xff\xff\x7f",
    b"\x8e\xff\xff\xff\xff\x0f\x00\x00\x00",
    b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
    b"r\xff\xff\xff\xff",
    b"]q\x00h\x00a",
    b"]2\x86" * 40,
    b"(" * 200,
    b"P1\n",
    b"\x82\x01",
    b"\x97",
    b"I99999999999999999999\n",
    b"J\xff\xff\xff\xff",
    b"G\x7f\xf0\x00\x00\x00\x00\x00\x00",
)
# Values to put in the place of others: other types, huge and negative numbers, shared lists.
PICKLE_VALUES = (
    b"N",
    b"\x88",
    b"K\x00",
    b"J\xff\xff\xff\xff",
    b"J\xff\xff\xff\x7f",
    b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x8a\x09" + b"\xff" * 8 + b"\x00",
    b"G\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"X\x00\x00\x00\x00",
    b"X\x03\x00\x00\x00\xed\xa0\x80",
    b"C\x00",
    b"C\x08AAAAAAAA",
    b")",
    b"]",
    b"}",
    b"\x8f",
    b"K\x02\x85",
    b"J\xff\xff\xff\x7f\x85",
    b"]q\x00h\x00ah\x00a",
)
TEXT_PIECES = (
    b"[" * 5000,
    b'{"a":' * 3000,
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1",
    b"0",
    b"[]",
    b"{}",
    b'""',
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\\u001b[31m"',
    b"9" * 5000,
    b"\xff\xfe",
    b"\x00",
    b'"',
    b"'",
    b",",
    b"\n",
    b"\r\n",
    b"\t",
    b";",
    b"=cmd|'/c calc'!A0",
    b"<script>",
    b"../../../etc/passwd",
    b"-" * 3000 + b"1",
    b"__import__('os').system('true')",
    b"99999999999999999999999",
)

Mutation = Callable[[bytes, random.Random], bytes]


# -------------------------------------------------------------------------------------- raw bytes


def flip_bit(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    flipped = content[place] ^ (1 << rng.randrange(8))
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def set_byte(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    value = rng.choice((*INTERESTING_BYTES, rng.randrange(256)))
    return content[:place] + bytes([value]) + content[place + 1 :]


def set_number(content: bytes, rng: random.Random) -> bytes:
    """Overwrite two, four or eight bytes by a number that lengths are compared with."""
    size = rng.choice((2, 4, 8))
    number = rng.choice(INTERESTING_NUMBERS) % 2 ** (8 * size)
    packed = number.to_bytes(size, rng.choice(("little", "big")))
    place = rng.randrange(len(content))
    return content[:place] + packed + content[place + size :]


def delete_bytes(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content))
    count = rng.choice((1, 2, 4, 16, rng.randrange(1, len(content) + 1)))
    return content[:place] + content[place + count :]


def insert_bytes(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.randbytes(rng.choice((1, 2, 4, 8, 64))) + content[place:]


def repeat_bytes(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    piece = content[start : start + rng.choice((1, 4, 16, 256))]
    place = rng.randrange(len(content) + 1)
    return content[:place] + piece * rng.choice((1, 2, 16, 200)) + content[place:]


def cut_off(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def swap_parts(content: bytes, rng: random.Random) -> bytes:
    first, second, third = sorted(rng.randrange(len(content) + 1) for _ in range(3))
    return content[:first] + content[second:third] + content[first:second] + content[third:]


RAW: tuple[Mutation, ...] = (
    flip_bit,
    set_byte,
    set_number,
    delete_bytes,
    insert_bytes,
    repeat_bytes,
    cut_off,
    swap_parts,
)


def mutate_bytes(content: bytes, rng: random.Random, pieces: tuple[bytes, ...] = ()) -> bytes:
    """Apply one to four mutations, some of which insert or overwrite by a piece."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        if pieces and rng.random() < 0.5:
            content = _put_piece(content, rng, pieces)
        elif content:
            content = rng.choice(RAW)(content, rng)
    return content


def _put_piece(content: bytes, rng: random.Random, pieces: tuple[bytes, ...]) -> bytes:
    piece = rng.choice(pieces)
    place = rng.randrange(len(content) + 1)
    end = place + len(piece) if rng.random() < 0.3 else place
    return content[:place] + piece + content[end:]


# ------------------------------------------------------------------------------- structured formats


def mutate_pickle(content: bytes, rng: random.Random) -> bytes:
    """Change a pickle opcode by opcode, so that the rest of the program still runs, or its bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(content, rng, PICKLE_PIECES)
    for _ in range(rng.choice((1, 1, 2, 4))):
        content = _change_opcode(content, rng)
    return content


def _change_opcode(content: bytes, rng: random.Random) -> bytes:
    places = _find_opcodes(content)
    if len(places) < 2:
        return mutate_bytes(content, rng, PICKLE_PIECES)
    index = rng.randrange(len(places) - 1)
    start = places[index]
    end = places[index + 1]
    opcode = content[start:end]
    other = rng.randrange(len(places) - 1)
    other_opcode = content[places[other] : places[other + 1]]
    changed = rng.choice(
        (
            b"",
            opcode + opcode,
            other_opcode,
            opcode + other_opcode,
            rng.choice(PICKLE_PIECES),
            opcode + rng.choice(PICKLE_PIECES),
            rng.choice(PICKLE_VALUES),
            opcode[:1] + mutate_bytes(opcode[1:], rng),
        )
    )
    return content[:start] + changed + content[end:]


def _find_opcodes(content: bytes) -> list[int]:
    """Return where opcodes begin, as far as the pickle can be understood."""
    places = []
    try:
        for _, _, place in pickletools.genops(content):
            places.append(place)
    except Exception:  # an earlier mutation has made the rest unreadable
        return places
    return places


def mutate_text(content: bytes, rng: random.Random) -> bytes:
    """Replace a number or a quoted text, or mutate the bytes."""
    tokens = [match.span() for match in re.finditer(rb'-?[0-9.]+|"[^"]*"|[\w.]+', content)]
    if tokens and rng.random() < 0.7:
        start, end = rng.choice(tokens)
        return content[:start] + rng.choice(TEXT_PIECES) + content[end:]
    return mutate_bytes(content, rng, TEXT_PIECES)


def mutate_json(content: bytes, rng: random.Random) -> bytes:
    """Change a value somewhere inside, or mutate the text."""
    if rng.random() < 0.4:
        return mutate_text(content, rng)
    value = json.loads(content)
    for _ in range(rng.choice((1, 1, 3))):
        value = _change_value(value, rng)
    return json.dumps(value).encode()


ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    2**70,
    "",
    "x",
    [],
    {},
    [[]],
    {"a": 1},
    "\x1b[31m",
    "<b>",
)


def _change_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.2:
            return {name: child for name, child in value.items() if name != key}
        return value | {key: _change_value(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], _change_value(value[place], rng), *value[place + 1 :]]
    return rng.choice(ODD_VALUES)


def mutate_zip(content: bytes, rng: random.Random, mutate_member: Callable[..., bytes]) -> bytes:
    """Mutate one member and write the archive again with right checksums, or mutate its bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(content, rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        mutated_name = rng.choice(old.infolist()).filename
        for member in old.infolist():
            data = old.read(member)
            if member.filename == mutated_name:
                data = mutate_member(member.filename, data, rng)
            method = rng.choice((member.compress_type, zipfile.ZIP_DEFLATED))
            new.writestr(member.filename, data, method)
    return buffer.getvalue()


def mutate_torch(content: bytes, rng: random.Random) -> bytes:
    if not content.startswith(b"PK"):
        return mutate_pickle(content, rng)

    def mutate_member(name: str, data: bytes, rng: random.Random) -> bytes:
        return mutate_pickle(data, rng) if name.endswith(".pkl") else mutate_bytes(data, rng)

    return mutate_zip(content, rng, mutate_member)


def mutate_npz(content: bytes, rng: random.Random) -> bytes:
    def mutate_member(name: str, data: bytes, rng: random.Random) -> bytes:
        header = re.search(rb"\{.*\}", data[:256])
        if header and rng.random() < 0.7:
            text = mutate_text(header[0], rng)[: len(header[0])].ljust(len(header[0]))
            return data[: header.start()] + text + data[header.end() :]
        return mutate_bytes(data, rng)

    return mutate_zip(content, rng, mutate_member)


def mutate_bz2(content: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return mutate_bytes(content, rng)
    return bz2.compress(mutate_pickle(bz2.decompress(content), rng))


def mutate_gzip_text(content: bytes, rng: random.Random) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return mutate_text(content, rng)
    if rng.random() < 0.2:
        return mutate_bytes(content, rng)
    return gzip.compress(mutate_text(gzip.decompress(content), rng))


def mutate_tfrecord(content: bytes, rng: random.Random) -> bytes:
    """Mutate one record and write its right checksums, or change a length, or mutate the bytes."""
    (length,) = struct.unpack("<Q", content[:8])
    choice = rng.random()
    if choice < 0.3:
        return mutate_bytes(content, rng)
    if choice < 0.5:
        claimed = struct.pack("<Q", rng.choice(INTERESTING_NUMBERS))
        return frame_record(claimed)[12:20] + _frame_length(claimed) + content[12:]
    return frame_record(mutate_json(content[12 : 12 + length], rng)) + content[16 + length :]


def _frame_length(length: bytes) -> bytes:
    """Return the checksum of a length, which `frame_record` writes after its data."""
    return frame_record(length)[20:24]


MUTATIONS: dict[str, Mutation] = {
    "hwnas.pickle": mutate_pickle,
    "nats.pbz2": mutate_bz2,
    "cifar.pickle": mutate_pickle,
    "transnas.pth": mutate_torch,
    "checkpoint.pt": mutate_torch,
    "images.npz": mutate_npz,
    "nasbench101.tfrecord": mutate_tfrecord,
    "store.sqlite": mutate_bytes,
    "run.json": mutate_json,
    "suite_zero.json": mutate_json,
    "clicks.csv": mutate_gzip_text,
    "table.csv.gz": mutate_gzip_text,
    "table.parquet": mutate_bytes,
}


def mutate(kind: str, content: bytes, seed: int, number: int) -> bytes:
    """Return the mutated file of this number; the same seed and number give the same file."""
    rng = random.Random(f"{seed} {kind} {number}")
    return MUTATIONS[kind](content, rng)
