"""Where tasks go: policies that see machines and one job."""
