"""An agent of the OpenAI Agents SDK (`openai-agents`) that works in a sandbox."""

import asyncio
import os

from agents import Agent, Runner, function_tool
from sandkasten import SandboxClient, SandboxError, Session


def sandbox_tools(session: Session) -> list:
    @function_tool
    async def exec(cmd: str, timeout_ms: int = 30000) -> str:
        """Execute a shell command in the sandbox. Stateful: cd, env and background jobs persist."""
        try:
            result = await session.exec(cmd, timeout_ms=timeout_ms, output_budget_bytes=32768)
        except SandboxError as error:
            if error.result is None:
                raise
            result = error.result  # Timed out: show the model the output so far.
        exit = result.exit_code if result.end_reason == "exited" else result.end_reason
        return f"exit={exit}\ncwd={result.cwd}\n---\n{result.output}"

    @function_tool
    async def write_file(path: str, content: str) -> str:
        """Write content to a file in the sandbox. Relative paths start at /workspace."""
        await session.write(path, content)
        return f"wrote {path}"

    @function_tool
    async def read_file(path: str) -> str:
        """Read a text file in the sandbox, at most its first 262144 bytes."""
        return (await session.read(path, max_bytes=262144)).decode(errors="replace")

    return [exec, write_file, read_file]


async def main() -> None:
    client = SandboxClient(
        base_url=os.environ["SANDKASTEN_URL"], api_key=os.environ["SANDKASTEN_API_KEY"]
    )
    session = await client.create_session(image="python")
    try:
        agent = Agent(
            name="coding-assistant",
            instructions="You have a Linux sandbox. Use exec, write_file, read_file.",
            tools=sandbox_tools(session),
        )
        task = "Write a Python script that prints fibonacci numbers and run it"
        result = await Runner.run(agent, task)
        print(result.final_output)
    finally:
        await session.destroy()


asyncio.run(main())
