"""The search service: an HTTP API and a web page over fact indexes; started by `factlearn serve`."""
