//go:build race

package main

// raceEnabled is true where the race detector slows everything down: numeric and kill tests leave that to the plain run.
const raceEnabled = true
