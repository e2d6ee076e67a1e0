#!/usr/bin/env python3
"""An agent that speaks the Agent Client Protocol and does what the page has to show: a plan, thoughts, tools with real changes, requests, hostile
words, and as many events as it is told. The first word of a prompt says which; MANY:<n> says n things,
THINK:<n> thinks n long ones."""
import json
import os
import sys
import time

BIDI, ESCAPE = "\u202egnp.exe", "\x1b]0;owned\x07\x1b[31mred\x1b[0m"
HOSTILE = ["<img src=x onerror=\"window.owned=1\">", "<script>window.owned=1</script>", "<a href=\"javascript:window.owned=1\">click</a> [link](javascript:window.owned=1)",
           "<svg onload=window.owned=1><style>*{display:none}</style>", "<iframe srcdoc='<script>parent.owned=1</script>'></iframe><form action=/x><input name=body></form>",
           "![pixel](http://127.0.0.1:9/pixel.png) <img src=http://127.0.0.1:9/x>", BIDI, ESCAPE, "<details open ontoggle=window.owned=1>"]
PUBLISHED = ("**Version 2.1 is out.** It has three changes:\n\n- totals of an empty list are `0`\n- the build takes half as long\n- every word of this answer is here once, although "
             "the daemon was killed in the middle of it\n\nThe tag is pushed, and the notes are in the changelog.")
count = 100
chosen = []


def say(**message):
    print(json.dumps(dict(message, jsonrpc="2.0")), flush=True)


class Turn:
    def __init__(self, session):
        self.session = session

    def tell(self, update, **more):
        say(method="session/update", params={"sessionId": self.session, "update": dict(more, sessionUpdate=update)})

    def words(self, text, kind="agent_message_chunk"):
        for piece in text.split(" "):
            self.tell(kind, content={"type": "text", "text": piece + " "})

    def tool(self, title, kind, given, output="", content=(), ask=False):
        global count
        count += 1
        call = {"toolCallId": "t%d" % count, "title": title, "kind": kind, "content": list(content), **({"rawInput": given} if given else {})}
        self.tell("tool_call", status="pending", **call)
        yes = self.allowed(call) if ask else True
        result = [{"type": "content", "content": {"type": "text", "text": output}}] if output and yes else []
        self.tell("tool_call_update", toolCallId=call["toolCallId"], status="completed" if yes else "failed", content=list(content) + result)
        return yes

    def allowed(self, call):
        global count
        count += 1
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]
        say(id=count, method="session/request_permission", params={"sessionId": self.session, "toolCall": call, "options": options})
        while True:
            answer = json.loads(sys.stdin.readline())
            if answer.get("id") == count and "method" not in answer:
                return answer["result"]["outcome"].get("optionId") == "y"


BEFORE = "def total(prices):\n    sum = 0\n    for price in prices:\n        sum = sum + price\n    return sum\n"
AFTER = "def total(prices):\n    \"\"\"What all of it costs.\"\"\"\n    return sum(prices)\n"


def edit(path, more=""):
    return {"type": "diff", "path": path, "oldText": BEFORE, "newText": AFTER + ("# %s\n" % more if more else "")}


def work(turn, folder):
    """What an agent does on a good day."""
    steps = ["Read the code", "Simplify `total`", "Run the tests"]
    plan = lambda done: turn.tell("plan", entries=[{"content": step, "priority": "medium", "status": "completed" if at < done else "in_progress" if at == done else "pending"} for at, step in enumerate(steps)])
    path = os.path.join(folder, "shop.py")
    turn.words("The loop shadows a builtin, which is worth fixing. I should keep the behaviour for empty lists.", "agent_thought_chunk")
    plan(0)
    turn.tool("shop.py", "read", {"path": path}, BEFORE)
    plan(1)
    with open(path, "w") as f:
        f.write(AFTER)
    turn.tool("Edit shop.py", "edit", {"path": path}, content=[edit(path)])
    plan(2)
    turn.tool("python3 -m unittest -q", "execute", {"command": "python3 -m unittest -q"}, "----------------------------------------------------------------------\nRan 12 tests in 0.031s\n\nOK")
    plan(3)
    turn.words("`total` no longer shadows the builtin, and **all 12 tests pass**.\n\n- one line instead of four\n- an empty list still costs `0`\n\n```python\nreturn sum(prices)\n```")


