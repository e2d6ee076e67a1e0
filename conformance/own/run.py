#!/usr/bin/env python3
"""Our own black-box checks of the doors, beyond ../claustrum and ../sudo-proxy (same helpers, same output).

  run.py --bin PATH [--suite claustrum|ssh|netns|now|cli|daily|ordinary|demo|hangup|screens|sessions|approvals|self|cdev|codecast|codecast-client|zerocode-client|sudo-clients|web|page|notices|zeroclaw|joining|setup|package] [--filter AREA] [--list]

PATH is the link named `claustrum` that `ostler link DIR` makes."""
import argparse
import importlib
import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kit
import lib

SUITES = {
    "claustrum": ["claustrum_modes", "claustrum_token", "claustrum_files", "claustrum_git", "claustrum_connections", "claustrum_process",
                  "claustrum_sockets", "claustrum_letter", "claustrum_crash", "claustrum_secrets", "claustrum_unprivileged", "endings_disk", "endings_stall"],
    "setup": ["setup"],
    "package": ["package"],
    "self": ["test_command", "test_dependencies"],
    "ssh": ["ssh"],
    "netns": ["netns"],
    "now": ["now"],
    "cli": ["cli", "endings", "readme"],
    "joining": ["joining", "joining_sudo"],
    "daily": ["daily"],
    "ordinary": ["ordinary"],
    "hangup": ["hangup", "in_place"],
    "demo": ["demo"],
    "screens": ["screens"],
    "approvals": ["approvals_answers", "approvals_inbox", "approvals_rules", "approvals_record", "approvals_audit", "approvals_password", "approvals_terminal", "approvals_reach", "devices", "devices_tailnet"],
    "sessions": ["sessions_talk", "sessions_settings", "sessions_watch", "sessions_worktree", "sessions_review", "sessions_finish", "sessions_setup", "sessions_agents", "events", "workspace", "search", "history"],
    "cdev": ["cdev", "cdev_work", "cdev_letter", "cdev_day", "cdev_described"],
    "codecast": ["codecast", "codecast_endings"],
    "codecast-client": ["codecast_client"],
    "zerocode-client": ["zerocode_client"],
    "sudo-clients": ["sudo_clients", "sudo_host"],
    "sudo-proxy": ["sudo_proxy", "sudo_drawing", "sudo_password"],
    "web": ["web"],
    "page": ["page", "page_work", "page_told", "page_pictures", "cdev_page"],
    "notices": ["notices"],
    "zeroclaw": ["zeroclaw", "zeroclaw_live", "zeroclaw_wss"],
}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    ap.add_argument("--suite", choices=SUITES, default="claustrum")
    ap.add_argument("--original", default="", help="folder with the original's bin/ (suites sudo-clients, codecast-client, zerocode-client), the schemathesis of suite cdev, or what packaging/build made (suite package)")
    ap.add_argument("--filter", default="", help="run only areas whose name holds this text")
    ap.add_argument("--joined", action="store_true", help="`ostler up` runs beside every sudo-proxy, which joins it (suites sudo-proxy, sudo-clients)")
    ap.add_argument("--list", action="store_true", help="name the areas and run nothing")
    opt = ap.parse_args()
    opt.bin = os.path.abspath(opt.bin)
    for name in SUITES[opt.suite]:
        importlib.import_module(name)
    # Helpers of ../claustrum register their own areas on import: only ours run here.
    areas = [(name, fn) for name, fn in lib.AREAS if fn.__module__ in SUITES[opt.suite] and opt.filter in name]
    if opt.list:
        for name, _ in areas:
            print(name)
        return 0
    t = kit.Suite(opt)
    try:
        for name, fn in areas:
            t.area = name
            try:
                fn(t)
            except lib.Fail as e:
                t.rec("aborted", False, "got %s want the area to run to its end" % e)
            except Exception as e:
                where = traceback.extract_tb(e.__traceback__)[-1]
                t.rec("crashed", False, "got %r at %s:%d want no exception" % (e, os.path.basename(where.filename), where.lineno))
    finally:
        t.cleanup()
    print(t.summary())
    return 1 if t.nf else 0


if __name__ == "__main__":
    sys.exit(main())
