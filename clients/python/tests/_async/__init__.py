"""Tests of one of the two clients. Those of the synchronous one are generated."""
