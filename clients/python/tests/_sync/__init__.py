# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""Tests of one of the two clients. Those of the synchronous one are generated."""
