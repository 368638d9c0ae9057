"""The engine: Archs in, Records out, nothing lost on the way. It knows nothing of how architectures are found."""

from untrained.engine.evaluate import Evaluator as Evaluator
from untrained.engine.evaluate import ProxyEvaluator as ProxyEvaluator
from untrained.engine.evaluate import Samples as Samples
from untrained.engine.executor import Cost as Cost
from untrained.engine.hire import check_workers as check_workers
from untrained.engine.hire import hired as hired
from untrained.engine.job import job_for as job_for
from untrained.engine.measure import Examiner as Examiner
from untrained.engine.measure import Job as Job
from untrained.engine.score import score as score
from untrained.engine.store import Store as Store
