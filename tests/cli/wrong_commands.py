"""Wrong commands and a part of the message that refuses each of them.

tests/test_wrong_calls.py has the same for Python. ARCH stands for an architecture of NAS-Bench-201. The
files are `BROKEN_FILES` and `mine.py` of the helpers.
"""

from textwrap import dedent

# Networks and files that have a defect.
BROKEN_FILES = {
    "odd.py": dedent(
        """
        import sys
        import torch
        from torch import nn

        class Answers(nn.Module):
            def __init__(self, answer):
                super().__init__()
                self.layer = nn.Linear(3 * 8 * 8, 10)
                self.answer = answer

            def forward(self, x):
                return self.answer(self.layer(x.flatten(1)))

        def plain():
            return Answers(lambda out: out)

        def answers_dict():
            return Answers(lambda out: {"classes": out})

        def answers_nothing():
            return Answers(lambda out: None)

        def answers_text():
            return Answers(lambda out: "cat")

        def answers_complex():
            return Answers(lambda out: torch.complex(out, out))

        def exits_in_forward():
            return Answers(lambda out: sys.exit(4))

        def raises_key_error():
            return Answers(lambda out: {}["absent"])

        def on_meta():
            with torch.device("meta"):
                return plain()

        def scripted():
            return torch.jit.script(nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 10)))

        def part_scripted():
            return nn.Sequential(nn.Flatten(), torch.jit.script(nn.Linear(3 * 8 * 8, 10)))

        def exits():
            sys.exit(3)

        def text():
            return "a network"

        number = 5
        """
    ),
    "exits.py": "import sys\nsys.exit(7)\n",
    "empty.csv": "",
    "clicks.csv": "click,user,price\n" + "".join(f"{i % 2},u{i % 3},{i}\n" for i in range(40)),
    "no_header.csv": "1,2,3\n4,5,6\n",
    "twice.csv": "click,user,user\n0,1,2\n1,2,3\n",
    "results.csv": "arch,accuracy,remark\nwidth=2,1,a\nwidth=3,2,b\nwidth=4,3,c\n",
    "results_unknown.csv": "arch,accuracy\nwidth=2,1\nwidth=9,2\n",
    "results_nan.csv": "arch,accuracy\nwidth=2,1\nwidth=3,nan\nwidth=4,3\n",
    "results_infinite.csv": "arch,accuracy\nwidth=2,1\nwidth=3,inf\nwidth=4,3\n",
    "results_few.csv": "arch,accuracy\nwidth=2,1\nwidth=2,3\nwidth=4,3\n",
    "results_text.csv": "arch,remark\nwidth=2,a\nwidth=3,b\nwidth=4,c\n",
    "notes.txt": "nothing\n",
}

