"""Demands of jobs beyond room: constraints, failure domains, relations to other jobs."""
