package apple

import (
	"slices"

	"lilypad/metal"
)

// dispatch implements metal.DriverDispatch. It owns nothing of the system.
type dispatch struct{ launch launch }

func (d *driver) NewDispatch(l *metal.Launch) (metal.DriverDispatch, error) {
	p := &dispatch{launch{
		pipeline: l.Pipeline.Driver().(*pipeline).object,
		bytes:    slices.Clone(l.Bytes),
		groups:   l.Groups,
		threads:  l.Threads,
	}}
	for _, b := range l.Buffers {
		p.launch.buffers = append(p.launch.buffers, b.Buffer.Driver().(*buffer).object)
		p.launch.offsets = append(p.launch.offsets, uint(b.Offset))
	}
	return p, nil
}

func (p *dispatch) SetBytes(b []byte)           { copy(p.launch.bytes, b) }
func (p *dispatch) SetGroups(groups metal.Size) { p.launch.groups = groups }
func (p *dispatch) Close()                      {}

// recording implements metal.DriverRecording: encoding a launch is four messages whether recorded or not, since indirect
// command buffers were slower to reach than they save.
type recording []launch

func (d *driver) NewRecording(ops []metal.DriverDispatch) (metal.DriverRecording, error) {
	list := make(recording, len(ops)) // what stays zero is a barrier
	for i, op := range ops {
		if op != nil {
			list[i] = op.(*dispatch).launch
			list[i].bytes = slices.Clone(list[i].bytes) // which SetBytes changes
		}
	}
	return list, nil
}

func (recording) Close() {}
