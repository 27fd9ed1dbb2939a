"""What all shapes share."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A JSON object of the service; unknown keys in a request are errors."""

    model_config = ConfigDict(extra="forbid")


def example(**values: Any) -> ConfigDict:
    """The config of a shape with an example for OpenAPI."""
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [values]})


class Problem(Shape):
    """An error (RFC 9457): `detail` is one sentence for people."""

    model_config = example(
        type="about:blank",
        title="Bad Request",
        status=400,
        detail="'' is empty; write for example <person, riding, bike>.",
    )

    type: str = "about:blank"
    title: str
    status: int
    detail: str
