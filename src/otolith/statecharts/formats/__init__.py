"""Formats of charts: SCXML, XState's JSON, tables and files are read; Mermaid and DOT are drawn.

Readers return a `Definition`, writers take one. Each of the two document formats has three files:
`*_reader` and `*_writer` for states and transitions, `*_actions` for what they contain, in both
directions. What a format cannot express is written as an extension of ours, so that every chart
reads back unchanged: annotations in `meta.otolith` and actions `@otolith.<kind>` in XState's JSON,
a namespace in SCXML. A head of a reader has the table of what becomes what.

`files` chooses the reader by the suffix of a file. `labels` has what the two drawings share.
"""
