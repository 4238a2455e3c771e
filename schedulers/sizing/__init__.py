"""Policies for the number of workers of a job; they see its profile and the idle totals, no single machines."""
