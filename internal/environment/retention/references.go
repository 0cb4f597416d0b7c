package retention

import "strings"

// hashDigits is the length of the hash in every digest and key.
const hashDigits = 64

// References are the things that somebody refers to. The zero value is empty;
// references are collected with [References.Mention].
type References struct {
	hashes map[string]bool
}

// Mention takes every hash that the text holds, wherever it stands, for a
// reference: a digest, a key, a path below an environment, in JSON or not. A
// field that is added some day is then a reference as well; taking too much
// for one only keeps it longer.
func (r *References) Mention(text string) {
	for at := 0; at < len(text); {
		if !isHexDigit(text[at]) {
			at++
			continue
		}
		end := at
		for end < len(text) && isHexDigit(text[end]) {
			end++
		}
		if end-at == hashDigits {
			if r.hashes == nil {
				r.hashes = map[string]bool{}
			}
			r.hashes[text[at:end]] = true
		}
		at = end
	}
}

// Add adds the references of another.
func (r *References) Add(other References) {
	if r.hashes == nil && len(other.hashes) > 0 {
		r.hashes = make(map[string]bool, len(other.hashes))
	}
	for hash := range other.hashes {
		r.hashes[hash] = true
	}
}

// Has reports whether somebody refers to the thing with the given name, a
// digest ("sha256:<hash>") or a key (the hash alone).
func (r *References) Has(name string) bool {
	return r.hashes[name[strings.LastIndexByte(name, ':')+1:]]
}

// Len is how many things somebody refers to.
func (r *References) Len() int { return len(r.hashes) }

func isHexDigit(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }
