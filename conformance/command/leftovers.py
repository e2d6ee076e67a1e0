"""What a step left on the machine, beside processes. Only what is surely its own: others may work here at the same time."""
import os
import re
import shutil
import subprocess
import time

# Where the tests make things that are not below the folders of their lane. Such things bear the pid of their maker.
ELSEWHERE = ("/dev/shm", "/etc/sudoers.d", "/run/sudo/ts")
# What is older was left by somebody whose number a process of ours has now.
BEGAN = time.time()
GROUPS = "/sys/fs/cgroup"


def of(lane, seen):
    """Everything that is there after a step and was not before it, in words; it is removed."""
    return mounts(lane) + folders(lane) + users(seen) + elsewhere(seen) + groups(seen)


def is_of(name, seen):
    return any(int(digits) in seen or any(pid % 100000 == int(digits) for pid in seen if pid >= 100000) for digits in re.findall(r"\d+", name)[:1])


def mounts(lane):
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4] for line in f]
    ours = [point for point in points if point.startswith(lane.folder + "/")]
    for point in reversed(ours):
        subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL)
    return ["mount %s" % point for point in ours]


def folders(lane):
    found = []
    for top in (lane.tmp, lane.home, lane.runtime):
        for name in sorted(os.listdir(top)):
            path = os.path.join(top, name)
            if path == os.path.join(lane.runtime, "ostler") and not os.listdir(path):
                # Stays for the next daemon.
                continue
            found.append("%s (%s)" % (path, ", ".join(sorted(os.listdir(path))[:5])) if os.path.isdir(path) and not os.path.islink(path) else path)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
    return found


def users(seen):
    with open("/etc/passwd") as f:
        names = [line.split(":")[0] for line in f]
    ours = [name for name in names if re.fullmatch(r"ost\d+x\d+|ostler-t\d+", name) and is_of(name, seen)]
    for name in ours:
        subprocess.run(["userdel", "-f", name], stderr=subprocess.DEVNULL)
    return ["user %s" % name for name in ours]


def elsewhere(seen):
    found = []
    for top in ELSEWHERE:
        try:
            names = os.listdir(top)
        except OSError:
            continue
        found += [os.path.join(top, name) for name in names if name.startswith("ost") and is_of(name, seen)]
    return [path for path in found if is_new(path)]


def is_new(path):
    try:
        return os.lstat(path).st_ctime >= BEGAN
    except OSError:
        return False


def groups(seen):
    found = []
    for folder, below, _ in os.walk(GROUPS):
        for name in below:
            if name.startswith("ostler-keeper-") and is_of(name, seen):
                found.append("control group %s" % os.path.join(folder, name))
    return found
