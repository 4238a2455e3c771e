"""Job files: YAML or JSON, the fields of a job, and their conversion to `JobSpec`."""
