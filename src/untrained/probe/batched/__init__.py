"""Measure many networks at once.

Kernels for many networks add in another order, so scores differ slightly from those of ordinary
scoring, by up to 1.2 % in our measurements (docs/results/networks-per-batch.md).

Networks of a search space differ in wiring but call the same functions with the same shapes. The
calls of each network are recorded on a tape; the tapes are then run together, and equal calls of
different networks become one call:

    signatures.py            describe calls: function, settings, shapes and types of tensors
    tape.py                  the recorded calls of one network
    recorder.py              records a tape by running the network on the meta device
    block_programs.py        the calls of a block as one instruction, shared by equal blocks
    scheduler.py             runs many tapes together
    layouts.py               stacks of the values of several networks
    folds.py                 one call for many networks: layers, pooling, arithmetic
    shape_folds.py           one call for many networks: reshaping and joining
    convolution_products.py  convolutions of many networks as matrix products
    plan.py                  which measurements to take together; the entry point

Ordinary scoring does not use this package.
"""
