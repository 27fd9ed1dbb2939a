"""How numbers are written in tables."""


def number(value: float | None) -> str:
    """A score with three digits; a dash where there is none."""
    return "-" if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return "-" if value is None else f"{100 * value:.1f}"
