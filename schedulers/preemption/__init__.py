"""Whom to evict for a job that fits nowhere: policies that see machines, one job and what runs there."""
