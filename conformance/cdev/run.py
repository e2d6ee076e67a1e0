#!/usr/bin/env python3
"""Black-box conformance checks for a cdev-protocol server. Python 3 standard library only.

  run.py --start "CMD with {port} {repo} {home}"  [--only G,G] [--skip G,G] [--heartbeat-secs N] [--workspace-mode] [-v]

CMD is started several times (fresh port, fresh temporary git repository, fresh HOME, a fake `claude` first on
PATH) with these environment variables; a server should honour them, a wrapper script may translate them:
  HOME={home}                                      all state and ~/.claude live there
  CDEV_SERVER_HOST=127.0.0.1  CDEV_SERVER_PORT={port}
  CDEV_SECURITY_REQUIRE_AUTH=true
  CDEV_SECURITY_REQUIRE_PAIRING_APPROVAL=false|true  (true in group `approval`)
  CDEV_SECURITY_RATE_LIMIT_ENABLED=false|true        (true in group `todo`, with _REQUESTS_PER_MINUTE=100)
  CDEV_HEARTBEAT_SECS=N                              heartbeat interval for tests (default 30)
  CDEV_CLAUDE_COMMAND=<path of the fake claude>
Optional placeholder {claude} = path of the fake claude; {root} = the temporary directory above repo and home.

Groups: transport auth pair cors rpc openrpc status file git repo session agent events multi heartbeat rest
        approval nogit shutdown todo        (todo/ = the document's own TODO list, not required by its body;
        names with `extra:` ask for more than the document says)
--person CMD      for servers where only a person at the machine lets devices in: CMD with {what} and {id} does what such a person does
                  (`begin REPO` after each start, `approve ID`, `reject ID`, `affirm` after a restart, `end`); programs are refused
--workspace-mode  for servers whose git/* need a workspace_id: workspace/add + workspace/subscribe first.
Prints `ok NAME` / `FAIL NAME: why`, last line `N passed, M failed`; exit status 1 on any failure.
"""
import argparse, base64, contextlib, hashlib, http.client, json, os, re, shlex, shutil, signal, socket, struct
import subprocess, sys, tempfile, threading, time, traceback, urllib.parse, uuid

ap = argparse.ArgumentParser()
ap.add_argument("--start", required=True)
ap.add_argument("--only", default="")
ap.add_argument("--skip", default="")
ap.add_argument("--heartbeat-secs", type=float, default=2)
ap.add_argument("--workspace-mode", action="store_true")
ap.add_argument("--person", default="")
ap.add_argument("--event-timeout", type=float, default=6)
ap.add_argument("--keep", action="store_true", help="keep the temporary directories")
ap.add_argument("-v", action="store_true")
OPT = ap.parse_args()
HERE = os.path.dirname(os.path.abspath(__file__))
passed = failed = 0
SECRET = "S3CRET-" + uuid.uuid4().hex
ET = OPT.event_timeout


class Miss(Exception):
    pass


def need(cond, why="condition not met"):
    if not cond:
        raise Miss(why)


def short(x, n=260):
    s = x if isinstance(x, str) else repr(x)
    return s if len(s) <= n else s[:n] + "..."


@contextlib.contextmanager
def case(name):
    global passed, failed
    try:
        yield
    except Miss as e:
        failed += 1
        print("FAIL %s: %s" % (name, short(str(e)).replace("\n", " ")), flush=True)
    except Exception as e:
        failed += 1
        print("FAIL %s: %s: %s" % (name, type(e).__name__, short(str(e)).replace("\n", " ")), flush=True)
        if OPT.v:
            traceback.print_exc()
    else:
        passed += 1
        print("ok %s" % name, flush=True)


# ------------------------------------------------------------------ http
class R:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body
        try:
            self.json = json.loads(body)
        except ValueError:
            self.json = None

    def __repr__(self):
        return "<%s %s>" % (self.status, short(self.body.decode("utf-8", "replace"), 200))


def http_(d, method, path, body=None, token=None, headers=None, timeout=20):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=timeout)
    h = dict(headers or {})
    if token:
        h["Authorization"] = "Bearer " + token
    data = None
    if body is not None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        h.setdefault("Content-Type", "application/json")
    try:
        c.putrequest(method, path, skip_accept_encoding=True)
        if data is not None:
            h["Content-Length"] = str(len(data))
        elif method in ("POST", "PUT", "DELETE"):
            h["Content-Length"] = "0"
        for k, v in h.items():
            c.putheader(k, v)
        c.endheaders()
        if data:
            c.send(data)
        r = c.getresponse()
        return R(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
    finally:
        c.close()


# ------------------------------------------------------------------ websocket client (RFC 6455, stdlib)
def ws_handshake(port, path="/ws", headers=None, timeout=10):
    s = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ["GET %s HTTP/1.1" % path, "Host: 127.0.0.1:%d" % port, "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Key: " + key, "Sec-WebSocket-Version: 13"]
    lines += ["%s: %s" % kv for kv in (headers or {}).items()]
    s.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    buf = b""
    while b"\r\n\r\n" not in buf:
        part = s.recv(4096)
        if not part:
            break
        buf += part
    head, _, rest = buf.partition(b"\r\n\r\n")
    first, *hs = head.decode("latin-1").split("\r\n")
    status = int(first.split()[1]) if len(first.split()) > 1 else 0
    hd = {k.strip().lower(): v.strip() for k, _, v in (x.partition(":") for x in hs)}
    if status == 101:
        want = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        need(hd.get("sec-websocket-accept") == want, "bad Sec-WebSocket-Accept")
    return s, status, hd, rest


class WS:
    def __init__(self, d, token=None, path="/ws", headers=None, read=True):
        h = dict(headers or {})
        if token:
            h["Authorization"] = "Bearer " + token
        self.s, self.status, self.headers, self.buf = ws_handshake(d.port, path, h)
        if self.status != 101:
            self.s.close()
            raise Miss("websocket upgrade answered %d" % self.status)
        self.d, self.n = d, 0
        self.msgs, self.cv, self.closed, self.close_code = [], threading.Condition(), False, None
        self.pongs = 0
        self.lock = threading.Lock()
        self.s.settimeout(None)
        if read:
            threading.Thread(target=self._reader, daemon=True).start()

    def _need(self, n):
        while len(self.buf) < n:
            part = self.s.recv(65536)
            if not part:
                raise EOFError
            self.buf += part
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def _reader(self):
        frag = b""
        try:
            while True:
                b0, b1 = self._need(2)
                n = b1 & 127
                if n == 126:
                    n, = struct.unpack(">H", self._need(2))
                elif n == 127:
                    n, = struct.unpack(">Q", self._need(8))
                data = self._need(n)
                op = b0 & 15
                if op == 8:
                    self.close_code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else 1005
                    break
                if op == 9:
                    self._send(10, data)
                elif op == 10:
                    with self.cv:
                        self.pongs += 1
                        self.cv.notify_all()
                else:
                    frag += data
                    if b0 & 128:
                        text, frag = frag, b""
                        # a server may join several messages with newlines in one frame
                        for part in (text.split(b"\n") if b"\n{" in text else [text]):
                            try:
                                m = json.loads(part)
                            except ValueError:
                                m = {"_raw": part.decode("utf-8", "replace")}
                            with self.cv:
                                self.msgs.append((time.monotonic(), m))
                                self.cv.notify_all()
        except (OSError, EOFError, ValueError):
            pass
        with self.cv:
            self.closed = True
            self.cv.notify_all()

    def _send(self, op, data):
        m = os.urandom(4)
        n = len(data)
        head = bytes([128 | op]) + (bytes([128 | n]) if n < 126 else bytes([254]) + struct.pack(">H", n)
                                    if n < 65536 else bytes([255]) + struct.pack(">Q", n))
        k = (m * (n // 4 + 1))[:n]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(k, "big")).to_bytes(n, "big") if n else b""
        with self.lock:
            self.s.sendall(head + m + masked)

    def text(self, s):
        self._send(1, s if isinstance(s, bytes) else s.encode())

    def send(self, obj):
        self.text(json.dumps(obj))

    def wait(self, pred, timeout=None, since=0):
        end = time.monotonic() + (ET if timeout is None else timeout)
        i = since
        with self.cv:
            while True:
                while i < len(self.msgs):
                    if pred(self.msgs[i][1]):
                        return self.msgs[i][1]
                    i += 1
                left = end - time.monotonic()
                if left <= 0 or self.closed:
                    return None
                self.cv.wait(left)

    def mark(self):
        return len(self.msgs)

    def call(self, method, params=None, timeout=20, id_=None):
        self.n += 1
        i = id_ if id_ is not None else self.n
        m = {"jsonrpc": "2.0", "id": i, "method": method}
        if params is not None:
            m["params"] = params
        at = self.mark()
        self.send(m)
        r = self.wait(lambda x: isinstance(x, dict) and "method" not in x and "id" in x and x["id"] == i
                      and ("result" in x or "error" in x or "event" not in x), timeout, at)
        if r is None:
            raise Miss("no answer to %s %s" % (method, "(connection closed, code %s)" % self.close_code
                                                if self.closed else ""))
        return r

    def ok(self, method, params=None, timeout=20):
        r = self.call(method, params, timeout)
        need("error" not in r, "%s -> error %s" % (method, short(r.get("error"))))
        need("result" in r, "%s -> answer without result: %s" % (method, short(r)))
        return r["result"]

    def err(self, method, params=None, timeout=20):
        r = self.call(method, params, timeout)
        need("error" in r, "%s -> expected an error, got %s" % (method, short(r)))
        e = r["error"]
        need(isinstance(e.get("code"), int) and isinstance(e.get("message"), str), "bad error object %s" % short(e))
        return e

    def events(self, since=0, kind=None):
        with self.cv:
            ms = list(self.msgs[since:])
        out = []
        for t, m in ms:
            e = event_of(m)
            if e and (kind is None or e[0] == kind):
                out.append((t,) + e)
        return out

    def event(self, kind, pred=lambda p: True, timeout=None, since=0):
        hit = []

        def f(m):
            e = event_of(m)
            if e and e[0] == kind and pred(e[1]):
                hit.append(e[1])
                return True
            return False
        r = self.wait(f, timeout, since)
        need(r is not None, "no event %s within %ss (saw %s)" % (
            kind, ET if timeout is None else timeout, sorted({e[1] for e in self.events(since)})))
        return hit[0]

    def no_event(self, kind, pred, secs, since):
        r = self.wait(lambda m: (event_of(m) or ("",))[0] == kind and pred(event_of(m)[1]), secs, since)
        need(r is None, "unexpected event %s: %s" % (kind, short(r)))

    def ping(self):
        n = self.pongs
        self._send(9, b"hi")
        with self.cv:
            self.cv.wait_for(lambda: self.pongs > n or self.closed, 5)
        return self.pongs > n

    def close(self):
        try:
            self._send(8, struct.pack(">H", 1000))
            self.s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.s.close()


ALIAS = {"agent_log": "claude_log", "agent_status": "claude_status", "agent_message": "claude_message",
         "agent_permission": "claude_permission", "agent_waiting": "claude_waiting",
         "agent_session_info": "claude_session_info"}


def event_of(m):
    """(type, payload, is_jsonrpc) of a server event, or None"""
    if not isinstance(m, dict):
        return None
    if "event" in m and "payload" in m and "method" not in m:
        return ALIAS.get(m["event"], m["event"]), m["payload"] or {}, False
    if isinstance(m.get("method"), str) and m["method"].startswith("event/") and "id" not in m:
        p = m.get("params")
        p = p if isinstance(p, dict) else {}
        if isinstance(p.get("payload"), dict):
            p = {**{k: v for k, v in p.items() if k != "payload"}, **p["payload"]}
        k = m["method"][6:]
        return ALIAS.get(k, k), p, m.get("jsonrpc") == "2.0"
    return None


def code_is(e, num, name):
    d = e.get("data") if isinstance(e.get("data"), dict) else {}
    return e.get("code") == num or name in (d.get("code"), d.get("error_code"), d.get("name"))


def fields(obj, **types):
    """each field present and of the type; `None` type = anything; a trailing _ marks optional (absent or null)"""
    for k, t in types.items():
        opt, k2 = k.endswith("_"), k.rstrip("_")
        if opt and obj.get(k2) is None:
            continue
        need(k2 in obj, "field %r missing in %s" % (k2, short(obj)))
        if t is not None:
            v = obj[k2]
            good = isinstance(v, t) and not (t in (int, float) and isinstance(v, bool))
            if t is float and isinstance(v, int) and not isinstance(v, bool):
                good = True
            need(good, "field %r has type %s in %s" % (k2, type(v).__name__, short(obj)))


# ------------------------------------------------------------------ the server under test
def git(repo, *a, check=True):
    p = subprocess.run(["git", "-C", repo] + list(a), capture_output=True, text=True,
                       env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"})
    if check and p.returncode:
        raise RuntimeError("git %s: %s" % (a, p.stderr))
    return p.stdout.strip()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(text, bytes) else "w") as f:
        f.write(text)


def free_port():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    p = s.getsockname()[1]
    s.close()
    return p


PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
LIVE = []


class Daemon:
    def __init__(self, label, approval=False, rate=False, plain_dir=False):
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="cdev-conf-%s-" % label))
        self.repo, self.home = os.path.join(self.root, "myproject"), os.path.join(self.root, "home")
        self.bin = os.path.join(self.root, "bin")
        for p in (self.repo, self.home, self.bin):
            os.makedirs(p)
        self.claude = os.path.join(self.bin, "claude")
        shutil.copy(os.path.join(HERE, "fake_claude.py"), self.claude)
        os.chmod(self.claude, 0o755)
        write(os.path.join(self.home, ".gitconfig"),
              "[user]\n\tname = Conf\n\temail = conf@example.invalid\n[init]\n\tdefaultBranch = main\n"
              "[pull]\n\trebase = false\n[push]\n\tdefault = simple\n")
        write(os.path.join(self.root, "secret.txt"), SECRET + "\n")
        write(os.path.join(self.root, "myproject-evil", "secret.txt"), SECRET + "\n")
        write(os.path.join(self.root, "outdir", "secret.txt"), SECRET + "\n")
        if not plain_dir:
            self.make_repo()
        else:
            write(os.path.join(self.repo, "README.md"), "plain\n")
        self.port = free_port()
        self.log = os.path.join(self.root, "server.log")
        sub = dict(port=self.port, repo=self.repo, home=self.home, claude=self.claude, root=self.root)
        self.sub = sub
        cmd = self.filled(OPT.start)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CDEV_", "CLAUDE", "XDG_", "GIT_"))}
        env.update(HOME=self.home, PATH=self.bin + ":" + os.environ["PATH"], CDEV_SERVER_HOST="127.0.0.1",
                   CDEV_SERVER_PORT=str(self.port), CDEV_SECURITY_REQUIRE_AUTH="true",
                   CDEV_SECURITY_REQUIRE_PAIRING_APPROVAL="true" if approval else "false",
                   CDEV_SECURITY_RATE_LIMIT_ENABLED="true" if rate else "false",
                   CDEV_SECURITY_RATE_LIMIT_REQUESTS_PER_MINUTE="100", CDEV_CLAUDE_COMMAND=self.claude,
                   CDEV_HEARTBEAT_SECS="%g" % OPT.heartbeat_secs, GIT_TERMINAL_PROMPT="0")
        self.t0 = time.time()
        self.p = subprocess.Popen(shlex.split(cmd), env=env, cwd=self.root, stdin=subprocess.DEVNULL,
                                  stdout=open(self.log, "wb"), stderr=subprocess.STDOUT, start_new_session=True)
        LIVE.append(self)
        end = time.time() + 30
        while True:
            if self.p.poll() is not None:
                raise RuntimeError("the server ended with %s:\n%s" % (self.p.returncode, open(self.log).read()[-2000:]))
            try:
                if http_(self, "GET", "/health", timeout=2).status == 200:
                    break
            except OSError:
                pass
            if time.time() > end:
                raise RuntimeError("the server did not answer /health:\n" + open(self.log).read()[-2000:])
            time.sleep(0.05)
        self.ws_id = None
        self.person("begin", self.repo)

    def filled(self, cmd, **more):
        for k, v in {**self.sub, **more}.items():
            cmd = cmd.replace("{%s}" % k, str(v))
        return cmd

    def person(self, what, id_=""):
        """What a person at the machine does, where there must be one."""
        if not OPT.person:
            return
        p = subprocess.run(shlex.split(self.filled(OPT.person, what=what, id=id_)), cwd=self.root, stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=60)
        need(p.returncode == 0, "the person could not %s: %s" % (what, p.stdout + p.stderr))

    def make_repo(self):
        r = self.repo
        git(self.root, "init", "-q", "-b", "main", r)
        for k, v in (("user.name", "Conf"), ("user.email", "conf@example.invalid"), ("pull.rebase", "false"),
                     ("core.quotepath", "true"), ("push.default", "simple")):
            git(r, "config", k, v)
        write(r + "/README.md", "# my project\n\nhello\n")
        write(r + "/src/app.js", "const app = 1;\nconsole.log(app);\n")
        write(r + "/src/utils.js", "exports.x = 1;\n")
        write(r + "/src/lib/deep/inner.py", "print('inner')\n")
        write(r + "/docs/guide.md", "guide\n")
        write(r + "/..hidden", "dots are fine\n")
        write(r + "/a..b.txt", "dots inside\n")
        write(r + "/sp ace.txt", "space\n")
        write(r + "/ünï.txt", "unicode ☃\n")
        write(r + "/big.txt", "0123456789abcdef\n" * 1310720)      # 22.3 MB
        write(r + "/img.png", PNG)
        write(r + "/latin1.txt", b"caf\xe9\n")
        write(r + "/.gitignore", "ignored.txt\n*.tmp\n.cdev/\nbig.txt\n")
        write(r + "/ignored.txt", "ignored\n")
        for i in range(30):
            write(r + "/many/file%02d.txt" % i, "x" * i)
        os.symlink("../secret.txt", r + "/link_out")
        os.symlink("../outdir", r + "/linkdir")
        os.symlink("/etc/passwd", r + "/linkabs")
        os.symlink("README.md", r + "/link_in")
        git(r, "add", "-A")
        git(r, "commit", "-qm", "first")
        git(self.root, "init", "-q", "--bare", "-b", "main", "remote.git")
        git(r, "remote", "add", "origin", self.root + "/remote.git")
        git(r, "push", "-q", "-u", "origin", "main")
        git(self.root, "clone", "-q", "remote.git", "other")
        for k, v in (("user.name", "Other"), ("user.email", "o@example.invalid")):
            git(self.root + "/other", "config", k, v)

    # --- tokens
    def pairing_token(self):
        for path in ("/api/pair/info", "/api/pair/info?include_token=1"):
            r = http_(self, "GET", path)
            if r.status == 200 and isinstance(r.json, dict):
                t = r.json.get("token") or r.json.get("pairing_token")
                if t:
                    return t
        raise Miss("no pairing token in /api/pair/info")

    def asks(self, t):
        return http_(self, "POST", "/api/auth/exchange", {"pairing_token": t})

    def exchange(self, t=None):
        t = t or self.pairing_token()
        r = self.asks(t)
        if OPT.person and r.status == 202:
            self.person("approve", r.json["request_id"])
            r = self.asks(t)
        return r

    def login(self):
        r = self.exchange()
        need(r.status == 200, "exchange answered %r" % r)
        self.access, self.refresh = r.json["access_token"], r.json["refresh_token"]
        return r.json

    def ws(self, init=True, **kw):
        w = WS(self, self.access, **kw)
        if init:
            w.ok("initialize", {"protocolVersion": "1.0", "clientInfo": {"name": "conf", "version": "1"}})
            w.send({"jsonrpc": "2.0", "method": "initialized"})
        if OPT.workspace_mode:
            if not self.ws_id:
                r = w.ok("workspace/add", {"name": "myproject", "path": self.repo})
                self.ws_id = r.get("id") or r.get("workspace_id") or (r.get("workspace") or {}).get("id")
            w.ok("workspace/subscribe", {"workspace_id": self.ws_id})
        return w

    def rest(self, method, path, body=None, **kw):
        return http_(self, method, path, body, self.access, **kw)

    def fake_log(self):
        try:
            with open(os.path.join(self.bin, "claude.log")) as f:
                return [json.loads(x) for x in f]
        except FileNotFoundError:
            return []

    def stop(self, keep=False):
        with contextlib.suppress(Miss, subprocess.SubprocessError):
            self.person("end")
        if self.p.poll() is None:
            self.p.terminate()
            try:
                self.p.wait(10)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.p.pid, signal.SIGKILL)     # the session that this program started, nothing else
        except (ProcessLookupError, PermissionError):
            pass
        self.p.wait()
        if self in LIVE:
            LIVE.remove(self)
        if not (keep or OPT.keep):
            shutil.rmtree(self.root, ignore_errors=True)


