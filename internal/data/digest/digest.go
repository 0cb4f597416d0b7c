// Package digest owns the name of content: a hash of its bytes.
//
// The hash is BLAKE3 (J. O'Connor et al., 2020); docs/design/open/005-data.md has
// the figures of what else was measured. It must not know what is named.
package digest

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// Size is the length of an ID in bytes.
const Size = 32

// ID names content. The zero ID names nothing.
type ID [Size]byte

// Of is the ID of some bytes.
func Of(content []byte) ID { return blake3.Sum256(content) }

// IsZero says that an ID names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// String is the ID in 64 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Short is its beginning, enough for people to tell commits apart.
func (id ID) Short() string { return hex.EncodeToString(id[:6]) }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	*id = parsed
	return err
}

// Parse reads what [ID.String] wrote.
func Parse(text string) (ID, error) {
	var id ID
	if len(text) != 2*Size {
		return ID{}, fmt.Errorf("%q is no hash: it has %d characters instead of %d", text, len(text), 2*Size)
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return ID{}, fmt.Errorf("%q is no hash: %w", text, err)
	}
	return id, nil
}
