"""The current trace, if the program uses OpenTelemetry. Needs no dependency on it."""

from __future__ import annotations

import sys


def trace_headers() -> dict[str, str]:
    """`traceparent` and `tracestate` of the active span, if there is one.

    Baggage stays here: it can hold anything, and the daemon has no use for it.
    """
    # A program that has not imported it has no span, and need not wait for the import.
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
