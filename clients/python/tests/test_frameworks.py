"""The helpers for agent frameworks, with the real packages on a real daemon."""

import json

from agents import FunctionTool
from agents.tool_context import ToolContext

from sandkasten import SyncSandboxClient, langchain, openai_agents

from ._async.daemon_case import DaemonCase

NAMES = ["exec", "write_file", "read_file", "list_files"]


async def call(tools: list[FunctionTool], name: str, **arguments: object) -> str:
    """Calls a tool as the OpenAI Agents SDK does."""
    given = json.dumps(arguments)
    context = ToolContext(context=None, tool_name=name, tool_call_id="1", tool_arguments=given)
    [tool] = [tool for tool in tools if tool.name == name]
    return str(await tool.on_invoke_tool(context, given))


class Frameworks(DaemonCase):
    async def test_langchain_tools_work_in_the_sandbox(self) -> None:
        tools = {tool.name: tool for tool in langchain.sandbox_tools(self.session)}
        self.assertEqual(list(tools), NAMES)
        written = await tools["write_file"].ainvoke({"path": "lang.py", "content": "print(6 * 7)\n"})
        self.assertEqual(written, "wrote lang.py")
        ran = await tools["exec"].ainvoke({"cmd": "cd /workspace && python3 lang.py"})
        self.assertEqual(ran, "exit=0\ncwd=/workspace\n---\n42\n")
        self.assertEqual(await tools["read_file"].ainvoke({"path": "lang.py"}), "print(6 * 7)\n")
        self.assertIn("file 13 /workspace/lang.py", await tools["list_files"].ainvoke({}))
        schema = tools["exec"].get_input_jsonschema()
        self.assertEqual(schema["required"], ["cmd"])
        self.assertEqual(
            schema["properties"]["cmd"]["description"], "The command, as typed at a prompt."
        )

    async def test_mistakes_of_a_model_are_answers_it_can_act_on(self) -> None:
        tools = {tool.name: tool for tool in langchain.sandbox_tools(self.session)}
        missing = await tools["read_file"].ainvoke({"path": "not-here"})
        self.assertIn("error: FILE_NOT_FOUND", missing)
        slow = await tools["exec"].ainvoke({"cmd": "echo begun; sleep 60", "timeout_seconds": 1})
        self.assertTrue(slow.startswith("exit=124\n"))
        self.assertIn("begun", slow)
        self.assertIn("killed after 1 seconds", slow)
        await self.session.exec("head -c 300000 /dev/zero | tr '\\0' x > /workspace/large")
        large = await tools["read_file"].ainvoke({"path": "large"})
        self.assertIn("[only the first 262144 bytes; use exec for the rest]", large)
        wrong = await tools["exec"].ainvoke(
            {"type": "tool_call", "id": "1", "name": "exec", "args": {"cmd": ["x" * 10_000]}}
        )
        self.assertEqual(wrong.status, "error")
        self.assertEqual(
            wrong.content, "error: INVALID_INPUT: cmd: Input should be a valid string"
        )
        huge = await tools["exec"].ainvoke({"cmd": "x" * 3_000_000})
        self.assertRegex(huge, "^error: [A-Z_]+: ")
        self.assertLess(len(huge), 500)

    async def test_tools_work_with_a_synchronous_session(self) -> None:
        with SyncSandboxClient() as client, client.create_session(image="host") as session:
            tools = {tool.name: tool for tool in langchain.sandbox_tools(session)}
            self.assertEqual(list(tools), NAMES)
            written = tools["write_file"].invoke({"path": "a.txt", "content": "alpha"})
            self.assertEqual(written, "wrote a.txt")
            self.assertEqual(tools["read_file"].invoke({"path": "a.txt"}), "alpha")
            self.assertIn("error: INVALID_INPUT: path:", tools["read_file"].invoke({}))
            self.assertEqual(
                await call(openai_agents.sandbox_tools(session), "read_file", path="a.txt"), "alpha"
            )

    async def test_openai_agents_tools_work_in_the_sandbox(self) -> None:
        tools = openai_agents.sandbox_tools(self.session)
        self.assertEqual([tool.name for tool in tools], NAMES)
        written = await call(tools, "write_file", path="agent.py", content="x")
        self.assertEqual(written, "wrote agent.py")
        self.assertEqual(await call(tools, "read_file", path="agent.py"), "x")
        self.assertIn("error", (await call(tools, "exec", cmd=7)).lower())
        missing = await call(tools, "read_file", path="nothing")
        self.assertIn("error: FILE_NOT_FOUND", missing)
