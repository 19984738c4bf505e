"""The gate: a plan kept in a file, and what has become worse since; needs no GPU."""
