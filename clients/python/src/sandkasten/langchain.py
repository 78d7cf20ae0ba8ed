"""Tools for LangChain and LangGraph. Install with `sandkasten-client[langchain]`."""

from __future__ import annotations

from langchain_core.tools import StructuredTool
from pydantic import ValidationError
from pydantic.v1 import ValidationError as ValidationErrorV1

from ._async.session import Session
from ._async.tools import SandboxTools
from ._sync.session import SyncSession
from ._sync.tools import SyncSandboxTools


def sandbox_tools(session: Session | SyncSession) -> list[StructuredTool]:
    """Tools for an agent: `exec`, `write_file`, `read_file` and `list_files` in this session.

    With a `SyncSession` they are for `invoke`, and otherwise for `ainvoke`.
    """
    if isinstance(session, SyncSession):
        tools = SyncSandboxTools(session)
        return [
            StructuredTool.from_function(
                function, parse_docstring=True, handle_validation_error=_advice
            )
            for function in (tools.exec, tools.write_file, tools.read_file, tools.list_files)
        ]
    async_tools = SandboxTools(session)
    return [
        StructuredTool.from_function(
            coroutine=function, parse_docstring=True, handle_validation_error=_advice
        )
        for function in (
            async_tools.exec,
            async_tools.write_file,
            async_tools.read_file,
            async_tools.list_files,
        )
    ]


def _advice(error: ValidationError | ValidationErrorV1) -> str:
    """Describes the problem with the input without repeating the input, which can be long."""
    mistakes = (
        f"{'.'.join(str(part) for part in mistake['loc'])}: {mistake['msg']}"
        for mistake in error.errors()
    )
    return f"error: INVALID_INPUT: {'; '.join(mistakes)}"
