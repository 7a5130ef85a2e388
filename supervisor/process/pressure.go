package process

import (
	"sync"
	"time"
)

// Levels of memory pressure, as macOS numbers them.
const (
	PressureNormal = 1
	PressureWarn   = 2
	PressureHigh   = 4
)

// Pressure is a reading of the machine's memory pressure.
type Pressure struct {
	Level    int    // PressureNormal, PressureWarn or PressureHigh; 0 if unknown
	OOMKills int64  // out-of-memory kills counted by the kernel in our control group, or machine-wide
	Text     string // the reading, for a person
}

// pressureMemory is how far back a reading explains a death.
const pressureMemory = 30 * time.Second

// pressures keeps the readings of the last half minute.
type pressures struct {
	read func() Pressure

	mu    sync.Mutex
	times []time.Time
	seen  []Pressure
}

// sample takes a reading now.
func (p *pressures) sample(now time.Time) Pressure {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.read()
	for len(p.times) > 0 && now.Sub(p.times[0]) > pressureMemory {
		p.times, p.seen = p.times[1:], p.seen[1:]
	}
	p.times, p.seen = append(p.times, now), append(p.seen, r)
	return r
}

// worst is the highest reading kept.
func (p *pressures) worst() Pressure {
	p.mu.Lock()
	defer p.mu.Unlock()
	var w Pressure
	for _, r := range p.seen {
		if r.Level > w.Level {
			w = r
		}
	}
	return w
}
