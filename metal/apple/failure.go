package apple

import (
	"regexp"

	"lilypad/metal"
)

// domain is that of the public codes.
const domain = "MTLCommandBufferErrorDomain"

// reason finds the kernel's own word in an error's description, such as
// "Caused GPU Hang Error (00000003:kIOGPUCommandBufferCallbackErrorHang)". Virtual GPUs say kIOAccel for kIOGPU.
var reason = regexp.MustCompile(`kIO(?:GPU|Accel)CommandBufferCallbackError([A-Za-z]+)`)

// byReason goes first: a hang has the public code of a timeout, and a pass that kept the display waiting that of an
// internal error.
var byReason = map[string]metal.Failure{
	"Timeout":                         metal.Timeout,
	"Hang":                            metal.Hang,
	"SubmissionsIgnored":              metal.Ignored,
	"InnocentVictim":                  metal.Victim,
	"BackgroundExecutionNotPermitted": metal.Revoked,
	"OutOfMemory":                     metal.OutOfMemory,
	"InvalidResource":                 metal.InvalidUse,
	"InvalidInput":                    metal.InvalidUse,
	"PageFault":                       metal.PageFault,
	"ProtectionViolation":             metal.PageFault,
	"ImpactingInteractivity":          metal.Impacting,
}

// byCode has the values of MTLCommandBufferError that tell something.
var byCode = map[int]metal.Failure{
	2:  metal.Timeout,
	3:  metal.PageFault,
	4:  metal.Revoked, // AccessRevoked
	7:  metal.Revoked, // NotPermitted
	8:  metal.OutOfMemory,
	9:  metal.InvalidUse, // InvalidResource
	11: metal.Revoked,    // DeviceRemoved
}

// classify reads the error of a command buffer: the word in its description, then its code.
func classify(description, errorDomain string, code int) metal.Failure {
	if m := reason.FindStringSubmatch(description); m != nil {
		if f, ok := byReason[m[1]]; ok {
			return f
		}
	}
	if f, ok := byCode[code]; ok && errorDomain == domain {
		return f
	}
	return metal.Failed
}
