#!/usr/bin/env python3
"""A scripted stand-in for the models' HTTP APIs (stdlib only, loopback only): the one thing that tests can not reach.
The command-line agents in front of it are the real ones. What it says is from this script, so the tests show how the agents
behave on the wire and not how well a model uses them.

Speaks just enough of four model HTTP APIs for the real agent CLIs to run with no network:
  Anthropic  POST /v1/messages (SSE or JSON), /v1/messages/count_tokens, GET /v1/models
  OpenAI     POST /v1/responses (SSE or JSON), POST /v1/chat/completions (SSE or JSON), GET /v1/models
  Gemini     POST /v1beta/models/M:generateContent | :streamGenerateContent | :countTokens, GET /v1beta/models

What it answers is decided by the text of the last user message:
  RUN:<cmd>      one call of the client's shell tool, then (after the tool result) a closing text
  ESC:<cmd>      like RUN, but asks to run outside the sandbox (codex)
  WRITE:<path>   one call of the client's file-write tool, then a closing text
  ASK            a call of AskUserQuestion / ask_user / question / request_user_input when offered
  SLOW:<n>       n text deltas, 200 ms apart
  THINK          a reasoning block before the text
  ERR:<status>   HTTP error <status>
  RECALL:<word>  says whether the word was in the conversation before
  DROP           closes the connection in mid-stream after two deltas
  DROPONCE:<key> does so the first time it hears this key, and answers the next
  anything else  "You said: <text>" in one delta per word
Requests that offer no tool (title generation and the like) never get a tool call.

usage: fake_model.py [--port 8089] [--log FILE] [--full]      (--full logs whole request bodies)
"""
import argparse, json, re, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHELL = ["Bash", "bash", "exec_command", "shell_command", "shell", "local_shell", "run_shell_command"]
WRITE = ["Write", "write", "write_file", "apply_patch"]
ASK = ["AskUserQuestion", "ask_user", "question", "request_user_input"]
ARGS = None
LOCK = threading.Lock()
SEQ = [0]
DROPPED = set()


def nid(prefix):
    with LOCK:
        SEQ[0] += 1
        return "%s%06d" % (prefix, SEQ[0])


def directive(text):
    """The last directive in the text, as (kind, argument)."""
    best = None
    for m in re.finditer(r"\b(RUN|ESC|WRITE|SLOW|ERR|RECALL|DROPONCE):([^\n]+)|\b(ASK|THINK|DROP)\b", text):
        best = (m.group(1) or m.group(3), (m.group(2) or "").strip())
    return best or ("ECHO", "")


def words(text):
    return re.findall(r"\S+\s*", text) or [text or "..."]


def shell_args(name, cmd):
    if name == "exec_command":
        return {"cmd": cmd}
    if name == "shell":
        return {"command": ["bash", "-lc", cmd]}
    if name == "shell_command":
        return {"command": cmd}
    return {"command": cmd, "description": "scripted command"}


def write_args(name, path):
    body = "hello from the fake model\n"
    if name == "write":
        return {"filePath": path, "content": body}
    if name == "apply_patch":
        return "*** Begin Patch\n*** Add File: %s\n+%s*** End Patch\n" % (path, body)
    return {"file_path": path, "content": body}


def ask_args(name):
    q = {"question": "Which colour do you want?", "header": "Colour", "multiSelect": False,
         "options": [{"label": "Red", "description": "a warm one"}, {"label": "Blue", "description": "a cold one"}]}
    if name == "ask_user":
        q = dict(q, type="choice")
    if name == "question":
        q = {"question": q["question"], "header": q["header"], "options": q["options"], "multiple": False}
    if name == "request_user_input":
        q = {"id": "colour", "question": q["question"], "header": q["header"], "options": q["options"]}
    return {"questions": [q]}


