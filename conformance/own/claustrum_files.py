"""files.extract_tar empties its destination: never the home directory, never a folder above it, never another file system."""
import os
import subprocess

from lib import area
from t_files import tgz

M = "files.extract_tar"


@area("home-guard")
def home_guard(t):
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
            t.ok(case + "-answered", "success" in r, r)
            t.ok(case + "-nothing-lost", os.path.exists(home + "/letters") and os.path.exists(home + "/.ssh/key"))
            continue
        t.ok(case + "-refused", r.get("success") is False and r.get("fileCount") == 0 and r.get("error"), r)
        t.ok(case + "-archive-kept", os.path.exists(archive))
        kept = all(os.path.exists(p) for p in (home + "/letters", home + "/.ssh/key", top + "/group/neighbour", top + "/other"))
        t.ok(case + "-nothing-lost", kept)
        if not kept:
            return
    archive = tgz(d.dir + "/in.tgz", [("f", b"1", {})])
    t.res("folder-inside-home-allowed", c, M, {"archivePath": archive, "destDir": home + "/work/tree"}, '{"success":true,"fileCount":1}')
    archive = tgz(d.dir + "/in2.tgz", [("f", b"1", {})])
    t.res("folder-beside-home-allowed", c, M, {"archivePath": archive, "destDir": top + "/other2"}, '{"success":true,"fileCount":1}')
    t.ok("home-intact", os.path.exists(home + "/letters") and os.path.exists(home + "/.ssh/key"))


@area("other-file-system")
def other_file_system(t):
    d = t.daemon()
    dest = d.dir + "/dest"
    inner = dest + "/mounted"
    os.makedirs(inner)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "none", inner], stderr=subprocess.DEVNULL).returncode != 0:
        return t.skip("all", "a mount needs root")
    try:
        open(inner + "/precious", "w").close()
        archive = tgz(d.dir + "/a.tgz", [("f", b"1", {})])
        r = d.conn().call(M, {"archivePath": archive, "destDir": dest})["result"]
        t.ok("refused", r.get("success") is False and "clean destDir: " in r.get("error", ""), r)
        t.ok("nothing-lost", os.path.exists(inner + "/precious"))
    finally:
        subprocess.run(["umount", inner])
