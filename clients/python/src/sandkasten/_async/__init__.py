"""One of the two clients. The synchronous one is generated from the asynchronous one."""
