"""Marathon's HTTP API: /v2, /v1/jobs, metrics, OpenAPI, and passing requests on to the leader."""
