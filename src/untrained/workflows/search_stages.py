"""The stages of a search in which architectures are scored.

These are the reference sample of an aggregate, screening, scoring or validating, and the pool of a
strategy that has one.

Every stage makes an evaluator from the proxies of the scoring plan, an executor and the store. The
store also lists which records belong to the run, see `RunFolder.compute_search_key`.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from untrained.config import ComputeConfig
from untrained.engine import Evaluator, ProxyEvaluator, SeedBatches
from untrained.engine.executors.base import Executor
from untrained.engine.worker_setup import WeightSource
from untrained.progress import Progress, ProgressCallback
from untrained.proxies import Proxy
from untrained.runs.aggregates import expand_aggregates
from untrained.runs.reference import FittedAggregate, describe_consensus
from untrained.runs.step_log import StepLog
from untrained.runs.store import Store
from untrained.strategies.base import Strategy
from untrained.strategies.budget import Budget
from untrained.strategies.driver import DEFAULT_ASK_SIZE, DriverResult, run_strategy
from untrained.strategies.screening import FixedCandidates, Screening
from untrained.types import FRESH, Arch, Record, ScoreRequest
from untrained.workflows.scoring_plan import ScoringPlan

# Stage of a strategy that works on a supernet before it proposes an architecture.
SUPERNET_STAGE = "searching the supernet"
# Stage that scores the reference networks, with which aggregates compare candidates.
REFERENCE_STAGE = "scoring the reference sample"


class SearchStages:
    """Scores what a strategy proposes, stage by stage.

    A strategy may need `score_pool` in its constructor, before there are workers or a store. So
    `connect` sets the workers and the store later.

    Args:
        plan: Which proxies score what.
        batches: Samples and seeds.
        compute: Device and number of networks per pass.
        space_code: Fingerprint of the user's code that defines the space.
        on_progress: Called after every architecture and every step of the strategy.

    Attributes:
        step_log: Steps that the strategy computes itself.
        fitted_aggregates: Aggregates that were fitted to the reference sample; set by `run`.
    """

    def __init__(
        self,
        plan: ScoringPlan,
        batches: SeedBatches,
        compute: ComputeConfig,
        space_code: str = "",
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self.step_log = StepLog(on_progress, SUPERNET_STAGE)
        self.fitted_aggregates: list[FittedAggregate] = []
        self._plan = plan
        self._batches = batches
        self._compute = compute
        self._space_code = space_code
        self._on_progress = on_progress
        # Set by `connect`.
        self._executor: Executor
        self._store: Store
        self._init = FRESH
        # Set by `run`.
        self._search_key: str
        # A pool that grows is reported as one stage.
        self._pool_done = 0
        self._pool_measured = 0

    def connect(
        self, executor: Executor, store: Store, weights: WeightSource | None = None
    ) -> None:
        """Set the executor and the store, which exist only after the run folder was opened.

        Args:
            executor: Where the work runs.
            store: Where records are kept.
            weights: Weights that networks are scored with; None for fresh ones. Screening always
                uses fresh weights.
        """
        self._executor = executor
        self._store = store
        if weights is not None:
            self._init = weights.init

    def list_requests(self) -> list[ScoreRequest]:
        """Return the requests of all stages for one architecture.

        The requests for other architectures differ only in the architecture, which is left empty
        here. Together they identify what the search measures.
        """
        empty_arch = Arch("", ())
        requests = self._make_evaluator(self._plan.proxies, self._init).make_requests(empty_arch)
        if self._plan.screening is not None:
            screening_proxies = self._plan.screening.proxies
            requests += self._make_evaluator(screening_proxies, FRESH).make_requests(empty_arch)
        return requests

    def run(
        self,
        strategy: Strategy,
        budget: Budget,
        search_key: str,
        reference: Sequence[Arch] = (),
        ask_size: int = DEFAULT_ASK_SIZE,
        limit_sampling_time: Callable[[float], None] | None = None,
    ) -> DriverResult:
        """Run a strategy until its budget is spent, with screening if the plan has it.

        Args:
            strategy: Proposes architectures.
            budget: When to stop.
            search_key: The key of the search; the store lists the records under it.
            reference: The reference sample, if the plan has aggregates that need one.
            ask_size: Largest number of architectures to ask for at a time.
            limit_sampling_time: Called before each `ask` with the seconds that it may take; see
                `run_strategy`.

        Returns:
            The records, why the session ended, and the time of all stages.
        """
        self._search_key = search_key
        seconds = 0.0
        if reference:
            reference_result = self._measure_reference(reference, budget, ask_size)
            if reference_result.end_reason == "interrupted":
                # The records are stored, but no candidate can be scored without the reference.
                return replace(reference_result, records=[])
            seconds += reference_result.seconds
        screening = self._plan.screening
        if screening is not None:
            screening_result = self._screen(
                screening,
                strategy,
                budget.subtract_seconds(seconds),
                ask_size,
                limit_sampling_time,
            )
            seconds += screening_result.seconds
            if screening_result.end_reason == "interrupted":
                return replace(screening_result, seconds=seconds)
            survivors = screening.select_survivors(screening_result.records)
            strategy = FixedCandidates(survivors)
            budget = replace(budget, count=max(1, len(survivors)))
        scoring_result = self._score(
            strategy, budget.subtract_seconds(seconds), ask_size, limit_sampling_time
        )
        return replace(scoring_result, seconds=seconds + scoring_result.seconds)

    def score_pool(self, archs: Sequence[Arch]) -> Iterator[list[Record]]:
        """Score a pool for a strategy that has one.

        Args:
            archs: The pool, or the architectures that were added to it.

        Yields:
            The records of one architecture after the other.
        """
        pool_proxies = expand_aggregates(self._plan.pool_proxies)
        evaluator = self._make_evaluator(pool_proxies, self._init)
        total = self._pool_done + len(archs)
        evaluate = self._store_under_search_key(self._add_aggregates(evaluator))
        with closing(evaluate(archs)) as evaluations:
            for records in evaluations:
                self._pool_done += 1
                if self._on_progress:
                    progress = Progress(
                        "scoring the pool",
                        self._pool_done,
                        total,
                        self._pool_measured + evaluator.measured_count,
                        self._executor.workers,
                        records,
                    )
                    self._on_progress(progress)
                yield records
        self._pool_measured += evaluator.measured_count

    def _measure_reference(
        self, archs: Sequence[Arch], budget: Budget, ask_size: int
    ) -> DriverResult:
        """Score the reference sample and fit the aggregates that compare candidates with it.

        The first seed is enough, since candidates are compared with the distribution of scores. The
        records are stored but not listed under the search key: a reference architecture is a
        candidate only if the strategy proposes it.
        """
        aggregates = self._plan.aggregates_with_reference
        seconds = None
        if budget.seconds is not None:
            # The other half is for the candidates. If the time is too short, the aggregates are
            # fitted to a smaller reference sample.
            seconds = budget.seconds / 2
        evaluator = self._make_evaluator(expand_aggregates(aggregates), self._init)
        evaluator.batches = self._batches.keep_first_seed()
        result = run_strategy(
            FixedCandidates(archs),
            evaluator,
            Budget(len(archs), seconds),
            # Nothing is ranked here, so no architecture needs a fitness.
            lambda records: None,
            self._make_callback(evaluator),
            ask_size,
            stage=REFERENCE_STAGE,
        )
        if result.end_reason != "interrupted":
            for aggregate in aggregates:
                self.fitted_aggregates.append(FittedAggregate.fit(aggregate, result.records))
            if self._on_progress is not None:
                scored_archs = {record.arch for record in result.records}
                remark = self._describe_agreement()
                end_reason = ""
                if len(scored_archs) < len(archs):
                    end_reason = result.end_reason
                if end_reason == "time":
                    remark = (
                        "The time was too short for the whole reference sample: "
                        f"{len(scored_archs)} of {len(archs)} networks were scored. {remark}"
                    )
                progress = Progress(
                    REFERENCE_STAGE,
                    len(scored_archs),
                    len(archs),
                    evaluator.measured_count,
                    self._executor.workers,
                    remark=remark,
                    end_reason=end_reason,
                )
                self._on_progress(progress)
        return result

    def _describe_agreement(self) -> str:
        """Describe how far the members of the aggregates agree."""
        descriptions = []
        for fitted in self.fitted_aggregates:
            # Advice follows with the result, because it depends on how the search ends.
            descriptions.append(describe_consensus(fitted.describe(), advice=""))
        return " ".join(descriptions)

    def _screen(
        self,
        screening: Screening,
        strategy: Strategy,
        budget: Budget,
        ask_size: int,
        limit_sampling_time: Callable[[float], None] | None,
    ) -> DriverResult:
        """Score all candidates with the cheap proxies."""
        evaluator = self._make_evaluator(screening.proxies, FRESH)
        return run_strategy(
            strategy,
            self._store_under_search_key(evaluator),
            # Cheap scores do not say whether the final ranking is stable, so they need no fitness.
            replace(budget, stable=None),
            lambda records: None,
            self._make_callback(evaluator),
            ask_size,
            stage="screening",
            limit_sampling_time=limit_sampling_time,
        )

    def _score(
        self,
        strategy: Strategy,
        budget: Budget,
        ask_size: int,
        limit_sampling_time: Callable[[float], None] | None,
    ) -> DriverResult:
        """Score the proposed architectures with all proxies, and validate them."""
        proxy_evaluator = self._make_evaluator(self._plan.proxies, self._init)
        evaluator = self._add_aggregates(proxy_evaluator)
        stage = "scoring"
        validation = self._plan.validation
        if validation is not None:
            stage = "validating"
            task = self._batches.source.task
            first_seed = self._batches.seeds[0]
            evaluator = validation.extend_evaluator(evaluator, task, first_seed, self._store)
        return run_strategy(
            strategy,
            self._store_under_search_key(evaluator),
            budget,
            self._plan.fitness,
            self._make_callback(proxy_evaluator),
            ask_size,
            stage=stage,
            limit_sampling_time=limit_sampling_time,
        )

    def _make_evaluator(self, proxies: Sequence[Proxy], init: str) -> ProxyEvaluator:
        return ProxyEvaluator(
            self._batches,
            proxies,
            self._executor,
            self._compute.device,
            self._store,
            init,
            self._space_code,
            self._compute.effective_networks_per_batch,
        )

    def _add_aggregates(self, evaluator: Evaluator) -> Evaluator:
        """Return an evaluator that also computes and stores the aggregates with a reference."""
        if not self.fitted_aggregates:
            return evaluator

        def evaluate(archs: Sequence[Arch]) -> Generator[list[Record]]:
            with closing(evaluator(archs)) as evaluations:
                for records in evaluations:
                    combined: list[Record] = []
                    for fitted in self.fitted_aggregates:
                        combined += fitted.compute_records(records)
                    self._store.add(combined)
                    yield combined + records

        return evaluate

    def _store_under_search_key(self, evaluator: Evaluator) -> Evaluator:
        """Return an evaluator that also lists the records under the search key in the store.

        Workers may be ahead when a search ends. Records that the search did not wait for are stored
        but not listed.
        """

        def evaluate(archs: Sequence[Arch]) -> Generator[list[Record]]:
            with closing(evaluator(archs)) as evaluations:
                for records in evaluations:
                    self._store.add_to_search(self._search_key, records)
                    yield records

        return evaluate

    def _make_callback(self, evaluator: ProxyEvaluator) -> ProgressCallback | None:
        """Return a callback that adds the numbers of measured networks and workers to an event."""
        on_progress = self._on_progress
        if on_progress is None:
            return None

        def report_progress(progress: Progress) -> None:
            workers = self._executor.workers
            on_progress(replace(progress, measured=evaluator.measured_count, workers=workers))

        return report_progress
