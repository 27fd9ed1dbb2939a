"""The JSON of the service, as pydantic models: what OpenAPI describes and what the client reads."""
