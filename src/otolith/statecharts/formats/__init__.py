"""Formats of charts: SCXML, XState's JSON, tables and files are read; Mermaid and DOT are drawn.

Readers return a `Definition`, writers take one. What a format cannot express is written as an
extension of ours (`extensions`, `scxml_extensions`), so that every chart reads back as it was.
"""
