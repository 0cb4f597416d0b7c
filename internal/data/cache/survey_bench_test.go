package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkSurvey looks at 10,000 files in 10 folders.
func BenchmarkSurvey(b *testing.B) {
	dir := b.TempDir()
	for i := range 10_000 {
		path := filepath.Join(dir, fmt.Sprintf("d%d", i%10), fmt.Sprintf("f%06d", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for name, each := range map[string]bool{"each": true, "guarded": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if files, _, err := survey(b.Context(), dir, each); err != nil || files != 10_000 {
					b.Fatal(files, err)
				}
			}
		})
	}
}
