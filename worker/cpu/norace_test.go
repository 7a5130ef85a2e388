//go:build !race

package cpu

const slow = false
