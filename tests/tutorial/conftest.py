"""A cell with schedulers and simulated machines in threads, for pages whose commands need one."""

from tests.cli.conftest import at_work, cell

__all__ = ["at_work", "cell"]
