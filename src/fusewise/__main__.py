"""`python -m fusewise`: the same as the command `fusewise`."""

from fusewise.cli import main

main()
