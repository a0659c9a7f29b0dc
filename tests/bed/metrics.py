"""The page `/metrics` of a daemon, as the client library's parser reads it."""

from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Metrics:
    """The samples of one page, by name and labels, and the kind of each family."""

    kinds: dict[str, str] = field(default_factory=dict)
    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a sample; KeyError if it is not there."""
        return self.samples[name, frozenset(labels.items())]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels among theirs."""
        wanted = frozenset(labels.items())
        return sum(
            value for (at, has), value in self.samples.items() if at == name and wanted <= has
        )

    def has(self, name: str) -> bool:
        """Return whether there is a sample of this name."""
        return any(at == name for at, _ in self.samples)


def parsed(page: bytes) -> Metrics:
    """Return a page's samples; ValueError for one that Prometheus would not accept."""
    metrics = Metrics()
    for family in text_string_to_metric_families(page.decode()):
        if family.name in metrics.kinds:
            raise ValueError(f"{family.name} is there twice")
        metrics.kinds[family.name] = family.type
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            if key in metrics.samples:
                raise ValueError(f"{key} is there twice")
            metrics.samples[key] = sample.value
    return metrics
