package pack

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/muster-dev/muster/internal/data/digest"
)

// MaxBlob is how long a blob may be.
const MaxBlob = 1 << 30

// sampled is from which length on a part is tried before the whole is compressed.
const (
	sampled    = 64 << 10
	sampleSize = 4 << 10
)

// Codec compresses and decompresses. It may be used by many at once.
type Codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// NewCodec makes a codec for so many who compress at once.
func NewCodec(workers int) (*Codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers),
		zstd.WithEncoderCRC(false), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, fmt.Errorf("making a compressor: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxMemory(MaxBlob), zstd.IgnoreChecksum(true))
	if err != nil {
		return nil, fmt.Errorf("making a decompressor: %w", err)
	}
	return &Codec{enc: enc, dec: dec}, nil
}

// Close gives back what the codec holds.
func (c *Codec) Close() error {
	c.dec.Close()
	return c.enc.Close()
}

// Encode is a blob as it should be stored: compressed into buf, which may grow, or
// raw itself where that saves less than a sixteenth.
func (c *Codec) Encode(raw, buf []byte) []byte {
	if len(raw) < 32 || len(raw) >= sampled && !c.promising(raw, buf) {
		return raw
	}
	if out := c.enc.EncodeAll(raw, buf[:0]); len(out) <= len(raw)-len(raw)/16-1 {
		return out
	}
	return raw
}

// promising tries a few parts of a long blob.
func (c *Codec) promising(raw, buf []byte) bool {
	const samples = 4
	size, step := 0, len(raw)/samples
	for i := range samples {
		buf = c.enc.EncodeAll(raw[i*step:i*step+sampleSize], buf[:0])
		size += len(buf)
	}
	return size <= samples*sampleSize*15/16
}

// Decode is the raw blob of what is stored at a place. Without compression it is
// stored itself; else it is written into buf, if that is long enough.
func (c *Codec) Decode(at Place, stored, buf []byte) ([]byte, error) {
	if at.Stored == at.Raw {
		return stored, nil
	}
	if at.Stored > at.Raw || at.Raw > MaxBlob {
		return nil, fmt.Errorf("%s: %d bytes stored for %d: %w", at, at.Stored, at.Raw, ErrDamaged)
	}
	if cap(buf) < int(at.Raw) {
		buf = make([]byte, 0, at.Raw)
	}
	raw, err := c.dec.DecodeAll(stored, buf[:0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", at, ErrDamaged, err)
	}
	if len(raw) != int(at.Raw) {
		return nil, fmt.Errorf("%s: %d bytes instead of %d: %w", at, len(raw), at.Raw, ErrDamaged)
	}
	return raw, nil
}

// Check says whether a raw blob is what its name says.
func Check(id digest.ID, kind Kind, raw []byte) error {
	switch kind {
	case Data:
		if found := digest.Of(raw); found != id {
			return fmt.Errorf("content %s instead of %s: %w", found.Short(), id.Short(), ErrDamaged)
		}
		return nil
	case List, Node:
		_, _, err := Split(id, raw)
		return err
	}
	return fmt.Errorf("blob %s is of no known kind (%d): %w", id.Short(), kind, ErrDamaged)
}
