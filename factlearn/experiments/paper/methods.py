"""Variants of methods that the facts experiments compare, as what to set in a config."""

VARIANTS = {
    "mas-both": ("strategy.name=mas", "strategy.importance=both"),
    "mas-test": ("strategy.name=mas", "strategy.importance=test"),
    "ridge-pair": (
        "strategy.name=ridge",
        "model.backbone=[vgg16, efficientnet-lite0]",
        "model.features=[conv4, conv5, stage6, stage7, head]",
        "model.hidden=[]",
        "model.skip=false",
        "model.random_features=0",
        "model.standardise=false",
    ),
}