NAMES = {
    "serch": "No such command 'serch'",
    "--nothing": "No such option",
    "list proxys": "no kind of entry is called 'proxys'; did you mean proxies or papers?",
    "list spaces proxies": "unexpected extra argument",
    "doctor torch": "unexpected extra argument",
    "doctr": "No such command 'doctr'",
    "score": "Missing argument",
    "score ARCH --proxy dexter": "no proxy is called 'dexter'; did you mean dextr",
    "score ARCH --proxy zzz": "no proxy is called 'zzz'; available: az_expressivity, az_nas",
    "score ARCH --proxy ,": "at least one proxy, such as dextr",
    "score ARCH --proxy ''": "at least one proxy, such as dextr",
    "score ARCH --proxy Dextr": "no proxy is called 'Dextr'; did you mean dextr",
    "score ARCH --proxy ./mine.py:make": "is not a proxy; put @untrained.proxy(...) above the function",
    "score ARCH --proxy ./mine.py:spred": "is called 'spred'; did you mean spread?",
    "score ARCH --proxy ./absent.py:spread": "there is no file absent.py",
    "score ARCH --proxy absent.module:spread": "there is no module absent.module to import",
    "score ARCH --proxy te_nas": "te_nas compares networks with each other; give at least two",
    "score ARCH --space nasbench": "no space is called 'nasbench'; did you mean nasbench201 or nasbench101",
    "score ARCH --space ''": "a name is missing; `untrained list` shows the available names",
    "score ARCH --data cifar": "no data set is called 'cifar'; did you mean cifar10 or cifar100?",
    "score ARCH --data Digits": "no data set is called 'Digits'; did you mean digits",
    "score ./no.py:net": "there is no file no.py; give the path as you would to python",
    "score ./mine.py:mke": "is called 'mke'; did you mean make or mynet?",
    "score ./mine.py": "./mine.py is a file; name a factory in it, ./mine.py:make_net, or add --rank for all of them",
    "score ./mine.py:": "is incomplete",
    "score ./yours.py:make --input-shape 3x8x8": "there is no file yours.py",
    "score runs/absent": "runs/absent is neither a run folder nor an architecture; give",
    "score width=9 --space ./mine.py:mynet": "'width' is 9, but it can only be one of 2, 3, 4",
    "score depth=2 --space ./mine.py:mynet": "has no value for 'width'",
    "score width=2,width=2 --space ./mine.py:mynet": "has 'width' twice; keep one of them",
    "score --rank ./notes.txt": "./notes.txt is a path, not an architecture",
    "score --rank ./exits.py": "called sys.exit(7) while it was loaded",
    "score timm:no_such_network": "timm",
    "search --space nasbench202": "no space is called 'nasbench202'; did you mean nasbench201 or ",
    "search --space ./mine.py:make": "is not a space; put @untrained.space above the function",
    "search --space ./mine.py": "'./mine.py' is incomplete; name the space in it: ./mine.py:NAME",
    "search --proxy ./mine.py": "'./mine.py' is incomplete; name the proxy in it: ./mine.py:NAME",
    "search --proxy dextre": "no proxy is called 'dextre'; did you mean dextr",
    "search --proxy auto": "there is none at runs/calibrate-nasbench201-digits: `untrained calibrate` makes one",
    "search --strategy randm": "no strategy is called 'randm'; did you mean random?",
    "search --strategy ''": "a name is missing",
    "search --data nois": "no data set is called 'nois'; did you mean noise or mnist?",
    "search --data ''": "no data set is called ''",
    "bench --benchmark nasbench": "no benchmark is called 'nasbench'",
    "bench --proxy dexter": "no proxy is called 'dexter'; did you mean dextr",
    "bench --space nasbench202": "nasbench202",
    "bench --space ./mine.py:mynet": "there is no table of known results for ./mine.py:mynet",
    "bench --space ./mine.py:mynet --table absent.csv": "there is no file absent.csv",
    "bench --space ./mine.py:mynet --table .": ". is a folder; name a file in it",
    "bench --space ./mine.py:mynet --table empty.csv": "empty.csv is empty; a table has a header and rows",
    "bench --space ./mine.py:mynet --table clicks.csv": "clicks.csv has no column 'arch' with architectures; its "
    "columns are click, user, price",
    "bench --space ./mine.py:mynet --table results_unknown.csv": "line 3 of results_unknown.csv: width=9 is not in "
    "./mine.py:mynet: 'width' is 9, but it can only be one of 2, 3, 4",
    "bench --space ./mine.py:mynet --table results_nan.csv": "line 3 of results_nan.csv: accuracy is missing or NaN",
    "bench --space ./mine.py:mynet --table results_infinite.csv": "line 3 of results_infinite.csv: accuracy is infinite",
    "bench --space ./mine.py:mynet --table results_few.csv": "results_few.csv has 2 architectures; a comparison needs",
    "bench --space ./mine.py:mynet --table results_text.csv": "results_text.csv has no column of numbers; add one",
    "bench --space ./mine.py:mynet --table results.csv --metric acuracy": "no metric of results.csv is called 'acuracy'; "
    "did you mean accuracy?",
    "bench --space ./mine.py:mynet --table results.csv --metric remark": "line 2 of results.csv: remark is 'a'; write a",
    "bench --space ./mine.py:mynet --table results.csv --benchmark nasbench201": "--table and --benchmark exclude",
    "bench --table results.csv": "line 2 of results.csv: width=2 is not in convnet: ",
    "calibrate --space nasbench202": "no space is called 'nasbench202'",
    "calibrate --proxy dexter": "no proxy is called 'dexter'; did you mean dextr",
    "calibrate --data nois": "no data set is called 'nois'",
    "reproduce dextr-table-99": "dextr-table",
    "train ARCH --data digits --recipe quik": "no recipe is called 'quik'; did you mean quick",
    "train ARCH --data digts": "no data set is called 'digts'; did you mean digits",
    "train ARCH --space nasbench --data digits": "no space is called 'nasbench'",
    "data import nasbench notes.txt": "nasbench",
    "data card digits": "digits has no card; only your own data have one, such as folder:./photos",
    "data nothing": "No such command 'nothing'",
    "store nothing": "No such command 'nothing'",
}

