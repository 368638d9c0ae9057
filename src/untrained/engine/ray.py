"""Workers as actors of a Ray cluster, local or far. The only file that imports ray.

An actor keeps its device, its code and its samples; what travels is questions and answers. Files of the user's own must
be readable under the same path on every machine of the cluster.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from untrained._numbers import counted
from untrained.engine._pool import Answered, Died, Event, Ready, Refused
from untrained.engine.hire import LOCAL
from untrained.engine.measure import Job, Requests
from untrained.errors import UsageError
from untrained.types import Record

try:
    import ray
    from ray.exceptions import RayActorError, RayError
except ImportError as error:
    raise UsageError(
        "ray is not installed; `pip install 'untrained[ray]'` adds it, and --workers needs none"
    ) from error


class _Actor:
    """What runs on the cluster."""

    def __init__(self, job: Job) -> None:
        import torch

        torch.set_num_threads(1)
        self._job = job

    def open(self) -> str:
        """An empty string when the job is open, or why it cannot be."""
        try:
            self._examine = self._job.open()
        except UsageError as error:
            return str(error)
        return ""

    def answer(self, questions: list[Requests]) -> list[list[Record]] | str:
        try:
            return list(self._examine.answers(questions))
        except UsageError as error:
            return str(error)


class RayCrew:
    """One call a question, or for what is looked at together; an actor works through its calls in order."""

    name = "ray actor"

    def __init__(self, job: Job, address: str, workers: int) -> None:
        self._began = not ray.is_initialized()
        if self._began:
            where: dict[str, Any] = {"num_cpus": workers} if address == LOCAL else {"address": address}
            try:
                ray.init(**where, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
            except (RayError, ConnectionError, OSError, RuntimeError, ValueError) as error:
                first = (str(error).strip().splitlines() or [""])[0]
                raise UsageError(f"no Ray cluster at {address!r}: {first}; `--ray local` starts one here") from error
        room = int(ray.cluster_resources().get("CPU", 0))
        if workers > room and not job.device.startswith("cuda"):
            self.close()
            raise UsageError(
                f"the Ray cluster at {address!r} has room for {counted(room, 'worker')}: --workers {max(room, 1)}"
            )
        self._job, self._at_once = ray.put(job), job.population
        share = min(1.0, ray.cluster_resources().get("GPU", 0.0) / workers)  # Ray shows each actor its own GPU
        needs = {"num_gpus": share} if job.device.startswith("cuda") else {"num_cpus": 1}
        self._actor = ray.remote(max_restarts=0, max_task_retries=0, **needs)(_Actor)
        self._people: dict[int, Any] = {}
        self._due: dict[int, deque[Any]] = {}  # promises of each worker, in order

    def hire(self, worker: int, slot: int) -> None:
        actor = self._actor.remote(self._job)
        self._people[worker], self._due[worker] = actor, deque([actor.open.remote()])

    def give(self, worker: int, questions: list[Requests]) -> None:
        portions = [questions[i : i + self._at_once] for i in range(0, len(questions), self._at_once)]
        self._due[worker].extend(self._people[worker].answer.remote(portion) for portion in portions)

    def events(self, timeout: float) -> Iterable[Event]:
        heads = {due[0]: worker for worker, due in self._due.items() if due}
        kept, _ = ray.wait(list(heads), num_returns=1, timeout=timeout) if heads else ([], [])
        if kept:  # and who else has answered meanwhile
            kept, _ = ray.wait(list(heads), num_returns=len(heads), timeout=0)
        return [event for promise in kept for event in self._events(heads[promise], promise)]

    def _events(self, worker: int, promise: Any) -> list[Event]:
        self._due[worker].popleft()
        try:
            said = ray.get(promise)
        except RayActorError as error:
            return [Died(worker, "its Ray actor died", str(error).strip())]
        except RayError as error:
            return [Died(worker, f"its Ray actor failed: {type(error).__name__}", str(error).strip())]
        if isinstance(said, str):
            return [Refused(worker, said) if said else Ready(worker)]
        return [Answered(worker, records) for records in said]

    def dismiss(self, worker: int) -> None:
        ray.kill(self._people.pop(worker))
        del self._due[worker]

    def close(self) -> None:
        if self._began:
            ray.shutdown()
