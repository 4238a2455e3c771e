"""Throughput measurements of the store and the schedulers; behind ``omega bench``. Nothing imports this package.

Each benchmark is a module that takes its settings as one line of JSON and prints one JSON document:
``echo '{}' | python -m benchmarks.commit``. Measured values and their margins: ranges.toml.
"""
