# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""One of the two clients. The synchronous one is generated from the asynchronous one."""
