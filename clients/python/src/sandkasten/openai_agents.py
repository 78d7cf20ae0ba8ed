"""Tools for the OpenAI Agents SDK. Install with `sandkasten-client[openai-agents]`."""

from __future__ import annotations

from agents import FunctionTool, function_tool

from ._async.session import Session
from .tools import SandboxTools


def sandbox_tools(session: Session) -> list[FunctionTool]:
    """Tools for an agent: `exec`, `write_file`, `read_file` and `list_files` in this session."""
    tools = SandboxTools(session)
    functions = (tools.exec, tools.write_file, tools.read_file, tools.list_files)
    return [function_tool(function) for function in functions]
