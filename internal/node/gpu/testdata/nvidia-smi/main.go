// Command nvidia-smi answers as NVIDIA's does on a machine with one GPU, provided that
// it finds the driver's libraries where programs look, or where it is told to.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", os.Getenv("LD_LIBRARY_PATH")} {
		if found, err := filepath.Glob(filepath.Join("/", dir, "libcuda.so.*")); err == nil && len(found) > 0 {
			answer()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.")
	os.Exit(12)
}

func answer() {
	switch asked := strings.Join(os.Args[1:], " "); {
	case strings.HasPrefix(asked, "--query-gpu="):
		fmt.Println("0, GPU-c2e716b0-23d1-b77a-74c8-446fa243a05c, 00000000:00:06.0, 81559, 0, 0, 70.1, 38, Disabled, NVIDIA H100 80GB HBM3")
	case strings.HasPrefix(asked, "--query "):
		fmt.Println("    Minor Number                          : 4")
	}
}
