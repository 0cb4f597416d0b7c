package pullsecret

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/node/image"
)

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
		"no JSON":      {secret: corev1.Secret{Type: corev1.SecretTypeDockerConfigJson}, err: "parsing its registry credentials"},
		"no base64": {secret: corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{
			corev1.DockerConfigKey: []byte(`{"a.example":{"auth":"?"}}`)}}, err: "the credential for a.example"},
	} {
		got, err := Credentials(&c.secret)
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
