"""What the two spaces of ZenNAS are checked for: networks, official counts, lists of candidates, steps."""

import json
from collections import Counter
from hashlib import sha256
from typing import Any

from tests.golden.spaces import check, golden
from untrained.spaces import Space
from untrained.spaces._plainnet import Block
from untrained.spaces._plainnet_size import flops, model_size, num_layers
from untrained.spaces._structure import Structures, genes_of
from untrained.spaces._walk import Walk, relinked, split
from untrained.types import Task


def entries(space: str) -> list[dict[str, Any]]:
    return golden()[space]["archs"]


def task_of(entry: dict[str, Any]) -> Task:
    return Task("golden", tuple(entry["input_shape"][1:]), entry["num_classes"])


def block(kind: str, *numbers: int) -> Block:
    """A block of the golden file; convolutions have no bottleneck."""
    cin, cout, stride, *rest = numbers
    return Block(kind, cin, cout, stride, *(rest if len(rest) == 2 else (0, *rest)))


def check_network(space: Space, entry: dict[str, Any]) -> None:
    """The string means what the official code makes of it, reads back, and the network is the official one."""
    configured = space.configured(**entry["kw"])
    arch = configured.parse(entry["structure"])
    assert str(arch) == entry["structure"]
    assert arch.genes == genes_of([block(*choices) for choices in entry["choices"]])
    check(configured.build(arch, task_of(entry)), entry)


def check_sizes(space: Space, entry: dict[str, Any]) -> None:
    """Our counts equal the true ones, and the published variant the official functions'."""
    configured, task = space.configured(**entry["kw"]), task_of(entry)
    arch = configured.parse(entry["structure"])
    assert model_size(configured, arch, task) == entry["params"]
    assert flops(configured, arch, task) == entry["macs"]
    assert model_size(configured, arch, task, variant="published") == entry["official_get_model_size"]
    assert flops(configured, arch, task, variant="published") == entry["official_get_FLOPs"]
    assert num_layers(arch) == entry["official_get_num_layers"]


def check_candidates(walk: Walk, listed: dict[str, Any]) -> None:
    """The candidates of a block, and how often the official list holds each type."""
    kind, _, numbers = listed["block"].rstrip(")").partition("(")
    old = block(kind, *map(int, numbers.split(",")))
    fair, published = walk.candidates(old), walk.candidates(old, "published")
    names = sorted(map(str, fair))
    assert len(set(names)) == len(names) == listed["n_distinct"]
    written = json.dumps(names, separators=(",", ":"))
    assert sha256(written.encode()).hexdigest() == listed["sorted_distinct_sha256"]
    assert {*published} == {*fair}
    assert len(published) == listed["n_flat"]
    assert Counter(candidate.kind for candidate in published) == listed["by_type"]


def check_step(walk: Walk, parent: str, child: str) -> None:
    """The official step from parent to child: one or two blocks became a candidate, widths follow."""
    old, new = Structures(walk.kinds).blocks(parent), Structures(walk.kinds).blocks(child)
    assert len(old) == len(new)  # no golden step splits a block
    changed = [n for n, (a, b) in enumerate(zip(relinked_like(old, new), new, strict=True)) if a != b]
    assert 1 <= len(changed) <= 2
    for n in changed:
        assert new[n] in [relinked_like([c], [new[n]])[0] for c in walk.candidates(old[n])]


def relinked_like(blocks: list[Block], like: list[Block]) -> list[Block]:
    """`blocks` with the channels that come in of `like`."""
    return [Block(b.kind, w.cin, b.cout, b.stride, b.inner, b.layers) for b, w in zip(blocks, like, strict=True)]


def check_split(walk: Walk, entry: dict[str, Any]) -> None:
    blocks = Structures(walk.kinds).blocks(entry["structure"])
    parts = [part for whole in relinked(blocks) for part in split(whole)]
    assert "".join(map(str, parts)) == entry["official_split6"]


def params_on_meta(space: Space, structure: str, classes: int) -> int:
    """torch's own count of a network's parameters."""
    task = Task("count", (3, 224, 224), classes)
    return sum(p.numel() for p in space.build(space.parse(structure), task, device="meta").parameters())
