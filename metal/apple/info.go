package apple

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"lilypad/metal"
)

// oldestFamily is Apple7, the M1: simdgroup matrices and the reductions that the kernels use.
const oldestFamily, newestFamily = 7, 10

func describeGPU(r *objc, device uintptr) (metal.Info, error) {
	i := metal.Info{
		Driver:     "metal",
		Name:       r.text(r.send(device, selName)),
		Family:     family(r, device),
		OS:         fmt.Sprintf("macOS %s (%s)", r.version, r.build),
		MaxBuffer:  int64(r.send(device, selMaxBufferLength)),
		WorkingSet: int64(r.send(device, selRecommendedMaxWorkingSetSize)),
		Shared:     isTrue(r.send(device, selHasUnifiedMemory)),
	}
	major, _, _ := strings.Cut(r.version, ".")
	if n, err := strconv.ParseFloat(major, 64); err != nil || n < floor {
		return i, fmt.Errorf("macOS %s is too old, %v is needed", r.version, floor)
	}
	if i.Family == 0 {
		return i, fmt.Errorf("GPU %s is older than Apple%d (M1), or virtual", i.Name, oldestFamily)
	}
	i.Cores = coreCount(r)
	return i, nil
}

// family is the highest that the GPU supports, 0 for one below the oldest. MTLGPUFamilyApple7 is 1007.
func family(r *objc, device uintptr) int {
	for f := newestFamily; f >= oldestFamily; f-- {
		if isTrue(r.send(device, selSupportsFamily, uintptr(1000+f))) {
			return f
		}
	}
	return 0
}

// coreCount asks the IORegistry, since Metal doesn't tell; 0 where the entry is missing.
func coreCount(r *objc) int {
	name := append([]byte("AGXAccelerator"), 0)
	matching := r.invoke(fnServiceMatching, uintptr(unsafe.Pointer(&name[0])))
	if matching == 0 {
		return 0
	}
	service := r.invoke(fnMatchingService, 0, matching) // which takes the dictionary over
	if uint32(service) == 0 {
		return 0
	}
	defer r.invoke(fnReleaseService, service)
	key := r.newString("gpu-core-count") // an NSString is a CFString
	defer r.release(key)
	value := r.invoke(fnCreateProperty, service, key, 0, 0)
	if value == 0 {
		return 0
	}
	defer r.release(value)
	if !r.responds(value, selLongLongValue) { // a CFNumber is an NSNumber
		return 0
	}
	return int(r.send(value, selLongLongValue))
}