OPTIONS = {
    "search --colour red": "No such option",
    "search --budget many": "Invalid value for '--budget'",
    "search --budget 1.5": "Invalid value for '--budget'",
    "search --budget nan": "Invalid value for '--budget'",
    "search --budget 0": "Invalid value for '--budget'",
    "search --budget -3": "Invalid value for '--budget'",
    "search --budget": "requires an argument",
    "search --budget 100000000000000000000": "budget is 100000000000000000000; write a whole number from 1 to",
    "search --seeds 0": "Invalid value for '--seeds'",
    "search --seeds 100000000000000000000": "seeds is 100000000000000000000; write a whole number from 1 to",
    "search --seed -1": "Invalid value for '--seed'",
    "search --seed x": "Invalid value for '--seed'",
    "search --seed 18446744073709551616": "seed is 18446744073709551616; write a whole number from 0 to",
    "search --seed 9223372036854775808": "seed is 9223372036854775808; write a whole number from 0 to",
    "search --seed 9223372036854775807 --seeds 2": "seed is 9223372036854775807; write a whole number from 0 to",
    "search --workers 0": "--workers must be a whole number of at least 1",
    "search --workers 100000000": "is too many for this machine",
    "search --stable 0": "Invalid value for '--stable'",
    "search --top 0": "Invalid value for '--top'",
    "search --stable 5 --top 100000000000000000000": "top is 100000000000000000000",
    "search --networks-per-batch 0": "Invalid value for '--networks-per-batch'",
    "search --networks-per-batch 100000000000000000000": "networks_per_batch is 100000000000000000000",
    "search --confirm 0": "Invalid value for '--confirm'",
    "search --confirm 100000000000000000000": "confirm is 100000000000000000000",
    "search --confirm 3 --no-confirm": "--confirm 3 and --no-confirm contradict each other: leave out one of them",
    "search --input-size 0": "Invalid value for '--input-size'",
    "search --input-size big": "Invalid value for '--input-size'",
    "search --input-size 100000000000000000000": "input_size is 100000000000000000000",
    "search --time soon": "invalid duration 'soon'; write 90s, 10m or 1h30m",
    "search --time ''": "invalid duration ''; write 90s, 10m or 1h30m",
    "search --time 5": "5 in the duration '5' has no unit; write 5m for minutes or 5s for seconds",
    "search --time 0": "a duration must be more than 0 seconds, not '0'",
    "search --time -5s": "invalid duration '-5s'",
    "search --time 1e400": "no unit of time is called 'e'",
    "search --time-limit 3y": "no unit of time is called 'y'",
    "search --time-limit ''": "invalid duration ''",
    "search --time-limit never": "invalid duration 'never'",
    "search --recipe quick": "--recipe quick has no effect without --export: add --export model, or leave out --recipe",
    "search --keep 10%": "--keep 10% has no effect without --screen: add --screen params,naswot, or leave out --keep",
    "search --top 10": "--top 10 has no effect without --stable: add --stable 200, or leave out --top",
    "search --label click": "--label click names a column of a table: add --data csv:PATH",
    "search --label click --data digits": "--label click names a column of a table, and digits is not a table",
    "score ARCH --seeds 0": "Invalid value for '--seeds'",
    "score ARCH --seeds two": "Invalid value for '--seeds'",
    "score ARCH --label click": "--label click names a column of a table",
    "score ./odd.py:plain --input-shape 3x8x8 --classes 0": "Invalid value for '--classes'",
    "score ./odd.py:plain --input-shape 3x8x8 --classes 100000000000000000000000":
        "num_classes is 100000000000000000000000; write a whole number from 1 to",
    "score ARCH --classes 100000000000000000000000": "num_classes is 100000000000000000000000",
    "score ./odd.py:plain --input-shape 3x8x8 --data digits --classes 7": "leave out --classes 7",
    "bench --samples 2": "Invalid value for '--samples'",
    "bench --seeds 0": "Invalid value for '--seeds'",
    "bench --seed 18446744073709551616": "seed is 18446744073709551616",
    "bench --samples 100000000000000000000": "samples is 100000000000000000000",
    "calibrate --trainings 3": "Invalid value for '--trainings'",
    "calibrate --epochs 0": "Invalid value for '--epochs'",
    "calibrate --epochs -3": "Invalid value for '--epochs'",
    "calibrate --epochs 100000000000000000000": "epochs is 100000000000000000000",
    "calibrate --samples 9": "Invalid value for '--samples'",
    "calibrate --samples 99999999999": "samples is 99999999999; write a whole number from 10 to 1,000,000",
    "calibrate --seed 18446744073709551616": "seed is 18446744073709551616",
    "reproduce dextr-table-1 --samples 2": "Invalid value for '--samples'",
    "reproduce dextr-table-1 --seeds 0": "Invalid value for '--seeds'",
    "reproduce dextr-table-1 --batch 0": "Invalid value for '--batch'",
    "train ARCH --data digits --epochs 0": "Invalid value for '--epochs'",
    "train ARCH --data digits --epochs 1.5": "Invalid value for '--epochs'",
    "train ARCH --data digits --epochs 100000000000000000000": "epochs is 100000000000000000000",
    "train ARCH --data digits --patience 0": "Invalid value for '--patience'",
    "train ARCH --data digits --seed -1": "Invalid value for '--seed'",
    "train ARCH --data digits --seed 18446744073709551616": "seed is 18446744073709551616",
    "train ARCH --data digits --time soon": "invalid duration 'soon'",
    "train ARCH --data digits --label x": "--label x names a column of a table",
    "train ARCH": "name the data to train on: --data digits",
    "train": "Missing argument",
    "export ARCH": "Missing option '--out'",
    "export ARCH --out model --classes 0": "Invalid value for '--classes'",
    "export ./odd.py:plain --out model --input-shape 3x8x8 --classes 100000000000000000000000":
        "num_classes is 100000000000000000000000",
    "report": "Missing argument",
    "store info": "Missing argument",
    "store merge run": "Missing argument",
}  # fmt: skip

