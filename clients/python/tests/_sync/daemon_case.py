# Generated from the asynchronous version by generate_sync.py. Do not edit.
"""What tests against a real daemon share. SANDKASTEN_URL and SANDKASTEN_API_KEY name the daemon."""

import unittest

from sandkasten import SyncSandboxClient, SyncSession, SyncSandboxClient


class DaemonCase(unittest.TestCase):
    """Has a client and one session for all tests of the class."""

    session_id: str

    @classmethod
    def setUpClass(cls) -> None:
        with SyncSandboxClient() as client:
            cls.session_id = client.create_session(image="host").id
        cls.addClassCleanup(cls.destroy_session)

    @classmethod
    def destroy_session(cls) -> None:
        with SyncSandboxClient() as client:
            client.get_session(cls.session_id).destroy()

    def setUp(self) -> None:
        self.client: SyncSandboxClient = SyncSandboxClient()
        self.session: SyncSession = self.client.get_session(self.session_id)

    def tearDown(self) -> None:
        self.client.close()
