package environment

import (
	"fmt"
	"net/url"
	"strings"
)

// Password returns an error for the first line that has a user or a password in an
// address: every reader of the job could see it.
func Password(text string) error {
	for _, l := range joinLines(splitLines(text)) {
		content := strings.TrimSpace(comment.ReplaceAllString(l.text, ""))
		for _, found := range address.FindAllString(content, -1) {
			u, err := url.Parse(found)
			if err == nil && u.User == nil || Mask(found) == found {
				continue
			}
			return fmt.Errorf("line %d: %q has a user or password in it, which every reader of the job could see; leave it out, and name a Secret with it (environment.indexSecret; muster run --index-secret NAME)", l.number, Mask(content))
		}
	}
	return nil
}

// PasswordIn returns an error for a variable that configures pip or uv, and whose value has
// a user or a password in an address: every reader of the job could see it.
func PasswordIn(name, value string) error {
	upper := strings.ToUpper(name)
	if !strings.HasPrefix(upper, "PIP_") && !strings.HasPrefix(upper, "UV_") || Mask(value) == value {
		return nil
	}
	return fmt.Errorf("%s: %q has a user or password in it, which every reader of the job could see; take the value from a Secret (valueFrom.secretKeyRef in a manifest), or leave it out and name a Secret with the password of the index (environment.indexSecret; muster run --index-secret NAME)", name, Mask(value))
}

// WithoutPasswords returns a text without the users and passwords of its addresses.
func WithoutPasswords(text string) string {
	return strings.ReplaceAll(Mask(text), "://****@", "://")
}
