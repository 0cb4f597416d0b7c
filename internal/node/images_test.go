package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/node/image"
)

func TestArgvOf(t *testing.T) {
	img := image.Image{Entrypoint: []string{"/entry", "-x"}, Command: []string{"serve"}}
	for name, c := range map[string]struct {
		img           image.Image
		command, args []string
		want          []string
	}{
		"neither":                {img: img, want: []string{"/entry", "-x", "serve"}},
		"arguments":              {img: img, args: []string{"train"}, want: []string{"/entry", "-x", "train"}},
		"a command":              {img: img, command: []string{"sh"}, want: []string{"sh"}},
		"both":                   {img: img, command: []string{"sh"}, args: []string{"-c", "x"}, want: []string{"sh", "-c", "x"}},
		"no entry point":         {img: image.Image{Command: []string{"serve"}}, want: []string{"serve"}},
		"nothing is said at all": {},
	} {
		got := argvOf(&corev1.Container{Command: c.command, Args: c.args}, c.img)
		if strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAccountOf(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name, user string
		uid, gid   *int64
		nonRoot    bool
		want, err  string
	}{
		{name: "nothing said", want: "0"},
		{name: "the image's", user: "jupyter:users", want: "jupyter:users"},
		{name: "the pod's before the image's", user: "jupyter:users", uid: number(1000), want: "1000"},
		{name: "a group beside the image's user", user: "jupyter:users", gid: number(5), want: "jupyter:5"},
		{name: "both", uid: number(1000), gid: number(5), want: "1000:5"},
		{name: "not root, and is not", user: "1000", nonRoot: true, want: "1000"},
		{name: "not root, and is", nonRoot: true, err: "runs as root: set runAsUser"},
		{name: "not root, and is 0", user: "0:0", nonRoot: true, err: "runs as root"},
		{name: "not root, and a name like a number", user: "+1000", nonRoot: true, err: `runs as "+1000", of which it is not known`},
		{name: "not root, and a number of no user", user: "4294967296", nonRoot: true, err: "of which it is not known"},
		{name: "not root, and nobody knows", user: "jupyter", nonRoot: true, err: `runs as "jupyter", of which it is not known`},
		{name: "not root, and the pod says who", user: "jupyter", uid: number(7), nonRoot: true, want: "7"},
	} {
		got, err := accountOf(image.Image{Name: "i", User: c.user}, c.uid, c.gid, c.nonRoot)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want an error with %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