SHAPES = {
    "score ./mine.py:make": "the input shape of ./mine.py:make is unknown; add --input-shape, such as 3x224x224 for images",
    "score ./mine.py:make --input-shape ''": "invalid input shape ''; write channels x height x width",
    "score ./mine.py:make --input-shape 3,32,32": "invalid input shape '3,32,32'; write channels x height x width",
    "score ./mine.py:make --input-shape 3x0x32": "invalid input shape '3x0x32'",
    "score ./mine.py:make --input-shape 3x-1x32": "invalid input shape '3x-1x32'",
    "score ./mine.py:make --input-shape 3x8.5x8": "invalid input shape '3x8.5x8'",
    "score ./mine.py:make --input-shape x": "invalid input shape 'x'",
    "score ./mine.py:make --input-shape ³x32": "invalid input shape '³x32'",
    "score ./mine.py:make --input-shape 3x9999999x9999999": "do not fit into memory",
    "score ./mine.py:make --input-shape 99999999999999999999x3x3": "invalid input shape '99999999999999999999x3x3'",
    "score ./mine.py:make --input-shape 5x8x8": "fails on inputs of shape 5x8x8",
    "train ./mine.py:make --data digits --input-shape 99999999999999999999x3x3": "invalid input shape",
    "train ./mine.py:make --data digits --input-shape 3x0x3": "invalid input shape '3x0x3'",
    "train ./mine.py:make --data digits": "the input shape of ./mine.py:make is unknown",
    "train ./mine.py:make --data digits --input-shape 8": "digits holds images",
    "export ./mine.py:make --out model --input-shape 99999999999999999999x3x3": "invalid input shape",
    "export ./mine.py:make --out model": "the input shape of ./mine.py:make is unknown",
    "export ./odd.py:plain --out model --input-shape 3x9x9": "fails on inputs of shape (3, 9, 9)",
}

DEVICES = {
    "score ARCH --device gpu": "device 'gpu' cannot be used on this machine; try cpu",
    "score ARCH --device ''": "device '' cannot be used on this machine; try cpu",
    "score ARCH --device meta": "device 'meta' cannot be used on this machine; try cpu",
    "score ARCH --device cpu:7": "device 'cpu:7' cannot be used on this machine; try cpu",
    "score ARCH --device cuda:77": "device 'cuda:77' cannot be used on this machine; try cpu",
    "search --device cuda:77": "device 'cuda:77' cannot be used on this machine; try cpu",
    "search --device meta": "device 'meta' cannot be used on this machine; try cpu",
    "search --device cpu:7": "device 'cpu:7' cannot be used on this machine; try cpu",
    "search --device CPU": "device 'CPU' cannot be used on this machine; try cpu",
    "bench --device meta": "device 'meta' cannot be used on this machine; try cpu",
    "calibrate --device meta": "device 'meta' cannot be used on this machine; try cpu",
    "calibrate --device cpu:7": "device 'cpu:7' cannot be used on this machine; try cpu",
    "reproduce dextr-table-1 --device meta": "device 'meta' cannot be used on this machine; try cpu",
    "train ARCH --data digits --device meta": "device 'meta' cannot be used on this machine; try cpu",
    "train ARCH --data digits --device cpu:7": "device 'cpu:7' cannot be used on this machine; try cpu",
    "search --max-latency 5ms@meta": "device 'meta' cannot be used on this machine; try cpu",
    "search --max-latency 5ms@cpu:7": "device 'cpu:7' cannot be used on this machine; try cpu",
    "search --max-latency 5ms@gpu": "device 'gpu' cannot be used on this machine; try cpu",
}

