#!/usr/bin/env bash
# Generates protocol/proto from protocol/engine.proto with pinned tools; with --check it only compares.
# Needs Go and python3 with venv (protoc comes from the grpcio-tools wheel). Tools are kept in a cache folder.
set -euo pipefail

grpcio_tools=1.85.1 # protoc
gen_go=v1.36.12     # google.golang.org/protobuf, the version of go.mod
gen_go_grpc=v1.6.0  # google.golang.org/grpc/cmd/protoc-gen-go-grpc

cd "$(dirname "$0")/.."
tools="${XDG_CACHE_HOME:-$HOME/.cache}/lilypad/proto-$grpcio_tools-$gen_go-$gen_go_grpc"

if [ ! -e "$tools/ready" ]; then
  mkdir -p "$tools"
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install --quiet --disable-pip-version-check "grpcio-tools==$grpcio_tools"
  GOBIN="$tools/bin" GOFLAGS= go install "google.golang.org/protobuf/cmd/protoc-gen-go@$gen_go"
  GOBIN="$tools/bin" GOFLAGS= go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$gen_go_grpc"
  touch "$tools/ready"
fi

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
PATH="$tools/bin:$PATH" "$tools/venv/bin/python" -m grpc_tools.protoc -I protocol \
  --go_out="$out" --go_opt=paths=source_relative \
  --go-grpc_out="$out" --go-grpc_opt=paths=source_relative \
  engine.proto

if [ "${1:-}" = --check ]; then
  if ! diff -ru protocol/proto "$out"; then
    echo "protocol/proto is not what protocol/engine.proto gives; run scripts/proto.sh" >&2
    exit 1
  fi
else
  mkdir -p protocol/proto
  cp "$out"/*.go protocol/proto/
fi
