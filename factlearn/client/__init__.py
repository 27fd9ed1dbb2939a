"""A client of the search service: `Client("http://127.0.0.1:8765").query("<person, riding, *>")`."""
