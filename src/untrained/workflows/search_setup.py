"""Load and check everything that a search needs, before any work begins or anything is written."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from untrained.config import DEFAULT_SPACE, Limits, SearchConfig
from untrained.data import DataSource, load_data, set_input_size
from untrained.data.registry import is_table_name
from untrained.data.samples import DATASET_NAME, Samples, make_samples_source
from untrained.engine import SeedBatches
from untrained.engine.devices import parse_device_name
from untrained.errors import UsageError
from untrained.progress import ProgressCallback
from untrained.proxies import Proxy, load_proxy
from untrained.runs.folder import PICTURE_SOURCES
from untrained.seeds import make_generator
from untrained.spaces import Space, fingerprint_space, load_space
from untrained.strategies.base import NewArchSampler, Strategy, StrategyInputs
from untrained.strategies.budget import Budget
from untrained.strategies.known_designs import KnownDesignsStrategy
from untrained.strategies.limits import ConstrainedSpace
from untrained.strategies.parsing import StrategySpec
from untrained.strategies.screening import Screening
from untrained.strategies.search_limits import SearchLimits
from untrained.training.warm_up import WarmUp
from untrained.types import Arch
from untrained.workflows.arguments import check_proxy_argument, check_space_argument
from untrained.workflows.calibrate import is_auto, read_recommended_proxy
from untrained.workflows.scoring_plan import ScoringPlan, make_scoring_plan
from untrained.workflows.search_checks import (
    check_data,
    check_plan,
    check_strategy,
    choose_proxy,
)
from untrained.workflows.search_stages import SearchStages
from untrained.workflows.validation import Validation

# The default space for tables, and for those in which all columns are numbers.
TABLE_SPACE = "nasrec_small"
NUMBERS_SPACE = "mlp"
# Sampling the reference takes at most this fraction of the time for scoring.
MAX_REFERENCE_SHARE = 0.25


@dataclass(frozen=True)
class SearchSetup:
    """Everything that a search needs.

    Attributes:
        config: The configuration of the search, with defaults and names resolved.
        space: The space.
        named_space: What worker processes load the space from: its name, or the space itself if
            the user passed an object.
        source: The data.
        plan: Which proxies score what.
        batches: The samples that networks are measured on, for each seed.
        limits: Limits on size and latency.
        warm_up: The training before networks are scored, if there is one.
        strategy_spec: Name and options of the strategy.
        strategy: The strategy.
        stages: Scores what the strategy proposes.
        budget: When to stop.
        on_progress: Called after every architecture and every step.
    """

    config: SearchConfig
    space: Space
    named_space: str | Space
    source: DataSource
    plan: ScoringPlan
    batches: SeedBatches
    limits: SearchLimits
    warm_up: WarmUp | None
    strategy_spec: StrategySpec
    strategy: Strategy
    stages: SearchStages
    budget: Budget
    on_progress: ProgressCallback | None

    @property
    def reference_size(self) -> int:
        """Number of networks that aggregates such as `consensus` compare candidates with."""
        aggregates = self.plan.aggregates_with_reference
        return max((aggregate.reference_size for aggregate in aggregates), default=0)

    @property
    def known_designs(self) -> dict[str, str]:
        """Names of the known designs that the strategy has proposed, by architecture."""
        if not isinstance(self.strategy, KnownDesignsStrategy):
            return {}
        return {str(arch): name for arch, name in self.strategy.designs.items()}

    def sample_reference(self) -> list[Arch]:
        """Sample the architectures that aggregates such as `consensus` compare candidates with.

        They satisfy the size limits, because percentiles among far larger networks would not
        distinguish candidates. They are the first proposals of random search, so a random search
        needs no extra measurements. With a time limit, sampling stops after a quarter of the
        scoring time, even if the sample is then smaller.
        """
        if self.reference_size == 0:
            return []
        rng = make_generator("search", "random", self.space.name, self.config.seed)
        size_space = self.limits.make_size_space()
        if self.budget.seconds is not None:
            size_space.limit_sampling_time(MAX_REFERENCE_SHARE * self.budget.seconds)
        return NewArchSampler(size_space).sample_new(self.reference_size, rng)


def prepare_search(
    config: SearchConfig,
    on_progress: ProgressCallback | None = None,
    *,
    space: Space | None = None,
    proxy: Proxy | None = None,
    samples: Samples | None = None,
    source: DataSource | None = None,
    on_data: Callable[[DataSource], None] | None = None,
    scoring_seconds: float | None = None,
) -> SearchSetup:
    """Load space, data and proxies, and make the strategy. Nothing is written.

    Args:
        config: What the user asks for.
        on_progress: Called after every architecture and every step.
        space: The space itself, if it cannot be loaded by the name in `config`.
        proxy: The proxy itself, if it cannot be loaded by the name in `config`.
        samples: The data, if they are objects in Python that nothing is trained on.
        source: The data, if they are loaded already.
        on_data: Called with the data once they are loaded.
        scoring_seconds: Longest duration of scoring; None for no limit.

    Raises:
        UsageError: A name is unknown, or settings contradict each other.
    """
    device = parse_device_name(config.compute.device)
    compute = replace(config.compute, device=device)
    check_proxy_argument(config.proxy)
    _check_latency_device(config)
    strategy_spec = StrategySpec.parse(config.strategy)
    check_strategy(strategy_spec, config)
    is_default_space = config.space == DEFAULT_SPACE
    if is_default_space:
        if proxy is None and not is_auto(config.proxy):
            # Choosing a space may read a large table. Report a wrong name before that.
            load_proxy(config.proxy)
        config = replace(config, space=_choose_default_space(config, samples, source))
    named_space: str | Space = config.space
    if space is not None:
        named_space = space
    check_space_argument(named_space)
    loaded_space = load_space(named_space)
    if is_auto(config.proxy):
        recommended = read_recommended_proxy(config.space, config.data, config.proxy)
        config = replace(config, proxy=recommended)
    budget = Budget(config.budget, scoring_seconds, config.stable, config.top)
    plan = _plan_scoring(config, strategy_spec, proxy or config.proxy, budget)
    has_named_data = samples is None and source is None
    if is_default_space and config.input_size is None and has_named_data:
        config = replace(config, input_size=_propose_input_size(config, loaded_space))
    source = _load_source(config, loaded_space, samples, source, on_data)
    warm_up = None
    if config.warm_up:
        warm_up = WarmUp.parse(config.warm_up, source)
    space_code = fingerprint_space(named_space)
    limits = SearchLimits(
        loaded_space, source.task, config.limit_texts, space_code, config.latency_table
    )
    seeds = range(config.seed, config.seed + config.seeds)
    batches = SeedBatches.for_proxies(source, plan.all_proxies, seeds)

    stages = SearchStages(plan, batches, compute, space_code, on_progress)
    inputs = StrategyInputs(
        source=source,
        device=device,
        step_log=stages.step_log,
        score_pool=stages.score_pool,
        pool_fitness=plan.pool_fitness,
        other_objectives=plan.list_objectives(),
    )
    rng = make_generator("search", strategy_spec.seed_name, loaded_space.name, config.seed)
    strategy = strategy_spec.make(limits.space, rng, plan.fitness, inputs)
    is_budget_unset = budget == Budget(top=config.top)
    if is_budget_unset:
        # The user set no budget, time or stability. Some strategies have a budget of their own.
        budget = replace(budget, count=strategy.default_budget)
    if config.confirm and strategy_spec.accepts_extra_proposals:
        strategy = _add_known_designs(strategy, limits.space, budget)

    config = replace(
        config,
        proxy=plan.proxy_name,
        strategy=strategy_spec.label,
        budget=budget.total,
        compute=compute,
    )
    return SearchSetup(
        config=config,
        space=loaded_space,
        named_space=named_space,
        source=source,
        plan=plan,
        batches=batches,
        limits=limits,
        warm_up=warm_up,
        strategy_spec=strategy_spec,
        strategy=strategy,
        stages=stages,
        budget=budget,
        on_progress=on_progress,
    )


def choose_space(data: str) -> str:
    """Return the name of the default space for some data.

    This is `convnet`, for pictures of any size, if the pictures are the user's own, `nasrec_small`
    for tables, and `nasbench201` for everything else. Whether all columns of a table are numbers is
    known only after the table is read; `_choose_default_space` then returns `mlp` instead.

    Args:
        data: Name of the data, such as "folder:./photos".
    """
    kind = data.partition(":")[0]
    if kind in PICTURE_SOURCES:
        return "convnet"
    if is_table_name(data):
        return TABLE_SPACE
    return "nasbench201"


def _add_known_designs(strategy: Strategy, space: ConstrainedSpace, budget: Budget) -> Strategy:
    """Add the known designs of a space to the candidates, for at most half of the budget."""
    if space.space.hooks.known_designs is None:
        return strategy
    max_designs = None
    if budget.total is not None:
        max_designs = budget.total // 2
    return KnownDesignsStrategy(strategy, space, max_designs)


def _check_latency_device(config: SearchConfig) -> None:
    """Refuse a latency limit for a device that does not exist: `--max-latency 5ms@gpu`."""
    max_latency = Limits.parse(**config.limit_texts).max_latency
    if max_latency is not None:
        parse_device_name(max_latency.device)


def _plan_scoring(
    config: SearchConfig, strategy: StrategySpec, proxy: str | Proxy, budget: Budget
) -> ScoringPlan:
    """Load the proxies, and refuse what does not suit the strategy or the budget."""
    proxy = choose_proxy(strategy, proxy)
    validation = None
    if config.validate:
        validation = Validation.parse(config.validate, config.space, config.data_root)
    screening = None
    if config.screen:
        screening = Screening.parse(config.screen, config.keep, budget)
    plan = make_scoring_plan(proxy, config.also, screening, validation, strategy.pool_proxy_names)
    check_plan(strategy, plan, budget)
    return plan


def _choose_default_space(
    config: SearchConfig, samples: Samples | None, source: DataSource | None
) -> str:
    """Return the name of the default space; `mlp` for a table whose columns are all numbers."""
    space_of_arrays = _choose_space_of_arrays(config, samples, source)
    if space_of_arrays:
        return space_of_arrays
    space_name = choose_space(config.data)
    if space_name != TABLE_SPACE:
        return space_name
    if source is None:
        source = load_data(config.data, load_space(space_name).task, config.data_root)
    if not source.task.vocabularies:
        return NUMBERS_SPACE
    return space_name


def _choose_space_of_arrays(
    config: SearchConfig, samples: Samples | None, source: DataSource | None
) -> str:
    """Return the name of the default space for arrays; empty if the name of the data decides."""
    if samples is not None:
        shape = tuple(samples.read_first_input().shape[1:])
    elif source is not None and config.data == DATASET_NAME:
        shape = source.task.input_shape
    elif config.data.startswith("npz:"):
        image_task = load_space("convnet").task
        shape = load_data(config.data, image_task, config.data_root).task.input_shape
    else:
        return ""
    if len(shape) in (1, 2):
        return NUMBERS_SPACE
    # Images that networks are trained on are treated like the user's pictures in files.
    return "convnet" if source is not None else ""


def _propose_input_size(config: SearchConfig, space: Space) -> int | None:
    """Return the side of images that suits the data; None for the default size of the space."""
    source = load_data(config.data, space.task, config.data_root)
    if source.propose_side is None:
        return None
    side = source.propose_side()
    if side == space.task.input_shape[-1]:
        return None
    return side


def _load_source(
    config: SearchConfig,
    space: Space,
    samples: Samples | None,
    source: DataSource | None,
    on_data: Callable[[DataSource], None] | None,
) -> DataSource:
    """Load the data, and refuse data that networks of the space do not accept."""
    task = set_input_size(space.task, config.input_size)
    if samples is not None:
        source = make_samples_source(samples, task)
    elif source is None:
        source = load_data(config.data, task, config.data_root)
    shape = source.task.input_shape
    if config.input_size is not None and shape != task.input_shape:
        raise UsageError(
            f"the samples have the shape {shape} and are not resized; leave out --input-size "
            f"{config.input_size}"
        )
    check_data(space, source.task)
    if on_data is not None:
        on_data(source)
    if config.confirm:
        # Reading `parts` splits the data. If they cannot be split for a training, this raises a
        # UsageError now and not after the search.
        _ = source.parts
    return source
