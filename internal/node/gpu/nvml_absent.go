//go:build !nvml || !cgo

package gpu

import (
	"context"
	"fmt"
)

func openNVML(context.Context) (Source, error) {
	return nil, fmt.Errorf("opening NVML: %w", errNotBuiltIn)
}
