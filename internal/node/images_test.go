package node

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestCredentialsIn(t *testing.T) {
	// "dTpwOnE=" is u:p:q.
	for name, c := range map[string]struct {
		secret corev1.Secret
		want   []image.Credential
		err    string
	}{
		"as kubectl writes it": {secret: corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(`{"auths":{"b.example":{"username":"u","password":"p","auth":"x"},"a.example":{"auth":"dTpwOnE="}}}`)}},
			want: []image.Credential{{Registry: "a.example", Username: "u", Password: "p:q"}, {Registry: "b.example", Username: "u", Password: "p"}}},
		"the old kind": {secret: corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{
			corev1.DockerConfigKey: []byte(`{"https://index.docker.io/v1/":{"auth":"dTpwOnE="}}`)}},
			want: []image.Credential{{Registry: "https://index.docker.io/v1/", Username: "u", Password: "p:q"}}},
		"a token": {secret: corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			corev1.DockerConfigJsonKey: []byte(`{"auths":{"a.example":{"username":"u","identitytoken":"t"}}}`)}},
			want: []image.Credential{{Registry: "a.example", Password: "t"}}},
		"another kind": {secret: corev1.Secret{Type: corev1.SecretTypeOpaque}, err: "kubectl create secret docker-registry"},
		"no JSON":      {secret: corev1.Secret{Type: corev1.SecretTypeDockerConfigJson}, err: "reading what it says of registries"},
		"no base64": {secret: corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{
			corev1.DockerConfigKey: []byte(`{"a.example":{"auth":"?"}}`)}}, err: "the credential for a.example"},
	} {
		got, err := credentialsIn(&c.secret)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want an error with %q", name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
