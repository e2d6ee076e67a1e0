"""Destinations of notices: a server that takes what ntfy and push services take, remembers it, and answers as its path says."""
import base64
import http.server
import json
import os
import subprocess
import tempfile
import threading
import time

# What an uncompressed point of P-256 is behind in a public key.
SPKI = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")


class Server:
    """Requests as they came. `/slow` takes its time, `/redirect` leads on, `/gone` is 410, `/refuse` is 403; anything else is taken."""

    def __init__(self):
        self.requests, self.lock = [], threading.Lock()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                with server.lock:
                    server.requests.append({"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body.decode(), "at": time.monotonic()})
                if self.path.startswith("/slow"):
                    time.sleep(30)
                code = 302 if self.path.startswith("/redirect") else 410 if self.path.startswith("/gone") else 403 if self.path.startswith("/refuse") else 201
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "http://127.0.0.1:%d/led-on" % server.port)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def url(self, path):
        return "http://127.0.0.1:%d/%s" % (self.port, path)

    def got(self, path=""):
        with self.lock:
            return [r for r in self.requests if r["path"].startswith("/" + path)]

    def texts(self, path=""):
        return [r["body"] for r in self.got(path)]

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def unurl64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def der(number):
    number = number.lstrip(b"\0") or b"\0"
    number = b"\0" + number if number[0] & 0x80 else number
    return b"\x02" + bytes([len(number)]) + number


def vapid(authorization, key):
    """The claims of the token that a push shows, if `key` signed it; else why not."""
    if not authorization.startswith("vapid t="):
        return "no token: %s" % authorization
    token, _, shown = authorization[len("vapid t="):].partition(", k=")
    if shown != key:
        return "another key"
    head, claims, signature = token.split(".")
    signature = unurl64(signature)
    signature = der(signature[:32]) + der(signature[32:])
    with tempfile.TemporaryDirectory() as d:
        for name, data in (("key", SPKI + unurl64(key)), ("sig", b"\x30" + bytes([len(signature)]) + signature), ("text", ("%s.%s" % (head, claims)).encode())):
            with open(os.path.join(d, name), "wb") as f:
                f.write(data)
        said = subprocess.run(["openssl", "dgst", "-sha256", "-verify", "key", "-keyform", "DER", "-signature", "sig", "text"], cwd=d, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if said.returncode != 0:
        return "not signed by it: %s" % said.stdout.decode()
    if json.loads(unurl64(head)) != {"typ": "JWT", "alg": "ES256"}:
        return "another head"
    return json.loads(unurl64(claims))
