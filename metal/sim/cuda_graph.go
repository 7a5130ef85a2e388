//go:build linux && !nosim

package sim

import (
	"runtime"
	"unsafe"

	"lilypad/metal"
)

// cudaGraph is a recording: a CUDA graph whose nodes are the dispatches and whose edges lead from producers.
type cudaGraph struct {
	driver      *cudaDriver
	graph, exec uintptr
}

// kernelNode is CUDA_KERNEL_NODE_PARAMS_v2.
type kernelNode struct {
	function                           uintptr
	gridX, gridY, gridZ                uint32
	threadsX, threadsY, threadsZ       uint32
	sharedBytes                        uint32
	arguments, extra, kernel, context_ uintptr
}

// edgeData is CUgraphEdgeData.
type edgeData struct {
	fromPort, toPort, kind byte
	_                      [5]byte
}

// NewRecording builds the graph. Where launches may overlap, an edge lets its second kernel be set up while the first
// still runs; the kernel itself waits for the first's end (cuda_overlap.go).
func (d *cudaDriver) NewRecording(ops []metal.DriverDispatch) (metal.DriverRecording, error) {
	leave := d.enter()
	defer leave()
	g := &cudaGraph{driver: d}
	err := g.build(ops, d.overlap)
	if err != nil && d.overlap { // a driver library that takes no such edges here still takes plain ones
		g.Close()
		*g = cudaGraph{driver: d}
		err = g.build(ops, false)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (g *cudaGraph) build(ops []metal.DriverDispatch, overlap bool) error {
	d := g.driver
	if err := d.call("making a graph", d.graphCreate, uintptr(unsafe.Pointer(&g.graph)), 0); err != nil {
		return err
	}
	var nodes []uintptr
	var order []ordered
	level := 0
	for _, op := range ops {
		if op == nil {
			level++
			continue
		}
		c := op.(*cudaDispatch)
		node, err := g.add(c)
		if err != nil {
			return err
		}
		nodes = append(nodes, node)
		order = append(order, ordered{level, rangesOf(c.launch)})
	}
	if err := g.connect(nodes, producers(order), overlap); err != nil {
		return err
	}
	if err := d.call("instantiating a graph", d.graphInstantiate, uintptr(unsafe.Pointer(&g.exec)), g.graph, 0); err != nil {
		return err
	}
	return d.call("uploading a graph", d.graphUpload, g.exec, d.passes)
}

// add makes a node; CUDA copies the arguments.
func (g *cudaGraph) add(c *cudaDispatch) (node uintptr, err error) {
	t := c.launch.Threads
	n := &kernelNode{
		function: c.pipeline.function,
		gridX:    uint32(c.groups.X), gridY: uint32(c.groups.Y), gridZ: uint32(c.groups.Z),
		threadsX: uint32(t.X), threadsY: uint32(t.Y), threadsZ: uint32(t.Z),
	}
	if len(c.bytes) > 0 {
		c.arguments[len(c.arguments)-1] = uintptr(unsafe.Pointer(&c.bytes[0]))
	}
	if len(c.arguments) > 0 {
		n.arguments = uintptr(unsafe.Pointer(&c.arguments[0]))
	}
	d := g.driver
	err = d.call("adding a kernel to a graph", d.graphKernel, uintptr(unsafe.Pointer(&node)), g.graph, 0, 0, uintptr(unsafe.Pointer(n)))
	runtime.KeepAlive(c)
	return node, err
}

// connect adds the edges, all in one call.
func (g *cudaGraph) connect(nodes []uintptr, producers [][]int, overlap bool) error {
	var from, to []uintptr
	for i, list := range producers {
		for _, j := range list {
			from, to = append(from, nodes[j]), append(to, nodes[i])
		}
	}
	if len(from) == 0 {
		return nil
	}
	data := make([]edgeData, len(from))
	if overlap {
		for i := range data {
			data[i] = edgeData{fromPort: 1, kind: 1} // CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
		}
	}
	d := g.driver
	return d.call("connecting a graph", d.graphEdges, g.graph, uintptr(unsafe.Pointer(&from[0])), uintptr(unsafe.Pointer(&to[0])),
		uintptr(unsafe.Pointer(&data[0])), uintptr(len(from)))
}

// Close frees the graph.
func (g *cudaGraph) Close() {
	leave := g.driver.enter()
	defer leave()
	d := g.driver
	if g.exec != 0 {
		_ = d.call("freeing a graph", d.execDestroy, g.exec)
	}
	if g.graph != 0 {
		_ = d.call("freeing a graph", d.graphDestroy, g.graph)
	}
}
