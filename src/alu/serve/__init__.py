"""The service: `alu serve` answers pictures over HTTP, and shows how on a page."""
