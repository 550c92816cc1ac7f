"""Formats: how a chart is written down, read into one definition.

One noun per file: SCXML (`scxml_reading`, with its actions and XML beside it), XState's JSON
(`xstate_reading`), files by their suffix (`files`).
"""