class Plan:
    """What to answer: thinking, then text deltas (with a pause), then maybe one tool call."""

    def __init__(self, text, tool_result, tools, whole=""):
        self.think, self.deltas, self.pause, self.tool, self.err, self.drop = None, [], 0.0, None, 0, False
        kind, arg = directive(text)
        if tool_result is not None:
            one = " ".join(tool_result.split())[:160]
            self.deltas = words("Done. The tool said: " + one)
            return
        pick = lambda names: next((n for n in names if n in tools), None)
        if kind == "ERR":
            self.err = int(re.sub(r"\D.*", "", arg) or 500)
        elif kind == "DROP":
            self.drop, self.deltas = True, ["one ", "two ", "three "]
        elif kind == "SLOW":
            n = int(re.sub(r"\D.*", "", arg) or 5)
            self.deltas, self.pause = ["tick%d " % i for i in range(n)], 0.2
        elif kind == "DROPONCE":
            with LOCK:
                self.drop = bool(tools) and arg not in DROPPED
                DROPPED.update([arg] if self.drop else [])
            self.deltas = words("I am back again.")
        elif kind == "RECALL":
            self.deltas = words("I know %s" % arg if whole.count(arg) > text.count(arg) else "That is new to me.")
        elif kind == "THINK":
            self.think, self.deltas = "Let me think about it.", words("I have thought about it.")
        elif kind == "RUN" and pick(SHELL):
            n = pick(SHELL)
            self.deltas, self.tool = words("I will run it."), (n, shell_args(n, arg))
        elif kind == "ESC" and pick(SHELL):
            n = pick(SHELL)
            self.deltas = words("I will run it outside the sandbox.")
            self.tool = (n, dict(shell_args(n, arg), sandbox_permissions="require_escalated", justification="scripted escalation"))
        elif kind == "WRITE" and not pick(WRITE) and pick(["exec_command", "shell_command", "shell"]):
            n = pick(SHELL)      # codex without a patch tool: the CLI intercepts apply_patch inside a shell call
            self.deltas = words("I will write it.")
            self.tool = (n, shell_args(n, "apply_patch <<'EOF'\n" + write_args("apply_patch", arg) + "EOF\n"))
        elif kind == "WRITE" and pick(WRITE):
            n = pick(WRITE)
            self.deltas, self.tool = words("I will write it."), (n, write_args(n, arg))
        elif kind == "ASK" and pick(ASK):
            n = pick(ASK)
            self.deltas, self.tool = words("I have a question."), (n, ask_args(n))
        else:
            self.deltas = words("You said: " + " ".join(text.split())[-200:])
        self.text = "".join(self.deltas)

    @property
    def full(self):
        return "".join(self.deltas)


