"""Files and commands of a user, and the interface of the command line."""

NONE = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"
SKIP = NONE.replace("none", "skip_connect")
# The file `mine.py` of the user: a space, proxies and factories, some of them broken.
USER_FILE = """
    from torch import nn
    import untrained

    @untrained.space(task=untrained.Task("noise", (3, 8, 8), 4))
    def mynet(choose, task):
        width = choose("width", (2, 3, 4))
        return nn.Sequential(nn.Conv2d(3, width, 3), nn.Tanh(), nn.Flatten(), nn.Linear(width * 36, task.num_classes))

    @untrained.proxy(higher_is_better=False)
    def spread(probe, times=1, plus=0):
        \"\"\"Range of the outputs.\"\"\"
        return times * float(probe.outputs.max() - probe.outputs.min()) + plus

    @untrained.proxy()
    def broken(probe):
        return proob.outputs

    def make():
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))

    def boom():
        raise ValueError("no weights here")

    def stop():
        raise KeyboardInterrupt

    class Fussy(nn.Module):
        def forward(self, x):
            raise ValueError("[/bold] wants [batch, channels]")

    @untrained.space
    def faulty(choose, task):
        return nn.Linear(choose("width", (2, 3)), 1 / 0)
"""
# A file that prints when it is imported and when its factory is called.
PRINTING_FILE = "print('loading')\nfrom mine import make as quiet\ndef make():\n    print('making')\n    return quiet()\n"
CommandResult = tuple[int, str, str]  # exit code, standard output, error stream


def read_usage_error(result: CommandResult) -> str:
    """Check that a command was refused in one line, and return that line."""
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


# Arguments and options of every command.
COMMANDS = {
    "search": "--space --proxy --strategy --budget --time --effort --stable --top --screen --keep --also --validate --warm-up "
    "--confirm --no-confirm --export --recipe --refit --max-params --min-params --max-flops --max-memory --max-latency "
    "--latency-table --data --label --task --test --input-size "
    "--seed --seeds --device --workers --networks-per-batch --ray --time-limit --run --data-root --json",
    "score": "networks --rank --proxy --space --input-shape --classes --data --label --task --warm-up --seeds "
    "--device --data-root --json",
    "bench": "--space --table --dataset --proxy --failures --samples --seeds --benchmark --metric --scores --data --warm-up "
    "--seed --device --workers --networks-per-batch --ray --time-limit --run --input-size --data-root --json",
    "calibrate": "--space --data --label --task --proxy --trainings --epochs --samples --seed --device --workers --ray "
    "--time-limit --run --data-root --json",
    "reproduce": "experiment --samples --seeds --batch --device --workers --ray --time-limit --run --data-root "
    "--failures --scores --only-recorded --store --json",
    "train": "network --data --label --task --test --recipe --refit --space --epochs --patience --time --input-shape --seed "
    "--device --run --tensorboard --data-root --json",
    "export": "network --out --space --weights --data --label --task --input-shape --classes --data-root --json",
    "latency bundle": "--space --run --count --seed --max-params --min-params --max-flops --max-memory "
    "--data --label --task --input-size --data-root --out --json",
    "data import": "name path --data-root --json",
    "data card": "name --label --task --input-size --data-root --json",
    "list": "kind --measure --json",
    "doctor": "--data-root --json",
    "report": "folder --serve --port --json",
    "store info": "store --json",
    "store export": "store out --as --json",
    "store merge": "store others --json",
}


# Keys that every record has in a JSON document.
RECORD_KEYS = {
    "arch",
    "proxy",
    "value",
    "error",
    "seed",
    "space",
    "measure",
    "task",
    "data",
    "build_seconds",
}


# A search that takes a moment.
SEARCH = (
    "search",
    "--space",
    "./mine.py:mynet",
    "--data",
    "noise",
    "--budget",
    "3",
    "--run",
    "run",
)
