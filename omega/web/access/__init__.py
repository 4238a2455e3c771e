"""Who may do what: visitors, their roles, and the checks of a request."""
