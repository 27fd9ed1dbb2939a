"""What Prometheus reads at /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """The counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "factlearn_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "factlearn_request_seconds", "Time to answer.", ("route",), buckets=_SECONDS, registry=self.registry
        )
        self.batch = Histogram(
            "factlearn_batch_queries", "Queries answered by one sweep.", buckets=_SIZES, registry=self.registry
        )
        self.killed = Counter("factlearn_workers_killed", "Workers that took too long.", registry=self.registry)
        self.swaps = Counter("factlearn_index_swaps", "Newer states in use.", ("index",), registry=self.registry)
        self.images = Gauge("factlearn_index_images", "Images of an index.", ("index",), registry=self.registry)
        self.ready = Gauge(
            "factlearn_index_ready", "1 if an index can be searched.", ("index",), registry=self.registry
        )
        self.jobs = Gauge("factlearn_jobs", "Jobs by state.", ("state",), registry=self.registry)

    def page(self) -> bytes:
        """All of them, in the text format of Prometheus."""
        return generate_latest(self.registry)
