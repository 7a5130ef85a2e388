package checkpoint

import "lilypad/protocol"

// refuse makes the error for a directory that can't run: one sentence for a person, which names the file, the tensor or
// field, and both numbers.
func refuse(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeCheckpoint, format, args...)
}
