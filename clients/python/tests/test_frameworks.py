"""The helpers for agent frameworks, with the real packages on a real daemon."""

import json

from agents.tool_context import ToolContext
from langchain_core.tools import ToolException
from pydantic import ValidationError

from sandkasten import langchain, openai_agents

from ._async.daemon_case import DaemonCase

NAMES = ["exec", "write_file", "read_file", "list_files"]


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
        with self.assertRaises((ValidationError, ToolException)):
            await tools["exec"].ainvoke({"cmd": ["not", "text"]})

    async def test_openai_agents_tools_work_in_the_sandbox(self) -> None:
        tools = {tool.name: tool for tool in openai_agents.sandbox_tools(self.session)}
        self.assertEqual(list(tools), NAMES)

        async def call(name: str, **arguments: object) -> str:
            given = json.dumps(arguments)
            context = ToolContext(
                context=None, tool_name=name, tool_call_id="1", tool_arguments=given
            )
            return str(await tools[name].on_invoke_tool(context, given))

        self.assertEqual(await call("write_file", path="agent.py", content="x"), "wrote agent.py")
        self.assertEqual(await call("read_file", path="agent.py"), "x")
        self.assertIn("error", (await call("exec", cmd=7)).lower())
        self.assertIn("error: FILE_NOT_FOUND", await call("read_file", path="nothing"))
