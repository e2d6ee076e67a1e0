"""The command line of the stand-in: -version, no mode, flag errors, and that both names are one program."""
import re
import subprocess

from lib import area, clean_env, run_bin

NO_MODE = "claustrum: one of --version/--install/--serve/--bridge/--stop is required\n"


@area("version")
def version(t):
    env = clean_env(t.tmp())
    rc, o, e = run_bin(t.argv, ["-version"], env=env)
    t.eq("exit-0-nothing-on-stderr", (rc, e), (0, ""))
    m = re.fullmatch(r"claustrum (\S+) \(built ([^)\n]+)\)\n", o)
    t.ok("one-line-id-and-build-time", m, o, "claustrum <id> (built <time>)")
    t.eq("double-dash-same", run_bin(t.argv, ["--version"], env=env)[1], o)
    id = m.group(1) if m else ""
    t.eq("same-id-as-server.version", t.common().conn().call("server.version")["result"]["version"], id)
    e = dict(env, OSTLER_CLAUSTRUM_VERSION="v9-test")
    t.eq("reported-version-is-a-setting", run_bin(t.argv, ["-version"], env=e)[1].split()[1], "v9-test")
    d = t.daemon(env={"OSTLER_CLAUSTRUM_VERSION": "v9-test"})
    t.eq("reported-version-is-a-setting-of-the-daemon-too", d.conn().call("server.capabilities")["result"]["version"], "v9-test")
    t.eq("beats-other-modes", run_bin(t.argv, ["-stop", "-bridge", "-version"], env=env, stdin=b"")[1], o)


@area("modes")
def modes(t):
    env = clean_env(t.tmp())

    def go(*args):
        return run_bin(t.argv, list(args), env=env, stdin=b"")
    t.eq("none-exact-exit-2-no-usage", go(), (2, "", NO_MODE))
    t.eq("only-options-is-no-mode", go("-socket", "/x"), (2, "", NO_MODE))
    t.eq("mode-switched-off-is-no-mode", go("-serve=false"), (2, "", NO_MODE))
    t.eq("positional-ends-flags", go("word", "-version"), (2, "", NO_MODE))
    t.eq("double-dash-ends-flags", go("--", "-version"), (2, "", NO_MODE))

    def flag_error(case, first, *args):
        rc, o, e = go(*args)
        lines = e.splitlines()
        t.eq(case + "-exit-2", (rc, o), (2, ""))
        t.eq(case + "-message", lines[:1], [first])
        t.ok(case + "-usage", len(lines) > 1 and lines[1].startswith("Usage of ") and "  -socket string" in e, e)
    flag_error("unknown-flag", "flag provided but not defined: -zzz", "-zzz")
    flag_error("unknown-flag-double-dash", "flag provided but not defined: -zzz", "--zzz=1")
    flag_error("argument-missing", "flag needs an argument: -socket", "-bridge", "-socket")
    flag_error("not-a-number", 'invalid value "x" for flag -token-fd: parse error', "-token-fd", "x")
    flag_error("not-a-boolean", 'invalid boolean value "maybe" for -serve: parse error', "-serve=maybe")
    for flag in ("-h", "-help", "--help"):
        rc, o, e = go(flag)
        t.ok("usage-on-request-%s" % flag.lstrip("-"), rc == 0 and o == "" and e.startswith("Usage of "), (rc, o, e))
    names = re.findall(r"^  -([a-z-]+)", go("-h")[2], re.M)
    t.eq("usage-lists-every-flag-in-order", names, ["bridge", "cli-checksum", "cli-dir", "cli-keep", "cli-url", "cli-version",
         "cli-zst", "install", "keep-children", "metrics-addr", "serve", "socket", "stop", "token-fd", "token-file", "version"])


@area("names")
def names(t):
    env = clean_env(t.tmp())
    as_name = [t.ostler(), "as", "claustrum"]
    for args in (["-version"], [], ["-zzz"], ["-stop", "-socket", "/nowhere/s"], ["-bridge", "-socket", "/nowhere/s"]):
        link, direct = run_bin(t.argv, args, env=env, stdin=b""), run_bin(as_name, args, env=env, stdin=b"")
        # The usage text names the program as it was called; everything else is the same.
        same = [(rc, o, re.sub(r"Usage of .*", "Usage of X:", e)) for rc, o, e in (link, direct)]
        t.eq("as-equals-link-%s" % (args[0].lstrip("-") if args else "none"), same[1], same[0])
    p = subprocess.run([t.ostler(), "--help"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30)
    t.ok("own-name-is-ostler", p.returncode == 0 and b"ostler" in p.stdout, p)