def g(w, method, params=None):
    p = dict(params or {})
    if OPT.workspace_mode:
        p["workspace_id"] = w.d.ws_id
    return method, p


def paths_of(items):
    return [x if isinstance(x, str) else x.get("path") for x in items or []]


def wait_idle(w, timeout=25):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if w.ok("status/get")["claude_state"] in ("idle", "stopped", "error"):
            return
        time.sleep(0.1)
    raise Miss("the agent did not become idle")


def until(f, timeout=8, step=0.15):
    end = time.monotonic() + timeout
    while True:
        r = f()
        if r or time.monotonic() > end:
            return r
        time.sleep(step)


GET = ["/api/status", "/api/claude/sessions", "/api/claude/sessions/messages?session_id=x",
       "/api/claude/sessions/elements?session_id=x", "/api/file?path=README.md", "/api/files/list", "/api/git/status",
       "/api/git/diff", "/api/git/branches", "/api/repository/index/status", "/api/repository/search?q=app",
       "/api/repository/files/list", "/api/repository/files/tree", "/api/repository/stats", "/api/rpc/discover"]
POST = ["/api/claude/run", "/api/claude/stop", "/api/claude/respond", "/api/git/stage", "/api/git/unstage",
        "/api/git/discard", "/api/git/commit", "/api/git/push", "/api/git/pull", "/api/git/checkout",
        "/api/repository/index/rebuild"]
METHODS = """initialize initialized shutdown agent/run agent/stop agent/respond status/get file/get git/status git/diff
git/stage git/unstage git/discard git/commit git/push git/pull git/branches git/checkout session/list session/get
session/messages session/watch session/unwatch repository/index/status repository/search repository/files/list
repository/files/tree repository/stats repository/index/rebuild""".split()


# ================================================================== groups
def transport(d):
    with case("transport/health"):
        r = http_(d, "GET", "/health")
        need(r.status == 200 and isinstance(r.json, dict), repr(r))
        need(r.json.get("status") in ("ok", "healthy"), repr(r))
    with case("transport/websocket-on-the-same-port"):
        w = WS(d, d.access)
        need(w.ping(), "no pong to a ping frame")
        w.close()
    with case("transport/websocket-only-at-ws-path"):
        for p in ("/", "/websocket", "/api/ws"):
            s, st, _, _ = ws_handshake(d.port, p, {"Authorization": "Bearer " + d.access})
            s.close()
            need(st != 101, "upgrade accepted at %s" % p)
    with case("transport/unknown-path-is-404"):
        need(http_(d, "GET", "/api/nope", token=d.access).status == 404)
    with case("transport/plain-get-on-ws-is-refused"):
        r = http_(d, "GET", "/ws", token=d.access)
        need(400 <= r.status < 500, repr(r))
    with case("transport/fragmented-text-frames"):
        w = WS(d, d.access)
        msg = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "status/get"}).encode()
        for i, (op, fin) in enumerate(((1, 0), (0, 0), (0, 128))):
            part = msg[i * 15:(i + 1) * 15] if i < 2 else msg[30:]
            mk = os.urandom(4)
            w.s.sendall(bytes([fin | op, 128 | len(part)]) + mk + bytes(c ^ mk[j % 4] for j, c in enumerate(part)))
        need(w.wait(lambda m: m.get("id") == 7, 5), "no answer to a fragmented message")
        w.close()
    with case("transport/oversized-message-does-not-hurt-the-server"):
        w = WS(d, d.access)
        with contextlib.suppress(OSError):
            w.text(b'{"jsonrpc":"2.0","id":1,"method":"status/get","params":{"x":"' + b"a" * 33_000_000 + b'"}}')
        time.sleep(0.5)
        w.close()
        need(http_(d, "GET", "/health").status == 200, "server gone")
        w = WS(d, d.access)
        w.ok("status/get")
        w.close()


