"""Policies for the order of jobs; they see jobs and no machines."""
