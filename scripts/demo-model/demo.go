// Package demomodel embeds the demo checkpoint, Qwen3.6's architecture at toy size, so that a fresh machine answers real
// questions with no download. The Python files beside it made the checkpoint. It must not import anything of ours.
package demomodel

import (
	"embed"
	"io/fs"
)

//go:embed checkpoint
var files embed.FS

// Name is the model id of the demo checkpoint.
const Name = "lilypad-demo"

// FS returns the checkpoint's directory.
func FS() fs.FS {
	sub, err := fs.Sub(files, "checkpoint")
	if err != nil {
		panic("BUG: the embedded demo checkpoint has no folder: " + err.Error())
	}
	return sub
}
