"""All programs by name, in the order in which tables show them."""

from __future__ import annotations

from benchmarks import (
    activations,
    attention,
    blocks,
    boundary,
    chains,
    convs,
    gemms,
    losses,
    norms,
    optim,
    routing,
    softmax,
)
from fusewise.measure.program import Program

FAMILIES = (
    chains,
    norms,
    softmax,
    losses,
    activations,
    gemms,
    attention,
    convs,
    routing,
    optim,
    blocks,
    boundary,
)

PROGRAMS: dict[str, Program] = {program.name: program for family in FAMILIES for program in family.PROGRAMS}
