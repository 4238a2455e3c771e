"""The decorator of methods whose description stands at the method of the class above; mypy checks that there is one."""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override
else:  # typing has it from Python 3.12 on, and importing typing_extensions takes a command 5 ms
    Method = TypeVar("Method")

    def override(method: Method) -> Method:
        """Return the method."""
        return method


__all__ = ["override"]