LIMITS = {
    "search --max-params many": "--max-params cannot be 'many'; write it like 2M or 600M",
    "search --max-params ''": "--max-params cannot be ''",
    "search --max-params 0": "--max-params cannot be '0'",
    "search --max-params -1M": "--max-params cannot be '-1M'",
    "search --max-params nan": "--max-params cannot be 'nan'",
    "search --max-params inf": "--max-params cannot be 'inf'",
    "search --max-params 1e999": "--max-params cannot be '1e999'",
    "search --max-params 2Mb": "--max-params cannot be '2Mb'; write it like 2M",
    "search --max-params 300kb": "--max-params cannot be '300kb'; write it like 300k",
    "search --max-params 1k --min-params 1M": "lower --min-params or raise --max-params",
    "search --max-params 1": "none of 1000 sampled architectures satisfies all limits",
    "search --min-params lots": "--min-params cannot be 'lots'",
    "search --max-flops fast": "--max-flops cannot be 'fast'",
    "search --max-memory 3XB": "--max-memory cannot be '3XB'; write it like 1.5GB or 300MB",
    "search --max-latency 5": "--max-latency cannot be '5'; write it like 5ms",
    "search --max-latency fast": "--max-latency cannot be 'fast'",
    "search --max-latency 0ms": "--max-latency cannot be '0ms'",
    "search --max-latency 5ms@": "--max-latency cannot be '5ms@'",
    "search --latency-table pi.csv": "--latency-table pi.csv has no effect without --max-latency",
    "search --max-latency 9ms --latency-table none.csv": "none.csv",
    "latency bundle --out new --max-params few": "--max-params cannot be 'few'",
    "latency bundle --out new --space nope": "no space is called 'nope'",
    "latency bundle --out new --run nowhere": "nowhere is not a run folder",
    "latency bundle --out new --run run-1 --max-params 1M": "--run uses the limits and the data of the run",
    "latency bundle --out photos": "photos is not empty; choose another --out",
    "latency bundle --out mine.py": "mine.py is not a folder; choose another --out",
}

