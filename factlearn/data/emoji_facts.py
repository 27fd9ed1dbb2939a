"""Which fact each emoji's name states.

The CLDR short names of people read like facts once the skin tone is stripped: *man rowing boat* is `<man, rowing,
boat>`, *woman climbing* is `<woman, climbing>`. What follows the subject is looked up in `ACTIONS`; names that do not
start with their subject are listed in `WHOLE_NAMES`, things in `OBJECTS`.
"""

from factlearn.facts import Fact

SUBJECTS = ("person", "man", "woman")
GROUPS = ("people", "men", "women")

# What is said of a person, a man or a woman -> predicate and object.
ACTIONS: dict[str, tuple[str, ...]] = {
    # sports
    "biking": ("riding", "bike"),
    "mountain biking": ("riding", "mountain bike"),
    "surfing": ("riding", "surfboard"),
    "golfing": ("playing", "golf"),
    "playing handball": ("playing", "handball"),
    "playing water polo": ("playing", "water polo"),
    "bouncing ball": ("bouncing", "ball"),
    "lifting weights": ("lifting", "weights"),
    "rowing boat": ("rowing", "boat"),
    "swimming": ("swimming",),
    "climbing": ("climbing",),
    "cartwheeling": ("cartwheeling",),
    "running": ("running",),
    "fencing": ("fencing",),
    "wrestling": ("wrestling",),
    # other things people do
    "walking": ("walking",),
    "standing": ("standing",),
    "kneeling": ("kneeling",),
    "dancing": ("dancing",),
    "juggling": ("juggling",),
    "in lotus position": ("meditating",),
    "in suit levitating": ("levitating",),
    "in bed": ("lying", "bed"),
    "in steamy room": ("taking", "sauna"),
    "taking bath": ("taking", "bath"),
    "feeding baby": ("feeding", "baby"),
    "getting haircut": ("getting", "haircut"),
    "getting massage": ("getting", "massage"),
    "in manual wheelchair": ("riding", "wheelchair"),
    "in motorized wheelchair": ("riding", "motorized wheelchair"),
    "with white cane": ("holding", "cane"),
    "holding hands": ("holding", "hands"),
    # gestures
    "bowing": ("bowing",),
    "facepalming": ("facepalming",),
    "frowning": ("frowning",),
    "pouting": ("pouting",),
    "shrugging": ("shrugging",),
    "gesturing NO": ("gesturing", "no"),
    "gesturing OK": ("gesturing", "ok"),
    "raising hand": ("raising", "hand"),
    "tipping hand": ("tipping", "hand"),
    # clothes
    "in tuxedo": ("wearing", "tuxedo"),
    "with veil": ("wearing", "veil"),
    "wearing turban": ("wearing", "turban"),
    "with crown": ("wearing", "crown"),
    "with skullcap": ("wearing", "skullcap"),
    "with headscarf": ("wearing", "headscarf"),
    "with bunny ears": ("wearing", "bunny ears"),
}

# Names that do not start with their subject.
WHOLE_NAMES: dict[str, tuple[str, ...]] = {
    "horse racing": ("person", "riding", "horse"),
    "snowboarder": ("person", "riding", "snowboard"),
    "skier": ("person", "riding", "skis"),
    "selfie": ("person", "holding", "phone"),
    "woman and man holding hands": ("couple", "holding", "hands"),
}

# Common things by name, and the everyday word where that is a different one.
OBJECTS: dict[str, str] = {
    # animals
    **dict.fromkeys(("dog", "cat", "horse", "cow", "pig", "elephant", "monkey", "rabbit", "bird"), ""),
    **dict.fromkeys(("fish", "butterfly", "turtle", "snake"), ""),
    # food
    **dict.fromkeys(("banana", "grapes", "strawberry", "carrot", "bread", "pizza", "hamburger"), ""),
    "red apple": "apple",
    "birthday cake": "cake",
    # vehicles
    **dict.fromkeys(("bus", "motorcycle", "airplane", "helicopter", "ship", "sailboat", "tractor"), ""),
    "automobile": "car",
    "bicycle": "bike",
    # household things
    **dict.fromkeys(("chair", "bed", "umbrella", "camera", "television", "laptop", "key", "scissors"), ""),
    **dict.fromkeys(("hammer", "guitar", "violin", "balloon"), ""),
    # outdoors
    **dict.fromkeys(("cactus", "sunflower", "mountain", "house", "castle"), ""),
    "deciduous tree": "tree",
}

ALIASES = {"facepalming": "covering face"}
"""Units whose words are missing from common word-vector sets, and what to use instead."""


def fact_of_name(name: str) -> Fact | None:
    """The fact that an emoji's CLDR short name states, skin tone stripped; None if it is not one of ours.

    Example:
        >>> str(fact_of_name("woman biking"))
        '<woman, riding, bike>'
    """
    if name in WHOLE_NAMES:
        return Fact(*WHOLE_NAMES[name])
    if name in OBJECTS:
        return Fact(OBJECTS[name] or name)
    subject, _, rest = name.partition(" ")
    if subject in SUBJECTS + GROUPS and rest in ACTIONS:
        return Fact(subject, *ACTIONS[rest])
    return None
