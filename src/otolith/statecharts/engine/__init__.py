"""The algorithm of SCXML: compile a chart, plan a step, take it."""
