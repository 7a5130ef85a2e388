//go:build linux && !nosim

package sim

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"lilypad/metal"
)

// cuda is NVIDIA's driver library: one address for each function used. Every function but those that describe errors
// returns a CUresult, 0 for success.
type cuda struct {
	init, deviceGet, deviceName, deviceAttribute, contextRetain, contextRelease, contextSet, memInfo       uintptr
	moduleLoad, moduleUnload, moduleFunction, functionAttribute                                            uintptr
	memAlloc, memFree, memSet, toDevice, toHost, hostAlloc, hostFree                                       uintptr
	streamCreate, streamDestroy, streamWait, streamWrite                                                   uintptr
	eventCreate, eventDestroy, eventRecord, eventWait, eventElapsed                                        uintptr
	launch, graphCreate, graphDestroy, graphKernel, graphEdges, graphInstantiate, graphLaunch, graphUpload uintptr
	execDestroy, errorName, errorString                                                                    uintptr
}

// openCUDA loads the library and finds the functions; an error says what is missing.
func openCUDA() (*cuda, error) {
	var library uintptr
	var err error
	for _, name := range []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/local/nvidia/lib/libcuda.so.1"} {
		if library, err = purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("loading NVIDIA's driver library: %w", err)
	}
	c := &cuda{}
	for name, at := range c.functions() {
		if *at, err = purego.Dlsym(library, name); err != nil {
			return nil, fmt.Errorf("NVIDIA's driver library has no %s: %w", name, err)
		}
	}
	return c, nil
}

// functions are the names as exported: a suffix _v2 picks the 64-bit form that CUDA's headers pick too.
func (c *cuda) functions() map[string]*uintptr {
	return map[string]*uintptr{
		"cuInit": &c.init, "cuDeviceGet": &c.deviceGet, "cuDeviceGetName": &c.deviceName,
		"cuDeviceGetAttribute": &c.deviceAttribute, "cuDevicePrimaryCtxRetain": &c.contextRetain,
		"cuDevicePrimaryCtxRelease_v2": &c.contextRelease, "cuCtxSetCurrent": &c.contextSet, "cuMemGetInfo_v2": &c.memInfo,
		"cuModuleLoadDataEx": &c.moduleLoad, "cuModuleUnload": &c.moduleUnload, "cuModuleGetFunction": &c.moduleFunction,
		"cuFuncGetAttribute": &c.functionAttribute, "cuMemAlloc_v2": &c.memAlloc, "cuMemFree_v2": &c.memFree,
		"cuMemsetD8Async": &c.memSet, "cuMemcpyHtoDAsync_v2": &c.toDevice, "cuMemcpyDtoHAsync_v2": &c.toHost,
		"cuMemHostAlloc": &c.hostAlloc, "cuMemFreeHost": &c.hostFree, "cuStreamCreate": &c.streamCreate,
		"cuStreamDestroy_v2": &c.streamDestroy, "cuStreamSynchronize": &c.streamWait, "cuStreamWriteValue64_v2": &c.streamWrite,
		"cuEventCreate": &c.eventCreate, "cuEventDestroy_v2": &c.eventDestroy, "cuEventRecord": &c.eventRecord,
		"cuEventSynchronize": &c.eventWait, "cuEventElapsedTime": &c.eventElapsed, "cuLaunchKernel": &c.launch,
		"cuGraphCreate": &c.graphCreate, "cuGraphDestroy": &c.graphDestroy, "cuGraphAddKernelNode_v2": &c.graphKernel,
		"cuGraphAddDependencies_v2": &c.graphEdges, "cuGraphInstantiateWithFlags": &c.graphInstantiate,
		"cuGraphLaunch": &c.graphLaunch, "cuGraphUpload": &c.graphUpload, "cuGraphExecDestroy": &c.execDestroy,
		"cuGetErrorName": &c.errorName, "cuGetErrorString": &c.errorString,
	}
}

// call calls a function of the library. It allocates; the hot path (cuda_pass.go) hands over a kept list instead.
// What an argument was made of stays alive and in place until it returns.
//
//go:uintptrescapes
func (c *cuda) call(what string, function uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(function, args...)
	return c.result(what, r)
}

// result turns a CUresult into nil or a *metal.PassError.
func (c *cuda) result(what string, r uintptr) error {
	code := int(int32(r))
	if code == 0 {
		return nil
	}
	return &metal.PassError{Failure: cudaFailure(code), Code: code, Text: what + ": " + c.describe(r)}
}

func (c *cuda) describe(code uintptr) string {
	var name, text *byte
	purego.SyscallN(c.errorName, code, uintptr(unsafe.Pointer(&name)))
	purego.SyscallN(c.errorString, code, uintptr(unsafe.Pointer(&text)))
	return goString(name) + " (" + goString(text) + ")"
}

// goString copies a C string; nil gives "unknown".
func goString(p *byte) string {
	if p == nil {
		return "unknown"
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// cudaFailure sorts the CUresults that callers treat differently.
func cudaFailure(code int) metal.Failure {
	switch code {
	case 2: // CUDA_ERROR_OUT_OF_MEMORY
		return metal.OutOfMemory
	case 1, 201, 400: // INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE
		return metal.InvalidUse
	case 700, 714, 716, 717, 718: // ILLEGAL_ADDRESS, HARDWARE_STACK_ERROR, MISALIGNED_ADDRESS, INVALID_ADDRESS_SPACE, INVALID_PC
		return metal.PageFault
	case 702: // LAUNCH_TIMEOUT
		return metal.Timeout
	case 46, 100, 101, 214: // DEVICE_UNAVAILABLE, NO_DEVICE, INVALID_DEVICE, ECC_UNCORRECTABLE
		return metal.Revoked
	}
	return metal.Failed
}
