package cpu

import "time"

// Where other programs want the same processors, the system takes a thread away for milliseconds at a time, most likely in the
// middle of a unit, and then everybody waits for that unit: a pool of two threads on one and a half processors is slower
// than one thread. So after such a wait a pool leaves a thread out for a while, and then tries again.
const (
	lostAfter = 200 * time.Microsecond // a wait for the last units that is this much longer than
	lostUnits = 2                      // so many units take is a loss
	outFirst  = 8 * time.Millisecond   // a lost thread is left out this long, twice as long each time,
	outMost   = time.Second            // up to this, with which tries cost 1 % or so
)

// absence decides how many threads of a pool take part, the caller's included. Only the pool's caller uses it.
type absence struct {
	size, active int
	out          time.Duration // how long the next lost thread stays out
	since        time.Time     // of the last loss or return
}

func newAbsence(size int) absence { return absence{size: size, active: size, out: outFirst} }

// begin is called before a task. It lets a thread come back whose time is over, and shortens later absences when nothing was lost
// for as long as the last one took.
func (a *absence) begin(now time.Time) {
	if now.Sub(a.since) < a.out {
		return
	}
	a.since = now
	if a.active < a.size {
		a.active++
	} else if a.out > outFirst {
		a.out /= 2
	}
}

// end is called after a task in which the caller did own units in the time worked and then waited for others.
func (a *absence) end(own int, worked, waited time.Duration, now time.Time) {
	if own == 0 || a.active == 1 || waited < lostAfter+lostUnits*worked/time.Duration(own) {
		return
	}
	a.active--
	a.since = now
	a.out = min(2*a.out, outMost)
}
