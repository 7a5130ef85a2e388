package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"lilypad/supervisor/config"
)

// probeTime is how long a server on this machine may take to say what it serves.
const probeTime = 500 * time.Millisecond

// findServer returns the base address of a server to talk to and a function that gives it back. A named server must
// answer. Otherwise it is the one on the configured address if that has the wanted model, else one of our own.
func findServer(ctx context.Context, e *env, cfg config.Config, named string) (base string, done func(), err error) {
	if named != "" {
		base = strings.TrimSuffix(strings.TrimRight(named, "/"), "/v1")
		if !strings.Contains(base, "://") {
			base = "http://" + base
		}
		if _, err := servedModel(ctx, base); err != nil {
			return "", nil, fmt.Errorf("no lilypad server answers at %s: %w", base, err)
		}
		return base, func() {}, nil
	}
	if address, err := cfg.Address(); err == nil && !strings.HasSuffix(address, ":0") {
		base = "http://" + address
		if model, err := servedModel(ctx, base); err == nil && (cfg.Model == "" || filepath.Base(cfg.Model) == model) {
			return base, func() {}, nil
		}
	}
	return ownServer(ctx, e, cfg)
}

// servedModel asks a server for the model that it has loaded.
func servedModel(ctx context.Context, base string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var list struct {
		Data []struct {
			ID      string
			OwnedBy string `json:"owned_by"`
		}
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&list); err != nil {
		return "", err
	}
	for _, m := range list.Data {
		if m.OwnedBy == "lilypad" {
			return m.ID, nil
		}
	}
	return "", errors.New("it serves no lilypad model")
}

// ownServer runs a supervisor in this process on a free port until done is called.
func ownServer(ctx context.Context, e *env, cfg config.Config) (base string, done func(), err error) {
	cfg.Listen = "127.0.0.1:0"
	if cfg.LogLevel == config.Default(nil).LogLevel {
		cfg.LogLevel = "error" // the terminal is for the conversation
	}
	sup, err := newSupervisor(e, cfg)
	if err != nil {
		return "", nil, err
	}
	// Not ctx: a Ctrl-C that ends one answer must not end the server.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() { ended <- sup.Run(run, func(addr net.Addr) { ready <- addr }) }()
	done = func() {
		stop()
		<-ended
	}
	select {
	case addr := <-ready:
		return "http://" + addr.String(), done, nil
	case err := <-ended:
		stop()
		if err == nil {
			err = errors.New("the server ended before it was ready")
		}
		return "", nil, err
	case <-ctx.Done():
		done()
		return "", nil, errors.New("interrupted")
	}
}