def auth(d):
    for path, meth in (("/health", "GET"), ("/pair", "GET"), ("/api/pair/info", "GET")):
        with case("auth/open:%s" % path):
            need(http_(d, meth, path).status == 200, "not 200")
    for path in ("/api/auth/exchange", "/api/auth/refresh", "/api/auth/revoke"):
        with case("auth/open:%s" % path):
            r = http_(d, "POST", path, {})
            need(r.status == 400, "an empty body without bearer should be 400, got %r" % r)
    with case("auth/open:/api/auth/pairing"):
        r = http_(d, "GET", "/api/auth/pairing/pending")
        need(r.status != 401, repr(r))
    kinds = (("no-bearer", lambda p: (p, {})),
             ("garbage-bearer", lambda p: (p, {"Authorization": "Bearer nonsense"})),
             ("empty-bearer", lambda p: (p, {"Authorization": "Bearer "})),
             ("basic-scheme", lambda p: (p, {"Authorization": "Basic " + base64.b64encode(b"a:" + d.access.encode()).decode()})),
             ("token-without-scheme", lambda p: (p, {"Authorization": d.access})),
             ("query-token", lambda p: (p + ("&" if "?" in p else "?") + "token=" + d.access, {})),
             ("query-access_token", lambda p: (p + ("&" if "?" in p else "?") + "access_token=" + d.access, {})),
             ("cookie-token", lambda p: (p, {"Cookie": "token=%s; access_token=%s" % (d.access, d.access)})),
             ("x-auth-token", lambda p: (p, {"X-Auth-Token": d.access})))
    for name, f in kinds:
        with case("auth/401:%s" % name):
            bad = []
            for m, lst in (("GET", GET), ("POST", POST)):
                for p in lst:
                    p2, h = f(p)
                    st = http_(d, m, p2, {} if m == "POST" else None, headers=h).status
                    if st != 401:
                        bad.append("%s %s -> %d" % (m, p, st))
            need(not bad, "; ".join(bad))
        with case("auth/ws-401:%s" % name):
            p2, h = f("/ws")
            s, st, _, _ = ws_handshake(d.port, p2, h)
            s.close()
            need(st == 401, "upgrade answered %d" % st)
    with case("auth/wrong-token-kinds-are-401"):
        for kind, t in (("refresh", d.refresh), ("pairing", d.pairing_token())):
            need(http_(d, "GET", "/api/status", token=t).status == 401, kind + " token accepted over HTTP")
            s, st, _, _ = ws_handshake(d.port, "/ws", {"Authorization": "Bearer " + t})
            s.close()
            need(st == 401, kind + " token accepted for the websocket (%d)" % st)
    with case("auth/tampered-token-is-401"):
        a = d.access
        for t in (a[:-1] + ("A" if a[-1] != "A" else "B"), a[:len(a) // 2] + ("A" if a[len(a) // 2] != "A" else "B") + a[len(a) // 2 + 1:],
                  a[:-4], a + "A", a.upper() if a.upper() != a else a.lower()):
            need(http_(d, "GET", "/api/status", token=t).status == 401, "accepted: %s" % t[-20:])
    with case("auth/allowlist-is-not-a-loose-prefix"):
        for p in ("/api/pair/../status", "/api/pair/%2e%2e/status", "/health/../api/status", "/pair/../api/git/status",
                  "/api/auth/pairing/../../git/status", "//api/status", "/api//status", "/api/status/", "/API/status",
                  "/healthz/../api/status", "/api/pair/..%2fstatus"):
            r = http_(d, "GET", p)
            need(r.status != 200 or b"repo_path" not in r.body and b"branch" not in r.body, "%s gave %r" % (p, r))
    with case("auth/valid-bearer-opens-everything"):
        for p in ("/api/status", "/api/git/status", "/api/rpc/discover", "/api/repository/stats"):
            need(http_(d, "GET", p, token=d.access).status == 200, p)


def pair(d):
    with case("pair/page-is-html"):
        r = http_(d, "GET", "/pair")
        need(r.status == 200 and "text/html" in r.headers.get("content-type", ""), repr(r.headers))
    with case("pair/info-has-token"):
        need(len(d.pairing_token()) > 20)
    with case("pair/info-names-the-endpoints"):
        r = http_(d, "GET", "/api/pair/info").json
        fields(r, ws=str, http=str)
        need(r["ws"].startswith("ws") and r["ws"].endswith("/ws") and str(d.port) in r["ws"], short(r))
        need(r["http"].startswith("http") and str(d.port) in r["http"], short(r))
    with case("pair/qr-is-an-image"):
        r = http_(d, "GET", "/api/pair/qr")
        need(r.status == 200 and r.headers.get("content-type", "").startswith("image/"), repr(r))
        need(r.body[:8] == b"\x89PNG\r\n\x1a\n" or b"<svg" in r.body[:300], "neither PNG nor SVG")
    with case("pair/exchange-gives-token-pair"):
        r = d.exchange()
        need(r.status == 200, repr(r))
        fields(r.json, access_token=str, refresh_token=str)
        need(r.json.get("token_type", "Bearer").lower() == "bearer", short(r.json))
        need(http_(d, "GET", "/api/status", token=r.json["access_token"]).status == 200, "access token refused")
        w = WS(d, r.json["access_token"])
        w.ok("status/get")
        w.close()
    with case("pair/pairing-token-is-single-use"):
        t = d.pairing_token()
        need(d.exchange(t).status == 200)
        need(d.exchange(t).status == 401, "second exchange of the same token was accepted")
    with case("pair/exchange-bad-inputs"):
        need(d.exchange("nonsense").status == 401, "garbage token")
        need(d.exchange(d.access).status == 401, "access token as pairing token")
        need(http_(d, "POST", "/api/auth/exchange", b"{not json").status == 400, "bad JSON")
        need(http_(d, "POST", "/api/auth/exchange", {"pairing_token": ""}).status == 400, "empty token")
        need(http_(d, "POST", "/api/auth/exchange", {"pairing_token": 5}).status == 400, "number as token")
        need(http_(d, "GET", "/api/auth/exchange").status in (404, 405), "GET")
    with case("pair/refresh-rotates"):
        p = d.exchange().json
        r = http_(d, "POST", "/api/auth/refresh", {"refresh_token": p["refresh_token"]})
        need(r.status == 200, repr(r))
        fields(r.json, access_token=str, refresh_token=str)
        need(r.json["access_token"] != p["access_token"] and r.json["refresh_token"] != p["refresh_token"], "not rotated")
        need(http_(d, "GET", "/api/status", token=r.json["access_token"]).status == 200, "new access token refused")
        need(http_(d, "POST", "/api/auth/refresh", {"refresh_token": p["refresh_token"]}).status == 401,
             "a used refresh token worked again")
    with case("pair/refresh-bad-inputs"):
        p = d.exchange().json
        need(http_(d, "POST", "/api/auth/refresh", {"refresh_token": p["access_token"]}).status == 401, "access token")
        need(http_(d, "POST", "/api/auth/refresh", {"refresh_token": "x"}).status == 401, "garbage")
        need(http_(d, "POST", "/api/auth/refresh", {}).status == 400, "missing")
    with case("pair/revoke-ends-refresh"):
        p = d.exchange().json
        r = http_(d, "POST", "/api/auth/revoke", {"refresh_token": p["refresh_token"]})
        need(r.status == 200, repr(r))
        need(http_(d, "POST", "/api/auth/refresh", {"refresh_token": p["refresh_token"]}).status == 401, "still refreshes")
    with case("pair/revoke-ends-the-access-token-too"):
        p = d.exchange().json
        http_(d, "POST", "/api/auth/revoke", {"refresh_token": p["refresh_token"]})
        need(http_(d, "GET", "/api/status", token=p["access_token"]).status == 401, "access token lives on")
    with case("pair/revoke-bad-inputs"):
        need(http_(d, "POST", "/api/auth/revoke", {"refresh_token": "x"}).status in (400, 401), "garbage")
        need(http_(d, "POST", "/api/auth/revoke", {}).status == 400, "missing")
    with case("pair/revoke-does-not-touch-other-devices"):
        a, b = d.exchange().json, d.exchange().json
        http_(d, "POST", "/api/auth/revoke", {"refresh_token": a["refresh_token"]})
        need(http_(d, "GET", "/api/status", token=b["access_token"]).status == 200, "the other device lost access")
    with case("pair/no-approval-endpoints-reject-decisions"):
        r = http_(d, "POST", "/api/auth/pairing/approve", {"request_id": "nope"})
        need(r.status in ((403,) if OPT.person else (400, 404, 409)), repr(r))


def cors(d):
    with case("cors/foreign-origin-gets-no-permission"):
        for o in ("http://evil.example", "http://localhost.evil.example", "https://127.0.0.1.evil.example", "null",
                  "http://localhost@evil.example", "http://evillocalhost"):
            r = http_(d, "GET", "/health", headers={"Origin": o})
            acao = r.headers.get("access-control-allow-origin")
            need(acao not in ("*", o), "%s -> ACAO %s" % (o, acao))
    with case("cors/localhost-origin-is-allowed"):
        for o in ("http://localhost:3000", "http://127.0.0.1:5173"):
            r = http_(d, "GET", "/api/status", token=d.access, headers={"Origin": o})
            need(r.status == 200 and r.headers.get("access-control-allow-origin") == o, "%s -> %r" % (o, r.headers))
    with case("cors/preflight"):
        r = http_(d, "OPTIONS", "/api/status", headers={"Origin": "http://localhost:3000",
                  "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"})
        need(r.status in (200, 204), repr(r))
        need("authorization" in r.headers.get("access-control-allow-headers", "").lower()
             or r.headers.get("access-control-allow-headers") == "*", short(r.headers))


def rpc(d):
    w = d.ws(init=False)
    with case("rpc/initialize-shape"):
        r = w.ok("initialize", {"protocolVersion": "1.0", "clientInfo": {"name": "conf", "version": "1"},
                                "capabilities": {}})
        fields(r, protocolVersion=str, serverInfo=dict, capabilities=dict)
        fields(r["serverInfo"], name=str, version=str)
    with case("rpc/initialize-runtime-registry"):
        reg = r["capabilities"].get("runtimeRegistry")
        need(isinstance(reg, dict), "capabilities.runtimeRegistry missing: %s" % short(r["capabilities"]))
        fields(reg, schemaVersion=str, defaultRuntime=str, routing=dict, runtimes=list)
        need(reg["runtimes"] and any(x.get("id") == reg["defaultRuntime"] for x in reg["runtimes"]), short(reg))
        for x in reg["runtimes"]:
            fields(x, id=str, displayName=str, status=str, supportsResume=bool, supportsPermissions=bool,
                   supportsInteractiveQuestions=bool, methods=dict)
        fields(reg["routing"], agentTypeField=str, defaultAgentType=str)
    with case("rpc/initialized-notification-has-no-answer"):
        at = w.mark()
        w.send({"jsonrpc": "2.0", "method": "initialized"})
        need(w.wait(lambda m: "id" in m and ("result" in m or "error" in m), 0.7, at) is None, "it was answered")
    with case("rpc/notification-of-unknown-method-has-no-answer"):
        at = w.mark()
        w.send({"jsonrpc": "2.0", "method": "no/such"})
        need(w.wait(lambda m: "error" in m, 0.7, at) is None, "it was answered")
    with case("rpc/answers-carry-jsonrpc-2.0"):
        m = w.call("status/get")
        need(m.get("jsonrpc") == "2.0", short(m))
        need(not ("result" in m and "error" in m), short(m))
    with case("rpc/ids-echoed"):
        for i in ("abc", "", 0, -5, 2 ** 53 - 1, "ü☃"):
            m = w.call("status/get", id_=i)
            need(m["id"] == i and type(m["id"]) is type(i), "%r became %r" % (i, m["id"]))
    with case("rpc/extra:fractional-id-echoed"):
        at = w.mark()
        w.text('{"jsonrpc":"2.0","id":1.5,"method":"status/get"}')
        m = w.wait(lambda x: "result" in x or "error" in x, 3, at)
        need(m and m.get("id") == 1.5, short(m))
    with case("rpc/method-not-found"):
        need(w.err("no/such/method")["code"] == -32601)
    with case("rpc/invalid-json-gives-parse-error"):
        at = w.mark()
        w.text('{"jsonrpc":"2.0","id":1,')
        m = w.wait(lambda x: "error" in x, 2, at)
        need(m and m["error"]["code"] == -32700 and m.get("id") is None, short(m))
    with case("rpc/not-a-request-gives-invalid-request"):
        for t in ('{"jsonrpc":"2.0","id":31}', '{"jsonrpc":"1.0","id":31,"method":"status/get"}', '{"id":31,"method":"status/get"}',
                  '{"jsonrpc":"2.0","id":31,"method":5}'):
            at = w.mark()
            w.text(t)
            m = w.wait(lambda x: "error" in x, 2, at)
            need(m and m["error"]["code"] == -32600, "%s -> %s" % (t, short(m)))
    with case("rpc/params-of-wrong-type"):
        e = w.err("file/get", [1, 2])
        need(e["code"] == -32602, short(e))
        e = w.err("file/get", {"path": 5})
        need(e["code"] == -32602, short(e))
    with case("rpc/missing-required-param"):
        need(w.err("file/get", {})["code"] == -32602)
        need(w.err("agent/run", {})["code"] == -32602)
        need(w.err("repository/search", {})["code"] == -32602)
        need(w.err("session/get", {})["code"] == -32602)
    with case("rpc/unknown-params-are-ignored"):
        w.ok("status/get", {"future": {"x": [1, 2, 3]}})
    with case("rpc/pipelined-requests-all-answered"):
        at = w.mark()
        for i in range(40):
            w.send({"jsonrpc": "2.0", "id": "p%d" % i, "method": "status/get"})
        for i in range(40):
            need(w.wait(lambda m, i=i: m.get("id") == "p%d" % i and "result" in m, 10, at), "p%d unanswered" % i)
    with case("rpc/methods-work-over-a-second-connection"):
        w2 = d.ws()
        w2.ok("status/get")
        w2.close()
    with case("rpc/binary-frame-does-not-kill-the-connection-of-others"):
        w3 = d.ws()
        with contextlib.suppress(OSError):
            w3._send(2, b"\x00\x01\x02")
        time.sleep(0.2)
        w3.close()
        w.ok("status/get")
    with case("rpc/deep-nesting-survived"):
        w3 = d.ws()
        with contextlib.suppress(OSError):
            w3.text('{"jsonrpc":"2.0","id":1,"method":"status/get","params":' + "[" * 50000 + "]" * 50000 + "}")
        time.sleep(0.3)
        w3.close()
        w.ok("status/get")
    w.close()


def openrpc(d):
    with case("openrpc/served"):
        r = d.rest("GET", "/api/rpc/discover")
        need(r.status == 200 and isinstance(r.json, dict), repr(r))
        doc = r.json
    with case("openrpc/top-level"):
        fields(doc, openrpc=str, info=dict, methods=list)
        need(re.match(r"1\.\d+\.\d+", doc["openrpc"]), doc["openrpc"])
        fields(doc["info"], title=str, version=str)
    with case("openrpc/method-objects"):
        seen = set()
        for m in doc["methods"]:
            fields(m, name=str, params=list)
            need(m["name"] not in seen, "twice: " + m["name"])
            seen.add(m["name"])
            names = set()
            for p in m["params"]:
                if "$ref" in p:
                    continue
                fields(p, name=str, schema=dict)
                need(p["name"] not in names, "param twice in " + m["name"])
                names.add(p["name"])
            if m.get("result") is not None and "$ref" not in m["result"]:
                fields(m["result"], name=str, schema=dict)
    with case("openrpc/lists-every-method-of-the-table"):
        miss = [m for m in METHODS if m not in {x.get("name") for x in doc["methods"]}]
        need(not miss, "missing: %s" % miss)
    with case("openrpc/listed-methods-exist"):
        w = d.ws()
        names = [m["name"] for m in doc["methods"] if m["name"] in METHODS and m["name"] not in
                 ("shutdown", "initialize", "initialized", "git/push", "git/pull", "repository/index/rebuild")]
        for n in names:
            r = w.call(n, {"__probe": 1, "path": 5, "paths": 5, "session_id": 5, "prompt": 5, "query": 5, "branch": 5,
                           "message": 5, "tool_use_id": 5})
            need(not ("error" in r and r["error"]["code"] == -32601), n + " is listed but not found")
        w.close()


def status(d):
    w = d.ws()
    with case("status/get-shape"):
        r = w.ok("status/get")
        fields(r, claude_state=str, connected_clients=int, repo_path=str, repo_name=str, uptime_seconds=int,
               agent_version=str, watcher_enabled=bool, git_enabled=bool)
        need(r["claude_state"] == "idle" and r["repo_path"] == d.repo and r["repo_name"] == "myproject", short(r))
        need(r["git_enabled"] is True and r["watcher_enabled"] is True, short(r))
        need(0 <= r["uptime_seconds"] <= time.time() - d.t0 + 2, "uptime %s" % r["uptime_seconds"])
    with case("status/rest-twin"):
        q = d.rest("GET", "/api/status").json
        for k in ("claude_state", "repo_path", "repo_name", "git_enabled", "watcher_enabled"):
            need(q.get(k) == r[k], "%s: %r and %r" % (k, q.get(k), r[k]))
        fields(q, connected_clients=int, uptime_seconds=int)
    with case("status/connected-clients-counts-websockets"):
        n = w.ok("status/get")["connected_clients"]
        a, b = d.ws(), d.ws()
        need(until(lambda: w.ok("status/get")["connected_clients"] == n + 2), "still %s" % w.ok("status/get"))
        need(d.rest("GET", "/api/status").json["connected_clients"] == n + 2, "REST differs")
        a.close(), b.close()
        need(until(lambda: w.ok("status/get")["connected_clients"] == n), "not back to %d" % n)
    w.close()


STRICT = ["../secret.txt", "../../../../../../../../etc/passwd", "src/../../secret.txt", "./../secret.txt",
          "src/./lib/../../../secret.txt", "../myproject-evil/secret.txt", "link_out", "linkdir/secret.txt", "linkabs"]
LOOSE = ["..", "../", "/etc/passwd", "//etc/passwd", "..\\secret.txt", "..%2fsecret.txt", "%2e%2e/secret.txt",
         "%2e%2e%2fsecret.txt", "..%252fsecret.txt", "....//secret.txt", "..;/secret.txt", "README.md\x00../../secret.txt",
         "../secret.txt\x00.md", "file:///etc/passwd", "~/.gitconfig", "~root/.profile", "..\u2215secret.txt",
         "\uff0e\uff0e/secret.txt", "src/../../myproject/../secret.txt", " ../secret.txt", "../secret.txt ",
         "../" * 60 + "etc/passwd", "linkdir/../secret.txt", "linkdir", ".git/../../secret.txt", "\\\\?\\C:\\x",
         "C:\\Windows\\win.ini", "a" * 5000, "many/" * 2000 + "x", "/proc/self/environ", "/dev/zero", "-", "src/", "."]


def leak(x):
    s = x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)
    return SECRET in s or "root:x:0" in s or "root:*:" in s


def file(d):
    w = d.ws()
    with case("file/get-shape"):
        r = w.ok("file/get", {"path": "src/app.js"})
        fields(r, path=str, content=str, encoding=str, truncated=bool, size=int)
        need(r["content"] == "const app = 1;\nconsole.log(app);\n" and r["encoding"].lower() == "utf-8"
             and r["truncated"] is False and r["size"] == len(r["content"]) and r["path"] == "src/app.js", short(r))
    with case("file/rest-twin"):
        q = d.rest("GET", "/api/file?path=src/app.js")
        need(q.status == 200 and q.json == {**q.json, **{k: r[k] for k in ("path", "content", "encoding", "truncated", "size")}},
             repr(q))
    for n in ("sp ace.txt", "ünï.txt", "a..b.txt", "link_in", "./README.md", "src/../README.md"):
        with case("file/readable:%s" % n):
            r = w.ok("file/get", {"path": n})
            need(r["content"], short(r))
            need(d.rest("GET", "/api/file?path=" + urllib.parse.quote(n)).status == 200, "REST refuses")
    with case("file/name-beginning-with-two-dots-is-not-traversal"):
        need(w.ok("file/get", {"path": "..hidden"})["content"] == "dots are fine\n")
    with case("file/size-counts-bytes"):
        r = w.ok("file/get", {"path": "ünï.txt"})
        need(r["size"] == len("unicode ☃\n".encode()), short(r))
    with case("file/not-found"):
        e = w.err("file/get", {"path": "no/such.txt"})
        need(code_is(e, -32020, "FILE_NOT_FOUND"), short(e))
        need(d.rest("GET", "/api/file?path=no/such.txt").status == 404, "REST")
    with case("file/directory-is-an-error"):
        need("error" in w.call("file/get", {"path": "src"}))
    with case("file/empty-path"):
        need(w.err("file/get", {"path": ""})["code"] == -32602)
        need(d.rest("GET", "/api/file").status == 400, "REST")
    with case("file/too-large-is-refused-or-truncated"):
        r = w.call("file/get", {"path": "big.txt"}, timeout=30)
        if "error" in r:
            need(code_is(r["error"], -32021, "FILE_TOO_LARGE"), short(r))
        else:
            r = r["result"]
            need(r["truncated"] is True and len(r["content"]) < 22_000_000, "truncated=%s, %d characters" % (
                r["truncated"], len(r["content"])))
    with case("file/too-large-rest"):
        q = d.rest("GET", "/api/file?path=big.txt", timeout=30)
        need(q.status in (413, 400, 403, 422) or q.status == 200 and q.json["truncated"] is True, "status %d" % q.status)
    with case("file/non-utf8-content-does-not-break-json"):
        r = w.call("file/get", {"path": "latin1.txt"})
        need("result" in r or "error" in r)
    for p in STRICT:
        with case("file/traversal:%s" % p):
            e = w.err("file/get", {"path": p})
            need(not leak(e), "leak")
            need(code_is(e, -32022, "PATH_TRAVERSAL"), "wrong code: %s" % short(e))
        with case("file/traversal-rest:%s" % p):
            q = d.rest("GET", "/api/file?path=" + urllib.parse.quote(p, safe=""))
            need(q.status in (400, 403, 404) and not leak(q.body.decode("utf-8", "replace")), repr(q))
    for via, f in (("rpc", lambda p: json.dumps(w.call("file/get", {"path": p}, timeout=20))),
                   ("rest", lambda p: d.rest("GET", "/api/file?path=" + urllib.parse.quote(p, safe="")).body.decode("utf-8", "replace")),
                   ("rest-raw", lambda p: d.rest("GET", "/api/file?path=" + re.sub(r"[^!-~]", "", p).replace("#", "")).body.decode("utf-8", "replace")),
                   ("files-list", lambda p: d.rest("GET", "/api/files/list?path=" + urllib.parse.quote(p, safe="")).body.decode("utf-8", "replace")),
                   ("repo-list", lambda p: json.dumps(w.call("repository/files/list", {"directory": p}))),
                   ("repo-tree", lambda p: json.dumps(w.call("repository/files/tree", {"path": p}))),
                   ("git-diff", lambda p: json.dumps(w.call(*g(w, "git/diff", {"path": p})))),
                   ("git-diff-rest", lambda p: d.rest("GET", "/api/git/diff?path=" + urllib.parse.quote(p, safe="")).body.decode("utf-8", "replace"))):
        with case("file/no-leak:%s" % via):
            bad = []
            for p in STRICT + LOOSE:
                try:
                    t = f(p)
                    if leak(t) or ("secret.txt" in t and "secret.txt" not in p):
                        bad.append(p[:40])
                except Miss as e:
                    bad.append("%s (%s)" % (p[:40], e))
                    w = d.ws()
            need(not bad, "leak or no answer for: %s" % bad)
    with case("file/list-directory-rest"):
        q = d.rest("GET", "/api/files/list?path=src")
        need(q.status == 200, repr(q))
        ent = q.json.get("entries") or q.json.get("files")
        names = {e["name"]: e for e in ent}
        need({"app.js", "utils.js", "lib"} <= set(names), short(q.json))
        need(names["lib"]["type"] == "directory" and names["app.js"]["type"] == "file", short(q.json))
        q = d.rest("GET", "/api/files/list?path=no/such/dir")
        need(q.status == 404, repr(q))
    w.close()


