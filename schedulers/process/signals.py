"""By which signals a process is told to finish what it does and leave."""

import signal


def leave_signals() -> tuple[signal.Signals, ...]:
    """Ctrl-C, SIGTERM, and a terminal that hangs up, unless that is to be ignored (nohup)."""
    asked = (signal.SIGINT, signal.SIGTERM)
    return asked if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*asked, signal.SIGHUP)
