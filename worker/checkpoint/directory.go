package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxText bounds the JSON and template files; tokenizer.json of the family has about 20 MB.
const maxText = 256 << 20

// directory is where a checkpoint's files are.
type directory struct {
	name string // for messages
	fsys fs.FS
	open func(file string) (data []byte, close func() error, err error) // a weights file, mapped or read
}

// checkDirectory refuses a path that is no directory, saying what to give instead.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("%s does not exist; give the directory that holds the model's config.json", dir)
	case err != nil:
		return refuse("%s can't be opened: %v", dir, err)
	case info.IsDir():
		return nil
	case strings.HasSuffix(strings.ToLower(dir), ".gguf"):
		return refuse("%s is a GGUF file, which Lilypad does not read; give a directory with the model's safetensors files and config.json", dir)
	}
	return refuse("%s is a file; give the directory that holds the model's config.json", dir)
}

// config returns config.json, or says what the directory lacks.
func (d *directory) config() ([]byte, error) {
	data, err := d.read("config.json")
	if data != nil || err != nil {
		return data, err
	}
	if gguf, _ := fs.Glob(d.fsys, "*.gguf"); len(gguf) > 0 {
		return nil, refuse("%s holds the GGUF file %s, which Lilypad does not read; give a directory with the model's safetensors files and config.json", d.name, gguf[0])
	}
	return nil, refuse("%s has no config.json; give the directory that holds the model's config.json", d.name)
}

// read returns a text file, nil if it doesn't exist.
func (d *directory) read(file string) ([]byte, error) {
	info, err := fs.Stat(d.fsys, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, refuse("%s can't be opened: %v", file, err)
	case !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		return nil, refuse("%s is no regular file", file)
	}
	f, err := d.fsys.Open(file)
	if err != nil {
		return nil, refuse("%s can't be opened: %v", file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err != nil {
		return nil, refuse("%s can't be read: %v", file, err)
	}
	if len(data) > maxText {
		return nil, refuse("%s has more than %d bytes", file, maxText)
	}
	if data == nil {
		data = []byte{}
	}
	return data, checkPointer(file, data)
}

// checkPointer refuses what Git leaves in place of a large file that was not fetched.
func checkPointer(file string, data []byte) error {
	if bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")) {
		return refuse("%s is a Git LFS pointer of %d bytes instead of the file itself; run git lfs pull in the model's directory", file, len(data))
	}
	return nil
}
