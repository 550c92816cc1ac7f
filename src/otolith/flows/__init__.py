"""Flows: durable graphs of tasks."""
