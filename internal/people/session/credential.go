package session

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
)

const (
	// renewalBytes bounds a renewal that is stored; a longer one ends with the process.
	renewalBytes = 4 << 10
	// sealedBytes is a renewal with its nonce and tag.
	sealedBytes = renewalBytes + 64
)

// Credential is what a session shows to another server. It prints as "[secret]".
type Credential struct {
	// Current is what counts now. It ends with the process.
	Current string
	// Renewal gets another Current. It survives a restart.
	Renewal string
}

// Format implements [fmt.Formatter].
func (c Credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements [encoding.TextMarshaler], which JSON uses.
func (c Credential) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Credential returns the newest credential of the session; an empty one if it has none. After a restart
// it has the renewal only.
func (g Grant) Credential() Credential {
	if g.Kind != KindSession || g.table == nil {
		return Credential{}
	}
	g.table.mu.Lock()
	defer g.table.mu.Unlock()
	r := g.table.records[g.ID]
	if r == nil {
		return Credential{}
	}
	if r.credential == (Credential{}) && len(r.Sealed) > 0 {
		r.credential.Renewal = unseal(r.Sealed, g.cookie, g.ID)
	}
	return r.credential
}

// Renew replaces the credential of the session. The table stores the renewal with its next flush.
func (g Grant) Renew(c Credential) {
	if g.Kind != KindSession || g.table == nil {
		return
	}
	g.table.mu.Lock()
	defer g.table.mu.Unlock()
	r := g.table.records[g.ID]
	if r == nil {
		return
	}
	if c.Renewal != r.credential.Renewal {
		r.Sealed = seal(c.Renewal, g.cookie, g.ID)
		g.table.dirty = true
	}
	r.credential = c
}

// seal encrypts a renewal with a key of the cookie, for one session. It returns nil for one that is empty
// or too long.
func seal(renewal, cookie, id string) []byte {
	if renewal == "" || len(renewal) > renewalBytes {
		return nil
	}
	box, err := boxOf(cookie)
	if err != nil {
		return nil
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the program instead
	return box.Seal(nonce, nonce, []byte(renewal), []byte(id))
}

// unseal returns "" for what another cookie has sealed.
func unseal(sealed []byte, cookie, id string) string {
	box, err := boxOf(cookie)
	if err != nil || len(sealed) < box.NonceSize() {
		return ""
	}
	text, err := box.Open(nil, sealed[:box.NonceSize()], sealed[box.NonceSize():], []byte(id))
	if err != nil {
		return ""
	}
	return string(text)
}

// boxOf derives the key from the cookie, which has 256 random bits.
func boxOf(cookie string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(cookie), nil, "muster: credential of a session", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
