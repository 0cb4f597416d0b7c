package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

const (
	idBytes     = 8
	randomBytes = 32
	hidden      = "[secret]"
)

// kindLink is the kind of links, which no table lists.
const kindLink Kind = "link"

// prefix starts every secret, so that a scan of logs and repositories finds one that leaked.
const prefix = "muster-"

// Secret is the cookie or key of a session, a token or a link. It prints as "[secret]", whatever
// the verb, and as JSON too: only [Secret.Reveal] returns it.
type Secret struct{ text string }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return s.text }

// Format implements [fmt.Formatter].
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements [encoding.TextMarshaler], which JSON uses.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// digest is the hash of a secret. A secret has 256 random bits, so a plain hash is enough.
type digest [sha256.Size]byte

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// equal compares in constant time.
func (d digest) equal(other digest) bool { return subtle.ConstantTimeCompare(d[:], other[:]) == 1 }

func random(bytes int) []byte {
	text := make([]byte, bytes)
	_, _ = rand.Read(text) // never fails: crypto/rand ends the program instead
	return text
}

// newSecret returns a secret of a kind and its ID.
func newSecret(kind Kind) (id string, _ Secret) {
	id = hex.EncodeToString(random(idBytes))
	return id, Secret{prefix + string(kind) + "." + id + "." + base64.RawURLEncoding.EncodeToString(random(randomBytes))}
}

func newKey() Secret { return Secret{base64.RawURLEncoding.EncodeToString(random(randomBytes))} }

// identify returns the ID in a secret of a kind. Each secret has one spelling.
func identify(kind Kind, text string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(text, prefix+string(kind)+".")
	if !ok {
		return "", false
	}
	id, secret, ok := strings.Cut(rest, ".")
	if !ok || !validID(id) || len(secret) != base64.RawURLEncoding.EncodedLen(randomBytes) {
		return "", false
	}
	_, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	return id, err == nil
}

func validID(id string) bool {
	if len(id) != hex.EncodedLen(idBytes) || strings.ToLower(id) != id {
		return false
	}
	_, err := hex.DecodeString(id)
	return err == nil
}

// Reveals reports whether a text contains a secret of this package, at any place.
func Reveals(text string) bool {
	for _, kind := range []Kind{KindSession, KindToken, kindLink} {
		if strings.Contains(text, prefix+string(kind)+".") {
			return true
		}
	}
	return false
}
