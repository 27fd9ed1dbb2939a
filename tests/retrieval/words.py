"""Units made up for tests."""


def many_units(name, count):
    """Distinct one-word units."""
    return tuple(f"{name}{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(count))
