"""Policies that choose victims for a job that fits nowhere; they see machines, one job and running tasks."""
