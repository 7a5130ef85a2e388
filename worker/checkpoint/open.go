package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"lilypad/protocol"
)

// Options say how to load. The zero value loads everything as stored.
type Options struct {
	// Quantize 4 or 8 quantises unquantised linear modules while loading (MLX affine, groups of 64; router and shared-
	// expert gate always at 8); 0 runs them as stored.
	Quantize int
	// WeightsOnly allows a directory without tokenizer.json, as for a check of the forward pass alone.
	WeightsOnly bool
	// Progress, if set, hears of bytes made ready, from one goroutine at a time; the last call has done == total.
	Progress func(done, total int64)
}

// Open loads the checkpoint in a directory, mapping its weights. Whatever keeps the directory from running is an error
// of protocol.CodeCheckpoint whose text is one sentence for a person.
func Open(dir string, opt Options) (*Checkpoint, error) {
	if err := checkDirectory(dir); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, refuse("%s: %v", dir, err)
	}
	d := directory{
		name: dir,
		fsys: os.DirFS(dir),
		open: func(file string) ([]byte, func() error, error) { return mapFile(filepath.Join(dir, file)) },
	}
	return d.load(filepath.Base(abs), opt)
}

// OpenFS loads the checkpoint at the root of fsys under the given name. It reads whole files.
func OpenFS(fsys fs.FS, name string, opt Options) (*Checkpoint, error) {
	d := directory{
		name: name,
		fsys: fsys,
		open: func(file string) ([]byte, func() error, error) {
			data, err := fs.ReadFile(fsys, file)
			return data, func() error { return nil }, err
		},
	}
	return d.load(name, opt)
}

// Close unmaps the weights; no Matrix may be used afterwards. It is safe to call twice.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.closers {
		errs = append(errs, f())
	}
	c.closers = nil
	return errors.Join(errs...)
}

// load reads everything and checks it. Small files come first, so that a wrong directory is refused at once.
func (d *directory) load(name string, opt Options) (_ *Checkpoint, err error) {
	if opt.Quantize != 0 && opt.Quantize != 4 && opt.Quantize != 8 {
		return nil, protocol.Errorf(protocol.CodeInvalid, "quantize is %d, want 4, 8 or 0 for weights as stored", opt.Quantize)
	}
	c := &Checkpoint{Name: name}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	configJSON, err := d.config()
	if err != nil {
		return nil, err
	}
	cfg, err := parseConfig(configJSON)
	if err != nil {
		return nil, err
	}
	c.Shape = cfg.shape
	if err := d.companions(c, cfg, opt.WeightsOnly); err != nil {
		return nil, err
	}
	shards, err := d.shards()
	for _, s := range shards {
		c.closers = append(c.closers, s.close)
	}
	if err != nil {
		return nil, err
	}
	l, err := newLoader(cfg, shards, opt)
	if err != nil {
		return nil, err
	}
	if err := l.assemble(&c.Weights); err != nil {
		return nil, err
	}
	quantized := l.quantize(&c.Weights)
	c.Bytes = c.Weights.bytes(c.Shape.Tied)
	c.ID = identity(configJSON, c.Tokenizer, shards, quantized)
	l.progress.finish()
	return c, nil
}
