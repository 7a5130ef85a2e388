package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Linux counts its own out-of-memory kills, so pressure need only explain those of daemons such as systemd-oomd: little
// memory left (percent of all) and all tasks waiting for memory for some of the time (percent of the last 10 s, see
// https://docs.kernel.org/accounting/psi.html). A busy machine with free memory is no pressure.
const (
	availableWarn, psiWarn = 5, 5
	availableHigh, psiHigh = 2, 20
)

func systemPressure() Pressure {
	p := Pressure{OOMKills: oomKills()}
	full, psiOK := psiFull(read("/proc/pressure/memory"))
	info := read("/proc/meminfo")
	total := field(info, "MemTotal:")
	if total == 0 {
		return p
	}
	available := 100 * float64(field(info, "MemAvailable:")) / float64(total)
	switch {
	case available < availableHigh && (full >= psiHigh || !psiOK):
		p.Level = PressureHigh
	case available < availableWarn && (full >= psiWarn || !psiOK):
		p.Level = PressureWarn
	default:
		p.Level = PressureNormal
	}
	p.Text = fmt.Sprintf("%.0f%% of memory available, stalled %.1f%% of the time", available, full)
	return p
}

// psiFull reads avg10 of the "full" line.
func psiFull(text string) (float64, bool) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "full avg10="); ok {
			number, _, _ := strings.Cut(rest, " ")
			v, err := strconv.ParseFloat(number, 64)
			return v, err == nil
		}
	}
	return 0, false
}

// oomKills counts kills in our control group (the worker is in it too); where there is none, on the whole machine.
func oomKills() int64 {
	for line := range strings.Lines(read("/proc/self/cgroup")) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			if text := read("/sys/fs/cgroup" + group + "/memory.events"); text != "" {
				return field(text, "oom_kill")
			}
		}
	}
	return field(read("/proc/vmstat"), "oom_kill")
}

// field finds the number after a name at the start of a line.
func field(text, name string) int64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// read returns a small file's text, or nothing.
func read(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}
