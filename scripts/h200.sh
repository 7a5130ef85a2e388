#!/bin/sh
# Takes Lilypad to a machine with an NVIDIA GPU that has only the driver: no Go, no clang.
#
#   scripts/h200.sh pack            here: builds the tests and lilypad, makes the PTX they ask for, packs all into .h200/
#   scripts/h200.sh run [commands]  there, in a copy of the working tree with .h200/: unpacks and runs
#
# Commands, in order; without any: "tests launch decode".
#   tests    kernel tests and the demo goldens, on sim:cuda
#   launch   copy bandwidth and the cost of a launch, encoded and recorded
#   decode   tokens/s at the 35B shape with synthetic weights, and GB/s of each kernel
# Results are printed, and kept in $OUT where that is set. PACKAGES narrows the packages, TESTS the tests (a regular expression);
# CORES is the multiprocessors of that GPU, by which kernels are chosen (132 of an H200);
# QUICK packs the PTX that can be had without running tests on sim:cpu; NODECODE leaves lilypad out of the pack.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
packages=${PACKAGES:-"metal/sim metal/kernels worker/gpu"}
shape=${SHAPE:-qwen3.6-35b-a3b}
contexts=${CONTEXTS:-"256,4096,32768"}

# Of metal/sim, what holds for every driver; its other tests are of sim:cpu.
only() { [ "$1" = metal/sim ] && echo "${TESTS:-^TestDevice}" || echo "${TESTS:-.}"; }
binary() { echo "$1" | tr / - ; } # of a package's tests

# Makes the PTX that tests ask for, several tests at a time, on the simulator that runs nothing.
collect() {
	for p in $packages; do
		bin="$stage/$(binary "$p").test"
		(cd "$p" && "$bin" -test.list "$(only "$p")|^Bench" | grep -E '^(Test|Benchmark)' |
			LILYPAD_SIM=count xargs -P "$(nproc)" -I{} sh -c "timeout 60 $bin -test.run '^{}\$' -test.bench '^{}\$' -test.benchtime 1x >/dev/null 2>&1 || true")
	done
}

# Makes the PTX that a test asks for only after it has seen right results: the tests run on sim:cpu.
confirm() {
	for p in $packages; do
		(cd "$p" && LILYPAD_SIM= "$stage/$(binary "$p").test" -test.run "$(only "$p")") ||
			echo "some tests of $p failed here: their later pipelines may be missing"
	done
}

pack() {
	rm -rf .h200
	mkdir -p .h200/stage/ptx
	for p in $packages; do
		CGO_ENABLED=0 go test -c -trimpath -ldflags='-s -w' -o ".h200/stage/$(binary "$p").test" "./$p"
	done
	[ -n "${NODECODE:-}" ] || CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o .h200/stage/lilypad ./cmd/lilypad
	stage="$root/.h200/stage"
	export LILYPAD_PTX="$stage/ptx" LILYPAD_PTX_CORES="${CORES:-132}"
	collect
	[ -n "${QUICK:-}" ] || confirm
	[ ! -e .h200/stage/lilypad ] || .h200/stage/lilypad bench --synthetic "$shape" --contexts "$contexts" --backend sim:count >/dev/null || echo "no PTX for decode"
	kernels=$(ls .h200/stage/ptx | wc -l)
	tar c -C .h200/stage . | xz -T2 --lzma2=preset=6,dict=96MiB >.h200/pack.tar.xz # the binaries have much in common
	rm -rf .h200/stage
	size=$(wc -c <.h200/pack.tar.xz)
	echo "packed $size bytes, with the PTX of $kernels kernels"
	[ "$size" -le $((30 << 20)) ] || { echo "over 30 MiB" >&2; exit 1; }
	echo "there: sh scripts/h200.sh run    (carry .h200)"
}

tests() {
	for p in $packages; do
		echo "== tests of $p"
		(cd "$p" && "$stage/$(binary "$p").test" -test.timeout 240s -test.run "$(only "$p")") || echo "FAILED: $p" >>"$stage/failed"
	done
}

launch() {
	echo "== copy and launches"
	(cd metal/sim && "$stage/metal-sim.test" -test.run '^$' -test.bench 'Copy|Launch' -test.benchtime 20x) || echo "FAILED: launch" >>"$stage/failed"
	echo "== without overlapping launches"
	(cd metal/sim && LILYPAD_CUDA_OVERLAP=0 "$stage/metal-sim.test" -test.run '^$' -test.bench Launch -test.benchtime 20x) || echo "FAILED: launch" >>"$stage/failed"
}

decode() {
	echo "== decode of $shape"
	"$stage/lilypad" bench --synthetic "$shape" --contexts "$contexts" --backend sim:cuda --kernels || echo "FAILED: decode" >>"$stage/failed"
}

run() {
	stage=$(mktemp -d)
	xz -dc .h200/pack.tar.xz | tar x -C "$stage"
	export LILYPAD_SIM=cuda LILYPAD_PTX="$stage/ptx"
	! command -v clang-16 >/dev/null || collect # where there is a compiler, what the pack lacks can be made
	for command in ${*:-tests launch decode}; do
		case $command in
		tests | launch | decode) "$command" 2>&1 | tee -a "${OUT:-$stage}/$command.txt" ;;
		*) echo "unknown command $command" >&2; exit 2 ;;
		esac
	done
	if [ -e "$stage/failed" ]; then
		cat "$stage/failed"
		exit 1
	fi
}

case ${1:-} in
pack) pack ;;
run) shift; run "$@" ;;
*) sed -n '2,12p' "$0"; exit 2 ;;
esac
