"""The engine: Archs in, Records out, nothing lost on the way. It knows nothing of how architectures are found."""

from untrained.engine.evaluate import Evaluator as Evaluator
from untrained.engine.evaluate import ProxyEvaluator as ProxyEvaluator
from untrained.engine.score import score as score
from untrained.engine.store import Store as Store