METHODS = {
    "score ARCH --proxy dextr(variant=fast)": "no variant 'fast'; choose from: default, published",
    "score ARCH --proxy dextr(varian=published)": "no option of dextr is called 'varian'; did you mean variant?",
    "score ARCH --proxy dextr(published)": "write options as name=value, such as dextr(variant=published)",
    "score ARCH --proxy params(x=1)": "no option of params is called 'x'; available: samples",
    "score ARCH --proxy naswot(samples=0)": "naswot(samples=0): samples must be a whole number from 1 to",
    "score ARCH --proxy naswot(samples=-1)": "naswot(samples=-1): samples must be a whole number from 1 to",
    "score ARCH --proxy naswot(samples=1.5)": "naswot(samples=1.5): samples must be a whole number from 1 to",
    "score ARCH --proxy naswot(samples=many)": "naswot(samples=many): samples must be a whole number from 1 to",
    "score ARCH --proxy naswot(samples=True)": "naswot(samples=True): samples must be a whole number from 1 to",
    "score ARCH --proxy naswot(samples=99999999999)": "naswot(samples=99999999999): samples must be a whole number from 1",
    "search --proxy naswot(samples=99999999999)": "naswot(samples=99999999999): samples must be a whole number from 1",
    "score ARCH --proxy zico(batches=0)": "zico(batches=0): batches must be a whole number from 2",
    "score ARCH --proxy zico(batches=two)": "zico(batches=two): batches must be a whole number from 2",
    "score ARCH --proxy zen(repeats=0)": "zen(repeats=0): repeats must be a whole number from 1",
    "score ARCH --proxy zen(gamma=nan)": "zen(gamma=nan): gamma must be a number",
    "score ARCH --proxy hnas(mu=high)": "hnas(mu=high): mu must be a number",
    "score ARCH --proxy dextr(": "no proxy is called 'dextr('",
    "score ARCH --space nasbench201(channels=0)": "nasbench201(channels=0): channels must be a whole number from 1",
    "search --space nasbench201(channels=0)": "nasbench201(channels=0): channels must be a whole number from 1",
    "search --space nasbench201(channels=-4)": "nasbench201(channels=-4): channels must be a whole number from 1",
    "search --space nasbench201(channels=abc)": "nasbench201(channels=abc): channels must be a whole number from 1",
    "search --space nasbench201(channels=1.5)": "nasbench201(channels=1.5): channels must be a whole number from 1",
    "search --space nasbench201(channels=True)": "nasbench201(channels=True): channels must be a whole number from 1",
    "search --space nasbench201(chanels=8)": "no option of nasbench201 is called 'chanels'; did you mean channels",
    "search --space nasbench201(8)": "write options as name=value",
    "search --space nasbench101(stacks=0)": "nasbench101(stacks=0): stacks must be a whole number from 1",
    "search --space darts(drop_path=2)": "darts(drop_path=2): drop_path must be a number from 0 to 1",
    "search --space darts(auxiliary=3)": "darts(auxiliary=3): auxiliary must be True or False",
    "search --space darts(stem=moon)": "no stem is called 'moon'",
    "search --space darts(operations=s9)": "no set of operations is called 's9'",
    "search --space nats_size(channels=8)": "no option of nats_size is called 'channels'",
    "search --strategy evolution(population=0)": "evolution(population=0): population must be at least 1",
    "search --strategy evolution(population=abc)": "evolution(population=abc): population must be a whole number",
    "search --strategy evolution(population=True)": "evolution(population=True): population must be a whole number",
    "search --strategy evolution(popul=3)": "no option of evolution is called 'popul'; did you mean population?",
    "search --strategy evolution(dies=young)": "evolution(dies=young): dies must be one of oldest, worst",
    "search --strategy local(neighbours=0)": "neighbours",
    "search --strategy random(x=1)": "no option of random is called 'x'",
    "search --strategy nsga2": "nsga2 optimises several objectives; add one or two, such as --also params",
    "search --strategy nsga2 --proxy params --also params": "params is named twice; use another --also",
    "search --strategy nsga2 --also params,params": "params is named twice; use another --also",
    "search --strategy nsga2 --also parms": "no proxy is called 'parms'; did you mean params",
    "search --strategy nsga2(crossover=nan) --also params": "crossover",
    "search --strategy hnas": "add --validate table:cifar10_val_12",
    "search --strategy best_of_pool": "add --validate table:cifar10_val_12",
    "search --validate training(epochs=1)": "--validate is for the strategies hnas and best_of_pool",
    "search --strategy best_of_pool --validate accuracy": "'accuracy' is not a validation; type --validate",
    "search --strategy best_of_pool --validate table:": "table",
    "search --strategy best_of_pool --validate training(epochs=0)": "accuracy(epochs=0): epochs must be a whole number from 1",
    "search --strategy best_of_pool --validate training(epochs=-3)": "accuracy(epochs=-3): epochs must be a whole number from 1",
    "search --strategy best_of_pool --validate training(epochs=abc)": "accuracy(epochs=abc): epochs must be a whole number from 1",
    "search --strategy best_of_pool --validate training(epochs=nan)": "accuracy(epochs=nan): epochs must be a whole number from 1",
    "search --strategy best_of_pool --validate training(epochs=1.5)": "accuracy(epochs=1.5): epochs must be a whole number from 1",
    "search --strategy best_of_pool --validate training(batch=0)": "accuracy(batch=0): batch must be a whole number from 1",
    "search --strategy best_of_pool --validate training(rate=nan)": "accuracy(rate=nan): rate must be a number from",
    "search --strategy best_of_pool --validate training(rate=0)": "accuracy(rate=0): rate must be a number from",
    "search --strategy best_of_pool --validate training(rate=-0.1)": "accuracy(rate=-0.1): rate must be a number from",
    "search --strategy best_of_pool --validate training(samples=0)": "accuracy(samples=0): samples must be a whole number",
    "search --strategy best_of_pool --validate training(epoch=3)": "is called 'epoch'; did you mean epochs",
    "search --strategy hnas --validate training(epochs=0)": "accuracy(epochs=0): epochs must be a whole number from 1",
    "search --screen te_nas": "--screen 'te_nas': name proxies that score a single network, such as params,naswot",
    "search --screen parms": "no proxy is called 'parms'; did you mean params",
    "search --screen params --keep 200%": "a share is more than 0 and at most 100%, not '200%'",
    "search --screen params --keep most": "invalid share 'most'; write 20% or 0.2",
    "search --screen params --keep 0": "a share is more than 0 and at most 100%, not '0'",
    "search --screen params --keep nan": "a share is more than 0 and at most 100%, not 'nan'",
    "search --screen params --time 5m": "--screen ranks a pool of known size; give --budget",
    "search --proxy dextr --screen dextr": "--screen and --proxy are both dextr",
    "search --screen params --strategy evolution": "use --strategy random, not evolution",
    "search --proxy az_nas --stable 5": "az_nas compares all candidates, so its ranking never becomes stable; use --budget",
    "search --proxy az_nas --strategy evolution": "use --strategy random, or another proxy",
    "search --also parms": "no proxy is called 'parms'; did you mean params",
    "search --warm-up most": "most",
    "search --warm-up 200%": "200%",
    "search --warm-up 10%(paths=all)": "a warm-up has no paths 'all'",
    "search --warm-up 10%(rate=nan)": "rate",
    "search --warm-up 10%(batch=0)": "batch",
    "search --warm-up 10% --data noise": "noise has no parts to train on",
    "train ARCH --data digits --recipe quick(epochs=0)": "at least 1 epoch",
    "train ARCH --data digits --recipe quick(epochs=2.5)": "expected a whole number",
    "train ARCH --data digits --recipe quick(rate=nan)": "rate='nan' in the recipe quick: expected a number",
    "train ARCH --data digits --recipe quick(rate=fast)": "expected a number",
    "train ARCH --data digits --recipe quick(batch=0)": "a batch of at least 1",
    "train ARCH --data digits --recipe quick(epoch=3)": "is called 'epoch'; did you mean epochs",
    "train ARCH --data digits --recipe quick(optimiser=best)": "adagrad, adamw, sgd",
    "train ARCH --data digits --recipe quick(clip=-1)": "clip=-1.0 in a recipe must be finite and at least 0",
    "search --export model --recipe quik": "no recipe is called 'quik'; did you mean quick",
    "search --export model --recipe quick(epochs=0)": "at least 1 epoch",
}

