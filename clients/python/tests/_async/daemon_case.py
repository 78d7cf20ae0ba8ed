"""What tests against a real daemon share. SANDKASTEN_URL and SANDKASTEN_API_KEY name the daemon."""

import unittest

from sandkasten import SandboxClient, Session, SyncSandboxClient


class DaemonCase(unittest.IsolatedAsyncioTestCase):
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

    async def asyncSetUp(self) -> None:
        self.client: SandboxClient = SandboxClient()
        self.session: Session = await self.client.get_session(self.session_id)

    async def asyncTearDown(self) -> None:
        await self.client.close()
