"""The signals on which a process completes its current work and exits."""

import signal


def leave_signals() -> tuple[signal.Signals, ...]:
    """Return SIGINT, SIGTERM, and SIGHUP unless that is ignored (nohup)."""
    asked = (signal.SIGINT, signal.SIGTERM)
    return asked if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*asked, signal.SIGHUP)


class StopRequest:
    """Whether a signal requested the end of this process; the signals are handled from its creation on."""

    def __init__(self) -> None:
        """Handle the signals of `leave_signals`."""
        self.received = False
        for number in leave_signals():
            signal.signal(number, self._receive)

    def _receive(self, *_: object) -> None:
        self.received = True
