"""Studies: questions whose answer is a table. `bench` asks how far proxies can be trusted on a benchmark, `calibrate`
asks it on a space of your own."""

from untrained.studies.bench import bench as bench
from untrained.studies.calibrate import calibrate as calibrate
from untrained.studies.rank import Ranked as Ranked
from untrained.studies.rank import rank as rank
