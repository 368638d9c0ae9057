"""Read members of zip archives, after checking that the unpacked content fits into memory."""

import zipfile
from pathlib import Path

from untrained.readers.limits import DamagedFileError, MemoryAllowance, RefusedFileError

_MAX_MEMBERS = 100_000
_DIRECTORY_ENTRY = b"PK\x01\x02"
_ENCRYPTED = 1  # bit of the flags of a member
_BLOCK_BYTES = 2**20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def check_zip_directory(path: Path) -> None:
    """Refuse an archive with very many members, because `ZipFile` keeps a large object for each."""
    count = 0
    with path.open("rb") as file:
        # An entry may begin at the end of one block and continue in the next one.
        tail = b""
        while block := file.read(_BLOCK_BYTES):
            count += (tail + block).count(_DIRECTORY_ENTRY)
            tail = block[-(len(_DIRECTORY_ENTRY) - 1) :]
    if count > _MAX_MEMBERS:
        raise RefusedFileError(f"it is a zip archive of more than {_MAX_MEMBERS:,} members")


def check_member(member: zipfile.ZipInfo) -> None:
    """Refuse a member that is encrypted or uses an unsupported compression method."""
    if member.flag_bits & _ENCRYPTED:
        raise RefusedFileError("it is encrypted; unpack it and save it without a password")
    if member.compress_type not in _METHODS:
        raise RefusedFileError(
            "it uses an unsupported compression method; save it with numpy or torch"
        )


def read_member(archive: zipfile.ZipFile, name: str, allowance: MemoryAllowance) -> bytes:
    """Return the content of a member. The allowance is charged before the member is unpacked."""
    if name not in archive.NameToInfo:
        raise DamagedFileError(f"it has no member {name}")
    member = archive.NameToInfo[name]
    check_member(member)
    # While a member is unpacked, its blocks and the joined bytes may be in memory together.
    allowance.charge(2 * member.file_size)
    with archive.open(member) as file:
        # Reading one more byte shows if the directory states too small a size.
        content = file.read(member.file_size + 1)
    if len(content) != member.file_size:
        raise DamagedFileError(f"the size of its member {name} differs from the directory")
    return content
