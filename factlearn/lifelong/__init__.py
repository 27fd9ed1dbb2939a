"""Lifelong methods, one module each, over one small protocol of named moments (`strategy.py`)."""