FILES = {
    "search --data digits:3": "digits takes no argument, but got '3'; write --data digits",
    "train resnet20 --data folder:./absent": "there is no folder absent; give one with one subfolder per class",
    "bench --data mine.py": "mine.py is a path; write its kind before it: csv:mine.py",
    "search --data .": ". is a path; write its kind before it: folder:.",
    "search --data mine.py": "mine.py is a path; write its kind before it: csv:mine.py",
    "search --space nasbench201 --data clicks:rows=100": "; for a table use --space nasrec_small",
    "search --data clicks:rows=1": "1 rows are too few to learn from; write clicks:rows=100 or more",
    "search --data clicks:rows=many": "clicks cannot be made with 'rows=many'",
    "calibrate --data clicks:rows=100": "clicks:rows=100 has rows of ",
    "search --space nasrec_small": "digits holds images, so the input shape must be channels x height x width, not (39,); "
    "for a network for tables use --data csv:PATH, or --data clicks to try it",
    "search --data folder:./absent": "there is no folder absent; give one with one subfolder per class",
    "search --data folder:": "name the folder: folder:PATH",
    "search --data folder:photos": "the class empty has no files",
    "search --data images:": "name the table: images:PATH.csv",
    "search --data images:absent.csv": "there is no file absent.csv",
    "search --data images:clicks.csv": "its first line must be path,label",
    "search --data npz:": "name the file: npz:PATH",
    "search --data npz:./absent.npz": "there is no file absent.npz",
    "search --data csv:": "name the file: csv:PATH",
    "search --data csv:absent.csv": "there is no file absent.csv",
    "search --data csv:empty.csv": "empty.csv is empty; a table has a header and rows",
    "search --data csv:photos": "photos is a folder; name a file in it",
    "search --data csv:no_header.csv": "the first line of no_header.csv holds numbers; it must name the columns",
    "search --data csv:twice.csv": "twice.csv has more than one column called user; rename them",
    "search --data csv:clicks.csv?label=buy": "buy",
    "search --data csv:clicks.csv?lable=click": "no option of a table is called 'lable'; did you mean label",
    "search --data csv:clicks.csv?label": "label has no value; write label=...",
    "search --data csv:clicks.csv?label=click&floor=0": "floor=0 is too small",
    "search --data csv:clicks.csv?label=click&floor=two": "floor=two is not a whole number; write it like floor=10",
    "search --data csv:clicks.csv?label=click&log=half": "no value of log is called 'half'",
    "search --data csv:clicks.csv --label buy": "buy",
    "search --data cifar10 --data-root .": "data_batch_1.bin",
    "data card csv:absent.csv": "there is no file absent.csv",
    "data card folder:./absent": "there is no folder absent",
    "data import nasbench201 absent.pickle": "absent.pickle",
    "train runs/absent --data digits": "runs/absent is neither a run folder nor an architecture; give",
    "train runs/absent": "runs/absent is neither a run folder nor an architecture; give",
    "train mine --data digits": "no run folder is called mine, and nasbench201 has no such architecture; give",
    "train rum-1 --data digits": "no run folder is called rum-1, and nasbench201 has no such architecture; "
    "did you mean run-1?",
    "export rum-1 --out model": "no run folder is called rum-1, and nasbench201 has no such architecture; "
    "did you mean run-1?",
    "export runs/absent --out model": "runs/absent is neither a run folder nor an architecture; give",
    "export photos --out model": "photos contains neither a search nor a training",
    "export ARCH --out .": "already exists and is not an earlier export: choose another folder",
    "export ARCH --out model --weights absent.pt": "there is no file absent.pt; --weights takes a state dict",
    "export ARCH --out model --weights notes.txt": "notes.txt is refused: it is damaged, or contains objects that could run code",
    "search --export .": "already exists and is not an earlier export: choose another folder",
    "search --export mine.py/model": "cannot create mine.py/model: ",
    "search --export runs": "runs would replace the run folder runs/...; choose another folder",
    "search --export model --run model/run": "model would replace the run folder model/run; choose another folder",
    "search --export model --data noise": "noise has no parts to train on; use data with labels, such as digits",
    "search --export model --data photos --json": "photos has no parts to train on; use data with labels",
    "search --run mine.py": "mine.py cannot be used as a run folder",
    "search --run run-\udce9": "is not UTF-8; rename the file or folder, and type its new name",
    "search --data folder:phot\udce9s": "is not UTF-8; rename the file or folder, and type its new name",
    "train ARCH --data digits --run run-\udce9": "is not UTF-8; rename the file or folder, and type its new name",
    "report run-\udce9": "is not UTF-8; rename the file or folder, and type its new name",
    "export ARCH --out mod\udce9l": "is not UTF-8; rename the file or folder, and type its new name",
    "search --data folder:latin": "the name of the class folder caf\ufffd is not UTF-8; rename the folder",
    "data card folder:latin": "the name of the class folder caf\ufffd is not UTF-8; rename the folder",
    "report absent": "absent is not a run folder: it has no run.json; `untrained search --run absent` makes one",
    "report photos": "photos is not a run folder: it has no run.json",
    "store info absent": "absent",
    "store info notes.txt": "notes.txt",
    "store export absent records.csv": "absent",
    "store merge absent run-1": "absent",
}

