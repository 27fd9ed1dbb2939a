"""The methods that the facts experiments compare, with their settings.

Lambda is the best MAP at the end on the emoji facts, random tasks, seed 100, which no table reports. MAS: of 3, 6, 10,
20, 60, 200 (0.567 at 6 and at 10); SI: of 0.1, 1, 10, 30, 100, 300, 1000 (0.502 at 10, 0.589 at 300); l-MAS: of 1, 10,
100 (0.520). The rule of `factlearn tune`, which looks at no old task, takes 10 for MAS and 300 for SI there. A method
that is not listed runs with its defaults.
"""

from typing import Any

_MAS = {"name": "mas", "lambda": 6.0}

STRATEGIES: dict[str, dict[str, Any]] = {
    "si": {"name": "si", "lambda": 300.0},
    "l-mas": {"name": "l-mas", "lambda": 10.0},
    "mas": _MAS,
    "mas-both": {**_MAS, "importance": "both"},
    "mas-test": {**_MAS, "importance": "test"},
}

NETWORKS: dict[str, dict[str, Any]] = {"ridge": {"hidden": [4096]}}
"""What a method needs of the network in place of the config's own: ridge learns no hidden layer, so that one wide layer
of random weights serves it better than two narrow ones."""
