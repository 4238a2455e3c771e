"""The console: pages for people, rendered by the server."""
