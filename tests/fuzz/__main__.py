"""Read mutated files by the thousand: `python -m tests.fuzz --count 10000 --seed 0`.

Prints a table by kind of file, and every defect with the command that makes its file again.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.fuzz.examples import Example, copy_example, make_examples
from tests.fuzz.guard import GuardedReader, Reading
from tests.fuzz.mutate import mutate

FILES_PER_PROCESS = 500


def read_mutated_files(
    examples: Sequence[Example], count: int, seed: int, folder: Path
) -> Iterator[tuple[int, Reading]]:
    """Read `count` mutated files, as many of each kind; yield the number and the reading of each."""
    by_kind: dict[str, list[Example]] = {}
    for example in examples:
        by_kind.setdefault(example.kind, []).append(example)
    kinds = list(by_kind)
    scratch = folder / "scratch"
    scratch.mkdir()
    with GuardedReader(scratch) as reader:
        for number in range(count):
            if number % FILES_PER_PROCESS == 0:
                reader.restart()
                read_examples(reader, examples, scratch)
            candidates = by_kind[kinds[number % len(kinds)]]
            example = candidates[number // len(kinds) % len(candidates)]
            content = mutate(example.kind, example.content, seed, number)
            target = scratch / f"file{number}"
            path = copy_example(example, content, target)
            yield number, reader.read(example.kind, path)
            shutil.rmtree(target)
            shutil.rmtree(scratch / "cache", ignore_errors=True)


def read_examples(reader: GuardedReader, examples: Sequence[Example], scratch: Path) -> None:
    """Read every example without mutation, because a reader that refuses it would prove nothing.

    Lazy imports of a reader happen here, so that they do not count as foreign code.
    """
    for example in examples:
        target = scratch / "example"
        reading = reader.read(example.kind, copy_example(example, example.content, target))
        shutil.rmtree(target)
        if reading.outcome != "read":
            raise RuntimeError(f"{example.folder.name}/{example.file}: {reading.message}")


def format_table(readings: Sequence[Reading]) -> str:
    """Return a table in Markdown with the outcomes for each kind of file."""
    lines = [
        "| kind | files | read | refused in one line | defects | most memory, MB | slowest, s |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = list(dict.fromkeys(reading.kind for reading in readings))
    for kind in [*kinds, "all"]:
        part = [reading for reading in readings if kind in (reading.kind, "all")]
        read = sum(reading.outcome == "read" for reading in part)
        refused = sum(reading.outcome == "refused" for reading in part)
        defects = sum(bool(reading.defects) for reading in part)
        memory = max(reading.memory_bytes for reading in part) / 2**20
        seconds = max(reading.seconds for reading in part)
        counts = f"{len(part):,} | {read:,} | {refused:,} | {defects}"
        lines.append(f"| {kind} | {counts} | {memory:.0f} | {seconds:.2f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", help="only files of this kind, such as images.npz")
    parser.add_argument("--keep", type=Path, help="keep the files that show defects in this folder")
    options = parser.parse_args()
    readings = []
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        examples = make_examples(folder / "examples")
        if options.kind:
            examples = [example for example in examples if example.kind == options.kind]
        for number, reading in read_mutated_files(examples, options.count, options.seed, folder):
            readings.append(reading)
            for defect in reading.defects:
                print(f"{reading.kind} {number}: {defect}", flush=True)
            if reading.defects and options.keep:
                shutil.copytree(
                    folder / "scratch" / f"file{number}", options.keep / f"file{number}"
                )
    print(format_table(readings))
    print(f"{len(readings):,} files in {time.perf_counter() - start:.0f} s, seed {options.seed}")
    return int(any(reading.defects for reading in readings))


if __name__ == "__main__":
    sys.exit(main())
