"""MAP of many queries over one gallery: factlearn against the peers that are installed, in one run.

    python benchmarks/evaluation.py [--queries 100] [--images 10000] [--relevant 0.01] [--repeat 3]

Every peer gets its own input format for free: only its evaluation is timed. Scores are positive and distinct,
so that all peers agree on the definition (torchmetrics drops relevant images with scores of 0 or less;
scikit-learn takes tied images as one). Prints the best time of each, its ratio to factlearn's, and how far
its MAP is from factlearn's.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from factlearn.evaluation.ranking import mean_average_precision

Evaluate = Callable[[], float]
Prepare = Callable[[NDArray, NDArray], Evaluate]


def factlearn(scores: NDArray, relevant: NDArray) -> Evaluate:
    return lambda: mean_average_precision(scores, relevant).mean or 0.0


def pytrec_eval(scores: NDArray, relevant: NDArray) -> Evaluate:
    import pytrec_eval

    names = [f"{place:08d}" for place in range(scores.shape[1])]
    judged = {str(q): dict(zip(names, map(int, row), strict=True)) for q, row in enumerate(relevant)}
    run = {str(q): dict(zip(names, map(float, row), strict=True)) for q, row in enumerate(scores)}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, {"map"})
    return lambda: float(np.mean([result["map"] for result in evaluator.evaluate(run).values()]))


def torchmetrics(scores: NDArray, relevant: NDArray) -> Evaluate:
    import torch

    from factlearn.models.vision import import_torchvision

    import_torchvision()  # torchmetrics imports it plainly, which fails beside some builds of torch
    from torchmetrics.functional.retrieval import retrieval_average_precision

    pairs = list(zip(torch.from_numpy(scores), torch.from_numpy(relevant), strict=True))
    return lambda: float(np.mean([float(retrieval_average_precision(*pair)) for pair in pairs]))


def sklearn(scores: NDArray, relevant: NDArray) -> Evaluate:
    from sklearn.metrics import average_precision_score

    pairs = list(zip(relevant, scores, strict=True))
    return lambda: float(np.mean([average_precision_score(*pair) for pair in pairs]))


def ranx(scores: NDArray, relevant: NDArray) -> Evaluate:
    from ranx import Qrels, Run, evaluate

    names = np.array([f"{place:08d}" for place in range(scores.shape[1])])
    judged = Qrels({str(q): dict.fromkeys(names[row].tolist(), 1) for q, row in enumerate(relevant)})
    run = Run({str(q): dict(zip(names.tolist(), row.tolist(), strict=True)) for q, row in enumerate(scores)})
    evaluate(judged, run, "map")  # compiles
    return lambda: float(evaluate(judged, run, "map"))


PEERS: tuple[Prepare, ...] = (pytrec_eval, ranx, torchmetrics, sklearn)


def best_time(evaluate: Evaluate, repeat: int) -> tuple[float, float]:
    """The shortest of `repeat` runs in seconds, and the MAP."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        value = evaluate()
        times.append(time.perf_counter() - start)
    return min(times), value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--relevant", type=float, default=0.01, help="share of relevant images")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    ranks = [rng.permutation(options.images) + 1 for _ in range(options.queries)]
    scores = (np.array(ranks) / options.images).astype(np.float32)
    relevant = rng.random(scores.shape) < options.relevant * 2 * scores
    relevant[:, 0] = True

    ours, expected = best_time(factlearn(scores, relevant), options.repeat)
    print(f"{options.queries} queries x {options.images} images, best of {options.repeat}")
    print(f"{'factlearn':14}{ours:10.4f} s{1.0:9.1f}x   MAP {expected:.6f}")
    for peer in PEERS:
        if importlib.util.find_spec(peer.__name__) is None:
            print(f"{peer.__name__:14}  not installed")
            continue
        seconds, value = best_time(peer(scores, relevant), options.repeat)
        difference = abs(value - expected)
        print(f"{peer.__name__:14}{seconds:10.4f} s{seconds / ours:9.1f}x   differs by {difference:.1e}")


if __name__ == "__main__":
    main()
