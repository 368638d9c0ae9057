"""Count every cell of NAS-Bench-101 up to isomorphism; the published number is 423,624.

    python benchmarks/nasbench101_count.py [--max-vertices 7]

For each number of vertices, prints how many cells have at most that many vertices: "labelled" counts every order of
their vertices, "unique" counts cells with the same canonical form once.
"""

import argparse
from time import perf_counter

from untrained.spaces.nasbench101.graph import enumerate_specs, find_canonical_form

PUBLISHED = 423_624


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--max-vertices", type=int, default=7, choices=range(2, 8))
    arguments = parser.parse_args()
    start = perf_counter()
    labelled = 0
    unique = set()
    for vertices in range(2, arguments.max_vertices + 1):
        for cell in enumerate_specs(vertices):
            labelled += 1
            unique.add(find_canonical_form(cell))
        print(
            f"{vertices} vertices: {labelled:>9,} labelled {len(unique):>7,} unique {perf_counter() - start:6.1f} s"
        )
    if arguments.max_vertices == 7:
        raise SystemExit(0 if len(unique) == PUBLISHED else f"published are {PUBLISHED:,}")


if __name__ == "__main__":
    main()
