"""Command names of other schedulers: accepted aliases, and words that get a suggestion."""

from collections.abc import Container

ALIASES = {
    "ls": ("list",),
    "ps": ("list",),
    "cancel": ("stop",),
    "delete": ("remove", "stop"),
    "rm": ("remove", "delete", "stop"),
}
"""Alias → candidates; a group resolves it to the first candidate that it has."""
TOP_ALIASES = {
    "ps": ("job", "list"),
    "ls": ("job", "list"),
    "cancel": ("job", "stop"),
    "delete": ("job", "stop"),
    "rm": ("job", "stop"),
}
"""Aliases of whole commands at the top level."""
USUAL = ("job", "machine")
"""Groups searched first for a command given without its group."""
MEANINGS = {
    "kill": ("stop",),
    "terminate": ("stop",),
    "scancel": ("job stop", "stop"),
    "describe": ("status",),
    "show": ("status",),
    "info": ("status", "cell status"),
    "get": ("list", "job list"),
    "snapshot": ("list", "status"),
    "apply": ("submit", "job submit"),
    "create": ("submit", "add"),
    "new": ("submit", "create", "add"),
    "start": ("run", "submit", "up"),
    "exec": ("run", "job run"),
    "stat": ("status", "cell status"),
    "jobs": ("job list",),
    "machines": ("machine list",),
    "schedulers": ("scheduler list",),
    "cells": ("cell list",),
    "sbatch": ("job submit",),
    "srun": ("job run",),
    "squeue": ("job list",),
    "queue": ("job list",),
    "sinfo": ("machine list",),
    "nodes": ("machine list",),
    "node": ("machine",),
    "hosts": ("machine list",),
    "host": ("machine",),
    "pods": ("job list",),
    "allocs": ("job status",),
    "log": ("logs", "job logs"),
    "tail": ("logs", "job logs"),
    "output": ("logs",),
    "explain": ("why", "job why"),
    "reason": ("why",),
    "pause": ("hold",),
    "suspend": ("hold",),
    "resume": ("release",),
    "unhold": ("release",),
    "scale": ("resize",),
    "edit": ("update",),
    "rollout": ("update", "job update"),
    "cordon": ("drain", "machine drain"),
    "uncordon": ("up", "machine up"),
    "dry-run": ("plan", "job plan"),
    "check": ("verify", "cell verify"),
    "history": ("events", "status"),
    "monitor": ("top",),
    "watch": ("top",),
    "dashboard": ("top",),
    "init": ("up",),
    "server": ("up",),
    "register": ("add",),
    "join": ("agent", "add"),
    "quota": ("limits", "cell limits"),
}
"""Word of another system → equivalent commands, best first, within a group or from the top level."""


def alias(word: str, commands: Container[str], *, top: bool) -> tuple[str, ...] | None:
    """Return the words that an alias stands for among `commands`, None when it is not an alias."""
    if word in commands:
        return None
    if top and word in TOP_ALIASES:
        return TOP_ALIASES[word]
    return next(((name,) for name in ALIASES.get(word, ()) if name in commands), None)


def meanings(word: str) -> tuple[str, ...]:
    """Return the commands equivalent to a word of another system, best first."""
    return MEANINGS.get(word.lower(), ())