def flat(content):
    """Text of a message content that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    out = []
    for b in content or []:
        if isinstance(b, str):
            out.append(b)
        elif isinstance(b, dict) and isinstance(b.get("text"), str):
            out.append(b["text"])
    return "\n".join(t for t in out if not t.lstrip().startswith("<system-reminder>"))


def plan_anthropic(req):
    tools = {t.get("name") for t in req.get("tools") or []}
    text, result = "", None
    msgs = req.get("messages") or []
    for m in reversed(msgs):
        if m.get("role") != "user":
            continue
        c = m.get("content")
        blocks = c if isinstance(c, list) else [{"type": "text", "text": c or ""}]
        res = [b for b in blocks if isinstance(b, dict) and b.get("type") == "tool_result"]
        # a CLI may glue an earlier, unanswered prompt in front: only the last real text block counts
        tb = [b for b in blocks if isinstance(b, dict) and b.get("type") == "text" and not (b.get("text") or "").lstrip().startswith("<system-reminder>")]
        t = flat(tb[-1:])
        if res and result is None and not text:
            rc = res[-1].get("content")
            result = rc if isinstance(rc, str) else flat(rc)
            if t.strip() and not t.lstrip().startswith("[Request interrupted"):   # a new prompt sits beside the result
                text, result = t, None
                break
            continue
        if t.strip():
            text = t
            break
    return Plan(text, result, tools, json.dumps(req))


def plan_responses(req):
    tools = set()
    for t in req.get("tools") or []:
        tools.add(t.get("name") or t.get("type"))
    items = req.get("input")
    if isinstance(items, str):
        return Plan(items, None, tools, items)
    text, result = "", None
    for it in reversed(items or []):
        ty = it.get("type", "message")
        if ty in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
            if result is None:
                o = it.get("output")
                result = o if isinstance(o, str) else flat(o) if isinstance(o, list) else json.dumps(o)
        elif ty == "message" and it.get("role") == "user":
            text = flat(it.get("content"))
            if re.match(r"\s*<(turn_aborted|environment_context)", text):
                continue
            break
    return Plan(text, result, tools, json.dumps(req))


def plan_chat(req):
    tools = {(t.get("function") or {}).get("name") for t in req.get("tools") or []}
    text, result = "", None
    for m in reversed(req.get("messages") or []):
        if m.get("role") == "tool" and result is None:
            result = flat(m.get("content"))
        elif m.get("role") == "user":
            text = flat(m.get("content"))
            break
    return Plan(text, result, tools, json.dumps(req))


def plan_gemini(req):
    tools = set()
    for t in req.get("tools") or []:
        for f in t.get("functionDeclarations") or []:
            tools.add(f.get("name"))
    text, result = "", None
    for c in reversed(req.get("contents") or []):
        if c.get("role", "user") != "user":
            continue
        parts = c.get("parts") or []
        fr = [p["functionResponse"] for p in parts if "functionResponse" in p]
        if fr:
            if result is None:
                result = json.dumps(fr[-1].get("response"))
            continue
        tp = [p["text"] for p in parts if (p.get("text") or "").strip()]
        t = (tp[-1] if tp else "").split("</session_context>")[-1]
        if t.strip():
            text = t
            break
    return Plan(text, result, tools, json.dumps(req))


class H(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    # -- plumbing
    def note(self, **kw):
        if not ARGS.log:
            return
        kw["t"] = round(time.time(), 3)
        with LOCK, open(ARGS.log, "a") as f:
            f.write(json.dumps(kw) + "\n")

    def send_json(self, obj, status=200):
        b = json.dumps(obj).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(b)))
        self.end_headers()
        self.wfile.write(b)

    def sse_start(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def raw(self, s):
        b = s.encode()
        self.wfile.write(b"%x\r\n" % len(b) + b + b"\r\n")
        self.wfile.flush()

    def ev(self, obj, name=None):
        self.raw(("event: %s\n" % name if name else "") + "data: " + json.dumps(obj) + "\n\n")

    def sse_end(self):
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def cut(self):
        self.close_connection = True
        self.wfile.flush()
        self.connection.close()

    def body(self):
        if "chunked" in (self.headers.get("transfer-encoding") or ""):
            out = b""
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                out += self.rfile.read(n)
                self.rfile.readline()
                if n == 0:
                    break
        else:
            out = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            import gzip
            out = gzip.decompress(out)
        try:
            return json.loads(out or b"{}")
        except ValueError:
            return {}

    # -- routes
    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        p = self.path.split("?")[0]
        self.note(method="GET", path=self.path)
        if p.endswith("/v1beta/models"):
            return self.send_json({"models": [{"name": "models/gemini-2.5-pro", "supportedGenerationMethods": ["generateContent"]}]})
        if p.endswith("/models"):
            m = {"id": "fake-model", "object": "model", "type": "model", "display_name": "Fake", "created": 0,
                 "created_at": "2025-01-01T00:00:00Z", "owned_by": "fake"}
            return self.send_json({"object": "list", "data": [m], "has_more": False, "first_id": m["id"], "last_id": m["id"]})
        if p in ("/", "/health"):
            return self.send_json({"ok": True})
        self.send_json({"error": {"message": "no such path", "type": "not_found_error"}}, 404)

    def do_POST(self):
        req = self.body()
        p = self.path.split("?")[0]
        if isinstance(req, list):
            req = {"batch": req}
        brief = {"model": req.get("model"), "stream": req.get("stream"), "keys": sorted(req)[:30],
                 "tools": [t.get("name") or (t.get("function") or {}).get("name") or t.get("type") or
                           [f.get("name") for f in t.get("functionDeclarations") or []] for t in req.get("tools") or []]}
        self.note(method="POST", path=self.path, ua=self.headers.get("user-agent"), brief=brief, **({"body": req} if ARGS.full else {}))
        try:
            if p.endswith("/messages/count_tokens"):
                return self.send_json({"input_tokens": max(1, len(json.dumps(req)) // 4)})
            if p.endswith("/messages"):
                return self.anthropic(req)
            if p.endswith("/responses"):
                return self.openai_responses(req)
            if p.endswith("/chat/completions"):
                return self.chat(req)
            if ":countTokens" in p:
                return self.send_json({"totalTokens": max(1, len(json.dumps(req)) // 4)})
            if ":generateContent" in p or ":streamGenerateContent" in p:
                return self.gemini(req, "stream" in p.rsplit(":", 1)[1])
            self.send_json({"error": {"message": "no such path", "type": "not_found_error"}}, 404)
        except (BrokenPipeError, ConnectionResetError):
            self.note(method="POST", path=self.path, gone=True)
            self.close_connection = True

    def fail(self, status):
        self.send_json({"type": "error", "error": {"type": "api_error", "code": status, "status": "INTERNAL",
                                                   "message": "scripted error %d" % status}}, status)

    # -- Anthropic Messages
    def anthropic(self, req):
        pl = plan_anthropic(req)
        if pl.err:
            return self.fail(pl.err)
        mid, use = nid("msg_fake"), {"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        stop = "tool_use" if pl.tool else "end_turn"
        blocks = []
        if pl.think:
            blocks.append({"type": "thinking", "thinking": pl.think, "signature": "c2ln"})
        if pl.deltas:
            blocks.append({"type": "text", "text": pl.full})
        if pl.tool:
            blocks.append({"type": "tool_use", "id": nid("toolu_fake"), "name": pl.tool[0], "input": pl.tool[1]})
        base = {"id": mid, "type": "message", "role": "assistant", "model": req.get("model") or "fake-model"}
        if not req.get("stream"):
            return self.send_json(dict(base, content=blocks, stop_reason=stop, stop_sequence=None, usage=dict(use, output_tokens=20)))
        self.sse_start()
        e = lambda o: self.ev(o, o["type"])
        e({"type": "message_start", "message": dict(base, content=[], stop_reason=None, stop_sequence=None, usage=use)})
        e({"type": "ping"})
        for i, b in enumerate(blocks):
            if b["type"] == "thinking":
                e({"type": "content_block_start", "index": i, "content_block": {"type": "thinking", "thinking": "", "signature": ""}})
                for w in words(b["thinking"]):
                    e({"type": "content_block_delta", "index": i, "delta": {"type": "thinking_delta", "thinking": w}})
                e({"type": "content_block_delta", "index": i, "delta": {"type": "signature_delta", "signature": b["signature"]}})
            elif b["type"] == "text":
                e({"type": "content_block_start", "index": i, "content_block": {"type": "text", "text": ""}})
                for k, w in enumerate(pl.deltas):
                    if pl.drop and k == 2:
                        return self.cut()
                    e({"type": "content_block_delta", "index": i, "delta": {"type": "text_delta", "text": w}})
                    time.sleep(pl.pause)
            else:
                e({"type": "content_block_start", "index": i, "content_block": dict(b, input={})})
                j = json.dumps(b["input"])
                for k in range(0, len(j), 24):
                    e({"type": "content_block_delta", "index": i, "delta": {"type": "input_json_delta", "partial_json": j[k:k + 24]}})
            e({"type": "content_block_stop", "index": i})
        e({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 20}})
        e({"type": "message_stop"})
        self.sse_end()

    # -- OpenAI Responses
    def openai_responses(self, req):
        pl = plan_responses(req)
        if pl.err:
            return self.fail(pl.err)
        rid = nid("resp_fake")
        usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 20,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 30}
        base = {"id": rid, "object": "response", "created_at": int(time.time()), "model": req.get("model") or "fake-model"}
        items = []
        if pl.think:
            items.append({"type": "reasoning", "id": nid("rs_fake"), "summary": [{"type": "summary_text", "text": pl.think}]})
        if pl.deltas:
            items.append({"type": "message", "id": nid("msg_fake"), "role": "assistant", "status": "completed",
                          "content": [{"type": "output_text", "text": pl.full, "annotations": []}]})
        if pl.tool:
            name, a = pl.tool
            if isinstance(a, str):
                items.append({"type": "custom_tool_call", "id": nid("ctc_fake"), "call_id": nid("call_fake"), "name": name, "input": a, "status": "completed"})
            else:
                items.append({"type": "function_call", "id": nid("fc_fake"), "call_id": nid("call_fake"), "name": name,
                              "arguments": json.dumps(a), "status": "completed"})
        if not req.get("stream"):
            return self.send_json(dict(base, status="completed", output=items, usage=usage))
        self.sse_start()
        n = [0]

        def e(ty, **kw):
            self.ev(dict(kw, type=ty, sequence_number=n[0]), ty)
            n[0] += 1
        e("response.created", response=dict(base, status="in_progress", output=[]))
        for i, it in enumerate(items):
            if it["type"] == "message":
                e("response.output_item.added", output_index=i, item=dict(it, status="in_progress", content=[]))
                e("response.content_part.added", item_id=it["id"], output_index=i, content_index=0, part={"type": "output_text", "text": "", "annotations": []})
                for k, w in enumerate(pl.deltas):
                    if pl.drop and k == 2:
                        return self.cut()
                    e("response.output_text.delta", item_id=it["id"], output_index=i, content_index=0, delta=w)
                    time.sleep(pl.pause)
                e("response.output_text.done", item_id=it["id"], output_index=i, content_index=0, text=pl.full)
                e("response.content_part.done", item_id=it["id"], output_index=i, content_index=0, part=it["content"][0])
            elif it["type"] == "reasoning":
                e("response.output_item.added", output_index=i, item=dict(it, summary=[]))
                e("response.reasoning_summary_part.added", item_id=it["id"], output_index=i, summary_index=0, part={"type": "summary_text", "text": ""})
                for w in words(pl.think):
                    e("response.reasoning_summary_text.delta", item_id=it["id"], output_index=i, summary_index=0, delta=w)
                e("response.reasoning_summary_text.done", item_id=it["id"], output_index=i, summary_index=0, text=pl.think)
            elif it["type"] == "function_call":
                e("response.output_item.added", output_index=i, item=dict(it, status="in_progress", arguments=""))
                e("response.function_call_arguments.delta", item_id=it["id"], output_index=i, delta=it["arguments"])
                e("response.function_call_arguments.done", item_id=it["id"], output_index=i, arguments=it["arguments"])
            else:
                e("response.output_item.added", output_index=i, item=dict(it, status="in_progress", input=""))
                e("response.custom_tool_call_input.delta", item_id=it["id"], output_index=i, delta=it["input"])
                e("response.custom_tool_call_input.done", item_id=it["id"], output_index=i, input=it["input"])
            e("response.output_item.done", output_index=i, item=it)
        e("response.completed", response=dict(base, status="completed", output=items, usage=usage))
        self.sse_end()

    # -- OpenAI Chat Completions
    def chat(self, req):
        pl = plan_chat(req)
        if pl.err:
            return self.fail(pl.err)
        cid = nid("chatcmpl_fake")
        usage = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
        base = {"id": cid, "created": int(time.time()), "model": req.get("model") or "fake-model"}
        calls = None
        if pl.tool:
            a = pl.tool[1]
            calls = [{"id": nid("call_fake"), "type": "function",
                      "function": {"name": pl.tool[0], "arguments": a if isinstance(a, str) else json.dumps(a)}}]
        fin = "tool_calls" if calls else "stop"
        if not req.get("stream"):
            msg = {"role": "assistant", "content": pl.full}
            if calls:
                msg["tool_calls"] = calls
            return self.send_json(dict(base, object="chat.completion", choices=[{"index": 0, "message": msg, "finish_reason": fin}], usage=usage))
        self.sse_start()
        e = lambda d, f=None: self.ev(dict(base, object="chat.completion.chunk", choices=[{"index": 0, "delta": d, "finish_reason": f}]))
        e({"role": "assistant", "content": ""})
        if pl.think:
            for w in words(pl.think):
                e({"reasoning_content": w})
        for k, w in enumerate(pl.deltas):
            if pl.drop and k == 2:
                return self.cut()
            e({"content": w})
            time.sleep(pl.pause)
        if calls:
            c = calls[0]
            e({"tool_calls": [{"index": 0, "id": c["id"], "type": "function", "function": {"name": c["function"]["name"], "arguments": ""}}]})
            e({"tool_calls": [{"index": 0, "function": {"arguments": c["function"]["arguments"]}}]})
        e({}, fin)
        self.ev(dict(base, object="chat.completion.chunk", choices=[], usage=usage))
        self.raw("data: [DONE]\n\n")
        self.sse_end()

    # -- Gemini
    def gemini(self, req, stream):
        pl = plan_gemini(req)
        if pl.err:
            return self.fail(pl.err)
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 20, "totalTokenCount": 30}
        model = self.path.split("/models/")[-1].split(":")[0]

        def chunk(parts, fin=None):
            c = {"content": {"role": "model", "parts": parts}, "index": 0}
            if fin:
                c["finishReason"] = fin
            o = {"candidates": [c], "modelVersion": model, "responseId": rid}
            if fin:
                o["usageMetadata"] = usage
            return o
        rid = nid("gem_fake")
        tool = [{"functionCall": {"name": pl.tool[0], "args": pl.tool[1]}}] if pl.tool else []
        if not stream:
            text = pl.full
            if (req.get("generationConfig") or {}).get("responseMimeType") == "application/json":
                text = json.dumps({"reasoning": "scripted", "model_choice": "flash", "complexity_score": 1, "complexity_reasoning": "scripted", "next_speaker": "user"})
            return self.send_json(chunk([{"text": text}] + tool, "STOP"))
        self.sse_start()
        if pl.think:
            self.ev(chunk([{"text": "**Thinking** " + pl.think, "thought": True}]))
        for k, w in enumerate(pl.deltas):
            if pl.drop and k == 2:
                return self.cut()
            self.ev(chunk([{"text": w}]))
            time.sleep(pl.pause)
        self.ev(chunk(tool or [{"text": ""}], "STOP"))
        self.sse_end()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, address):
        """A client that went away in mid-request is none."""


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--port", type=int, default=8089)
    ap.add_argument("--log")
    ap.add_argument("--full", action="store_true")
    ARGS = ap.parse_args()
    s = Server(("127.0.0.1", ARGS.port), H)
    print("fake model on http://127.0.0.1:%d" % s.server_address[1], flush=True)
    s.serve_forever()
