"""Code that all spaces share: the `@space` decorator and its parts.

| module | content |
|---|---|
| `space.py` | `Space`, the decorator `@space`, and the registry `SPACES` |
| `choices.py` | running a function of choices: sample, replay, inherit, enumerate |
| `notation.py` | architectures as text |
| `counts.py` | parameters and multiply-adds by formula |
| `diagrams.py` | what a drawing of an architecture shows |
| `layers.py` | layers that several spaces use |
| `supernet.py` | mixtures of options and weight sharing |
"""