def gitg(d):
    r_, w = d.repo, d.ws()

    def st():
        return w.ok(*g(w, "git/status"))
    with case("git/status-clean"):
        s = st()
        fields(s, branch=str, ahead=int, behind=int, staged=list, unstaged=list, untracked=list)
        need(s["branch"] == "main" and not s["staged"] and not s["unstaged"] and not s["untracked"], short(s))
    with case("git/status-sees-changes"):
        write(r_ + "/src/app.js", "const app = 2;\nconsole.log(app);\n")
        write(r_ + "/new file.txt", "new\n")
        s = st()
        need("src/app.js" in paths_of(s["unstaged"]) and "new file.txt" in paths_of(s["untracked"]), short(s))
        need("ignored.txt" not in json.dumps(s), "an ignored file is listed")
    with case("git/diff-unstaged"):
        x = w.ok(*g(w, "git/diff", {"path": "src/app.js"}))
        fields(x, path=str, diff=str, is_staged=bool, is_new=bool)
        need("+const app = 2;" in x["diff"] and "-const app = 1;" in x["diff"] and not x["is_staged"] and not x["is_new"], short(x))
    with case("git/diff-new-file"):
        x = w.ok(*g(w, "git/diff", {"path": "new file.txt"}))
        need("+new" in x["diff"] and x["is_new"] is True, short(x))
    with case("git/stage-several-files-at-once"):
        at = w.mark()
        x = w.ok(*g(w, "git/stage", {"paths": ["src/app.js", "new file.txt"]}))
        need(x.get("success", True) is True, short(x))
        need(git(r_, "diff", "--cached", "--name-only").count("\n") == 1, git(r_, "diff", "--cached", "--name-only"))
        s = st()
        need({"src/app.js", "new file.txt"} <= set(paths_of(s["staged"])), short(s))
    with case("git/stage-event-operation-completed"):
        e = w.event("git_operation_completed", lambda p: p.get("operation") == "stage", since=at)
        fields(e, operation=str, success=bool)
        need(e["success"] is True and e.get("files_affected") == 2, short(e))
    with case("git/stage-event-status-changed"):
        e = w.event("git_status_changed", lambda p: p.get("staged_count") == 2, since=at)
        fields(e, branch=str, ahead=int, behind=int, staged_count=int, unstaged_count=int, untracked_count=int,
               has_conflicts=bool)
        need("src/app.js" in (e.get("changed_files") or []), short(e))
    with case("git/diff-staged"):
        x = w.ok(*g(w, "git/diff", {"path": "src/app.js"}))
        need(x["is_staged"] is True and "+const app = 2;" in x["diff"], short(x))
    with case("git/unstage"):
        w.ok(*g(w, "git/unstage", {"paths": ["src/app.js", "new file.txt"]}))
        need(git(r_, "diff", "--cached", "--name-only") == "")
        s = st()
        need("src/app.js" in paths_of(s["unstaged"]) and "new file.txt" in paths_of(s["untracked"]), short(s))
    with case("git/discard-untracked"):
        w.ok(*g(w, "git/discard", {"paths": ["new file.txt"]}))
        need(not os.path.exists(r_ + "/new file.txt"), "still there")
    with case("git/discard-outside-is-refused"):
        w.call(*g(w, "git/discard", {"paths": ["../secret.txt", "../outdir/secret.txt", d.root + "/secret.txt"]}))
        need(os.path.exists(d.root + "/secret.txt") and os.path.exists(d.root + "/outdir/secret.txt"), "file outside was removed")
    with case("git/commit-without-staged-changes-fails"):
        x = w.call(*g(w, "git/commit", {"message": "nothing"}))
        need("error" in x and code_is(x["error"], -32031, "GIT_ERROR") or x.get("result", {}).get("success") is False, short(x))
    with case("git/commit"):
        write(r_ + "/src/app.js", "const app = 3;\n")
        w.ok(*g(w, "git/stage", {"paths": ["src/app.js"]}))
        at = w.mark()
        x = w.ok(*g(w, "git/commit", {"message": 'a "quoted" $(subject) `x`\n\nbody line'}))
        need(x["success"] is True and isinstance(x["sha"], str), short(x))
        need(git(r_, "rev-parse", "HEAD").startswith(x["sha"]), "sha %s" % x["sha"])
        need(git(r_, "log", "-1", "--format=%B") == 'a "quoted" $(subject) `x`\n\nbody line', git(r_, "log", "-1", "--format=%B"))
        sha = x["sha"]
    with case("git/commit-event"):
        e = w.event("git_operation_completed", lambda p: p.get("operation") == "commit", since=at)
        need(e["success"] is True and e.get("sha") and e["sha"][:7] == sha[:7] and e.get("files_affected") == 1, short(e))
    with case("git/commit-message-beginning-with-dash"):
        write(r_ + "/docs/guide.md", "guide 2\n")
        w.ok(*g(w, "git/stage", {"paths": ["docs/guide.md"]}))
        x = w.ok(*g(w, "git/commit", {"message": "--amend"}))
        need(git(r_, "log", "-1", "--format=%s") == "--amend" and git(r_, "rev-list", "--count", "HEAD") == "3", "amended!")
    with case("git/status-ahead"):
        s = st()
        need(s["ahead"] == 2 and s["behind"] == 0, short(s))
    with case("git/push"):
        at = w.mark()
        x = w.ok(*g(w, "git/push"), timeout=40)
        need(x["success"] is True, short(x))
        need(git(d.root + "/remote.git", "rev-parse", "main") == git(r_, "rev-parse", "HEAD"), "the remote did not move")
    with case("git/push-event-and-count"):
        e = w.event("git_operation_completed", lambda p: p.get("operation") == "push", since=at)
        need(e["success"] is True and e.get("commits_pushed") == 2, short(e))
    with case("git/push-nothing-to-do-is-fine"):
        x = w.ok(*g(w, "git/push"), timeout=40)
        need(x["success"] is True, short(x))
    with case("git/pull"):
        o = d.root + "/other"
        git(o, "pull", "-q")
        write(o + "/from_other.txt", "other\n")
        git(o, "add", "."), git(o, "commit", "-qm", "from other"), git(o, "push", "-q")
        at = w.mark()
        x = w.ok(*g(w, "git/pull"), timeout=40)
        need(x["success"] is True and os.path.exists(r_ + "/from_other.txt"), short(x))
    with case("git/pull-event-and-count"):
        e = w.event("git_operation_completed", lambda p: p.get("operation") == "pull", since=at)
        need(e["success"] is True and e.get("commits_pulled") == 1, short(e))
    with case("git/push-rejected-is-reported"):
        write(d.root + "/other/from_other.txt", "other 2\n")
        git(o, "commit", "-qam", "other 2"), git(o, "push", "-q")
        write(r_ + "/from_other.txt", "mine\n")
        w.ok(*g(w, "git/stage", {"paths": ["from_other.txt"]}))
        w.ok(*g(w, "git/commit", {"message": "mine"}))
        at = w.mark()
        x = w.call(*g(w, "git/push"), timeout=40)
        need("error" in x and code_is(x["error"], -32031, "GIT_ERROR") or x.get("result", {}).get("success") is False, short(x))
    with case("git/push-rejected-event"):
        e = w.event("git_operation_completed", lambda p: p.get("operation") == "push", since=at)
        need(e["success"] is False and isinstance(e.get("error"), str) and e["error"], short(e))
    with case("git/pull-conflict-is-reported"):
        at = w.mark()
        x = w.call(*g(w, "git/pull"), timeout=40)
        body = json.dumps(x)
        need("error" in x or x.get("result", {}).get("success") is False, short(x))
        need("from_other.txt" in body or "onflict" in body, "no word of the conflict: %s" % short(x))
    with case("git/conflict-event"):
        e = w.event("git_operation_completed", lambda p: p.get("operation") == "pull", since=at)
        need(e["success"] is False and e.get("conflicted_files") == ["from_other.txt"], short(e))
    with case("git/status-shows-conflict"):
        s = st()
        need("from_other.txt" in paths_of(s.get("conflicted")), short(s))
        e = w.event("git_status_changed", lambda p: p.get("has_conflicts") is True, since=at)
    git(r_, "merge", "--abort", check=False)
    git(r_, "reset", "-q", "--hard", "origin/main", check=False)
    with case("git/branches"):
        git(r_, "branch", "feature/x")
        x = w.ok(*g(w, "git/branches"))
        fields(x, current=str, branches=list)
        names = {b["name"]: b for b in x["branches"]}
        need(x["current"] == "main" and {"main", "feature/x"} <= set(names), short(x))
        cur = [n for n, b in names.items() if b.get("current") or b.get("is_current")]
        need(cur == ["main"], "current: %s" % cur)
    with case("git/checkout"):
        at = w.mark()
        x = w.ok(*g(w, "git/checkout", {"branch": "feature/x"}))
        need(x.get("success", True) is True and git(r_, "symbolic-ref", "--short", "HEAD") == "feature/x", short(x))
    with case("git/checkout-event"):
        e = w.event("git_operation_completed", lambda p: p.get("operation") == "checkout", since=at)
        need(e["success"] is True and e.get("branch") == "feature/x", short(e))
        w.event("git_status_changed", lambda p: p.get("branch") == "feature/x", since=at)
    with case("git/checkout-unknown-branch-fails"):
        x = w.call(*g(w, "git/checkout", {"branch": "no-such-branch"}))
        need("error" in x and code_is(x["error"], -32031, "GIT_ERROR") or x.get("result", {}).get("success") is False, short(x))
    with case("git/checkout-no-option-injection"):
        before = git(r_, "branch", "--list") + git(r_, "rev-parse", "HEAD")
        for b in ("--orphan=evil", "-bevil", "--detach", "-f", "--help", "-"):
            x = w.call(*g(w, "git/checkout", {"branch": b}))
            need(git(r_, "symbolic-ref", "--short", "HEAD", check=False) == "feature/x", "HEAD moved by %r" % b)
            need("error" in x or x["result"].get("success") is False, "%r accepted: %s" % (b, short(x)))
        need(before == git(r_, "branch", "--list") + git(r_, "rev-parse", "HEAD"), "branches changed")
    git(r_, "checkout", "-q", "-f", "feature/x", check=False)
    with case("git/checkout-does-not-restore-files-as-paths"):
        write(r_ + "/README.md", "precious edit\n")
        w.call(*g(w, "git/checkout", {"branch": "README.md"}))
        need(open(r_ + "/README.md").read() == "precious edit\n", "a path given as branch overwrote a file")
    git(r_, "checkout", "-q", "-f", "HEAD", "--", "README.md", check=False)
    with case("git/checkout-with-local-changes-in-the-way-fails"):
        git(r_, "checkout", "-q", "main")
        write(r_ + "/README.md", "main side\n")
        git(r_, "commit", "-qam", "main side")
        write(r_ + "/README.md", "dirty\n")
        x = w.call(*g(w, "git/checkout", {"branch": "feature/x"}))
        need("error" in x or x["result"].get("success") is False, short(x))
        need(open(r_ + "/README.md").read() == "dirty\n", "work was lost")
    git(r_, "checkout", "-q", "-f", "main", check=False)
    for n in ("sp ace2.txt", "ünï2.txt", "-dash.txt", 'quo"te.txt', "tab\there.txt", "star*.txt", ":colon.txt", "new\nline.txt"):
        with case("git/odd-name:%s" % json.dumps(n)):
            write(os.path.join(r_, n), "odd\n")
            need(n in paths_of(st()["untracked"]), "not in untracked: %s" % paths_of(st()["untracked"]))
            w.ok(*g(w, "git/stage", {"paths": [n]}))
            need(n in paths_of(st()["staged"]), "not in staged: %s" % paths_of(st()["staged"]))
            w.ok(*g(w, "git/unstage", {"paths": [n]}))
            w.ok(*g(w, "git/discard", {"paths": [n]}))
            need(not os.path.exists(os.path.join(r_, n)), "discard left it")
        git(r_, "reset", "-q", "--hard", check=False)
        git(r_, "clean", "-qfd", "-e", ".cdev", check=False)
    with case("git/renamed-file-in-status"):
        git(r_, "mv", "src/utils.js", "src/helpers.js")
        s = st()
        need(any("helpers.js" in p and "->" not in p for p in paths_of(s["staged"])), short(s))
        git(r_, "reset", "-q", "--hard")
    with case("git/paths-required"):
        for m in ("git/stage", "git/unstage", "git/discard"):
            need(w.err(*g(w, m, {"paths": []}))["code"] == -32602, m)
            need(w.err(*g(w, m))["code"] == -32602, m + " without paths")
        need(w.err(*g(w, "git/commit", {"message": ""}))["code"] == -32602, "commit")
        need(w.err(*g(w, "git/checkout", {}))["code"] == -32602, "checkout")
    with case("git/stage-missing-path-fails"):
        e = w.err(*g(w, "git/stage", {"paths": ["no/such"]}))
        need(code_is(e, -32031, "GIT_ERROR"), short(e))
    with case("git/stage-outside-path-fails"):
        for p in ("../secret.txt", d.root + "/secret.txt"):
            need("error" in w.call(*g(w, "git/stage", {"paths": [p]})), p)
    with case("git/stage-deletion"):
        os.remove(r_ + "/docs/guide.md")
        s = st()
        need("docs/guide.md" in paths_of(s["unstaged"]), short(s))
        w.ok(*g(w, "git/stage", {"paths": ["docs/guide.md"]}))
        need("docs/guide.md" in paths_of(st()["staged"]))
        git(r_, "reset", "-q", "--hard")
    with case("git/diff-of-everything"):
        write(r_ + "/README.md", "changed for diff\n")
        x = w.ok(*g(w, "git/diff"))
        need("changed for diff" in json.dumps(x), short(x))
        git(r_, "checkout", "-q", "--", ".")
    w.close()