OWN_CODE = {
    "score ./exits.py:make --input-shape 3x8x8": "exits.py called sys.exit(7) while it was loaded; put code that "
    "only a script needs under `if __name__ == '__main__':`",
    "search --space ./exits.py:mynet": "exits.py called sys.exit(7) while it was loaded",
    "search --proxy ./exits.py:mine": "exits.py called sys.exit(7) while it was loaded",
    "search --proxy exits:mine": "exits called sys.exit(7) while it was imported",
    "train ./exits.py:make --data digits --input-shape 3x8x8": "exits.py called sys.exit(7) while it was loaded",
    "export ./exits.py:make --out model --input-shape 3x8x8": "exits.py called sys.exit(7) while it was loaded",
    "score ./odd.py:exits --input-shape 3x8x8": "./odd.py:exits called sys.exit(3) when it was called",
    "train ./odd.py:exits --data digits --input-shape 3x8x8": "./odd.py:exits called sys.exit(3) when it was called",
    "score ./odd.py:text --input-shape 3x8x8": "./odd.py:text() returned a str; it must return an nn.Module",
    "score ./odd.py:number --input-shape 3x8x8": "./odd.py:number is a int; it must be a function that returns an nn.M",
    "score ./odd.py:scripted --input-shape 3x8x8": "scripted or traced by torch.jit; give the nn.Module",
    "score ./odd.py:part_scripted --input-shape 3x8x8": "scripted or traced by torch.jit; give the nn.Module",
    "train ./odd.py:scripted --data digits --input-shape 3x8x8": "scripted or traced by torch.jit; give the nn.Module",
    "export ./odd.py:scripted --out model --input-shape 3x8x8": "scripted or traced by torch.jit; give the nn.Module",
    "train ./odd.py:answers_dict --data digits --input-shape 3x8x8":
        "the network cannot be trained: the model returns dict, from which no logits can be read",
    "train ./odd.py:answers_nothing --data digits --input-shape 3x8x8":
        "the network cannot be trained: the model returns NoneType",
    "train ./odd.py:answers_text --data digits --input-shape 3x8x8": "the model returns str",
    "train ./odd.py:answers_complex --data digits --input-shape 3x8x8": "the model returns complex numbers",
    "train ./odd.py:exits_in_forward --data digits --input-shape 3x8x8": "the network cannot read samples of (3, 8, 8)",
    "train ./odd.py:raises_key_error --data digits --input-shape 3x8x8": "the network cannot read samples of (3, 8, 8)",
    "score ./odd.py:on_meta --input-shape 3x8x8": "the network has no weights: layer.weight is on the device meta",
    "train ./odd.py:on_meta --data digits --input-shape 3x8x8":
        "the network has no weights: layer.weight is on the device meta; build it on cpu",
    "export ./odd.py:on_meta --out model --input-shape 3x8x8":
        "the network has no weights: layer.weight is on the device meta; build it on cpu",
    "export ./odd.py:answers_dict --out model --input-shape 3x8x8": "returns a dict for two samples",
    "export ./odd.py:exits_in_forward --out model --input-shape 3x8x8": "fails on inputs of shape (3, 8, 8)",
}  # fmt: skip

DEEP = "-" * 200_000 + "1"
LONG = {
    f"score ARCH --proxy naswot(samples={DEEP})": "a name of 200,017 characters is too long: 'naswot(samples=---",
    f"search --space nasbench201(channels={DEEP})": "characters is too long",
    f"search --strategy evolution(population={DEEP})": "characters is too long",
    f"train ARCH --data digits --recipe quick(epochs={DEEP})": "characters is too long",
    f"score ARCH --proxy naswot(samples={DEEP[-4000:]})": "samples must be a whole number from 1",
    f"search --strategy best_of_pool --validate training(epochs={DEEP[-4000:]})": "epochs must be a whole number from 1",
}

WRONG_COMMANDS = NAMES | OPTIONS | SHAPES | DEVICES | LIMITS | METHODS | FILES | OWN_CODE | LONG
