"""What-if questions to the past of one's own cell: a recording run again under other settings (docs/what-if.md)."""
