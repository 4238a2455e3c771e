"""The embedded store: its files (`places`), its server program (`program`), and its start and stop (`server`)."""
