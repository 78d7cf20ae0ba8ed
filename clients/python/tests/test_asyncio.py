"""What only the asynchronous client can do: many calls at once, and cancelling them."""

import asyncio

from ._async.daemon_case import DaemonCase


class Asyncio(DaemonCase):
    async def test_many_commands_run_at_once_without_delaying_a_call(self) -> None:
        wait = ["sh", "-c", ": > begun.$$; until [ -e all ]; do sleep 0.2; done"]
        calls = [self.session.exec(wait, cwd="/workspace") for _ in range(12)]
        running = [asyncio.create_task(call) for call in calls]
        await self.session.exec(
            "until [ $(ls /workspace/begun.* | wc -l) = 12 ]; do sleep 0.1; done"
        )
        await self.session.write("all", "")
        results = await asyncio.gather(*running)
        self.assertEqual([result.exit_code for result in results], [0] * 12)

    async def test_a_cancelled_call_leaves_the_command_unless_told_otherwise(self) -> None:
        for policy, expected in (("continue", "running"), ("cancel", "done")):
            call = self.session.exec(["sleep", "1000"], on_disconnect=policy)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(call, 0.3)
            newest = [info async for info in self.session.execs()][0]
            command = self.session.get_exec(newest.exec_id)
            if policy == "cancel":
                await command.wait()
            self.assertEqual((await command.info()).status, expected)
            await command.cancel()

    async def test_a_reader_and_a_writer_share_a_port_connection(self) -> None:
        echo = (
            "import socketserver as s\n"
            "class H(s.BaseRequestHandler):\n"
            "  def handle(self):\n"
            "    while d := self.request.recv(65536): self.request.sendall(d)\n"
            "s.ThreadingTCPServer(('127.0.0.1', 8766), H).serve_forever()\n"
        )
        await self.session.write("echo.py", echo)
        server = await self.session.start(["python3", "echo.py"])
        while not await self.session.ports():
            await asyncio.sleep(0.05)
        sent = bytes(range(256)) * 20_000
        async with await self.session.connect(8766) as connection:

            async def write() -> None:
                await connection.write(sent)
                await connection.end_input()

            writing = asyncio.create_task(write())
            received = b"".join([data async for data in connection])
            await writing
        self.assertEqual(received, sent)
        await server.cancel()

    def test_a_client_can_be_used_by_one_event_loop_after_the_other(self) -> None:
        async def command() -> str:
            session = await self.client.get_session(self.session_id)
            output = (await session.exec(["echo", "again"])).stdout
            await self.client.close()
            return output

        self.assertEqual([asyncio.run(command()) for _ in range(2)], ["again\n", "again\n"])
