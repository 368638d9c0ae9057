"""`untrained score`: score networks at initialisation."""

from typing import Annotated

import typer

from untrained.cli.exit_codes import NOTHING_SCORED
from untrained.cli.options import (
    WHAT,
    ClassesOption,
    DataOption,
    DataRootOption,
    DeviceOption,
    InputShapeOption,
    JsonOption,
    LabelOption,
    SeedsOption,
    TaskOption,
    WarmUpOption,
    add_label,
)
from untrained.config import DEFAULT_PROXY
from untrained.quantities import parse_shape

# Default without --rank: these proxies need no other network to compare with.
SINGLE_NETWORK_PROXIES = "dextr,params,flops"


def score(
    networks: Annotated[
        list[str],
        typer.Argument(
            help="Architecture strings, ./file.py:factory, package.module:factory or timm:NAME.",
        ),
    ],
    rank: Annotated[
        bool,
        typer.Option(
            "--rank",
            help="Rank several networks: all factories in ./file.py, all models timm:resnet*, ...",
            rich_help_panel=WHAT,
        ),
    ] = False,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="Proxies, separated by commas: dextr,params or ./mine.py:mine; all for every "
            "proxy. With --rank, the first one decides the order.",
            show_default="dextr,params,flops; consensus with --rank",
            rich_help_panel=WHAT,
        ),
    ] = None,
    space: Annotated[
        str,
        typer.Option(help="Space of the architecture strings.", rich_help_panel=WHAT),
    ] = "nasbench201",
    input_shape: InputShapeOption = None,
    classes: ClassesOption = None,
    warm_up: WarmUpOption = "",
    seeds: SeedsOption = 1,
    data: DataOption = None,
    label: LabelOption = None,
    task: TaskOption = None,
    data_root: DataRootOption = None,
    as_json: JsonOption = False,
    device: DeviceOption = "cpu",
) -> None:
    """Score networks at initialisation: architectures of a space, or any nn.Module of your own.

    A factory is a function without arguments that returns an nn.Module. Naming a factory runs your
    code.

    With --rank, all factories of a file are scored and ranked by the first proxy, to decide which
    network to train first. The default is then consensus, a combination of eight proxies. It
    compares the given networks with each other, so it needs at least two of them, and the score of
    a network depends on the others. Without --rank, the default is dextr, which scores every
    network by itself but ranks worse on most spaces (docs/results/consensus.md).

    Example: untrained score --rank ./models.py --input-shape 3x32x32

    Example: untrained score ./my_net.py:make_net --input-shape 3x224x224

    Example: untrained score --rank ./models.py --input-shape 3x32x32 --data digits --proxy zico
    """
    # Imported here and not above, because `--help` must not load torch.
    from untrained.cli.terminal.json_output import print_json, reserve_stdout
    from untrained.cli.terminal.score_tables import show_model_ranking, show_scores
    from untrained.cli.terminal.text import print_line
    from untrained.proxies import parse_proxy_names
    from untrained.runs.ranking import make_record_rows
    from untrained.workflows.network_spec import check_input_shape
    from untrained.workflows.rank import rank as rank_networks
    from untrained.workflows.score import ScoreOptions, score_networks

    shape = None if input_shape is None else parse_shape(input_shape)
    data_name = add_label(data, label, task)
    if proxy is None and rank:
        proxy = DEFAULT_PROXY
    if proxy is None:
        proxy = SINGLE_NETWORK_PROXIES
    proxies = parse_proxy_names(proxy)
    options = ScoreOptions(
        space=space,
        input_shape=shape,
        num_classes=classes,
        seeds=seeds,
        warm_up=warm_up,
        device=device,
        data_root=data_root,
    )

    if rank:
        with reserve_stdout(as_json):
            ranking = rank_networks(networks, proxies, data_name, **options)
        # The error stream is visible with --json too.
        if ranking.warning:
            print_line(f"warning: {ranking.warning}", err=True)
        if as_json:
            print_json(ranking.rows())
        else:
            show_model_ranking(ranking)
        has_scores = ranking.find_best(ranking.proxies[0]) is not None
    else:
        with reserve_stdout(as_json):
            if shape and len(networks) == 1:
                # If the only network does not accept this shape, the command is wrong. Among
                # several networks, this is a failure of one of them.
                check_input_shape(networks[0], shape, space)
            records = score_networks(networks, proxies, data_name, **options)
        if as_json:
            print_json(make_record_rows(records))
        else:
            show_scores(make_record_rows(records))
        has_scores = any(record.value is not None for record in records)

    if not has_scores:
        raise typer.Exit(NOTHING_SCORED)
