"""The real command-line agents in a home of their own, in front of the scripted model.

They come from the cache that `./test install` fills; nothing here reaches a network."""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.expanduser(os.environ.get("OSTLER_TEST_CACHE", "~/.cache/ostler-test"))
NAMES = ("claude", "codex", "gemini", "opencode")


def program(name):
    return os.path.join(CACHE, name, "node_modules", ".bin", name)


def absent():
    """The agents that are not installed."""
    return [name for name in NAMES if not os.access(program(name), os.X_OK)]


def path():
    """A PATH with the agents and the node that they were installed with first."""
    folders = [os.path.dirname(program(name)) for name in NAMES]
    node = os.path.join(CACHE, "node22", "node_modules", "node", "bin")
    return os.pathsep.join(folders + [node] * os.path.isdir(node) + [os.environ["PATH"]])


class Model:
    """The scripted model on a port of its own."""

    def __init__(self, log=None):
        self.log = log
        argv = [sys.executable, "-u", os.path.join(HERE, "fake_model.py"), "--port", "0"] + (["--log", log] if log else [])
        self.child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.url = self.child.stdout.readline().split()[-1]

    def heard(self):
        """The models that were asked for by name, of every request so far."""
        try:
            with open(self.log) as f:
                requests = [json.loads(line) for line in f]
        except FileNotFoundError:
            return set()
        return {request.get("brief", {}).get("model") for request in requests} - {None}

    def close(self):
        self.child.kill()
        self.child.wait()


def environment(home, url):
    """What all of them need to live in `home` and to talk to the model at `url`, and nothing of the person who runs the tests."""
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TZ", "USER", "LOGNAME")}
    write(home, ".codex/config.toml", 'model = "fake-model"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\nbase_url = "%s/v1"\n'
          'env_key = "FAKE_KEY"\nwire_api = "responses"\n' % url)
    write(home, ".gemini/settings.json", json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False},
                                                     "general": {"disableAutoUpdate": True, "disableUpdateNag": True}}))
    write(home, "opencode.json", json.dumps({
        "$schema": "https://opencode.ai/config.json", "model": "fake/fake-model", "small_model": "fake/fake-model",
        "provider": {"fake": {"npm": "@ai-sdk/openai-compatible", "name": "fake", "options": {"baseURL": url + "/v1", "apiKey": "fake"},
                              "models": {"fake-model": {"name": "fake-model", "cost": {"input": 100, "output": 200},
                                                        "limit": {"context": 10_000_000, "output": 10_000}}}}}}))
    # They leave things there.
    os.makedirs(os.path.join(home, ".tmp"), exist_ok=True)
    # The daemon takes the PATH of a login shell.
    write(home, ".bash_profile", "export PATH='%s'\n" % path())
    return dict(
        kept, SHELL="/bin/bash", HOME=home, TMPDIR=os.path.join(home, ".tmp"), PATH=path(), TERM="dumb",
        ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY="sk-ant-fake", CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1",
        DISABLE_TELEMETRY="1", DISABLE_ERROR_REPORTING="1",
        CODEX_HOME=os.path.join(home, ".codex"), FAKE_KEY="fake",
        GEMINI_API_KEY="fake", GOOGLE_GEMINI_BASE_URL=url,
        OPENCODE_CONFIG=os.path.join(home, "opencode.json"), OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1",
        OPENCODE_DISABLE_LSP_DOWNLOAD="1", OPENCODE_DISABLE_DEFAULT_PLUGINS="1",
    )


def write(home, name, text):
    file = os.path.join(home, name)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, "w") as f:
        f.write(text)


def serve(home):
    """For other programs: settings in `home` and the scripted model, for as long as stdin stays open. Says on one line what to start."""
    model = Model()
    try:
        found = {name: program(name) if os.access(program(name), os.X_OK) else shutil.which(name) for name in NAMES}
        print(json.dumps({"env": environment(home, model.url), "programs": found}), flush=True)
        sys.stdin.read()
    finally:
        model.close()


if __name__ == "__main__":
    serve(sys.argv[1])
