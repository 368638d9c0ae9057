"""The samples that networks are measured on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from untrained.data import DataSource
from untrained.data.source import fingerprint_batch
from untrained.engine.failures import classify_error, get_first_line
from untrained.errors import UsageError
from untrained.proxies import Proxy
from untrained.types import Batch


@dataclass(frozen=True)
class SeedBatches:
    """One batch per seed. A proxy that needs fewer samples uses the first ones of the batch.

    Attributes:
        source: Where the samples come from.
        seeds: The seeds of the run.
        max_samples: Number of samples of the proxy that needs the most.
    """

    source: DataSource
    seeds: Sequence[int]
    max_samples: int
    # Batches and their fingerprints by number of samples and seed, drawn when first needed.
    _batches: dict[tuple[int, int], tuple[Batch, str]] = field(default_factory=dict)

    @staticmethod
    def for_proxies(
        source: DataSource, proxies: Sequence[Proxy], seeds: Sequence[int]
    ) -> "SeedBatches":
        """Return batches that are large enough for every proxy."""
        max_samples = max(proxy.samples for proxy in proxies)
        return SeedBatches(source, seeds, max_samples)

    def keep_first_seed(self) -> "SeedBatches":
        """Return the same samples for the first seed alone."""
        return replace(self, seeds=self.seeds[:1])

    def draw_largest_batches(self) -> dict[int, Batch]:
        """Return the whole batch of every seed."""
        batches = {}
        for seed in self.seeds:
            batch, _ = self._get_batch(self.max_samples, seed)
            batches[seed] = batch
        return batches

    def get_fingerprint(self, samples: int, seed: int) -> str:
        """Return the fingerprint of the first `samples` samples, which is part of a score's key."""
        _, fingerprint = self._get_batch(samples, seed)
        return fingerprint

    def _get_batch(self, samples: int, seed: int) -> tuple[Batch, str]:
        """Return a batch and its fingerprint; the batch is drawn at the first call."""
        if (samples, seed) not in self._batches:
            batch = self._draw(samples, seed)
            self._batches[samples, seed] = (batch, fingerprint_batch(batch))
        return self._batches[samples, seed]

    def _draw(self, samples: int, seed: int) -> Batch:
        try:
            return self.source.batch(samples, seed)
        except (RuntimeError, MemoryError) as error:
            if classify_error(error) == "oom":
                reason = "they do not fit into memory"
            else:
                reason = get_first_line(error)
            task = self.source.task
            shape = "x".join(str(side) for side in task.input_shape)
            raise UsageError(
                f"the samples of {task.dataset} (shape {shape}) cannot be drawn: {reason}; "
                "choose another input shape"
            ) from error
