"""An agent: offers this computer to a cell and runs the tasks placed on it."""
