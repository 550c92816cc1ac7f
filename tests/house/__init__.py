"""Tests of the project itself: what ARCHITECTURE.md and CONTRIBUTING.md promise, as failures."""
