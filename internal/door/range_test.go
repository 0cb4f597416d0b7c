package door

import (
	"fmt"
	"testing"
)

// FuzzReadRange: a range that is taken is not empty, not larger than a pack, and written in one
// way, but for zeros and signs.
func FuzzReadRange(f *testing.F) {
	for _, text := range []string{"bytes=0-4095", "bytes=5-4", "bytes=-5", "bytes=0-9223372036854775807", "bytes=9223372036854775807-9223372036854775807", "bytes=+1-+2", "bytes=0-1,3-4"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		offset, length, err := readRange(text)
		if err != nil {
			return
		}
		if offset < 0 || length < 1 || length > packBytes || offset+length < offset {
			t.Fatalf("%q is %d bytes from %d", text, length, offset)
		}
		again, size, err := readRange(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
		if err != nil || again != offset || size != length {
			t.Fatalf("%q is %d from %d, and then %d from %d, %v", text, length, offset, size, again, err)
		}
	})
}
