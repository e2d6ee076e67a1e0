"""What packaging/build made: a program that needs no library, and a Debian package that holds all of it."""
import glob
import os
import subprocess

from cli import Home
from lib import area


def said(*argv, **options):
    p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    return p.returncode, p.stdout.decode(errors="replace")


@area("package")
def package(t):
    out = t.opt.original
    programs, debs = glob.glob(out + "/ostler-*"), glob.glob(out + "/ostler_*.deb")
    t.ok("there is one program and one package", len(programs) == 1 and len(debs) == 1, os.listdir(out))
    if not (programs and debs):
        return
    t.ok("the program needs no library", "INTERP" not in said("readelf", "-lW", programs[0])[1])
    home = Home(t)
    home.program = programs[0]
    home.good("up")
    t.eq("and works", home.good("run", "--", "echo", "hello"), "hello\n")
    t.has("an agent too", home.good("new", "echo", "-m", "hello"), "hello")
    home.good("down", "--kill")
    names = said("dpkg-deb", "--contents", debs[0])[1]
    for path in ("usr/bin/ostler", "usr/share/bash-completion/completions/ostler", "usr/share/zsh/vendor-completions/_ostler",
                 "usr/share/fish/vendor_completions.d/ostler.fish", "usr/share/man/man1/ostler.1.gz", "usr/share/doc/ostler/copyright"):
        t.has("the package holds %s" % path, names, "./" + path)
    t.ok("all of it is root's", all(" root/root " in line for line in names.splitlines()), names[:300])
    tree = os.path.join(t.tmp(), "tree")
    code, text = said("dpkg-deb", "--extract", debs[0], tree)
    t.eq("it unpacks", (code, text), (0, ""))
    t.eq("to the same program", open(tree + "/usr/bin/ostler", "rb").read() == open(programs[0], "rb").read(), True)
    t.eq("its checksums are right", said("md5sum", "--quiet", "-c", control(t, debs[0], "md5sums"), cwd=tree), (0, ""))


def control(t, deb, name):
    folder = os.path.join(t.tmp(), "control")
    said("dpkg-deb", "--control", deb, folder)
    return os.path.join(folder, name)
