"""Policies that choose machines; they see machines and one job."""
