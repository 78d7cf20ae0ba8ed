"""Tools for the OpenAI Agents SDK. Install with `sandkasten-client[openai-agents]`."""

from __future__ import annotations

from agents import FunctionTool, function_tool

from ._async.session import Session
from ._async.tools import SandboxTools
from ._sync.session import SyncSession
from ._sync.tools import SyncSandboxTools


def sandbox_tools(session: Session | SyncSession) -> list[FunctionTool]:
    """Tools for an agent: `exec`, `write_file`, `read_file` and `list_files` in this session."""
    if isinstance(session, SyncSession):
        tools = SyncSandboxTools(session)
        return [
            function_tool(function)
            for function in (tools.exec, tools.write_file, tools.read_file, tools.list_files)
        ]
    async_tools = SandboxTools(session)
    return [
        function_tool(function)
        for function in (
            async_tools.exec,
            async_tools.write_file,
            async_tools.read_file,
            async_tools.list_files,
        )
    ]