def repo(d):
    w = d.ws()
    with case("repo/index-becomes-ready"):
        r = until(lambda: (lambda x: x if x.get("status") == "ready" else None)(w.ok("repository/index/status")), 20)
        need(r, "status never ready: %s" % short(w.ok("repository/index/status")))
        fields(r, status=str, total_files=int, indexed_files=int, is_git_repo=bool)
        need(r["total_files"] >= 40 and r["is_git_repo"] is True, short(r))
    with case("repo/index-status-rest-twin"):
        q = d.rest("GET", "/api/repository/index/status").json
        need(q["status"] == "ready" and set(r) <= set(q) | {"error_message"}, short(q))
    with case("repo/search-by-name"):
        x = w.ok("repository/search", {"query": "utils"})
        fields(x, query=str, results=list, total=int)
        need("src/utils.js" in paths_of(x["results"]), short(x))
        f = [y for y in x["results"] if y["path"] == "src/utils.js"][0]
        fields(f, path=str, name=str, directory=str, size_bytes=int)
        need(f["name"] == "utils.js" and f["directory"] == "src" and f["size_bytes"] == 15, short(f))
    with case("repo/search-rest-twin"):
        q = d.rest("GET", "/api/repository/search?q=utils")
        need(q.status == 200 and paths_of(q.json["results"]) == paths_of(x["results"]), repr(q))
        need(d.rest("GET", "/api/repository/search").status == 400, "missing q")
    with case("repo/search-fuzzy"):
        x = w.ok("repository/search", {"query": "inner", "mode": "fuzzy"})
        need("src/lib/deep/inner.py" in paths_of(x["results"]), short(x))
    with case("repo/extra:search-fuzzy-subsequence"):
        x = w.ok("repository/search", {"query": "utl", "mode": "fuzzy"})
        need("src/utils.js" in paths_of(x["results"]), "utl does not find src/utils.js: %s" % short(x))
    with case("repo/search-case-insensitive"):
        need("README.md" in paths_of(w.ok("repository/search", {"query": "readme"})["results"]))
    with case("repo/search-exact"):
        x = w.ok("repository/search", {"query": "src/app", "mode": "exact"})
        need("src/app.js" in paths_of(x["results"]), short(x))
    with case("repo/search-prefix"):
        x = w.ok("repository/search", {"query": "file0", "mode": "prefix", "limit": 100})
        need(x["total"] == 10 and len(x["results"]) == 10, "total %s of %d" % (x["total"], len(x["results"])))
    with case("repo/search-extension"):
        x = w.ok("repository/search", {"query": "py", "mode": "extension"})
        need(paths_of(x["results"]) == ["src/lib/deep/inner.py"], short(x))
    with case("repo/search-pagination"):
        a = w.ok("repository/search", {"query": "file", "mode": "prefix", "limit": 7, "offset": 0})
        b = w.ok("repository/search", {"query": "file", "mode": "prefix", "limit": 7, "offset": 7})
        need(len(a["results"]) == 7 and len(b["results"]) == 7 and a["total"] == b["total"] == 30, short(a))
        need(not set(paths_of(a["results"])) & set(paths_of(b["results"])), "pages overlap")
    with case("repo/search-nothing-found"):
        x = w.ok("repository/search", {"query": "zzzqqqxxx"})
        need(x["total"] == 0 and not x["results"], short(x))
    with case("repo/search-empty-results-are-an-array"):
        need(isinstance(w.ok("repository/search", {"query": "zzzqqqxxx"})["results"], list))
    with case("repo/search-special-characters-are-harmless"):
        for q in ('"', "'", "a OR b", "a*", "(", "-x", "a AND", "NEAR(", "%", "_", "\\", "😀", "a" * 5000, "src/app.js", "name:app"):
            m = w.call("repository/search", {"query": q})
            need("result" in m, "%r -> %s" % (q[:20], short(m)))
    with case("repo/git-directory-is-not-indexed"):
        for q in ("HEAD", "COMMIT_EDITMSG", "config"):
            for m in ("fuzzy", "exact"):
                need(not any((p or "").startswith(".git/") for p in
                             paths_of(w.ok("repository/search", {"query": q, "mode": m, "exclude_binaries": False})["results"])), q)
    with case("repo/files-list-root"):
        x = w.ok("repository/files/list", {})
        fields(x, files=list)
        names = {y["name"] for y in x["files"]}
        need("README.md" in names and "app.js" not in names, "root lists %s" % sorted(names)[:8])
    with case("repo/files-list-directory"):
        x = w.ok("repository/files/list", {"directory": "src"})
        need({y["path"] for y in x["files"]} == {"src/app.js", "src/utils.js"}, short(x))
        need("src/lib" in json.dumps(x.get("directories", x)), short(x))
    with case("repo/files-list-recursive"):
        x = w.ok("repository/files/list", {"directory": "src", "recursive": True})
        need("src/lib/deep/inner.py" in paths_of(x["files"]), short(x))
    with case("repo/files-list-recursive-stays-in-the-directory"):
        write(d.repo + "/src2/x.js", "1\n")
        time.sleep(1.5)
        x = w.ok("repository/files/list", {"directory": "src", "recursive": True})
        need(all(p.startswith("src/") for p in paths_of(x["files"])), short(paths_of(x["files"])))
        shutil.rmtree(d.repo + "/src2")
    with case("repo/files-list-pages-and-sorts"):
        x = w.ok("repository/files/list", {"directory": "many", "limit": 5, "offset": 0, "sort_by": "size", "sort_order": "desc"})
        need([y["name"] for y in x["files"]] == ["file%02d.txt" % i for i in (29, 28, 27, 26, 25)], short(x))
        y = w.ok("repository/files/list", {"directory": "many", "limit": 5, "offset": 25, "sort_by": "name"})
        need([z["name"] for z in y["files"]] == ["file%02d.txt" % i for i in range(25, 30)], short(y))
        pg = x.get("pagination") or x
        need(pg.get("has_more") is True and (y.get("pagination") or y).get("has_more") is False, short(pg))
    with case("repo/files-list-rest-twin"):
        q = d.rest("GET", "/api/repository/files/list?directory=src")
        need(q.status == 200 and {y["path"] for y in q.json["files"]} == {"src/app.js", "src/utils.js"}, repr(q))
    with case("repo/tree"):
        x = w.ok("repository/files/tree", {"depth": 2})
        fields(x, type=str, children=list)
        kids = {y["name"]: y for y in x["children"]}
        need(x["type"] == "directory" and kids["src"]["type"] == "directory" and kids["README.md"]["type"] == "file", short(x))
        need("app.js" in [y["name"] for y in kids["src"].get("children", [])], short(kids["src"]))
    with case("repo/tree-depth-limits"):
        x = w.ok("repository/files/tree", {"depth": 1})
        src = [y for y in x["children"] if y["name"] == "src"][0]
        need(not src.get("children"), short(src))
        x = w.ok("repository/files/tree", {"path": "src", "depth": 5})
        need("inner.py" in json.dumps(x), short(x))
    with case("repo/tree-rest-twin"):
        q = d.rest("GET", "/api/repository/files/tree?path=src&depth=1")
        need(q.status == 200 and "app.js" in json.dumps(q.json), repr(q))
    with case("repo/stats"):
        x = w.ok("repository/stats")
        fields(x, total_files=int, total_size_bytes=int, files_by_extension=dict, largest_files=list)
        need(x["files_by_extension"].get("js") == 2 or x["files_by_extension"].get(".js") == 2, short(x["files_by_extension"]))
        need(x["largest_files"] and x["largest_files"][0]["path"] == "big.txt" or x["largest_files"][0]["size_bytes"] <= 100, short(x["largest_files"][:1]))
    with case("repo/extra:stats-knows-tracked-files"):
        need(x.get("git_tracked_files", 0) >= 35, "git_tracked_files = %s" % x.get("git_tracked_files"))
    with case("repo/stats-rest-twin"):
        q = d.rest("GET", "/api/repository/stats").json
        need(q["total_files"] == x["total_files"], short(q))
    with case("repo/rebuild"):
        x = w.ok("repository/index/rebuild")
        fields(x, status=str)
        need(until(lambda: w.ok("repository/index/status")["status"] == "ready", 20), "not ready again")
    with case("repo/rebuild-rest-twin"):
        write(d.repo + "/brandnew_q.txt", "1\n")
        q = d.rest("POST", "/api/repository/index/rebuild")
        need(q.status in (200, 202), repr(q))
        need(until(lambda: "brandnew_q.txt" in paths_of(w.ok("repository/search", {"query": "brandnew"})["results"]), 15),
             "a new file is not found after a rebuild")
    with case("repo/index-forgets-deleted-files"):
        write(d.repo + "/appeared_later.txt", "1\n")
        need(until(lambda: w.ok("repository/search", {"query": "appeared"})["results"], 15), "a new file is not found")
        os.remove(d.repo + "/appeared_later.txt")
        need(until(lambda: not w.ok("repository/search", {"query": "appeared"})["results"], 15), "a deleted file is still found")
    os.remove(d.repo + "/brandnew_q.txt")
    w.close()


def tline(kind, role, content, sid, **kw):
    return json.dumps({"type": kind, "uuid": str(uuid.uuid4()), "sessionId": sid, "cwd": "/x", "gitBranch": "main",
                       "version": "2.0.99", "userType": "external",
                       "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
                       "message": {"role": role, "content": content, **kw}}) + "\n"


def make_session(d, n=30):
    sid = str(uuid.uuid4())
    p = os.path.join(d.home, ".claude", "projects", re.sub(r"[/.]", "-", d.repo), sid + ".jsonl")
    out = ""
    for i in range(n):
        out += tline("user", "user", "question %d" % i, sid) if i % 2 == 0 else \
            tline("assistant", "assistant", [{"type": "text", "text": "answer %d" % i}], sid, model="m", stop_reason="end_turn")
    write(p, out)
    return sid, p


def session(d):
    sid, path = make_session(d)
    w = d.ws()
    tid = "toolu_1"
    with open(path, "a") as f:
        f.write(tline("assistant", "assistant", [{"type": "thinking", "thinking": "deep"}, {"type": "text", "text": "will edit"},
                      {"type": "tool_use", "id": tid, "name": "Bash", "input": {"command": "ls"}}], sid, stop_reason="tool_use"))
        f.write(tline("user", "user", [{"type": "tool_result", "tool_use_id": tid, "content": "a\nb\n"}], sid))
    with case("session/list"):
        need(until(lambda: sid in [s["session_id"] for s in w.ok("session/list").get("sessions") or []], 15),
             "the transcript is not listed: %s" % short(w.ok("session/list")))
        x = w.ok("session/list")
        s = [y for y in x["sessions"] if y["session_id"] == sid][0]
        fields(s, session_id=str, message_count=int)
        need(s["message_count"] > 0, short(s))
        need(any(k in s for k in ("last_updated", "updated_at")), short(s))
    with case("session/list-agent_type-filter"):
        need(sid in [y["session_id"] for y in w.ok("session/list", {"agent_type": "claude"})["sessions"]])
        need(sid not in [y["session_id"] for y in w.ok("session/list", {"agent_type": "codex"})["sessions"] or []])
    with case("session/list-rest-twin"):
        q = d.rest("GET", "/api/claude/sessions")
        need(q.status == 200 and sid in [y["session_id"] for y in q.json["sessions"]], repr(q))
    with case("session/list-limit"):
        make_session(d, 4)
        until(lambda: len(w.ok("session/list")["sessions"]) >= 2, 15)
        need(len(w.ok("session/list", {"limit": 1})["sessions"]) == 1)
        need(len(d.rest("GET", "/api/claude/sessions?limit=1").json["sessions"]) == 1, "REST")
    with case("session/get"):
        x = w.ok("session/get", {"session_id": sid})
        need(x["session_id"] == sid, short(x))
    with case("session/get-unknown"):
        for i in (str(uuid.uuid4()), "nope"):
            need(code_is(w.err("session/get", {"session_id": i}), -32010, "SESSION_NOT_FOUND"))
    with case("session/messages"):
        x = w.ok("session/messages", {"session_id": sid})
        fields(x, session_id=str, messages=list, total=int)
        need(x["total"] == 32 and len(x["messages"]) == 32, "total %s, %d messages" % (x["total"], len(x["messages"])))
        need("question 0" in json.dumps(x["messages"][0]) and "answer 1" in json.dumps(x["messages"][1]), short(x["messages"][0]))
    with case("session/messages-pages"):
        a = w.ok("session/messages", {"session_id": sid, "limit": 10, "offset": 0})
        b = w.ok("session/messages", {"session_id": sid, "limit": 10, "offset": 30})
        need(len(a["messages"]) == 10 and a["has_more"] is True and len(b["messages"]) == 2 and b["has_more"] is False, short((a["has_more"], b["has_more"])))
        c = w.ok("session/messages", {"session_id": sid, "limit": 1, "order": "desc"})
        need("tool_result" in json.dumps(c["messages"][0]), short(c["messages"][0]))
    with case("session/messages-offset-past-the-end"):
        a = w.ok("session/messages", {"session_id": sid, "limit": 10, "offset": 500})
        need(not a["messages"] and a["total"] == 32 and a["has_more"] is False, short(a))
    with case("session/messages-rest-twin"):
        q = d.rest("GET", "/api/claude/sessions/messages?session_id=%s&limit=5&offset=2&order=asc" % sid)
        need(q.status == 200 and len(q.json["messages"]) == 5 and q.json["total"] == 32 and q.json["has_more"] is True, repr(q))
        need("question 2" in json.dumps(q.json["messages"][0]), short(q.json["messages"][0]))
    with case("session/elements-rest"):
        q = d.rest("GET", "/api/claude/sessions/elements?session_id=%s&limit=100" % sid)
        need(q.status == 200, repr(q))
        fields(q.json, elements=list)
        kinds = {e["type"] for e in q.json["elements"]}
        need({"user_input", "assistant_text", "tool_call", "tool_result"} <= kinds, "kinds: %s" % kinds)
        for e in q.json["elements"]:
            fields(e, id=str, type=str, content=None)
        need(d.rest("GET", "/api/claude/sessions/elements?session_id=" + str(uuid.uuid4())).status == 404, "unknown session")
    with case("session/elements-cursor"):
        q = d.rest("GET", "/api/claude/sessions/elements?session_id=%s&limit=5" % sid).json
        need(len(q["elements"]) == 5, short(q))
        p = q.get("pagination") or q
        need(p.get("has_more_before") is True, short(p))
        q2 = d.rest("GET", "/api/claude/sessions/elements?session_id=%s&limit=5&before=%s" % (sid, q["elements"][0]["id"])).json
        need(len(q2["elements"]) == 5 and not {e["id"] for e in q2["elements"]} & {e["id"] for e in q["elements"]}, short(q2))
    with case("session/id-cannot-leave-the-directory"):
        write(os.path.join(d.home, ".claude", "projects", "evil.jsonl"), tline("user", "user", SECRET, "evil"))
        for i in ("../evil", "..%2fevil", "x/../../evil", os.path.join(d.home, ".claude/projects/evil"), "../evil.jsonl\x00"):
            for m in ("session/get", "session/messages", "session/watch"):
                r = w.call(m, {"session_id": i})
                need("error" in r and SECRET not in json.dumps(r), "%s %r -> %s" % (m, i, short(r)))
            for e in ("messages", "elements"):
                q = d.rest("GET", "/api/claude/sessions/%s?session_id=%s" % (e, urllib.parse.quote(i, safe="")))
                need(q.status != 200 and SECRET.encode() not in q.body, "%s %r -> %r" % (e, i, q))
    with case("session/delete-cannot-leave-the-directory"):
        http_(d, "DELETE", "/api/claude/sessions?session_id=" + urllib.parse.quote("../evil", safe=""), token=d.access)
        need(os.path.exists(os.path.join(d.home, ".claude", "projects", "evil.jsonl")), "a file outside was deleted")
    with case("session/watch-unknown"):
        need(code_is(w.err("session/watch", {"session_id": str(uuid.uuid4()), "agent_type": "claude"}), -32010, "SESSION_NOT_FOUND"))
        need(w.err("session/watch", {})["code"] == -32602)
    with case("session/watch"):
        at = w.mark()
        x = w.ok("session/watch", {"session_id": sid, "agent_type": "claude"})
        need(x.get("watching") is True or x.get("status") in ("watching", "ok"), short(x))
    with case("session/watch-started-event"):
        e = w.event("session_watch_started", lambda p: p.get("session_id") == sid, 3, at)
        need(e.get("watching") is True, short(e))
    time.sleep(0.5)

    def mine(p):
        return sid in json.dumps(p)
    with case("session/watch-delivers-appended-lines"):
        at = w.mark()
        with open(path, "a") as f:
            f.write(tline("assistant", "assistant", [{"type": "text", "text": "LIVE-ONE"}], sid, stop_reason="end_turn"))
        end = time.monotonic() + 8
        hit = None
        while not hit and time.monotonic() < end:
            hit = [e for e in w.events(at) if "LIVE-ONE" in json.dumps(e[2]) and mine(e[2])]
            time.sleep(0.1)
        need(hit, "nothing arrived; saw %s" % [e[1] for e in w.events(at)])
        need(hit[0][1] in ("claude_message", "claude_log", "session_message"), hit[0][1])
    with case("session/watched-claude_message-shape"):
        e = w.event("claude_message", lambda p: "LIVE-ONE" in json.dumps(p), 2, at)
        fields(e, session_id=str, type=str, role=str, content=list)
        need(e["session_id"] == sid and e["type"] == "assistant" and e["content"][0]["type"] == "text" and
             e["content"][0]["text"] == "LIVE-ONE", short(e))
    with case("session/watch-delivers-each-line-once"):
        time.sleep(2.5)
        n = [e for e in w.events(at, "claude_message") if "LIVE-ONE" in json.dumps(e[2])]
        need(len(n) == 1, "%d times" % len(n))
    with case("session/watch-partial-line"):
        at = w.mark()
        l = tline("assistant", "assistant", [{"type": "text", "text": "LIVE-TWO"}], sid)
        with open(path, "a") as f:
            f.write(l[:60])
            f.flush()
            time.sleep(1.6)
            f.write(l[60:])
        need(until(lambda: [e for e in w.events(at) if "LIVE-TWO" in json.dumps(e[2])], 8), "a line written in two parts is lost")
        time.sleep(1.5)
        n = [e for e in w.events(at, "claude_message") if "LIVE-TWO" in json.dumps(e[2])]
        need(len(n) == 1, "%d times" % len(n))
    with case("session/watch-tool-use-and-result-blocks"):
        at = w.mark()
        with open(path, "a") as f:
            f.write(tline("assistant", "assistant", [{"type": "tool_use", "id": "toolu_9", "name": "Write",
                          "input": {"file_path": "/x/LIVE-THREE"}}], sid, stop_reason="tool_use"))
            f.write(tline("user", "user", [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "LIVE-FOUR", "is_error": True}], sid))
        e = w.event("claude_message", lambda p: "LIVE-THREE" in json.dumps(p), 8, at)
        b = [x for x in e["content"] if x["type"] == "tool_use"][0]
        need(b["tool_name"] == "Write" and b["tool_id"] == "toolu_9" and b["tool_input"]["file_path"] == "/x/LIVE-THREE", short(b))
        e = w.event("claude_message", lambda p: "LIVE-FOUR" in json.dumps(p), 8, at)
    with case("session/unwatch"):
        at = w.mark()
        x = w.ok("session/unwatch", {"session_id": sid})
        need(x.get("watching") is False or x.get("status"), short(x))
    with case("session/watch-stopped-event"):
        e = w.event("session_watch_stopped", lambda p: p.get("session_id") == sid, 3, at)
        need(e.get("watching") is False and e.get("reason") == "client_request", short(e))
    with case("session/unwatch-ends-delivery"):
        time.sleep(0.5)
        at = w.mark()
        with open(path, "a") as f:
            f.write(tline("assistant", "assistant", [{"type": "text", "text": "LIVE-FIVE"}], sid))
        time.sleep(3)
        need(not [e for e in w.events(at) if "LIVE-FIVE" in json.dumps(e[2])], "still delivered")
    with case("session/unwatch-twice-is-harmless"):
        m = w.call("session/unwatch", {})
        need("result" in m or "error" in m)
    w.close()


