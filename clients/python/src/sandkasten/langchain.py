"""Tools for LangChain and LangGraph. Install with `sandkasten-client[langchain]`."""

from __future__ import annotations

from langchain_core.tools import StructuredTool

from ._async.session import Session
from .tools import SandboxTools


def sandbox_tools(session: Session) -> list[StructuredTool]:
    """Tools for an agent: `exec`, `write_file`, `read_file` and `list_files` in this session."""
    tools = SandboxTools(session)
    functions = (tools.exec, tools.write_file, tools.read_file, tools.list_files)
    return [
        StructuredTool.from_function(coroutine=function, parse_docstring=True)
        for function in functions
    ]
