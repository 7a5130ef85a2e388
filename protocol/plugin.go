package protocol

import (
	"context"
	"os"

	hclog "github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	pb "lilypad/protocol/proto"
)

// MaxMessage is the largest message that the worker takes, in bytes. gRPC's own default of 4 MiB is less than a long
// prompt; the supervisor's side has no limit.
const MaxMessage = 64 << 20

// Plugin adapts an Engine to go-plugin, over gRPC only. The supervisor leaves Engine nil.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	Engine Engine
}

var _ plugin.GRPCPlugin = (*Plugin)(nil)

// GRPCServer registers the engine's service; go-plugin calls it in the worker.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	Register(s, p.Engine)
	return nil
}

// GRPCClient returns an Engine; go-plugin calls it in the supervisor with a context that ends with the process.
func (p *Plugin) GRPCClient(gone context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return NewClient(gone, conn), nil
}

// Register makes e answer on s. Plugin does it for a worker; tests do it on a server of their own.
func Register(s grpc.ServiceRegistrar, e Engine) { pb.RegisterEngineServer(s, &server{engine: e}) }

// NewServer returns a gRPC server with the worker's message limits.
func NewServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(MaxMessage))...)
}

// ServeOptions tunes Serve.
type ServeOptions struct {
	Logger hclog.Logger // go-plugin's own messages; nil writes warnings as hclog JSON to stderr
}

// Serve answers the supervisor and returns when it asked for a shutdown; running calls are cut then, so a supervisor
// drains first. It needs the environment and the stdout that the supervisor's launch gave to the process: it prints the
// handshake there, then replaces os.Stdout and os.Stderr by pipes to the supervisor, and exits the process with status
// 1 when the cookie is missing.
func Serve(e Engine, opt ServeOptions) {
	if opt.Logger == nil {
		opt.Logger = hclog.New(&hclog.LoggerOptions{Name: "plugin", Level: hclog.Warn, Output: os.Stderr, JSONFormat: true})
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake,
		Plugins:         plugin.PluginSet{PluginName: &Plugin{Engine: e}},
		GRPCServer:      NewServer,
		Logger:          opt.Logger,
	})
}
