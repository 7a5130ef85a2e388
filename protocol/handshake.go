package protocol

import plugin "github.com/hashicorp/go-plugin"

// Version is the protocol's version. Supervisor and worker are one binary, so there is never more than one.
const Version = 1

// PluginName is the name under which go-plugin dispenses the Engine.
const PluginName = "engine"

// Cookie is the environment variable by which a worker knows that a supervisor started it.
const Cookie = "LILYPAD_WORKER"

// Handshake is shared by both sides. The cookie keeps people from running the worker by hand; it protects nothing.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  Version,
	MagicCookieKey:   Cookie,
	MagicCookieValue: "started-by-lilypad",
}

// StartedBySupervisor reports whether env, a lookup such as os.Getenv, says that a supervisor started this process.
func StartedBySupervisor(env func(string) string) bool {
	return env(Cookie) == Handshake.MagicCookieValue
}
