"""A program on a terminal of its own, and the keys that a person presses there."""
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

# A program that has said nothing for so many seconds waits for a key.
SILENCE = 0.3


def run(words, key=lambda seen: b"", env=None, cwd=None, size=None, patience=180):
    """Runs it to its end. Whenever it is silent, `key` gets all that it showed and says what is typed: again and again, because a key that is
    pressed too soon does not count. Its exit code, and what it showed."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.chdir(cwd or os.getcwd())
            os.execve(words[0], words, os.environ if env is None else env)
        finally:
            os._exit(127)
    if size:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    seen, stop = b"", time.monotonic() + patience
    while time.monotonic() < stop:
        if not select.select([fd], [], [], SILENCE)[0]:
            os.write(fd, key(seen))
            continue
        try:
            piece = os.read(fd, 65536)
        except OSError:
            piece = b""
        if not piece:
            break
        seen += piece
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen
