//go:build race

package worker

// raceEnabled says that the race detector slows everything down: numeric goldens are for the normal build.
const raceEnabled = true
