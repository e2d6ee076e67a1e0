#!/usr/bin/env python3
"""The picture of `ostler demo` in the README: recorded from a terminal, drawn as an SVG that moves by itself (no scripts).

  picture.py --bin PATH          says whether docs/demo.svg shows what the program shows
  picture.py --bin PATH --write  records it anew"""
import argparse
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from html import escape
from xml.etree import ElementTree

SVG = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "demo.svg")
COLS, ROWS = 80, 40
# What ends the recording: whatever opens after it is another program's picture.
LAST = "Enter opens"
LIMIT = 60
# Of one letter, in the picture.
WIDE, HIGH = 8.4, 19.0
COLOURS = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y"}
STYLE = """text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d8dee6}
.b{font-weight:bold}.d{fill:#8b96a5}.r{fill:#ff7b72}.g{fill:#7ee787}.y{fill:#e3b341}"""
# Nobody waits longer than this for the picture to go on, and the end stays to be read.
LONGEST_PAUSE, AT_THE_END = 1.2, 6.0


def record(program, env, size=(COLS, ROWS), cwd="/"):
    """[(seconds, text)] of what a terminal shows, and the exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(program, [program, "demo"], dict(env, TERM="xterm"))
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    begin, came, code = time.monotonic(), [], None
    while time.monotonic() - begin < LIMIT:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                piece = os.read(fd, 65536)
            except OSError:
                break
            if not piece:
                break
            came.append((time.monotonic() - begin, piece.decode(errors="replace")))
        elif LAST in "".join(text for _, text in came):
            # It waits for a key; an interrupt leaves it as it is.
            os.write(fd, b"\x03")
    else:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    return came, code


def runs(came):
    """Lines of (seconds, style, column, text): everything that was printed up to the last line of the demo."""
    lines, style, column, shift, before = [[]], "", 0, 0.0, 0.0
    for at, text in came:
        shift += max(0.0, at - before - LONGEST_PAUSE)
        before = at
        for part in re.split(r"(\x1b\[[0-9;]*m|\r\n|\n)", text):
            if part.startswith("\x1b["):
                style = COLOURS.get(part[2:-1], "")
            elif part in ("\r\n", "\n"):
                lines.append([])
                column = 0
            elif part:
                if lines[-1] and lines[-1][-1][1] == style and at - shift - lines[-1][-1][0] < 0.01:
                    old = lines[-1].pop()
                    lines[-1].append((old[0], style, old[2], old[3] + part))
                else:
                    lines[-1].append((at - shift, style, column, part))
                column += len(part)
    texts = ["".join(run[3] for run in line) for line in lines]
    last = next((n for n, text in enumerate(texts) if LAST in text), len(texts) - 1)
    return lines[:last + 1]


def words(lines):
    """What it says, without what differs each time."""
    text = "\n".join(line.rstrip() for line in lines)
    text = re.sub(r"(pid|kill -9) \d+", r"\1 N", text)
    text = re.sub(r"\d+\.\d+ s", "N s", text)
    text = re.sub(r"wrote \d+ bytes", "wrote N bytes", text)
    return re.sub(r"\S*/ostler-demo", "FOLDER/ostler-demo", text).strip()


def shown(came):
    return words("".join(run[3] for run in line) for line in runs(came))


def drawn(path=SVG):
    """What the picture says."""
    rows = {}
    for text in ElementTree.parse(path).getroot().iter("{http://www.w3.org/2000/svg}text"):
        rows.setdefault(float(text.get("y")), []).append((float(text.get("x")), text.text or ""))
    lines, y = [], HIGH
    while rows and y <= max(rows) + 1:
        row = sorted(next((runs for at, runs in rows.items() if abs(at - y - HIGH) < 1), []))
        line = ""
        for x, text in row:
            line = line.ljust(round((x - WIDE * 2) / WIDE)) + text
        lines.append(line)
        y += HIGH
    return words(lines)


def draw(lines):
    whole = max(run[0] for line in lines for run in line) + AT_THE_END
    width, height = WIDE * (COLS + 4), HIGH * (len(lines) + 2.5)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img">' % (width, height, width, height),
           "<title>ostler demo: the daemon is killed while an agent talks, and nothing is lost</title>",
           "<style>%s</style>" % STYLE, '<rect width="100%" height="100%" rx="8" fill="#161b22"/>']
    for row, line in enumerate(lines):
        for at, style, column, text in line:
            # Blanks in a row are not drawn everywhere: what follows them is placed by itself.
            for part in re.finditer(r"\S+(?: \S+)*", text):
                x, y = WIDE * (column + part.start() + 2), HIGH * (row + 2)
                # Without animation everything is there: what is drawn is the end.
                out.append('<text x="%g" y="%g" textLength="%g" lengthAdjust="spacingAndGlyphs"%s>%s'
                           '<animate attributeName="opacity" values="0;1" keyTimes="0;%.4f" calcMode="discrete" dur="%.2fs" repeatCount="indefinite"/></text>'
                           % (x, y, WIDE * len(part.group()), ' class="%s"' % style if style else "", escape(part.group(), quote=False),
                              min(1.0, at / whole), whole))
    return "\n".join(out + ["</svg>", ""])


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True, help="the program ostler")
    ap.add_argument("--write", action="store_true")
    opt = ap.parse_args()
    program = os.path.abspath(opt.bin)
    with tempfile.TemporaryDirectory(prefix="ostler-picture-") as home:
        env = {"HOME": home, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        came, _ = record(program, env)
        os.spawnve(os.P_WAIT, program, [program, "demo", "--remove"], env)
    lines = runs(came)
    if opt.write:
        with open(SVG, "w") as f:
            f.write(draw(lines))
    good = os.path.exists(SVG) and drawn() == shown(came)
    print("docs/demo.svg shows %s the program shows" % ("what" if good else "something else than"))
    if not good:
        print(shown(came), "\n---- the picture:\n", drawn() if os.path.exists(SVG) else "none", sep="")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
