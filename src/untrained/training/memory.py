"""Settings of the memory allocator for training on a CPU.

By default, glibc returns large blocks to the operating system as soon as they are freed. Every step
of a training then allocates the same activations again, and the kernel fills each page with zeros
at its first use. This takes up to half of the time of a step.
"""

import ctypes
import platform
from functools import cache

# Parameters of `mallopt`, from malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# Larger blocks are returned to the operating system when they are freed. Old versions of glibc
# refuse a value above 32 MB; then only the trim threshold is set.
_MAX_HEAP_BLOCK = 2**30
# The heap would shrink only if more than this many bytes at its end were free. It is the largest
# int, so the heap never shrinks.
_NEVER_TRIM = 2**31 - 1


@cache
def keep_freed_memory() -> bool:
    """Let this process keep memory that it frees, to use it again.

    The setting lasts until the process ends. It needs Linux with glibc; elsewhere nothing happens.

    Returns:
        Whether both settings were applied.
    """
    if platform.system() != "Linux":
        return False
    try:
        set_option = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        # Another C library, such as musl.
        return False
    keeps_blocks = bool(set_option(_M_MMAP_THRESHOLD, _MAX_HEAP_BLOCK))
    keeps_heap = bool(set_option(_M_TRIM_THRESHOLD, _NEVER_TRIM))
    return keeps_blocks and keeps_heap


def release_freed_memory() -> None:
    """Return memory that this process has freed to the operating system.

    After `keep_freed_memory`, networks of different sizes that are trained one after the other
    leave free blocks between used ones, and the process grows to several gigabytes.
    """
    if platform.system() != "Linux":
        return
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        # Another C library, such as musl.
        return
