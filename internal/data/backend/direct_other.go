//go:build !linux

package backend

import "os"

// direct is Linux's flag to write past the page cache; other systems write through
// the cache.
const direct = 0

// beginWriting is a hint that only Linux takes.
func beginWriting(*os.File, int64, int64) {}
