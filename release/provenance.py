#!/usr/bin/env python3
"""provenance.py SHA256SUMS: how the listed files came to be, as an in-toto statement with SLSA provenance v1, on standard output.

On GitHub it is in the form of GitHub's own build type; elsewhere it says `urn:winimg:workstation`, which nobody has to believe. It is worth what its signature is worth: sign.sh.
"""

import json
import os
import subprocess
import sys


def git(*arguments):
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def subjects(path):
    with open(path, encoding="ascii") as sums:
        for line in sums:
            digest, name = line.rstrip("\n").split("  ", 1)
            yield {"name": name, "digest": {"sha256": digest}}


def on_github(env, commit):
    """SLSA's "GitHub Actions Workflow" build type, version 1."""
    server, repository, ref = env["GITHUB_SERVER_URL"], env["GITHUB_REPOSITORY"], env["GITHUB_REF"]
    home = f"{server}/{repository}"
    workflow = env["GITHUB_WORKFLOW_REF"].split("@")[0].removeprefix(f"{repository}/")
    definition = {
        "buildType": "https://actions.github.io/buildtypes/workflow/v1",
        "externalParameters": {"workflow": {"ref": ref, "repository": home, "path": workflow}},
        "internalParameters": {
            "github": {
                "event_name": env["GITHUB_EVENT_NAME"],
                "repository_id": env["GITHUB_REPOSITORY_ID"],
                "repository_owner_id": env["GITHUB_REPOSITORY_OWNER_ID"],
                "runner_environment": env["RUNNER_ENVIRONMENT"],
            }
        },
        "resolvedDependencies": [{"uri": f"git+{home}@{ref}", "digest": {"gitCommit": commit}}],
    }
    run = f"{home}/actions/runs/{env['GITHUB_RUN_ID']}/attempts/{env['GITHUB_RUN_ATTEMPT']}"
    return definition, {"builder": {"id": f"{server}/{env['GITHUB_WORKFLOW_REF']}"}, "metadata": {"invocationId": run}}


def here(commit):
    changed = bool(git("status", "--porcelain"))
    definition = {
        "buildType": "urn:winimg:release-here:v1",
        "externalParameters": {"target": "release-here", "changedSinceCommit": changed},
        "resolvedDependencies": [{"uri": "git+file:.", "digest": {"gitCommit": commit}}],
    }
    return definition, {"builder": {"id": "urn:winimg:workstation"}}


def main():
    env, commit = os.environ, git("rev-parse", "HEAD")
    definition, details = on_github(env, commit) if env.get("GITHUB_ACTIONS") == "true" else here(commit)
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": list(subjects(sys.argv[1])),
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": definition, "runDetails": details},
    }
    json.dump(statement, sys.stdout, indent=2)
    print()


main()
