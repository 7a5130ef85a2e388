#!/usr/bin/env bash
# Measures Lilypad's CPU backend beside llama.cpp on this machine, in turn, and prints medians and ratios.
#
#   scripts/compare-llama.sh LLAMA_BIN MODEL.gguf [CHECKPOINT]
#
# LLAMA_BIN is the folder with llama-bench and llama-server; MODEL.gguf must hold the weights of CHECKPOINT, a folder
# (default: the built-in demo model), or what you want to compare them with. Both programs take THREADS threads (all
# cores). First the engines alone, ROUNDS times (3): prefill of PROMPT tokens (512), then DECODE tokens (128) after none.
# Then the services, ROUNDS times, over HTTP: time to the first token and tokens/s of one stream and of four at once.
# SERVICE=0 leaves the services out. Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
(($# == 2 || $# == 3)) || { sed -n '4,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
llama=$1 gguf=$2 checkpoint=${3:-}
threads=${THREADS:-$(nproc)} rounds=${ROUNDS:-3} prompt=${PROMPT:-512} decode=${DECODE:-128}
for program in llama-bench llama-server; do
	[[ -x $llama/$program ]] || { echo "$llama has no program $program" >&2; exit 1; }
done
[[ -r $gguf ]] || { echo "cannot read $gguf" >&2; exit 1; }
model=()
[[ -z $checkpoint ]] || model=(--model "$checkpoint")

work=$(mktemp -d)
server=
finish() {
	[[ -z $server ]] || kill "$server" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
go build -o "$work/lilypad" ./cmd/lilypad
export GOMAXPROCS=$threads LILYPAD_DATA=$work/data

# number NAME: the numbers of that name in JSON, in order.
number() { grep -o "\"$1\": *[0-9.eE+-]*" | sed 's/.*: *//'; }

# note WHO WHAT VALUE keeps a result.
note() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" | tee -a "$work/results"; }

ours() {
	"$work/lilypad" bench "${model[@]}" --backend cpu --rounds 1 --prompt "$prompt" --decode "$decode" --boundary=false --recovery=false --json >"$work/ours"
	note lilypad 'prefill, tokens/s' "$(number prefill_tokens_per_s <"$work/ours")"
	note lilypad 'decode, tokens/s' "$(number decode_tokens_per_s <"$work/ours")"
}

theirs() {
	note llama.cpp 'prefill, tokens/s' "$("$llama/llama-bench" -m "$gguf" -t "$threads" -p "$prompt" -n 0 -r 1 -o jsonl 2>/dev/null | number avg_ts)"
	note llama.cpp 'decode, tokens/s' "$("$llama/llama-bench" -m "$gguf" -t "$threads" -p 0 -n "$decode" -r 1 -o jsonl 2>/dev/null | number avg_ts)"
}

# serve WHO COMMAND...: starts a server on $port and measures it as its clients see it.
serve() {
	local who=$1 values
	shift
	"$@" >"$work/$who.log" 2>&1 &
	server=$!
	for ((i = 0; i < 1200; i++)); do
		if ! kill -0 "$server" 2>/dev/null; then
			echo "$who ended:" >&2
			tail -n 20 "$work/$who.log" >&2
			exit 1
		fi
		! curl -fs "http://127.0.0.1:$port/v1/models" >/dev/null || break
		sleep 0.1
	done
	"$work/lilypad" bench --server "http://127.0.0.1:$port" --streams 1,4 --rounds 3 --decode "$decode" --json >"$work/served"
	kill "$server"
	wait "$server" 2>/dev/null || true
	server=
	mapfile -t values < <(for name in first_token_ms tokens_per_s all_tokens_per_s; do number "$name" <"$work/served"; done)
	note "$who" '1 stream, first token, ms' "${values[0]}"
	note "$who" '4 streams, first token, ms' "${values[1]}"
	note "$who" '1 stream, tokens/s' "${values[2]}"
	note "$who" '4 streams, tokens/s of each' "${values[3]}"
	note "$who" '1 stream, tokens/s with the prompt' "${values[4]}"
	note "$who" '4 streams, tokens/s of all' "${values[5]}"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

for ((round = 1; round <= rounds; round++)); do
	echo "round $round of $rounds"
	ours
	theirs
	if [[ ${SERVICE:-1} != 0 ]]; then
		port=$(free_port)
		serve lilypad "$work/lilypad" serve "${model[@]}" --backend cpu --listen "127.0.0.1:$port"
		port=$(free_port)
		serve llama.cpp "$llama/llama-server" -m "$gguf" -t "$threads" -np 4 -c 16384 --jinja --host 127.0.0.1 --port "$port"
	fi
done

echo
echo "$(date -u +%F), $threads threads of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $("$work/lilypad" version | head -n 1); medians of $rounds"
awk -F '\t' '
	function median(key,   n, i, j, v, t) {
		n = split(all[key], v, " ")
		for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] + 0 < v[j - 1] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
		return v[int((n + 1) / 2)]
	}
	{ if (!($2 in seen)) { seen[$2] = 1; names[++count] = $2 } all[$1 SUBSEP $2] = all[$1 SUBSEP $2] " " $3 }
	END {
		printf "%-36s %10s %10s %8s\n", "", "lilypad", "llama.cpp", "ratio"
		for (i = 1; i <= count; i++) {
			a = median("lilypad" SUBSEP names[i]); b = median("llama.cpp" SUBSEP names[i])
			printf "%-36s %10.1f %10.1f %8.2f\n", names[i], a, b, a / b
		}
	}' "$work/results"
