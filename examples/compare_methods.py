"""Two methods on five tasks of permuted digits, two seeds each: mean, deviation, paired test over classes."""

import tempfile
from pathlib import Path

from factlearn import train
from factlearn.config import shipped
from factlearn.experiments.comparison import paired_tests, score_methods
from factlearn.experiments.naming import group_runs
from factlearn.learning.config import load_config


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for method in ("finetune", "mas"):
            for seed in (0, 1):
                config = load_config(shipped("classify/permuted.yaml"), [f"strategy.name={method}", f"seed={seed}"])
                results.append(train(config, out=Path(folder, f"{method}-{seed}")).result())
        groups = group_runs(results)
        for score in score_methods(groups):
            print(f"{score.method}: average accuracy {score.whole}, average forgetting {score.forgetting}")
        for test in paired_tests(groups):
            print(f"{test.one} is ahead of {test.other} by {test.difference:.3f} (p = {test.p:.3f})")


if __name__ == "__main__":
    main()
