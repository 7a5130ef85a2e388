package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func systemPressure() Pressure {
	level, err := unix.SysctlUint32("kern.memorystatus_vm_pressure_level")
	if err != nil {
		return Pressure{}
	}
	return Pressure{Level: int(level), Text: fmt.Sprintf("kernel pressure level %d", level)}
}
