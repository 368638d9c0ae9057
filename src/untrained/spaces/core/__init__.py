"""Code that all spaces share: the `@space` decorator and its parts.

| module | content |
|---|---|
| `space.py` | `Space`, the decorator `@space`, and the registry `SPACES` |
| `choices.py` | running a function of choices: sample, replay, inherit, enumerate |
| `option_names.py`, `ranges.py` | the two kinds of options: named options and ranges of numbers |
| `repeatability.py` | a check of the user's functions: same choices, same network |
| `notation.py` | architectures as text |
| `counts.py` | parameters and multiply-adds by formula |
| `layers.py`, `inverted_residual.py` | layers that several spaces use |
| `supernet.py` | mixtures of options and weight sharing |
"""