def main():
    folder = os.getcwd()
    for line in sys.stdin:
        m = json.loads(line)
        method, id, params = m.get("method"), m.get("id"), m.get("params") or {}
        turn = Turn(params.get("sessionId"))
        if method == "initialize":
            say(id=id, result={"protocolVersion": 1, "agentCapabilities": {"promptCapabilities": {"image": True}}})
        elif method == "session/new":
            say(id=id, result={"sessionId": "c%d" % os.getpid(), "modes": {"currentModeId": "code", "availableModes": [{"id": name, "name": name} for name in ("code", "draft")]},
                               "models": {"currentModelId": "small", "availableModels": [{"modelId": name, "name": name} for name in ("small", "large")]}})
            Turn("c%d" % os.getpid()).tell("available_commands_update", availableCommands=[{"name": name, "description": about} for name, about in (("review", "Looks at what changed"), ("rename", "Calls it something else"), ("test", "Runs the tests"))])
        elif method in ("session/set_mode", "session/set_model"):
            chosen.append(params.get("modeId") or params.get("modelId"))
            say(id=id, result={})
        elif method == "session/prompt":
            text = params["prompt"][0].get("text", "")
            word = text.split(" ")[0]
            if word == "LOGIN":
                say(id=id, error={"code": -32000, "message": "Please log in with `agent login`"})
                continue
            elif word == "WORK":
                work(turn, folder)
            elif word == "Publish":
                if turn.tool("git push origin v2.1", "execute", {"command": "git push origin v2.1"}, "To origin\n * [new tag] v2.1 -> v2.1", ask=True):
                    for words in PUBLISHED.split(" "):
                        turn.words(words)
                        time.sleep(0.12)
                say(id=id, result={"stopReason": "end_turn"})
                continue
            elif word == "EDIT":
                yes = turn.tool("Edit shop.py", "edit", None, content=[edit(os.path.join(folder, "shop.py"), text[5:])], ask=True)
                turn.words("allowed" if yes else "denied")
            elif word == "RUN":
                command = text[4:] or "rm -rf build && make -j4 release"
                yes = turn.tool(command, "execute", {"command": command}, ask=True)
                turn.words("allowed" if yes else "denied")
            elif word == "HIDES":
                # A terminal takes what is between for the title of its window.
                turn.tool("Bash", "execute", {"command": "echo hi \x1b]; touch hidden ;\x07 done", "a\u202eb": "c"}, ask=True)
            elif word == "HOSTILE":
                for words in HOSTILE:
                    turn.words(words + "\n\n")
                    turn.tool(words, "other", {"path": words, words: words}, words)
                turn.words("x" * (10 << 20))
                turn.words("y" * (5 << 20))
            elif word.startswith("MANY:"):
                for n in range(int(word[5:]) // 8):
                    turn.words("a thought of step", "agent_thought_chunk")
                    turn.words("step %d is %s" % (n, "done" if n % 10 else "done.\n\n"))
                turn.words("counted")
            elif word.startswith("THINK:"):
                for _ in range(int(word[6:])):
                    turn.words("x" * 8_000, "agent_thought_chunk")
                    turn.words("thought")
            elif word == "COST":
                turn.tell("usage_update", used=1200, size=200000, cost={"amount": float(text.split(" ")[1]), "currency": "USD"})
                turn.words("that was dear")
            elif word == "CHOSEN":
                turn.words("chosen: " + " ".join(chosen))
            else:
                turn.words("heard: %s, with %d pictures" % (text, sum(block.get("type") == "image" for block in params["prompt"])))
            say(id=id, result={"stopReason": "end_turn"})
        elif id is not None:
            say(id=id, error={"code": -32601, "message": "Method not found"})


main()
