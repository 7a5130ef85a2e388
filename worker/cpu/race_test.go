//go:build race

package cpu

// slow is true where the race detector makes the numeric tests take minutes.
const slow = true
