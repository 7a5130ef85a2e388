//go:build !linux

package process

func forgetParent() {}
