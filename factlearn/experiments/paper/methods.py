"""Variants of methods that the facts experiments compare, as what to set in a config."""

VARIANTS = {
    "mas-both": ("strategy.name=mas", "strategy.importance=both"),
    "mas-test": ("strategy.name=mas", "strategy.importance=test"),
}
