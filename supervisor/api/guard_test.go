package api

import "testing"

func TestLoopbackHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST:1": true, "127.0.0.1:8383": true, "[::1]:80": true, "127.9.9.9": true,
		"localhost.evil.com": false, "127.0.0.1.evil.com": false, "0.0.0.0": false, "": false, "192.168.1.2:80": false,
	} {
		if isLoopbackHost(host) != want {
			t.Errorf("%q: %v, want %v", host, !want, want)
		}
	}
}