def agent(d):
    w = d.ws()
    with case("agent/not-running-errors"):
        e = w.err("agent/stop")
        need(code_is(e, -32002, "CLAUDE_NOT_RUNNING"), short(e))
        e = w.err("agent/respond", {"tool_use_id": "x", "response": "approved"})
        need(e["code"] in (-32002, -32003) or code_is(e, 0, "CLAUDE_NOT_RUNNING"), short(e))
    with case("agent/run-bad-params"):
        for p in ({}, {"prompt": ""}, {"prompt": "x", "mode": "sideways"}, {"prompt": "x", "mode": "continue"}, {"prompt": 5}):
            need(w.err("agent/run", p)["code"] == -32602, short(p))
    with case("agent/run-unknown-agent_type-is-refused"):
        need("error" in w.call("agent/run", {"prompt": "CONF:simple", "agent_type": "no-such-agent"}), "accepted")
    with contextlib.suppress(Miss):
        wait_idle(w)
    with case("agent/run-result"):
        at = w.mark()
        r = w.ok("agent/run", {"prompt": "please CONF:simple now", "mode": "new", "agent_type": "claude"})
        need(r["status"] == "started", short(r))
    with case("agent/run-result-has-session_id"):
        need(isinstance(r.get("session_id"), str) and r["session_id"], short(r))
    with case("agent/status-running-event"):
        e = w.event("claude_status", lambda p: p.get("state") == "running", since=at)
        fields(e, state=str, prompt=str, pid=int, started_at=str)
        need(e["prompt"] == "please CONF:simple now" and e["pid"] > 0, short(e))
    with case("agent/returns-to-idle-event"):
        e = w.event("claude_status", lambda p: p.get("state") in ("idle", "stopped"), 20, at)
    with case("agent/log-events-carry-the-raw-line"):
        e = w.event("claude_log", lambda p: "I'll help you." in p.get("line", ""), since=at)
        fields(e, line=str, stream=str, parsed=dict)
        need(e["stream"] == "stdout" and json.loads(e["line"])["type"] == "assistant", short(e))
    with case("agent/log-parsed-block"):
        p = e["parsed"]
        fields(p, type=str, content=list)
        need(p["type"] == "assistant" and p["content"][0] == {**p["content"][0], "type": "text", "text": "I'll help you."}, short(p))
        need(p.get("output_tokens") == 150 and not p.get("is_thinking") and not p.get("is_context_compaction"), short(p))
    with case("agent/log-parsed-session_id"):
        need(p.get("session_id") == json.loads(e["line"])["session_id"], short(p))
    with case("agent/log-parsed-thinking"):
        e = w.event("claude_log", lambda p: '"thinking"' in p.get("line", ""), since=at)
        need(e["parsed"].get("is_thinking") is True, short(e["parsed"]))
    with case("agent/log-parsed-compaction"):
        e = w.event("claude_log", lambda p: "compact_boundary" in p.get("line", ""), since=at)
        need(e["parsed"].get("is_context_compaction") is True, short(e["parsed"]))
    with case("agent/log-parsed-stop_reason"):
        e = w.event("claude_log", lambda p: "All done." in p.get("line", ""), since=at)
        need(e["parsed"].get("stop_reason") == "end_turn", short(e["parsed"]))
    with case("agent/log-non-json-has-no-parsed"):
        e = w.event("claude_log", lambda p: "this line is not JSON" in p.get("line", ""), since=at)
        need(e.get("parsed") is None and e["stream"] == "stdout", short(e))
    with case("agent/log-stderr"):
        e = w.event("claude_log", lambda p: "a line on stderr" in p.get("line", ""), since=at)
        need(e["stream"] == "stderr" and e.get("parsed") is None, short(e))
    with case("agent/log-order-and-completeness"):
        lines = [x[2]["line"] for x in w.events(at, "claude_log") if x[2].get("stream") == "stdout"]
        seq = [k for k in ('"init"', '"thinking"', "I'll help you.", "this line is not JSON", "compact_boundary", "All done.", '"result"')]
        pos = [next((i for i, l in enumerate(lines) if k in l), -1) for k in seq]
        need(-1 not in pos and pos == sorted(pos), "positions %s" % pos)
    with case("agent/session-info-event"):
        e = w.event("claude_session_info", since=at)
        sid = json.loads([l for l in lines if '"init"' in l][0])["session_id"]
        need(e.get("session_id") == sid, short(e))
    with case("agent/session-info-model"):
        need(e.get("model") == "claude-sonnet-4-20250514" and e.get("version"), short(e))
    with case("agent/runs-in-the-repository"):
        starts = [x for x in d.fake_log() if x["event"] == "start"]
        need(starts and os.path.realpath(starts[-1]["cwd"]) == d.repo, short(starts[-1:]))
    with case("agent/at-most-one-claude_message-per-message"):
        n = [x for x in w.events(at, "claude_message") if "I'll help you." in json.dumps(x[2])]
        need(len(n) <= 1, "%d times" % len(n))
    with case("agent/continue-passes-the-session"):
        wait_idle(w)
        r = w.ok("agent/run", {"prompt": "more CONF:simple", "mode": "continue", "session_id": sid})
        wait_idle(w)
        last = [x for x in d.fake_log() if x["event"] == "start"][-1]
        a = last["argv"]
        need("--resume" in a and a[a.index("--resume") + 1] == sid or "--resume=" + sid in a or "-r" in a, short(a))
    with case("agent/prompt-beginning-with-dash-is-a-prompt"):
        w.ok("agent/run", {"prompt": "--version CONF:simple"})
        wait_idle(w)
        pr = [x for x in d.fake_log() if x["event"] == "prompt"][-1]["prompt"]
        need(pr == "--version CONF:simple", "claude saw %r" % pr)
    with case("agent/permission-event"):
        at = w.mark()
        w.ok("agent/run", {"prompt": "CONF:permission", "mode": "new"})
        e = w.event("claude_permission", timeout=10, since=at)
        fields(e, tool_use_id=str, tool_name=str, input=str, description=str)
        need(e["tool_name"] == "Write" and json.loads(e["input"])["content"] == "hello from the fake\n", short(e))
        need("made_by_claude.txt" in e["description"], e["description"])
        tid = e["tool_use_id"]
    with case("agent/waiting-state-while-a-permission-is-open"):
        need(until(lambda: w.ok("status/get")["claude_state"] == "waiting", 3), w.ok("status/get")["claude_state"])
        w.event("claude_status", lambda p: p.get("state") == "waiting", 2, at)
    with case("agent/run-while-waiting-is-refused"):
        e = w.err("agent/run", {"prompt": "CONF:simple"})
        need(e["code"] == -32001, short(e))
    with case("agent/respond-approved"):
        r = w.ok("agent/respond", {"tool_use_id": tid, "response": "approved", "is_error": False})
        need(r.get("status") in ("sent", "ok", "accepted"), short(r))
        need(until(lambda: os.path.exists(d.repo + "/made_by_claude.txt"), 10), "the approval did not reach the agent")
        dec = [x for x in d.fake_log() if x["event"] == "decision"][-1]
        need(dec["allowed"] is True, short(dec))
    with case("agent/permission-announced-once"):
        wait_idle(w)
        n = [x for x in w.events(at, "claude_permission") if x[2].get("tool_use_id") == tid]
        need(len(n) == 1, "%d times" % len(n))
    with contextlib.suppress(FileNotFoundError):
        os.remove(d.repo + "/made_by_claude.txt")
    with case("agent/respond-twice-is-an-error"):
        e = w.err("agent/respond", {"tool_use_id": tid, "response": "approved"})
    with case("agent/respond-denied"):
        wait_idle(w)
        at = w.mark()
        w.ok("agent/run", {"prompt": "CONF:permission"})
        tid = w.event("claude_permission", timeout=10, since=at)["tool_use_id"]
        w.ok("agent/respond", {"tool_use_id": tid, "response": "denied", "is_error": True})
        until(lambda: [x for x in d.fake_log() if x["event"] == "decision" and x["tool_use_id"] == tid], 10)
        dec = [x for x in d.fake_log() if x["event"] == "decision"][-1]
        need(dec["tool_use_id"] == tid and dec["allowed"] is False and dec["how"] not in ("stdin-eof", "timeout"), short(dec))
        wait_idle(w)
        need(not os.path.exists(d.repo + "/made_by_claude.txt"), "the denied write happened")
    with case("agent/respond-to-unknown-tool_use_id"):
        wait_idle(w)
        at = w.mark()
        w.ok("agent/run", {"prompt": "CONF:permission"})
        tid = w.event("claude_permission", timeout=10, since=at)["tool_use_id"]
        need("error" in w.call("agent/respond", {"tool_use_id": "toolu_wrong", "response": "approved"}), "accepted")
        need(not os.path.exists(d.repo + "/made_by_claude.txt"), "a wrong id approved the write")
        w.call("agent/respond", {"tool_use_id": tid, "response": "denied", "is_error": True})
        with contextlib.suppress(Miss):
            wait_idle(w)
    with case("agent/respond-needs-tool_use_id"):
        need(w.err("agent/respond", {"response": "x"})["code"] == -32602)
    with case("agent/waiting-event-for-questions"):
        wait_idle(w)
        at = w.mark()
        w.ok("agent/run", {"prompt": "CONF:ask"})
        e = w.event("claude_waiting", timeout=10, since=at)
        fields(e, tool_use_id=str, tool_name=str, input=str)
        need(e["tool_name"] == "AskUserQuestion" and "Which database" in e["input"] and isinstance(json.loads(e["input"]), dict), short(e))
        atid = e["tool_use_id"]
    with case("agent/answer-reaches-the-agent"):
        w.ok("agent/respond", {"tool_use_id": atid, "response": "postgres", "is_error": False})
        until(lambda: [x for x in d.fake_log() if x["event"] == "decision" and x["tool_use_id"] == atid], 10)
        dec = [x for x in d.fake_log() if x["event"] == "decision"][-1]
        need(dec["tool_use_id"] == atid and "postgres" in json.dumps(dec), short(dec))
        wait_idle(w)
    with case("agent/output-is-streamed-live"):
        with contextlib.suppress(Miss):
            wait_idle(w)
        at = w.mark()
        w.ok("agent/run", {"prompt": "CONF:slow"})
        e = w.event("claude_status", lambda p: p.get("state") == "running", since=at)
        pid = e["pid"]
        w.event("claude_log", lambda p: "tick 1" in p.get("line", ""), since=at)
    with case("agent/run-while-running-is-refused"):
        e = w.err("agent/run", {"prompt": "CONF:simple"})
        need(e["code"] == -32001, short(e))
        need(w.ok("status/get")["claude_state"] == "running", "status/get")
    with case("agent/respond-while-nothing-is-asked"):
        need("error" in w.call("agent/respond", {"tool_use_id": "toolu_none", "response": "approved"}), "accepted")
    with case("agent/stop"):
        r = w.ok("agent/stop")
        need(r["status"] in ("stopped", "stopping"), short(r))
        w.event("claude_status", lambda p: p.get("state") in ("stopped", "idle"), 10, at)

        def gone():
            try:
                os.kill(pid, 0)
                return "Z" in open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[0]
            except (ProcessLookupError, FileNotFoundError):
                return True
        need(until(gone, 8), "pid %d lives" % pid)
    with case("agent/stopped-state-is-stopped"):
        e = w.event("claude_status", lambda p: p.get("state") == "stopped", 2, at)
    with case("agent/run-after-stop"):
        w.ok("agent/run", {"prompt": "CONF:simple"})
        wait_idle(w)
    with case("agent/failure-gives-error-state"):
        at = w.mark()
        w.ok("agent/run", {"prompt": "CONF:fail"})
        e = w.event("claude_status", lambda p: p.get("state") == "error", 10, at)
        need(e.get("exit_code") == 3 and e.get("error"), short(e))
    with case("agent/rest-run-stop"):
        with contextlib.suppress(Miss):
            wait_idle(w)
        q = d.rest("POST", "/api/claude/run", {"prompt": "CONF:slow"})
        need(q.status in (200, 202) and q.json["status"] == "started", repr(q))
        q = d.rest("POST", "/api/claude/run", {"prompt": "CONF:simple"})
        need(q.status == 409, "run while running: %r" % q)
        q = d.rest("POST", "/api/claude/stop")
        need(q.status == 200, repr(q))
        until(lambda: d.rest("GET", "/api/status").json["claude_state"] in ("idle", "stopped", "error"), 10)
        q = d.rest("POST", "/api/claude/stop")
        need(q.status in (404, 409), "stop while idle: %r" % q)
        need(d.rest("POST", "/api/claude/run", {}).status == 400, "no prompt")
        need(d.rest("POST", "/api/claude/respond", {}).status == 400, "no tool_use_id")
        need(d.rest("POST", "/api/claude/respond", {"tool_use_id": "x", "response": "y"}).status in (404, 409), "respond while idle")
    with case("agent/rest-respond"):
        wait_idle(w)
        at = w.mark()
        need(d.rest("POST", "/api/claude/run", {"prompt": "CONF:permission"}).status in (200, 202))
        tid = w.event("claude_permission", timeout=10, since=at)["tool_use_id"]
        q = d.rest("POST", "/api/claude/respond", {"tool_use_id": tid, "response": "approved", "is_error": False})
        need(q.status == 200, repr(q))
        need(until(lambda: os.path.exists(d.repo + "/made_by_claude.txt"), 10), "the approval did not reach the agent")
        os.remove(d.repo + "/made_by_claude.txt")
    with contextlib.suppress(Miss):
        wait_idle(w)
    w.close()


