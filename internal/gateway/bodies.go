package gateway

import "sync"

// bodies are memory of bodies that nobody reads any more, for the next ones: at a
// thousand short files a second the collector would come for little else. The zero
// value has none.
type bodies struct{ pool sync.Pool }

// take is memory for so many bytes, which hold anything.
func (b *bodies) take(length int) []byte {
	if body, ok := b.pool.Get().(*[]byte); ok && cap(*body) >= length {
		return (*body)[:length]
	}
	return make([]byte, length)
}

// give takes the memory of changes whose sessions are over.
func (b *bodies) give(changes []*change) {
	for _, c := range changes {
		if body := c.content.Bytes; cap(body) > 0 {
			b.pool.Put(&body)
		}
	}
}
