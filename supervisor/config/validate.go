package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/sirupsen/logrus"
)

// Validate returns all complaints at once, one sentence each.
func (c Config) Validate() error {
	var list []error
	complain := func(format string, args ...any) { list = append(list, fmt.Errorf(format, args...)) }

	if _, err := c.Address(); err != nil {
		list = append(list, err)
	}
	if c.Data == "" {
		complain("data is empty; name a directory with --data")
	}
	if c.Context < 0 {
		complain("context is %d; it must be 0 (the model's own) or a number of tokens", c.Context)
	}
	if c.Quantize != 0 && c.Quantize != 4 && c.Quantize != 8 {
		complain("quantize is %d; it must be 4 or 8, or 0 to run the checkpoint as stored", c.Quantize)
	}
	if c.Parallel < 1 || c.Parallel > 64 {
		complain("parallel is %d; it must be between 1 and 64", c.Parallel)
	}
	if c.StateBudget < 0 || c.StateBudget > 1<<30 {
		complain("state-budget is %d MiB; it must be 0 (chosen by the worker) or more, and at most %d", c.StateBudget, 1<<30)
	}
	if c.Chunk < 0 || c.Chunk > 4096 || c.Chunk%512 != 0 {
		complain("prefill-chunk is %d; it must be 0 (chosen by the worker) or a multiple of 512 up to 4096", c.Chunk)
	}
	if c.Drain < 0 {
		complain("drain is %v; it must not be negative", c.Drain)
	}
	if _, err := logrus.ParseLevel(c.LogLevel); err != nil {
		complain("log-level is %q; it must be error, warn, info, debug or trace", c.LogLevel)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		complain("log-format is %q; it must be text or json", c.LogFormat)
	}
	return errors.Join(list...)
}

// Address returns what to listen on: Listen with a numeric host. Only loopback addresses pass, and no name but localhost, as
// a name may come to mean another address later.
func (c Config) Address() (string, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", fmt.Errorf("listen is %q; it must be an address and a port, such as 127.0.0.1:8383", c.Listen)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("listen is %q, whose port is not a number from 0 to 65535", c.Listen)
	} else {
		port = strconv.FormatUint(n, 10)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if addr, err := netip.ParseAddr(host); err != nil || !addr.Unmap().IsLoopback() || addr.Zone() != "" {
		return "", fmt.Errorf("listen is %q, which other machines could reach or redirect; without access keys lilypad "+
			"listens only on this machine: use 127.0.0.1, [::1] or localhost", c.Listen)
	}
	return net.JoinHostPort(host, port), nil
}
