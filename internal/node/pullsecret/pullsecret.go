package pullsecret

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/node/image"
)

// login is an entry of the file that docker login writes.
type login struct {
	Username string `json:"username"`
	Password string `json:"password"`
	// Auth is USERNAME:PASSWORD in base64.
	Auth string `json:"auth"`
	// IdentityToken replaces the password after a login.
	IdentityToken string `json:"identitytoken"`
}

// Credentials reads a secret of one of the two kinds that hold credentials
// for registries.
func Credentials(secret *corev1.Secret) ([]image.Credential, error) {
	var logins map[string]login
	var err error
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var file struct {
			Auths map[string]login `json:"auths"`
		}
		err = json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &file)
		logins = file.Auths
	case corev1.SecretTypeDockercfg:
		err = json.Unmarshal(secret.Data[corev1.DockerConfigKey], &logins)
	default:
		return nil, fmt.Errorf("its type %q is neither %s nor %s (kubectl create secret docker-registry makes one)",
			secret.Type, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
	}
	if err != nil {
		return nil, fmt.Errorf("parsing its registry credentials: %w", err)
	}
	var out []image.Credential
	for _, registry := range slices.Sorted(maps.Keys(logins)) {
		l := logins[registry]
		c := image.Credential{Registry: registry, Username: l.Username, Password: l.Password}
		if c.Username == "" && l.Auth != "" {
			both, err := base64.StdEncoding.DecodeString(l.Auth)
			if err != nil {
				return out, fmt.Errorf("reading the credential for %s: %w", registry, err)
			}
			c.Username, c.Password, _ = strings.Cut(strings.TrimRight(string(both), "\x00\n"), ":")
		}
		if l.IdentityToken != "" {
			c.Username, c.Password = "", l.IdentityToken
		}
		out = append(out, c)
	}
	return out, nil
}
