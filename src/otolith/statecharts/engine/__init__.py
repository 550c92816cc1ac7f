"""The algorithm of SCXML: compile a chart, plan a microstep, make a step."""
