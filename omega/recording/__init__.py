"""Recordings of live cells: written by ``omega cell record``, read for what-if questions (docs/what-if.md)."""