def events(d):
    w = d.ws()
    time.sleep(3.0)          # the document's 2 s start delay of the git watcher
    r_ = d.repo
    with case("events/session_start-on-connect"):
        w2 = WS(d, d.access)
        e = w2.event("session_start", timeout=3)
        fields(e, session_id=str, repo_path=str, repo_name=str, agent_version=str)
        need(e["repo_path"] == r_ and e["repo_name"] == "myproject", short(e))
        w2.close()
    with case("events/file_changed-created"):
        at = w.mark()
        write(r_ + "/evt.txt", "12345")
        e = w.event("file_changed", lambda p: p.get("path") == "evt.txt", since=at)
        fields(e, path=str, change=str)
        need(e["change"] == "created", short(e))
        need(until(lambda: [x for x in w.events(at, "file_changed") if x[2].get("path") == "evt.txt" and x[2].get("size") == 5], 3), "no size 5: %s" % short(e))
    with case("events/file_changed-modified"):
        time.sleep(0.6)
        at = w.mark()
        with open(r_ + "/evt.txt", "a") as f:
            f.write("6789")
        e = w.event("file_changed", lambda p: p.get("path") == "evt.txt" and p.get("change") == "modified", since=at)
        need(e.get("size") == 9, short(e))
    with case("events/file_changed-renamed"):
        time.sleep(0.6)
        at = w.mark()
        os.rename(r_ + "/evt.txt", r_ + "/evt2.txt")
        e = w.event("file_changed", lambda p: p.get("change") == "renamed", since=at)
        need(e["path"] == "evt2.txt" and e.get("old_path") == "evt.txt", short(e))
    with case("events/file_changed-deleted"):
        time.sleep(1.2)
        at = w.mark()
        os.remove(r_ + "/evt2.txt")
        e = w.event("file_changed", lambda p: p.get("path") == "evt2.txt" and p.get("change") == "deleted", since=at)
    with case("events/file_changed-in-new-directory"):
        at = w.mark()
        write(r_ + "/newdir/sub/deep.txt", "x")
        time.sleep(0.7)
        write(r_ + "/newdir/sub/deep2.txt", "x")
        w.event("file_changed", lambda p: p.get("path") == "newdir/sub/deep2.txt", since=at)
        shutil.rmtree(r_ + "/newdir")
    with case("events/file_changed-atomic-replace"):
        time.sleep(1)
        at = w.mark()
        write(r_ + "/src/app.js.swap1", "replaced\n")
        os.replace(r_ + "/src/app.js.swap1", r_ + "/src/app.js")
        e = w.event("file_changed", lambda p: p.get("path") == "src/app.js", since=at)
        git(r_, "checkout", "-q", "--", ".")
    with case("events/no-file_changed-for-the-git-directory"):
        time.sleep(1)
        at = w.mark()
        git(r_, "tag", "t1"), git(r_, "tag", "-d", "t1")
        time.sleep(1)
        need(not [x for x in w.events(at, "file_changed") if ".git/" in x[2].get("path", "") or x[2].get("path") == ".git"], "seen")
    with case("events/git_status_changed-on-external-add"):
        time.sleep(1.5)
        write(r_ + "/staged_outside.txt", "x\n")
        time.sleep(1.5)
        at = w.mark()
        git(r_, "add", "staged_outside.txt")
        e = w.event("git_status_changed", lambda p: p.get("staged_count") == 1, since=at)
        fields(e, branch=str, ahead=int, behind=int, staged_count=int, unstaged_count=int, untracked_count=int,
               has_conflicts=bool, changed_files=list)
        need(e["branch"] == "main" and "staged_outside.txt" in e["changed_files"] and e["has_conflicts"] is False, short(e))
    with case("events/git_status_changed-on-external-commit"):
        time.sleep(1.6)
        at = w.mark()
        git(r_, "commit", "-qm", "outside")
        e = w.event("git_status_changed", lambda p: p.get("staged_count") == 0, since=at)
        need(e.get("ahead", 0) >= 1, "ahead: %s" % short(e))
    with case("events/git_status_changed-on-external-branch-switch"):
        time.sleep(1.6)
        at = w.mark()
        git(r_, "checkout", "-q", "-b", "outside-branch")
        w.event("git_status_changed", lambda p: p.get("branch") == "outside-branch", since=at)
        time.sleep(1.6)
        git(r_, "checkout", "-q", "main")
    with case("events/git_status_changed-on-fetch"):
        o = d.root + "/other"
        git(o, "pull", "-q", check=False)
        write(o + "/fetched_%d.txt" % time.time(), "x")
        git(o, "add", "."), git(o, "commit", "-qm", "f"), git(o, "push", "-q")
        time.sleep(1.6)
        at = w.mark()
        git(r_, "fetch", "-q")
        w.event("git_status_changed", lambda p: p.get("behind", 0) >= 1, since=at)
    with case("events/git_status_changed-burst-is-debounced"):
        time.sleep(1.6)
        at = w.mark()
        for i in range(20):
            write(r_ + "/burst%d.txt" % i, "x")
            git(r_, "add", "burst%d.txt" % i)
        time.sleep(3)
        ev = w.events(at, "git_status_changed")
        need(1 <= len(ev) <= 6, "%d events" % len(ev))
        gaps = [b[0] - a[0] for a, b in zip(ev, ev[1:])]
        need(all(x >= 0.9 for x in gaps), "gaps %s" % [round(x, 2) for x in gaps])
    with case("events/git_status_changed-last-state-is-delivered"):
        need(ev and ev[-1][2].get("staged_count") == 20, "last event says %s" % (ev and ev[-1][2].get("staged_count")))
    git(r_, "reset", "-q", "--hard", "HEAD")
    git(r_, "clean", "-qfd", "-e", ".cdev")
    with case("events/idle-repository-is-quiet"):
        time.sleep(2.5)
        at = w.mark()
        time.sleep(3)
        noise = [e[1] for e in w.events(at) if e[1] not in ("heartbeat",)]
        need(not noise, "saw %s" % noise)
    with case("events/git_diff-event-shape"):
        at = w.mark()
        write(r_ + "/src/utils.js", "exports.x = 2;\n")
        e = w.event("git_diff", lambda p: (p.get("path") or p.get("file")) == "src/utils.js", since=at)
        fields(e, diff=str, is_staged=bool)
        need("+exports.x = 2;" in e["diff"], short(e))
        fields(e, path=str, is_new=bool)
    git(r_, "checkout", "-q", "--", ".")
    with case("events/are-jsonrpc-notifications-with-time"):
        bad = sorted({e[1] for e in w.events() if not e[3]})
        need(not bad, "not JSON-RPC notifications: %s" % bad)
        stray = [m for _, m in w.msgs if "id" not in m and not event_of(m)]
        need(not stray, "stray messages: %s" % short(stray))
    w.close()


def multi(d):
    a, b = d.ws(), d.ws()
    with case("multi/every-client-gets-agent-events"):
        ma, mb = a.mark(), b.mark()
        a.ok("agent/run", {"prompt": "CONF:simple"})
        for w, m in ((a, ma), (b, mb)):
            w.event("claude_status", lambda p: p.get("state") == "running", since=m)
            w.event("claude_log", lambda p: "All done." in p.get("line", ""), 15, m)
        wait_idle(a)
    with case("multi/any-client-may-answer"):
        mb = b.mark()
        a.ok("agent/run", {"prompt": "CONF:permission"})
        tid = b.event("claude_permission", timeout=10, since=mb)["tool_use_id"]
        b.ok("agent/respond", {"tool_use_id": tid, "response": "approved", "is_error": False})
        need(until(lambda: os.path.exists(d.repo + "/made_by_claude.txt"), 10), "no effect")
        os.remove(d.repo + "/made_by_claude.txt")
    with contextlib.suppress(Miss):
        wait_idle(a)
    with case("multi/answers-go-only-to-the-asker"):
        mb = b.mark()
        a.call("status/get", id_="only-a")
        time.sleep(0.5)
        need(not [m for _, m in b.msgs[mb:] if m.get("id") == "only-a"], "the other client saw it")
    with case("multi/unwatch-is-per-client"):
        sid, path = make_session(d, 4)
        need(until(lambda: "result" in a.call("session/get", {"session_id": sid}), 15), "session not found")
        a.ok("session/watch", {"session_id": sid})
        b.ok("session/watch", {"session_id": sid})
        a.ok("session/unwatch", {"session_id": sid})
        time.sleep(0.5)
        mb = b.mark()
        with open(path, "a") as f:
            f.write(tline("assistant", "assistant", [{"type": "text", "text": "STILL-B"}], sid))
        need(until(lambda: [e for e in b.events(mb) if "STILL-B" in json.dumps(e[2])], 6), "b lost its watch when a unwatched")
    with case("multi/two-clients-watch-two-sessions"):
        s1, p1 = make_session(d, 4)
        s2, p2 = make_session(d, 4)
        need(until(lambda: "result" in a.call("session/get", {"session_id": s2}), 15), "session not found")
        a.ok("session/watch", {"session_id": s1})
        b.ok("session/watch", {"session_id": s2})
        time.sleep(0.5)
        ma, mb = a.mark(), b.mark()
        for p, s, t in ((p1, s1, "FOR-A"), (p2, s2, "FOR-B")):
            with open(p, "a") as f:
                f.write(tline("assistant", "assistant", [{"type": "text", "text": t}], s))
        need(until(lambda: [e for e in a.events(ma) if "FOR-A" in json.dumps(e[2])], 6), "a got nothing")
        need(until(lambda: [e for e in b.events(mb) if "FOR-B" in json.dumps(e[2])], 6), "b got nothing")
    with case("multi/disconnect-ends-the-watch-quietly"):
        b.close()
        time.sleep(0.5)
        with open(p2, "a") as f:
            f.write(tline("assistant", "assistant", [{"type": "text", "text": "NOBODY"}], s2))
        time.sleep(1)
        a.ok("status/get")
    with case("multi/slow-client-does-not-block-others"):
        slow = WS(d, d.access, read=False)
        slow.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        ma = a.mark()
        a.ok("agent/run", {"prompt": "CONF:flood=4000"})
        a.event("claude_status", lambda p: p.get("state") in ("idle", "stopped"), 40, ma)
        t = time.monotonic()
        a.ok("status/get")
        need(time.monotonic() - t < 2, "status took %.1fs" % (time.monotonic() - t))
        slow.close()
    with case("multi/extra:fast-client-gets-the-whole-flood"):
        n = {m.group(1) for x in a.events(ma, "claude_log") for m in [re.search(r"flood (\d+) ", x[2].get("line", ""))] if m}
        need(len(n) == 4000, "%d of 4000 lines" % len(n))
    with case("multi/abrupt-disconnect-is-cleaned-up"):
        n = a.ok("status/get")["connected_clients"]
        for _ in range(10):
            s, st, _, _ = ws_handshake(d.port, "/ws", {"Authorization": "Bearer " + d.access})
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        need(until(lambda: a.ok("status/get")["connected_clients"] <= n, 8), "still counted: %s" % a.ok("status/get"))
    a.close()


