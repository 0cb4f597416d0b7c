//go:build !nvml || !cgo

package gpu

import (
	"context"
	"fmt"
)

func openNVML(context.Context, func(uint32) string) (Source, error) {
	return nil, fmt.Errorf("opening NVML: %w", errNotBuiltIn)
}
