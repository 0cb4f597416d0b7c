package manifest

import (
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestUser(t *testing.T) {
	for name, c := range map[string]struct {
		who, authenticated, want string
	}{
		"at one of her machines":    {"ada@box", "", "ada"},
		"without a machine":         {"ada", "", "ada"},
		"nobody":                    {"", "", ""},
		"authenticated, an address": {"ada@example.com", "true", "ada@example.com"},
		"authenticated, an account": {"system:serviceaccount:ada:ada", "true", "system:serviceaccount:ada:ada"},
		"nonsense beside it":        {"ada@box", "yes", "ada"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{v1alpha1.AnnotationSubmitter: c.who}
			if c.authenticated != "" {
				annotations[v1alpha1.AnnotationAuthenticated] = c.authenticated
			}
			if got := User(annotations); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
