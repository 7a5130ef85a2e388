#!/usr/bin/env bash
# Every gate of the project, in order; the first that fails ends the run. CI calls this same file.
#
#   scripts/check.sh            every gate
#   scripts/check.sh fast       the gates that take seconds: before each commit
#   scripts/check.sh lint race  these gates only
#   scripts/check.sh list       their names
#
# It needs Go, git and, for the race detector, a C compiler. With numpy for python3 it also checks that export.py still
# makes the demo checkpoint; without, it says so and goes on (with CI=true a missing tool is a failure).
#
# A step that changes the tree is a failure: what git shows as changed or untracked must be the same before and after.
# With CI=true it must also be nothing to begin with; on your machine uncommitted work is only noted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2 # 2026.2.2; the first line that knows Go 1.26
# All checks but ST1000 (scripts/check looks at package comments, and knows generated packages), ST1003 (names such as Id
# in generated code) and QF (an editor's suggestions).
lint_checks='all,-ST1000,-ST1003,-QF*'
platforms='linux/amd64 linux/arm64 darwin/arm64'

all='tree format modules vet lint imports cross generated demo race unchanged'
fast='format vet lint imports'

ci() { [[ ${CI:-} == true ]]; }

# missing TOOL USE: the tool is not there, so the step can't do its work.
missing() {
	if ci; then
		echo "$1 is missing, and CI must not skip: $2" >&2
		return 1
	fi
	echo "skipped: $1 is missing: $2"
}

tree_state() { git status --porcelain --untracked-files=all; }

tree_before=$(tree_state)

tree() {
	[[ -z $tree_before ]] && return
	if ci; then
		printf 'the tree is not clean:\n%s\n' "$tree_before" >&2
		return 1
	fi
	echo "note: uncommitted work is checked too ($(wc -l <<<"$tree_before") files)"
}

format() {
	local unformatted
	unformatted=$(git ls-files -z --cached --others --exclude-standard -- '*.go' | xargs -0 --no-run-if-empty gofmt -l -s)
	[[ -z $unformatted ]] && return
	printf 'gofmt -s -w would change:\n%s\n' "$unformatted" >&2
	return 1
}

modules() {
	go mod tidy -diff
	go mod verify
}

vet() { go vet ./...; }

lint() { go run "$staticcheck" -checks "$lint_checks" ./...; }

imports() { go test ./scripts/check/; }

cross() {
	local platform
	for platform in $platforms; do
		echo "$platform"
		GOOS=${platform%/*} GOARCH=${platform#*/} CGO_ENABLED=0 go build ./...
		GOOS=${platform%/*} GOARCH=${platform#*/} CGO_ENABLED=0 go vet ./...
	done
}

generated() { scripts/proto.sh --check; }

demo() {
	if python3 -c 'import numpy' 2>/dev/null; then
		python3 -B scripts/demo-model/check.py
	else
		missing 'numpy for python3' 'scripts/demo-model/check.py compares export.py with the checkpoint'
	fi
}

# Numeric goldens and kill tests skip themselves here: the first would take minutes, the second must run a normal build.
race() {
	if [[ $(CGO_ENABLED=1 go env CC) ]] && command -v "$(CGO_ENABLED=1 go env CC)" >/dev/null; then
		CGO_ENABLED=1 go test -race ./...
	else
		missing 'a C compiler' 'the race detector needs one'
	fi
}

unchanged() {
	local after
	after=$(tree_state)
	[[ $after == "$tree_before" ]] && return
	echo 'a step changed the tree:' >&2
	diff <(echo "$tree_before") <(echo "$after") >&2
	return 1
}

# step NAME runs one gate and prints its time; LILYPAD_TIMES names a file in which .ci/run collects the times.
step() {
	local start=$SECONDS status
	printf '\n== %s\n' "$1"
	set +e # a function in a condition would run without -e
	(set -e; "$1")
	status=$?
	set -e
	if ((status != 0)); then
		printf '\n== %s FAILED after %d s; to repeat it: scripts/check.sh %s\n' "$1" $((SECONDS - start)) "$1" >&2
		exit 1
	fi
	printf '== %s: ok, %d s\n' "$1" $((SECONDS - start))
	if [[ -n ${LILYPAD_TIMES:-} ]]; then
		printf '%d\tcheck.sh %s\n' $((SECONDS - start)) "$1" >>"$LILYPAD_TIMES"
	fi
}

case ${1:-all} in
all) steps=$all ;;
fast) steps=$fast ;;
list) tr ' ' '\n' <<<"$all" && exit ;;
*) steps=$* ;;
esac
for name in $steps; do
	if [[ " $all " != *" $name "* ]]; then
		echo "no gate is called $name; there are: $all" >&2
		exit 2
	fi
done
for name in $steps; do
	step "$name"
done
printf '\nall ok: %s, %d s\n' "$steps" $SECONDS
