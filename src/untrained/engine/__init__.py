"""The engine turns architectures into records. Strategies choose the architectures."""

from untrained.engine.evaluator import Evaluator as Evaluator
from untrained.engine.evaluator import ProxyEvaluator as ProxyEvaluator
from untrained.engine.evaluator import make_inline_evaluator as make_inline_evaluator
from untrained.engine.executors.base import WorkerCost as WorkerCost
from untrained.engine.executors.opening import open_executor as open_executor
from untrained.engine.seed_batches import SeedBatches as SeedBatches
from untrained.engine.worker import Worker as Worker
from untrained.engine.worker_setup import WeightSource as WeightSource
from untrained.engine.worker_setup import WorkerSetup as WorkerSetup
from untrained.engine.worker_setup import make_worker_setup as make_worker_setup
