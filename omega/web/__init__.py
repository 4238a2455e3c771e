"""The HTTP API and the web console of ``omega serve`` (extra ``web``)."""
