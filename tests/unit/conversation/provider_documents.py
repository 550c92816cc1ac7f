"""Requests as each provider documents them, with everything that can be in one."""

from __future__ import annotations

import base64
from typing import Any

PNG = base64.b64encode(b"\x89PNG picture").decode()
PDF = base64.b64encode(b"%PDF-1.7 page").decode()
WAV = base64.b64encode(b"RIFFsound").decode()


def _function(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT: dict[str, Any] = {
    "messages": [
        {"role": "developer", "content": "Answer in one line.", "name": "ops"},
        {"role": "system", "content": [{"type": "text", "text": "You book flights."}]},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "What is this?"},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "high"},
                },
                {"type": "image_url", "image_url": {"url": "https://example.org/seat.png"}},
                {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
                {
                    "type": "file",
                    "file": {
                        "filename": "ticket.pdf",
                        "file_data": f"data:application/pdf;base64,{PDF}",
                    },
                },
                {"type": "file", "file": {"file_id": "file-6F2ksmvXxt4VdoqmHRw6kL"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "tool_calls": [
                _function("call_1", "search", '{"to": "NYC", "class": "economy"}'),
                _function("call_2", "weather", "{}"),
                {
                    "id": "call_3",
                    "type": "custom",
                    "custom": {"name": "run_code", "input": "print(1)\n"},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_2", "content": "sunny"},
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": [{"type": "text", "text": "DL 47"}, {"type": "text", "text": "LH 400"}],
        },
        {"role": "tool", "tool_call_id": "call_3", "content": ""},
        {
            "role": "assistant",
            "content": "Delta flies.",
            "reasoning_content": "They want the cheapest.",
            "audio": {"id": "audio_6725224ac62481908ab55dc283289d87"},
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {
                        "url": "https://example.org",
                        "title": "Fares",
                        "start_index": 0,
                        "end_index": 5,
                    },
                }
            ],
        },
        {"role": "user", "content": "Say it aloud"},
        {"role": "assistant", "audio": {"id": "audio_abc"}},
        {"role": "user", "content": "And the old way?"},
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "book", "arguments": '{"flight":"DL 47"}'},
        },
        {"role": "function", "name": "book", "content": '{"ok": true}'},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not do that."}]},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "user", "content": "Thanks"},
    ]
}

RESPONSES: dict[str, Any] = {
    "instructions": "You book flights.",
    "input": [
        {"role": "developer", "content": "Answer in one line."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{PNG}",
                    "detail": "auto",
                },
                {"type": "input_image", "file_id": "file-abc", "detail": "low"},
                {
                    "type": "input_file",
                    "filename": "ticket.pdf",
                    "file_data": f"data:application/pdf;base64,{PDF}",
                },
                {"type": "input_file", "file_url": "https://example.org/a.pdf"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "They want a seat."},
                {"type": "summary_text", "text": "An aisle one."},
            ],
            "content": [{"type": "reasoning_text", "text": "long thoughts"}],
            "encrypted_content": "gAAAAABo",
            "status": "completed",
        },
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "flights to NYC"},
        },
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["seats"],
            "results": None,
        },
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "container_id": "cntr_1",
            "status": "completed",
            "code": "1+1",
            "outputs": [{"type": "logs", "logs": "2"}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [
                {
                    "type": "output_text",
                    "text": "Let me look.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://example.org",
                            "title": "Fares",
                            "start_index": 0,
                            "end_index": 3,
                        }
                    ],
                    "logprobs": [],
                }
            ],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "search",
            "arguments": '{"to":"NYC"}',
            "status": "completed",
        },
        {
            "type": "custom_tool_call",
            "id": "ctc_1",
            "call_id": "call_2",
            "name": "run_code",
            "input": "print(1)\n",
        },
        {
            "type": "computer_call",
            "id": "cu_1",
            "call_id": "call_3",
            "action": {"type": "click", "button": "left", "x": 3, "y": 4},
            "pending_safety_checks": [],
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "DL 47"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "1\n"},
        {
            "type": "computer_call_output",
            "call_id": "call_3",
            "output": {
                "type": "computer_screenshot",
                "image_url": f"data:image/png;base64,{PNG}",
            },
        },
        {
            "type": "reasoning",
            "id": "rs_2",
            "summary": [],
            "encrypted_content": "gAAAAABp",
        },
        {
            "type": "function_call",
            "call_id": "call_4",
            "name": "photo",
            "arguments": "{}",
        },
        {
            "type": "function_call_output",
            "call_id": "call_4",
            "output": [
                {"type": "input_text", "text": "here"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
            ],
        },
        {
            "type": "mcp_list_tools",
            "id": "mcpl_1",
            "server_label": "maps",
            "tools": [{"name": "route", "input_schema": {"type": "object"}}],
        },
        {
            "type": "mcp_approval_request",
            "id": "mcpr_1",
            "server_label": "maps",
            "name": "route",
            "arguments": "{}",
        },
        {
            "type": "mcp_approval_response",
            "approval_request_id": "mcpr_1",
            "approve": True,
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "maps",
            "name": "route",
            "arguments": "{}",
            "output": "5 km",
            "error": None,
        },
        {
            "type": "message",
            "id": "msg_9",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "I will not do that."}],
        },
        {"type": "item_reference", "id": "msg_0"},
        {"role": "user", "content": "Thanks"},
    ],
}

ANTHROPIC: dict[str, Any] = {
    "system": [
        {"type": "text", "text": "You book flights."},
        {
            "type": "text",
            "text": "The fares are these.",
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        },
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                {"type": "image", "source": {"type": "file", "file_id": "file_011C"}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                    "title": "Ticket",
                    "context": "bought last week",
                    "citations": {"enabled": True},
                },
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "Gate 7"},
                    "title": "Notes",
                },
                {
                    "type": "document",
                    "source": {"type": "content", "content": [{"type": "text", "text": "a"}]},
                },
                {
                    "type": "search_result",
                    "source": "https://example.org",
                    "title": "Fares",
                    "content": [{"type": "text", "text": "482"}],
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "They want it cheap.", "signature": "EqQBCg"},
                {"type": "redacted_thinking", "data": "EmwKAhgB"},
                {
                    "type": "text",
                    "text": "Gate 7.",
                    "citations": [
                        {
                            "type": "char_location",
                            "cited_text": "Gate 7",
                            "document_index": 1,
                            "document_title": "Notes",
                            "start_char_index": 0,
                            "end_char_index": 6,
                        }
                    ],
                },
                {
                    "type": "server_tool_use",
                    "id": "srvtoolu_1",
                    "name": "web_search",
                    "input": {"query": "fares"},
                },
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": [
                        {
                            "type": "web_search_result",
                            "url": "https://example.org",
                            "title": "Fares",
                            "encrypted_content": "EqgfCioIARgB",
                            "page_age": None,
                        }
                    ],
                },
                {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"to": "NYC"}},
                {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {}},
                {"type": "tool_use", "id": "toolu_3", "name": "photo", "input": {"n": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "no such airport",
                    "is_error": True,
                },
                {"type": "tool_result", "tool_use_id": "toolu_2"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_3",
                    "content": [
                        {"type": "text", "text": "here"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                        },
                    ],
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "text", "text": "And now?"},
            ],
        },
        {"role": "assistant", "content": "The airport is unknown."},
        {"role": "user", "content": "Thanks"},
    ],
}

PLAIN = (
    "system: You book flights.\nUser: What is this?\nIt is small.\nAI: A ticket.\nuser: Thanks\n"
)

DOCUMENTS: dict[str, Any] = {
    "openai": CHAT,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "plain": PLAIN,
}
