"""The processes of a cell on this computer: started, supervised and recorded."""
