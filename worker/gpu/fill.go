package gpu

import (
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
)

// putFloats stores fp32 numbers.
func putFloats(dst []byte, v []float32) {
	for i, f := range v {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

// fill runs the placer's jobs on several goroutines and tells progress, on the caller's, of bytes done. Where CPU and GPU
// share memory each job writes to its place; elsewhere it goes through a buffer of its goroutine's.
func (p *placer) fill(threads int, progress func(done, total int64)) error {
	var total, next, done atomic.Int64
	for _, j := range p.jobs {
		total.Add(j.length)
	}
	var group sync.WaitGroup
	failed := make(chan error, threads)
	advanced := make(chan struct{}, 1)
	for range threads {
		group.Go(func() {
			var staging []byte
			for {
				i := next.Add(1) - 1
				if i >= int64(len(p.jobs)) {
					return
				}
				var err error
				if staging, err = p.jobs[i].run(staging); err != nil {
					failed <- err
					return
				}
				done.Add(p.jobs[i].length)
				select {
				case advanced <- struct{}{}:
				default:
				}
			}
		})
	}
	go func() {
		group.Wait()
		close(advanced)
	}()
	told := int64(0)
	for range advanced {
		if n := done.Load(); progress != nil && n < total.Load() && n-told >= total.Load()/100 {
			progress(n, total.Load())
			told = n
		}
	}
	p.jobs = nil // they hold the checkpoint's memory
	select {
	case err := <-failed:
		return err
	default:
		if progress != nil {
			progress(total.Load(), total.Load())
		}
		return nil
	}
}

// run fills the job's bytes; staging is memory for it, which is grown and returned.
func (j *job) run(staging []byte) ([]byte, error) {
	if memory := j.buffer.Memory(); memory != nil {
		j.fill(memory[j.offset : j.offset+j.length : j.offset+j.length])
		return staging, nil
	}
	if int64(len(staging)) < j.length {
		staging = make([]byte, max(j.length, jobBytes))
	}
	part := staging[:j.length]
	clear(part)
	j.fill(part)
	return staging, j.buffer.Write(part, j.offset)
}
