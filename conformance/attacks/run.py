#!/usr/bin/env python3
"""The table of SECURITY.md as a suite: every attack is tried, by an ordinary user, and beside it the same move where it is meant to work.

  run.py --bin PATH [--filter CLASS[/CASE]] [--list]

PATH is the link named `claustrum` that `ostler link DIR` makes. Started by root it makes a user, hands the program over in a folder that
this user cannot write, and runs as that user; what needs another user or root is done by the part that stayed root. Started by
anybody else it runs as them, and such rows are skipped. An attack that is known to succeed is listed in open.txt: it is tried too, counted
apart, and when it is stopped one day the line has to go."""
import argparse
import importlib
import os
import sys
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "own"), os.path.join(HERE, "..", "claustrum"), os.path.join(HERE, "..", "sudo-proxy")]
import attempts
import lib
import outside

# One area for each class; several modules may add to a class.
MODULES = ["by_hosted", "by_hosted_helpers", "by_hosted_memory", "by_hosted_terminal", "by_hosted_record", "by_hosted_places", "by_hosted_number", "by_hosted_devices", "by_hosted_hidden", "by_hosted_descent", "by_cdev",
           "by_another_user", "by_repository", "by_archive", "by_client", "by_daemon", "by_disk", "by_methods"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    ap.add_argument("--filter", default="", help="only functions whose class or name holds this text")
    ap.add_argument("--list", action="store_true", help="name the classes and what is tried, and run nothing")
    ap.add_argument("--outside", type=int, help=argparse.SUPPRESS)
    opt = ap.parse_args()
    if os.geteuid() == 0 and not opt.list:
        return outside.hand_over(os.path.abspath(__file__), opt)
    opt.bin = os.path.abspath(opt.bin)
    for name in MODULES:
        importlib.import_module(name)
    # Helpers of the other suites register areas of their own on import: only ours run here.
    areas = [(name, fn) for name, fn in lib.AREAS if fn.__module__ in MODULES and opt.filter in "%s/%s" % (name, fn.__name__)]
    if opt.list:
        for name, fn in areas:
            print("%-13s %s" % (name, (fn.__doc__ or fn.__name__).splitlines()[0]))
        return 0
    t = attempts.Attempts(opt, outside.Outside(opt.outside))
    try:
        for name, fn in areas:
            t.area = name
            try:
                fn(t)
            except lib.Fail as e:
                t.rec("aborted-%s" % fn.__name__, False, "got %s want it to run to its end" % e)
            except Exception as e:
                where = traceback.extract_tb(e.__traceback__)[-1]
                t.rec("crashed-%s" % fn.__name__, False, "got %r at %s:%d want no exception" % (e, os.path.basename(where.filename), where.lineno))
    finally:
        t.cleanup()
    print(t.table(whole=not opt.filter))
    print(t.summary())
    return 1 if t.nf else 0


if __name__ == "__main__":
    sys.exit(main())
