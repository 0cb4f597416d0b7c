package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoadConsole(t *testing.T) {
	const oidc = "oidc:\n  issuer: https://sso.example.org/realms/lab\n  clientID: muster\n"
	complete := func(change func(*Console)) *Console {
		c := &Console{Port: 6490, OIDC: &OIDC{Issuer: "https://sso.example.org/realms/lab", ClientID: "muster", Scopes: []string{"profile", "email"},
			UsernameClaim: "sub", GroupsClaim: "groups", UsernamePrefix: "oidc:", GroupsPrefix: "oidc:"}}
		change(c)
		return c
	}
	for _, c := range []struct {
		name, text string
		want       *Console
		says       string
	}{
		{name: "at loopback", text: oidc, want: complete(func(*Console) {})},
		{name: "behind a proxy", text: oidc + "url: https://gpu.example.org/muster\nproxies: [10.0.0.0/8]\naddress: 0.0.0.0\nport: 7000\n", want: complete(func(c *Console) {
			c.URL, c.Proxies, c.Address, c.Port = "https://gpu.example.org/muster", []string{"10.0.0.0/8"}, "0.0.0.0", 7000
		})},
		{name: "everything", text: oidc + "  clientSecretFile: /s\n  scopes: []\n  usernameClaim: email\n  usernamePrefix: sso-\n  impersonate: true\n  impersonateGroups: [\"oidc:vision\"]\n", want: complete(func(c *Console) {
			c.OIDC.ClientSecretFile, c.OIDC.Scopes, c.OIDC.UsernameClaim, c.OIDC.UsernamePrefix = "/s", []string{}, "email", "sso-"
			c.OIDC.Impersonate, c.OIDC.ImpersonateGroups = true, []string{"oidc:vision"}
		})},
		{name: "no provider", text: "port: 7000\n", says: "oidc is missing"},
		{name: "turned off", text: oidc + "disabled: true\n", says: "leave out --console"},
		{name: "misspelt", text: oidc + "  secret: x\n", says: `unknown field "secret"`},
		{name: "provider over http", text: "oidc: {issuer: http://sso, clientID: a}\n", says: `issuer "http://sso": give`},
		{name: "no client", text: "oidc: {issuer: https://sso}\n", says: "clientID is empty"},
		{name: "relative file", text: oidc + "  clientSecretFile: s\n", says: "absolute path"},
		{name: "two scopes in one", text: oidc + "  scopes: [profile email]\n", says: `scopes: "profile email"`},
		{name: "prefix of the system", text: oidc + "  groupsPrefix: \"system:\"\n", says: "of Kubernetes itself"},
		{name: "group of the system", text: oidc + "  impersonate: true\n  impersonateGroups: [\"system:masters\"]\n", says: "impersonateGroups"},
		{name: "groups alone", text: oidc + "  impersonateGroups: [\"oidc:a\"]\n", says: "set impersonate, too"},
		{name: "open without url", text: oidc + "address: 0.0.0.0\n", says: "give a certificate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "console.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := LoadConsole(file)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
