"""Terminal and HTML views of plans and measurements."""
