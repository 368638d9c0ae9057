"""Follow the parameters of a network to the functions that use them.

`ParameterTracker` is a function mode that sees every call of a network. It replaces
`nn.MultiheadAttention`, whose projections torch hides in one function, by plain linear layers with
samples on the first axis, and it follows a parameter through `chunk`.
"""

from collections.abc import Mapping, Sequence

from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from untrained.probe.jets import Args, Kwargs, TorchFunction, find_functions
from untrained.probe.rules.attention import multi_head_attention

_CHUNK = frozenset(find_functions("chunk"))


class ParameterTracker(TorchFunctionMode):
    """Calls `self.call(func, args, kwargs)` for every function.

    Attributes:
        names: Names of parameters, and of pieces of parameters, by the id of the tensor.
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.names = {id(parameter): name for name, parameter in parameters.items()}
        # An id is only valid while its tensor is alive.
        self._pieces: list[Tensor] = []

    def call(self, func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
        """Call the function. Subclasses record what they need."""
        return func(*args, **kwargs)

    def __torch_function__(
        self,
        func: TorchFunction,
        types: Sequence[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            with self:
                return multi_head_attention(*args, **kwargs)
        if func in _CHUNK and id(args[0]) in self.names:
            pieces = func(*args, **kwargs)
            self._name_pieces(self.names[id(args[0])], pieces)
            return pieces
        return self.call(func, args, kwargs)

    def _name_pieces(self, name: str, pieces: tuple[Tensor, ...]) -> None:
        for index, piece in enumerate(pieces):
            self.names[id(piece)] = f"{name}[{index}]"
            self._pieces.append(piece)


def strip_piece(name: str) -> str:
    """Return the name of the parameter: `w` for `w` and for its piece `w[0]`."""
    return name.partition("[")[0]


class NormsAsIdentity(TorchFunctionMode):
    """A mode in which every normalisation returns its input."""

    norms = frozenset(
        {
            F.batch_norm,
            F.layer_norm,
            F.group_norm,
            F.instance_norm,
            F.rms_norm,
            F.local_response_norm,
        }
    )

    def __torch_function__(
        self,
        func: TorchFunction,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in self.norms:
            return args[0] if args else kwargs["input"]
        return func(*args, **kwargs)
