"""files.extract_tar empties its destination: never the home directory, never a folder above it, never another file system."""
import os
import subprocess

from lib import area
from t_files import tgz

M = "files.extract_tar"


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
