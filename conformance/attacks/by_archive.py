"""An archive that wants out of its folder, or a folder that it should not have."""
import os
import tarfile

from lib import area
from t_files import tgz

M = "files.extract_tar"


@area("archive")
def home_guard(t):
    """Unpacking empties its destination: never the home directory, nor a folder above it."""
    # The home lies deep inside the daemon's own folder, so that a broken guard destroys nothing but test files.
    d = t.daemon(start=False)
    top = os.path.join(d.dir, "homes")
    home = os.path.join(top, "group", "me")
    os.makedirs(home + "/.ssh")
    d.home, d.env["HOME"] = home, home
    for path in (home + "/letters", home + "/.ssh/key", top + "/group/neighbour", top + "/other"):
        open(path, "w").close()
    os.symlink(home, d.dir + "/link-to-home")
    os.symlink(top, d.dir + "/link-to-top")
    d.start()
    c = d.conn()
    n = 0
    for case, dest in (("home", home), ("home-slash", home + "/"), ("home-dots", home + "/.ssh/.."), ("home-dot", home + "/."),
                       ("home-by-symlink", d.dir + "/link-to-home"), ("parent", top + "/group"), ("grandparent", top),
                       ("parent-by-symlink", d.dir + "/link-to-top/group"), ("parent-dots", home + "/../../group")):
        n += 1
        archive = tgz("%s/a%d.tgz" % (d.dir, n), [("f", b"1", {})])
        r = c.call(M, {"archivePath": archive, "destDir": dest}).get("result", {})
        if case == "home-by-symlink":
            # Replacing the link itself would harm nobody: only the home counts.
            t.stopped("into-" + case, "success" in r and os.path.exists(home + "/letters") and os.path.exists(home + "/.ssh/key"), r)
            continue
        kept = all(os.path.exists(p) for p in (home + "/letters", home + "/.ssh/key", top + "/group/neighbour", top + "/other"))
        t.stopped("into-" + case, kept and os.path.exists(archive) and r.get("success") is False and r.get("fileCount") == 0 and r.get("error"), r)
        if not kept:
            return
    archive = tgz(d.dir + "/in.tgz", [("f", b"1", {})])
    t.control("into-a-folder-inside-home", c.call(M, {"archivePath": archive, "destDir": home + "/work/tree"}).get("result") == {"success": True, "fileCount": 1})
    archive = tgz(d.dir + "/in2.tgz", [("f", b"1", {})])
    t.control("into-a-folder-beside-home", c.call(M, {"archivePath": archive, "destDir": top + "/other2"}).get("result") == {"success": True, "fileCount": 1})
    t.ok("home-intact", os.path.exists(home + "/letters") and os.path.exists(home + "/.ssh/key"))


@area("archive")
def out_of_its_folder(t):
    """Names that lead out, links that do, devices, and rights that a file should not bring along."""
    d = t.daemon()
    c = d.conn()
    dest, outside = d.dir + "/dest", d.dir + "/outside"
    os.mkdir(outside)
    with open(outside + "/precious", "w") as f:
        f.write("1")
    n = 0

    def unpack(*members):
        nonlocal n
        n += 1
        return c.call(M, {"archivePath": tgz("%s/x%d.tgz" % (d.dir, n), list(members)), "destDir": dest}).get("result", {})
    whole = lambda: sorted(os.listdir(outside)) == ["precious"] and open(outside + "/precious").read() == "1"
    for name, members in {
        "dots": [("../outside/evil", b"E", {})], "an-absolute-name": [(outside + "/evil", b"E", {})],
        "a-link-and-then-through-it": [("ln", b"", {"type": tarfile.SYMTYPE, "linkname": outside}), ("ln/evil", b"E", {})],
        "a-hard-link-to-overwrite": [("h", b"", {"type": tarfile.LNKTYPE, "linkname": "../outside/precious"}), ("h", b"E", {})],
        "a-device": [("null", b"", {"type": tarfile.CHRTYPE})], "a-fifo": [("pipe", b"", {"type": tarfile.FIFOTYPE})],
    }.items():
        r = unpack(*members)
        odd = [f for f in os.listdir(dest) if not os.path.isfile(os.path.join(dest, f)) and not os.path.isdir(os.path.join(dest, f))] if os.path.isdir(dest) else []
        # An absolute name may land inside, without its slash.
        inside = name == "an-absolute-name" and r.get("success")
        t.stopped(name, whole() and not odd and (inside or r.get("success") is False), (r, odd))
    r = unpack(("tool", b"#!/bin/sh\n", {"mode": 0o6755}))
    mode = os.stat(dest + "/tool").st_mode if os.path.exists(dest + "/tool") else 0
    t.stopped("set-user-id", not mode & 0o6000, oct(mode))
    r = unpack(("a/b", b"1", {}), ("a/../c", b"2", {}))
    r = unpack(("a/b", b"1", {}))
    t.control("an-honest-one-is-unpacked", r.get("success") is True and open(dest + "/a/b").read() == "1", r)
