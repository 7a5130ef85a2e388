//go:build !(darwin && arm64)

package apple

import "errors"

func load() (*objc, error) {
	return nil, errors.New("it exists on Macs with Apple silicon only")
}
