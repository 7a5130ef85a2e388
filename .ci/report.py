"""Reads go test -json and says what a person wants to know: go test's own line for each package, all that a failed test
wrote, and which tests were skipped. Writes the name of each test that passed to the file PASSED.

Usage: go test -json ... | python3 report.py SKIPS PASSED
Ends with 1 if a test or a build failed, or if a test was skipped whose name is in no line of the file SKIPS.
"""

import json
import sys


def main(skips_path, passed_path):
    with open(skips_path) as f:
        reasons = dict(line.strip().split(None, 1) for line in f if line.strip() and not line.startswith("#"))
    output, passed, skipped, failures, failed = {}, [], [], 0, False
    for line in sys.stdin:
        if not line.startswith("{"):
            print(line, end="")  # of the go command itself
            continue
        event = json.loads(line)
        action, test = event["Action"], event.get("Test")
        key = event.get("Package"), test
        if action == "build-output":
            print(event["Output"], end="")
        elif action == "output":
            output.setdefault(key, []).append(event["Output"])
            if not test and event["Output"].startswith(("ok ", "FAIL\t", "? ")):
                print(event["Output"], end="", flush=True)
        elif action == "pass" and test:
            passed.append(test)
        elif action == "skip" and test:
            skipped.append((test, "".join(output.get(key, []))))
        elif action == "fail":
            failed = True
            failures += bool(test)
            print("".join(output.get(key, [])), end="", flush=True)
        if action in ("pass", "skip", "fail"):
            output.pop(key, None)
    for test, text in skipped:
        if test in reasons:
            print("skipped: %s (%s)" % (test, reasons[test]))
        else:
            failed = True
            print("%s was skipped, and %s does not say why:\n%s" % (test, skips_path, text))
    with open(passed_path, "w") as f:
        f.writelines(test + "\n" for test in passed)
    print("%d passed, %d failed, %d skipped" % (len(passed), failures, len(skipped)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