def heartbeat(d):
    n = OPT.heartbeat_secs
    w, w2 = d.ws(), d.ws()
    with case("heartbeat/arrives"):
        a = w.event("heartbeat", timeout=n * 1.6 + 3)
        fields(a, server_time=str, sequence=int, claude_status=str, uptime_seconds=int)
        need(a["claude_status"] == "idle", short(a))
        need(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", a["server_time"]), a["server_time"])
    with case("heartbeat/sequence-and-interval"):
        b = w.event("heartbeat", lambda p: p["sequence"] > a["sequence"], timeout=n * 1.6 + 3)
        need(b["sequence"] == a["sequence"] + 1, "%s then %s" % (a["sequence"], b["sequence"]))
        ts = [x[0] for x in w.events(0, "heartbeat")]
        need(0.7 * n <= ts[1] - ts[0] <= 1.4 * n + 0.3, "interval %.2f" % (ts[1] - ts[0]))
    with case("heartbeat/every-client"):
        w2.event("heartbeat", lambda p: p["sequence"] == b["sequence"], timeout=3)
    with case("heartbeat/is-a-jsonrpc-notification"):
        need(all(x[3] for x in w.events(0, "heartbeat")), "legacy {event,payload} form")
    w.close(), w2.close()


def rest(d):
    with case("rest/wrong-http-method"):
        bad = []
        for p in GET:
            st = d.rest("POST", p, {}).status
            if st not in (404, 405):
                bad.append("POST %s -> %d" % (p, st))
        for p in POST:
            st = d.rest("GET", p).status
            if st not in (404, 405):
                bad.append("GET %s -> %d" % (p, st))
        need(not bad, "; ".join(bad))
    with case("rest/json-content-type"):
        for p in ("/health", "/api/status", "/api/git/status", "/api/rpc/discover", "/api/file?path=no/such"):
            q = d.rest("GET", p)
            need("application/json" in q.headers.get("content-type", ""), "%s: %s" % (p, q.headers.get("content-type")))
    with case("rest/bad-json-body-is-400"):
        bad = ["%s -> %d" % (p, st) for p in POST if p not in ("/api/claude/stop", "/api/git/push", "/api/git/pull", "/api/repository/index/rebuild")
               for st in [d.rest("POST", p, b"{oops").status] if st != 400]
        need(not bad, "; ".join(bad))
    r_ = d.repo
    git(r_, "checkout", "-q", "-f", "main"), git(r_, "fetch", "-q"), git(r_, "reset", "-q", "--hard", "origin/main")
    with case("rest/git-status"):
        write(r_ + "/rest.txt", "1\n")
        q = d.rest("GET", "/api/git/status")
        need(q.status == 200 and "rest.txt" in paths_of(q.json["untracked"]), repr(q))
        fields(q.json, branch=str, ahead=int, behind=int, staged=list, unstaged=list)
    with case("rest/git-stage-unstage"):
        w = d.ws()
        at = w.mark()
        q = d.rest("POST", "/api/git/stage", {"paths": ["rest.txt"]})
        need(q.status == 200 and q.json.get("success", True) and git(r_, "diff", "--cached", "--name-only") == "rest.txt", repr(q))
        w.event("git_operation_completed", lambda p: p.get("operation") == "stage" and p.get("files_affected") == 1, since=at)
        q = d.rest("POST", "/api/git/unstage", {"paths": ["rest.txt"]})
        need(q.status == 200 and git(r_, "diff", "--cached", "--name-only") == "", repr(q))
        need(d.rest("POST", "/api/git/stage", {"paths": []}).status == 400, "empty paths")
        w.close()
    with case("rest/git-diff"):
        q = d.rest("GET", "/api/git/diff?path=rest.txt")
        need(q.status == 200 and "+1" in q.json["diff"] and q.json["is_new"] is True, repr(q))
    with case("rest/git-commit-push"):
        d.rest("POST", "/api/git/stage", {"paths": ["rest.txt"]})
        q = d.rest("POST", "/api/git/commit", {"message": "via rest"})
        need(q.status == 200 and q.json["success"] and git(r_, "log", "-1", "--format=%s") == "via rest", repr(q))
        q = d.rest("POST", "/api/git/push", timeout=40)
        need(q.status == 200 and q.json["success"] and git(d.root + "/remote.git", "log", "-1", "--format=%s", "main") == "via rest", repr(q))
        need(d.rest("POST", "/api/git/commit", {}).status == 400, "no message")
    with case("rest/git-commit-with-push-flag"):
        write(r_ + "/rest.txt", "2\n")
        d.rest("POST", "/api/git/stage", {"paths": ["rest.txt"]})
        q = d.rest("POST", "/api/git/commit", {"message": "push me", "push": True}, timeout=40)
        need(q.status == 200 and q.json["success"] and git(d.root + "/remote.git", "log", "-1", "--format=%s", "main") == "push me", repr(q))
    with case("rest/git-pull"):
        o = d.root + "/other"
        git(o, "fetch", "-q"), git(o, "reset", "-q", "--hard", "origin/main")
        write(o + "/pulled_rest.txt", "x")
        git(o, "add", "."), git(o, "commit", "-qm", "p"), git(o, "push", "-q")
        q = d.rest("POST", "/api/git/pull", timeout=40)
        need(q.status == 200 and q.json["success"] and os.path.exists(r_ + "/pulled_rest.txt"), repr(q))
    with case("rest/git-discard"):
        write(r_ + "/rest.txt", "dirty\n")
        q = d.rest("POST", "/api/git/discard", {"paths": ["rest.txt"]})
        need(q.status == 200 and open(r_ + "/rest.txt").read() == "2\n", repr(q))
    with case("rest/git-branches-checkout"):
        q = d.rest("GET", "/api/git/branches")
        need(q.status == 200 and q.json["current"] == "main", repr(q))
        git(r_, "branch", "-f", "rest-branch")
        q = d.rest("POST", "/api/git/checkout", {"branch": "rest-branch"})
        need(q.status == 200 and git(r_, "symbolic-ref", "--short", "HEAD") == "rest-branch", repr(q))
        q = d.rest("POST", "/api/git/checkout", {"branch": "nope-nope"})
        need(q.status >= 400 or q.json.get("success") is False, repr(q))
        git(r_, "checkout", "-q", "main")
    with case("rest/git-discard-outside"):
        d.rest("POST", "/api/git/discard", {"paths": ["../secret.txt"]})
        need(os.path.exists(d.root + "/secret.txt"), "removed")
    with case("rest/huge-body-is-refused-not-fatal"):
        with contextlib.suppress(OSError, http.client.HTTPException):
            q = d.rest("POST", "/api/git/commit", b'{"message":"' + b"x" * 30_000_000 + b'"}', timeout=30)
            need(q.status >= 400, "accepted")
        need(http_(d, "GET", "/health").status == 200, "server gone")


def approval():
    d = Daemon("appr", approval=True)

    def decide(verb, request):
        if OPT.person:
            need(http_(d, "POST", "/api/auth/pairing/" + verb, {"request_id": request}).status == 403, "a program decides")
            return d.person(verb, request)
        r = http_(d, "POST", "/api/auth/pairing/" + verb, {"request_id": request})
        need(r.status == 200, repr(r))
    try:
        with case("approval/exchange-is-202-pending"):
            t = d.pairing_token()
            r = d.asks(t)
            need(r.status == 202 and r.json.get("status") == "pending_approval" and isinstance(r.json.get("request_id"), str), repr(r))
            need("access_token" not in r.json, "a token came along")
            rid = r.json["request_id"]
        with case("approval/retry-keeps-the-request"):
            r = d.asks(t)
            need(r.status == 202 and r.json["request_id"] == rid, repr(r))
        with case("approval/pending-list"):
            r = http_(d, "GET", "/api/auth/pairing/pending")
            if OPT.person:
                need(r.status == 403 and rid not in r.body.decode(), "a program sees who waits: %r" % r)
            else:
                need(r.status == 200 and rid in r.body.decode(), repr(r))
                lst = r.json.get("pending") if isinstance(r.json, dict) else r.json
                need(isinstance(lst, list) and len(lst) == 1 and lst[0]["request_id"] == rid, repr(r))
        with case("approval/pending-list-shows-no-token"):
            need(t not in http_(d, "GET", "/api/auth/pairing/pending").body.decode(), "the pairing token is shown")
        with case("approval/decision-bad-inputs"):
            for v in ("approve", "reject"):
                need(http_(d, "POST", "/api/auth/pairing/" + v, {}).status == (403 if OPT.person else 400), v + " without id")
                need(http_(d, "POST", "/api/auth/pairing/" + v, {"request_id": "nope"}).status == (403 if OPT.person else 404), v + " unknown id")
                need(http_(d, "GET", "/api/auth/pairing/" + v).status in (404, 405), "GET " + v)
        with case("approval/foreign-browser-origin-cannot-approve"):
            r = http_(d, "POST", "/api/auth/pairing/approve", {"request_id": rid}, headers={"Origin": "http://evil.example"})
            need(r.status in (401, 403), repr(r))
            need(d.asks(t).status == 202, "it was approved")
        with case("approval/approve-then-exchange"):
            decide("approve", rid)
            r = d.asks(t)
            need(r.status == 200 and r.json["access_token"], repr(r))
            need(http_(d, "GET", "/api/status", token=r.json["access_token"]).status == 200, "token refused")
            acc = r.json
        with case("approval/approved-token-is-single-use"):
            need(d.asks(t).status in (401, 403), "used twice")
        with case("approval/refresh-needs-no-new-approval"):
            r = http_(d, "POST", "/api/auth/refresh", {"refresh_token": acc["refresh_token"]})
            need(r.status == 200, repr(r))
        with case("approval/reject"):
            t2 = d.pairing_token()
            rid2 = d.asks(t2).json["request_id"]
            decide("reject", rid2)
            r = d.asks(t2)
            need(r.status in (401, 403), "after rejection: %r" % r)
            need(OPT.person or "pending" in http_(d, "GET", "/api/auth/pairing/pending").body.decode() and
                 rid2 not in http_(d, "GET", "/api/auth/pairing/pending").body.decode(), "still pending")
        with case("approval/garbage-token-makes-no-request"):
            need(d.asks("nonsense").status == 401)
            r = http_(d, "GET", "/api/auth/pairing/pending").json
            need(not (r.get("pending") if isinstance(r, dict) else r), short(r))
        with case("approval/decision-is-final"):
            if OPT.person:
                with contextlib.suppress(Miss):
                    d.person("approve", rid2)
                need(d.asks(t2).status in (401, 403), "a rejected request was approved")
            else:
                need(http_(d, "POST", "/api/auth/pairing/approve", {"request_id": rid2}).status in (404, 409), "a rejected request was approved")
    finally:
        d.stop()


def nogit():
    d = Daemon("plain", plain_dir=True)
    try:
        with case("nogit/server-starts-and-serves-files"):
            d.login()
            w = WS(d, d.access)
            w.ok("initialize", {})
            need(w.ok("file/get", {"path": "README.md"})["content"] == "plain\n")
        with case("nogit/index-works"):
            need(until(lambda: w.ok("repository/index/status")["status"] == "ready", 15))
            need(w.ok("repository/index/status")["is_git_repo"] is False)
    finally:
        d.stop()


def shutdown():
    d = Daemon("down")
    try:
        d.login()
        with case("shutdown/tokens-survive-a-restart"):
            acc = dict(access=d.access, refresh=d.refresh)
            d2 = None
            d.p.terminate()
            d.p.wait(10)
            cmd = d.filled(OPT.start)
            env = {k: v for k, v in os.environ.items() if not k.startswith(("CDEV_", "CLAUDE", "XDG_", "GIT_"))}
            env.update(HOME=d.home, PATH=d.bin + ":" + os.environ["PATH"], CDEV_SERVER_HOST="127.0.0.1", CDEV_SERVER_PORT=str(d.port),
                       CDEV_SECURITY_REQUIRE_AUTH="true", CDEV_SECURITY_REQUIRE_PAIRING_APPROVAL="false",
                       CDEV_SECURITY_RATE_LIMIT_ENABLED="false", CDEV_CLAUDE_COMMAND=d.claude)
            d.p = subprocess.Popen(shlex.split(cmd), env=env, cwd=d.root, stdin=subprocess.DEVNULL, stdout=open(d.log, "ab"),
                                   stderr=subprocess.STDOUT, start_new_session=True)

            def up():
                try:
                    return http_(d, "GET", "/health", timeout=2).status == 200
                except OSError:
                    return False
            need(until(up, 20), "no restart")
            d.person("affirm")
            r = http_(d, "POST", "/api/auth/refresh", {"refresh_token": acc["refresh"]})
            need(r.status == 200, "refresh after restart: %r" % r)
            d.access = r.json["access_token"]
            need(http_(d, "POST", "/api/auth/refresh", {"refresh_token": acc["refresh"]}).status == 401, "old refresh token valid again")
        w = WS(d, d.access)
        if w.closed or d.p.poll() is not None:
            print("# the server ended on `shutdown`", flush=True)
        else:
            with case("shutdown/SIGTERM-sends-session_end"):
                w = WS(d, d.access)
                time.sleep(0.3)
                at = w.mark()
                d.p.terminate()
                e = w.event("session_end", timeout=6, since=at)
                fields(e, session_id=str, reason=str)
                need(e["reason"] == "shutdown", short(e))
            with case("shutdown/ends-within-10-seconds"):
                d.p.wait(10)
    finally:
        d.stop()


def todo():
    d = Daemon("todo", rate=True)
    try:
        d.login()
        with case("todo/rate-limit-100-commands-per-minute"):
            w = WS(d, d.access)
            out = []
            for i in range(115):
                try:
                    out.append("error" if "error" in w.call("status/get", timeout=5) else "ok")
                except (Miss, OSError):
                    out.append("closed")
                    break
            n = out.index("error") if "error" in out else out.index("closed") if "closed" in out else -1
            need(n != -1, "115 commands in a row were accepted")
            need(95 <= n <= 101, "refused after %d" % n)
        with case("todo/rate-limit-is-an-error-answer-not-a-hangup"):
            need("error" in out and "closed" not in out, "closed with code %s" % w.close_code)
        with case("todo/rate-limit-is-per-client"):
            w2 = WS(d, d.access)
            w2.ok("status/get", timeout=5)
            w2.close()
        w.close()
    except Exception as e:
        print("# %s" % e)
    finally:
        d.stop()
    d = Daemon("todo2", rate=True)
    try:
        d.login()
        with case("todo/rate-limit-10-agent-runs-per-minute"):
            w = WS(d, d.access)
            res = []
            for i in range(12):
                at = w.mark()
                r = w.call("agent/run", {"prompt": "CONF:simple"}, timeout=10)
                res.append(r["error"]["code"] if "error" in r else 0)
                if res[-1] == 0:
                    w.event("claude_status", lambda p: p.get("state") in ("idle", "stopped"), 15, at)
            need(res[:10] == [0] * 10, "the first ten: %s" % res)
            need(res[10] not in (0, -32001), "the eleventh: %s" % res)
        w.close()
    finally:
        d.stop()
    d = Daemon("todo3")
    try:
        d.login()
        w = WS(d, d.access)
        with case("todo/protocol-version-header-sent"):
            need("x-cdev-protocol-version" in http_(d, "GET", "/health").headers or "x-cdev-protocol-version" in w.headers)
        with case("todo/incompatible-protocol-version-rejected"):
            need(400 <= http_(d, "GET", "/api/status", token=d.access, headers={"X-Cdev-Protocol-Version": "99.0.0"}).status < 500, "HTTP")
            s, st, _, _ = ws_handshake(d.port, "/ws", {"Authorization": "Bearer " + d.access, "X-Cdev-Protocol-Version": "99.0.0"})
            s.close()
            need(400 <= st < 500, "websocket %d" % st)
        with case("todo/compatible-protocol-version-accepted"):
            v = http_(d, "GET", "/health").headers.get("x-cdev-protocol-version", "1.0.0")
            need(http_(d, "GET", "/api/status", token=d.access, headers={"X-Cdev-Protocol-Version": v}).status == 200)
        with case("todo/batch"):
            at = w.mark()
            w.text(json.dumps([{"jsonrpc": "2.0", "id": "b1", "method": "status/get"}, {"jsonrpc": "2.0", "method": "initialized"},
                               {"jsonrpc": "2.0", "id": "b2", "method": "no/such"}]))
            end = time.monotonic() + 3
            got = None
            while time.monotonic() < end and not got:
                got = [m for _, m in w.msgs[at:] if isinstance(m, list)]
                time.sleep(0.05)
            need(got and {x["id"] for x in got[0]} == {"b1", "b2"}, short(got))
        with case("todo/batch-empty-is-invalid-request"):
            at = w.mark()
            w.text("[]")
            m = w.wait(lambda x: isinstance(x, dict) and "error" in x, 2, at)
            need(m and m["error"]["code"] == -32600, short(m))
        with case("todo/binary-file"):
            r = w.ok("file/get", {"path": "img.png"})
            need(r["encoding"] == "base64" and base64.b64decode(r["content"]) == PNG, short(r))
        with case("todo/websocket-compression-offered"):
            s, st, h, _ = ws_handshake(d.port, "/ws", {"Authorization": "Bearer " + d.access, "Sec-WebSocket-Extensions": "permessage-deflate"})
            s.close()
            need("permessage-deflate" in h.get("sec-websocket-extensions", ""), short(h))
        for name, call in (("FILE_NOT_FOUND", ("file/get", {"path": "no"})), ("PATH_TRAVERSAL", ("file/get", {"path": "../x"})),
                           ("CLAUDE_NOT_RUNNING", ("agent/stop", {})), ("SESSION_NOT_FOUND", ("session/get", {"session_id": str(uuid.uuid4())})),
                           ("INVALID_COMMAND", ("no/such", {})), ("INVALID_PAYLOAD", ("file/get", {})),
                           ("GIT_ERROR", ("git/checkout", {"branch": "no-such"}))):
            with case("todo/string-code:%s" % name):
                e = w.err(*call)
                dd = e.get("data") if isinstance(e.get("data"), dict) else {}
                need(dd.get("code") == name, short(e))
        with case("todo/rest-errors-carry-a-code"):
            q = http_(d, "GET", "/api/file?path=no/such", token=d.access)
            need("FILE_NOT_FOUND" in q.body.decode(), repr(q))
            q = http_(d, "GET", "/api/file?path=../x", token=d.access)
            need("PATH_TRAVERSAL" in q.body.decode(), repr(q))
        with case("todo/event-filtering-by-initialize"):
            w2 = WS(d, d.access)
            w2.ok("initialize", {"capabilities": {"notifications": ["event/heartbeat"]}})
            at, at2 = w.mark(), w2.mark()
            write(d.repo + "/filter.txt", "x")
            w.event("file_changed", lambda p: p.get("path") == "filter.txt", since=at)
            time.sleep(0.5)
            need(not w2.events(at2, "file_changed"), "an unwanted event came")
            w2.close()
        w.close()
    finally:
        d.stop()


SHARED = [("transport", transport), ("auth", auth), ("pair", pair), ("cors", cors), ("rpc", rpc), ("openrpc", openrpc),
          ("status", status), ("file", file), ("git", gitg), ("repo", repo), ("session", session), ("agent", agent),
          ("events", events), ("multi", multi), ("heartbeat", heartbeat), ("rest", rest)]
OWN = [("approval", approval), ("nogit", nogit), ("shutdown", shutdown), ("todo", todo)]


def main():
    only = {x for x in OPT.only.split(",") if x}
    skip = {x for x in OPT.skip.split(",") if x}

    def wanted(n):
        return (not only or n in only) and n not in skip
    global failed
    try:
        for n, f in SHARED:
            if not wanted(n):
                continue
            d = None
            try:                       # a fresh server and repository for every group: no group disturbs another
                d = Daemon(n)
                d.login()
                f(d)
            except Exception as e:
                failed += 1
                print("FAIL %s/group-aborted: %s: %s" % (n, type(e).__name__, short(str(e)).replace("\n", " ")), flush=True)
                if OPT.v:
                    traceback.print_exc()
            finally:
                if d:
                    d.stop()
        for n, f in OWN:
            if not wanted(n):
                continue
            try:
                f()
            except Exception as e:
                failed += 1
                print("FAIL %s/group-aborted: %s: %s" % (n, type(e).__name__, short(str(e)).replace("\n", " ")), flush=True)
                if OPT.v:
                    traceback.print_exc()
    finally:
        for d in list(LIVE):
            d.stop()
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


main()
