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
    **dict.fromkeys(("ps", "ls"), ("job", "list")),
    **dict.fromkeys(("cancel", "delete", "rm"), ("job", "stop")),
}
"""Aliases of whole commands at the top level."""
USUAL = ("job", "machine")
"""Groups searched first for a command given without its group."""
MEANINGS = {
    word: commands
    for words, commands in {
        "kill terminate": ("stop",),
        "scancel": ("job stop", "stop"),
        "describe show": ("status",),
        "info stat": ("status", "cell status"),
        "get": ("list", "job list"),
        "snapshot": ("list", "status"),
        "apply": ("submit", "job submit"),
        "create": ("submit", "add"),
        "new": ("submit", "create", "add"),
        "start": ("run", "submit", "up"),
        "exec": ("run", "job run"),
        "jobs squeue queue pods": ("job list",),
        "machines sinfo nodes hosts": ("machine list",),
        "schedulers": ("scheduler list",),
        "cells": ("cell list",),
        "sbatch": ("job submit",),
        "srun": ("job run",),
        "node host": ("machine",),
        "allocs": ("job status",),
        "log tail": ("logs", "job logs"),
        "output": ("logs",),
        "explain": ("why", "job why"),
        "reason": ("why",),
        "pause suspend": ("hold",),
        "resume unhold": ("release",),
        "scale": ("resize",),
        "edit": ("update",),
        "rollout": ("update", "job update"),
        "cordon": ("drain", "machine drain"),
        "uncordon": ("up", "machine up"),
        "dry-run": ("plan", "job plan"),
        "check": ("verify", "cell verify"),
        "history": ("events", "status"),
        "monitor watch dashboard": ("top",),
        "init server": ("up",),
        "register": ("add",),
        "join": ("agent", "add"),
        "quota": ("limits", "cell limits"),
    }.items()
    for word in words.split()
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
