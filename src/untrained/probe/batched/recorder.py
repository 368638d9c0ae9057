"""Record the tape of a network.

The network runs on a meta tensor under a function mode that returns meta tensors of the right
shapes from every call. Parameters, buffers and everything computed from them alone are real
tensors.

A tape can be recorded if the network is a plain function of its input. A network that draws random
numbers, reads values of tensors, or writes into a view raises `NotRecordable`, or an error of
torch; it is then measured alone.

Equal blocks (`spaces/block_templates.py`) are run once per shape of input; afterwards their program
is reused.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from untrained.probe.batched.block_programs import (
    BlockProgram,
    BlockRecording,
    ModuleOutput,
    TapedBlock,
)
from untrained.probe.batched.signatures import (
    META,
    NotRecordable,
    Signature,
    SignatureCache,
    TensorSpec,
    fill_tensors,
    find_tensors,
    make_call_key,
    refuse_side_effects,
)
from untrained.probe.batched.tape import ModuleValue, Tape, TapeCall, ValueRef
from untrained.probe.features import find_first_tensor
from untrained.probe.guard import ScoringMode, scoring_mode
from untrained.probe.jets import Args, Kwargs, TorchFunction
from untrained.spaces.block_templates import find_template


def _find_getters(*names: str) -> list[TorchFunction]:
    return [getattr(Tensor, name).__get__ for name in names]


_SIZE_FUNCTIONS = frozenset(
    [
        *_find_getters("shape"),
        Tensor.size,
        Tensor.numel,
        Tensor.is_contiguous,
        Tensor.stride,
        Tensor.__len__,
    ]
)
# Functions that read metadata of a tensor and compute nothing.
_METADATA_FUNCTIONS = _SIZE_FUNCTIONS.union(
    _find_getters("dtype", "device", "ndim", "requires_grad", "is_cuda", "is_meta"),
    [Tensor.dim, Tensor.is_floating_point, Tensor.is_complex],
)


def record_tape(
    model: nn.Module,
    input: Tensor,
    cache: SignatureCache,
    *,
    seed: int,
    read_logits: Callable[[object], Tensor],
) -> Tape | Exception:
    """Record the tape of a network.

    Args:
        model: The network.
        input: An input on the meta device.
        cache: Signatures of earlier networks.
        seed: Seed of random generators while the network runs.
        read_logits: Finds the logits in the output of the network.

    Returns:
        The tape, or the reason why there is none.
    """
    recorder = _TapeRecorder(cache)
    recorder.add_value(input, TensorSpec.of(input))
    try:
        with (
            torch.inference_mode(False),
            torch.no_grad(),
            scoring_mode(model, seed, mode=recorder) as recorder.names,
            intercept_modules(recorder),
        ):
            output = read_logits(model(input))
        return recorder.finish_tape(output)
    except Exception as error:
        # The network is then measured alone and raises the error again.
        return error


_recorders: "list[_TapeRecorder | None]" = []  # module calls go to the last one


@contextmanager
def intercept_modules(recorder: "_TapeRecorder | None" = None) -> Iterator[None]:
    """Pass every call of a module to the recorder, as `torch.fx` does.

    A forward hook cannot replace a call, so `nn.Module.__call__` is replaced. Changing a class
    invalidates Python's caches for all of its subclasses, which is slow. To record many tapes,
    enter this context once around all of them without a recorder: `nn.Module` is then changed only
    once.
    """
    _recorders.append(recorder)
    plain_call = nn.Module.__call__

    def call(module: nn.Module, *args: object, **kwargs: object) -> object:
        current = _recorders[-1]
        if current is None:
            return plain_call(module, *args, **kwargs)
        return current.call_module(plain_call, module, args, kwargs)

    if len(_recorders) == 1:
        nn.Module.__call__ = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        _recorders.pop()
        if not _recorders:
            nn.Module.__call__ = plain_call  # type: ignore[method-assign]


class _TapeRecorder(ScoringMode):
    """Records every call that depends on the input, as `ScoringMode` modifies it."""

    def __init__(self, cache: SignatureCache) -> None:
        super().__init__()
        self.names: dict[nn.Module, str] = {}
        self._tape = Tape()
        self._cache = cache
        self._values: list[TensorSpec] = []
        # Numbers of values by the id of the meta tensor that represents them. The tensors are kept,
        # because an id is only valid while its tensor is alive.
        self._numbers: dict[int, int] = {}
        self._tensors: list[Tensor] = []
        self._shared_values: set[int] = set()  # values that are views or have views
        self._overwritten = False
        self._module_outputs: list[ModuleOutput] = []

    def add_value(self, tensor: Tensor, spec: TensorSpec) -> Tensor:
        """Add a value, which the tensor represents from now on."""
        self._set_number(tensor, len(self._values))
        self._values.append(spec)
        return tensor

    def _set_number(self, tensor: Tensor, number: int) -> None:
        self._numbers[id(tensor)] = number
        self._tensors.append(tensor)

    def _find_ref(self, tensor: Tensor) -> ValueRef:
        return self._numbers.get(id(tensor), tensor)

    # ---------------------------------------------------------------------- functions

    def __torch_function__(
        self,
        func: TorchFunction,
        types: Sequence[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        if func in _METADATA_FUNCTIONS:
            if func in _SIZE_FUNCTIONS and id(args[0]) in self._numbers:
                self._tape.reads_sizes = True
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def call_function(
        self,
        func: TorchFunction,
        types: Sequence[type],
        args: Args,
        kwargs: Kwargs,
    ) -> object:
        key, tensors = make_call_key(func, args, kwargs)
        depends_on_input = any(id(tensor) in self._numbers for tensor in tensors)
        # A tensor that is created on the device of the input is recorded too.
        if not depends_on_input and kwargs.get("device") != META:
            return self._compute_constant(func, args, kwargs, tensors)
        signature = self._cache.find(key, tensors, func, args, kwargs)
        if signature is None:
            # The function returned metadata that may depend on the size of the input.
            self._tape.reads_sizes = True
            return func(*args, **kwargs)
        return self._record_call(signature, tensors)

    def _compute_constant(
        self,
        func: TorchFunction,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        tensors: list[Tensor],
    ) -> object:
        """Compute a result that does not depend on the input."""
        name = getattr(func, "__name__", "")
        if any(tensor.is_meta for tensor in tensors):
            raise NotRecordable(f"{name} of a meta tensor that was not recorded")
        is_in_place = name.endswith("_") and not name.endswith("__")
        if is_in_place or name.startswith("__i"):
            raise NotRecordable(f"{name} writes into a constant")
        result = func(*args, **kwargs)
        if find_tensors(result):
            refuse_side_effects(func)
            self._tape.complete = False
        return result

    def _record_call(self, signature: Signature, tensors: list[Tensor]) -> object:
        inputs = tuple([self._find_ref(tensor) for tensor in tensors])
        first = len(self._values)
        results: list[Tensor] = []
        if signature.overwrites:
            if not isinstance(inputs[0], int) or inputs[0] in self._shared_values:
                detail = "an in-place function writes into a view or into a constant"
                raise NotRecordable(detail)
            self._overwritten = True
            # From now on the same tensor represents another value.
            results.append(self.add_value(tensors[0], signature.inputs[0]))
        else:
            for result in signature.results:
                if isinstance(result, int):
                    results.append(tensors[result])
                else:
                    results.append(self.add_value(result.make_meta_tensor(), result))
        outputs = tuple(range(first, len(self._values)))
        if outputs:
            self._tape.calls.append(TapeCall(signature, inputs, outputs))
        # Writing into a view also changes other values, which a tape cannot express.
        if signature.views:
            self._shared_values.update(outputs)
            self._shared_values.update(ref for ref in inputs if isinstance(ref, int))
        return fill_tensors(signature.result, iter(results))

    # ------------------------------------------------------------------------ modules

    def call_module(
        self,
        plain_call: Callable[..., object],
        module: nn.Module,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        """Run a module, or reuse the program of an equal block."""

        def run() -> object:
            output = plain_call(module, *args, **kwargs)
            self._record_output(module, args, output)
            return output

        if kwargs or len(args) != 1:
            return run()
        template = find_template(module)
        input = self._numbers.get(id(args[0]))
        if template is None or input is None:
            return run()
        return self._call_block(template, module, input, run)

    def _record_output(self, module: nn.Module, inputs: Args, output: object) -> None:
        """Record what a module returns, as `features.FeatureCapture` does."""
        tensor = find_first_tensor(output)
        if tensor is None or module not in self.names:
            return
        source = None
        if type(module) is nn.ReLU and inputs:
            source = self._find_ref(inputs[0])
        self._module_outputs.append(ModuleOutput(self._find_ref(tensor), source, module))

    def _call_block(
        self,
        template: object,
        block: nn.Module,
        input: int,
        run: Callable[[], object],
    ) -> object:
        """Call a block that has a template.

        The first block with this template and this shape of input is run and recorded. Later ones
        reuse its program.
        """
        programs = self._cache.block_programs
        key = (template, self._values[input])
        taped_block = TapedBlock(block, input, len(self._values))
        if key not in programs:
            return self._record_block(key, taped_block, run)
        program = programs[key]
        if program is None:
            return run()
        return self._replay_block(program, taped_block)

    def _record_block(
        self,
        key: tuple[object, TensorSpec],
        taped_block: TapedBlock,
        run: Callable[[], object],
    ) -> object:
        tape = self._tape
        first_call = len(tape.calls)
        first_output = len(self._module_outputs)
        shared_before = set(self._shared_values)
        read_sizes_before = tape.reads_sizes
        tape.reads_sizes = False
        output = run()
        program = None
        if isinstance(output, Tensor):
            recording = BlockRecording(
                input=key[1],
                values=self._values[taped_block.first :],
                calls=tape.calls[first_call:],
                module_outputs=self._module_outputs[first_output:],
                shared_values=self._shared_values - shared_before,
                reads_sizes=tape.reads_sizes,
            )
            program = BlockProgram.make(taped_block, recording, self._find_ref(output))
        self._cache.block_programs[key] = program
        if program is not None:
            tape.calls[first_call:] = [_make_block_call(program, taped_block)]
        tape.reads_sizes |= read_sizes_before
        return output

    def _replay_block(self, program: BlockProgram, taped_block: TapedBlock) -> Tensor:
        """Record the program of an equal block instead of running this one."""
        self._tape.calls.append(_make_block_call(program, taped_block))
        self._values += program.new_values
        for number in program.shared_values:
            self._shared_values.add(taped_block.to_absolute(number))
        for ref, source, module in program.module_outputs:
            absolute_source = None if source is None else taped_block.to_absolute(source)
            output = ModuleOutput(
                taped_block.to_absolute(ref),
                absolute_source,
                taped_block.modules[module],
            )
            self._module_outputs.append(output)
        if program.reads_sizes:
            self._tape.reads_sizes = True
        with torch._C.DisableTorchFunction():
            result = program.new_values[program.output].make_meta_tensor()
        self._set_number(result, taped_block.to_absolute(program.output))
        return result

    def finish_tape(self, output: Tensor) -> Tape:
        """Complete the tape with its features and its output."""
        relu_outputs: dict[object, ValueRef] = {}
        features: dict[object, ModuleValue] = {}
        for ref, source, module in self._module_outputs:
            if source is not None and not self._overwritten:
                # ReLUs of one value count as one feature, as in `features.FeatureCapture`.
                ref = relu_outputs.setdefault(_make_key(source), ref)
            spec = self._values[ref] if isinstance(ref, int) else TensorSpec.of(ref)
            if not (spec.dtype.is_floating_point and spec.shape):
                continue
            key = _make_key(ref)
            feature = features.get(key) or ModuleValue(ref, self.names[module], 0, 0)
            leaf_calls = feature.leaf_calls
            is_leaf = not module._modules
            if is_leaf:
                leaf_calls += 1
            features[key] = feature._replace(calls=feature.calls + 1, leaf_calls=leaf_calls)
        self._tape.features = tuple(features.values())
        self._tape.output = self._find_ref(output)
        return self._tape


def _make_block_call(program: BlockProgram, taped_block: TapedBlock) -> TapeCall:
    outputs = tuple(range(taped_block.first, taped_block.first + len(program.new_values)))
    return TapeCall(program, program.find_inputs(taped_block), outputs)


def _make_key(ref: ValueRef) -> object:
    """Return a hashable key: tensors compare by their entries, so they are compared by id."""
    if isinstance(ref, int):
        return ref
    return ("real", id(ref))
