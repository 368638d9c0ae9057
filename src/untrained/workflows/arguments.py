"""Recognise common mistakes in the arguments of public functions, and say what to type instead."""

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from os.path import isdir
from pathlib import Path

from torch import nn

from untrained.data import SOURCES
from untrained.data.samples import is_samples
from untrained.errors import UsageError, make_unknown_name_error
from untrained.proxies import PROXIES
from untrained.spaces import SPACES
from untrained.strategies import STRATEGIES

# How options of the command line are written in Python, if their names differ.
_PYTHON_FORMS = {
    "max_params": "limits={'params': '1M'}",
    "min_params": "limits={'min_params': '1M'}",
    "max_flops": "limits={'flops': '100M'}",
    "max_memory": "limits={'memory': '100M'}",
    "max_latency": "limits={'latency': '5ms'}",
    "label": "data='csv:clicks.csv?label=click'",
    "no_confirm": "confirm=0",
}


def check_option_names(
    function: Callable[..., object], options: Mapping[str, object], allowed: Iterable[str]
) -> None:
    """Refuse unknown keyword arguments of a function with a `**options` parameter.

    Args:
        function: The function.
        options: The arguments that `**options` received.
        allowed: Names that `**options` may contain.

    Raises:
        UsageError: An option is unknown.
    """
    valid_names = list(allowed)
    for parameter in signature(function).parameters.values():
        if parameter.kind is not Parameter.VAR_KEYWORD:
            valid_names.append(parameter.name)
    for name in options:
        if name in valid_names:
            continue
        if name in _PYTHON_FORMS:
            raise UsageError(
                f"{function.__name__} has no argument {name}; write {_PYTHON_FORMS[name]}"
            )
        raise make_unknown_name_error(f"option of {function.__name__}", name, valid_names)


def check_space_argument(space: object) -> None:
    """Refuse data, networks, proxies and strategies in place of a space.

    Raises:
        UsageError: The argument is one of them.
    """
    if isinstance(space, nn.Module):
        raise UsageError(
            "a network is not a space to search; score it with score(model, inputs), or train it "
            "with train(model, 'digits')"
        )
    if is_samples(space):
        kind = type(space).__name__
        raise UsageError(f"a {kind} is data, not a space; name the argument: data=...")
    if not isinstance(space, str | Path):
        return
    name = str(space)
    base = name.partition("(")[0]
    if base in SPACES:
        return
    if isdir(name):
        data = f"folder:{name}"
        raise UsageError(
            f"{name} is a folder, not a space; if it has pictures: --data {data} "
            f"(in Python, data={data!r})"
        )
    if name.partition(":")[0] in SOURCES:
        raise UsageError(f"{name} is data, not a space: --data {name} (in Python, data={name!r})")
    if base in PROXIES:
        raise UsageError(
            f"{name} is a proxy, not a space: --proxy {name} (in Python, proxy={name!r})"
        )
    if base in STRATEGIES:
        raise UsageError(
            f"{name} is a strategy, not a space: --strategy {name} (in Python, strategy={name!r})"
        )


def check_proxy_argument(proxy: object) -> None:
    """Refuse a strategy or several proxies in place of the proxy that ranks.

    Raises:
        UsageError: The argument is one of them.
    """
    if isinstance(proxy, list | tuple):
        raise UsageError(
            "a search ranks by one proxy: --proxy zico; record others with --also naswot,synflow "
            "(in Python, proxy='zico', also='naswot,synflow')"
        )
    if isinstance(proxy, str):
        base = proxy.partition("(")[0]
        if base in STRATEGIES and base not in PROXIES:
            raise UsageError(
                f"{proxy} is a strategy, not a proxy: --strategy {proxy} "
                f"(in Python, strategy={proxy!r})"
            )
