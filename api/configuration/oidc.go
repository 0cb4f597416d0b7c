package configuration

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// OIDC is a provider of OpenID Connect, such as Keycloak, Dex, Entra ID or Google.
type OIDC struct {
	// Issuer is the address of the provider, as in its tokens: https://sso.example.org/realms/lab.
	Issuer string `json:"issuer"`
	// ClientID is Muster's name at the provider. Where the API server trusts the provider, use its client:
	// the API server checks the audience of tokens.
	ClientID string `json:"clientID"`
	// ClientSecretFile is a file with the client's secret; it is read again for each sign-in. Empty: a
	// public client.
	ClientSecretFile string `json:"clientSecretFile,omitempty"`
	// Scopes are asked for beside openid. Default: profile and email. With offline_access most providers
	// renew tokens; without, a sign-in ends with its token.
	Scopes []string `json:"scopes,omitempty"`
	// UsernameClaim and GroupsClaim name the claims with the names of users and groups, where the API server
	// does not trust the provider. Default: sub and groups.
	UsernameClaim string `json:"usernameClaim,omitempty"`
	GroupsClaim   string `json:"groupsClaim,omitempty"`
	// UsernamePrefix and GroupsPrefix precede these names. Default: "oidc:".
	UsernamePrefix string `json:"usernamePrefix,omitempty"`
	GroupsPrefix   string `json:"groupsPrefix,omitempty"`
	// Impersonate lets the manager act as users where the API server does not trust the provider, within
	// the verbs and resources of a role (constrained impersonation, Kubernetes 1.36). Default: false.
	Impersonate bool `json:"impersonate,omitempty"`
	// ImpersonateGroups are the only groups, with their prefix, that it passes on. Default: none.
	ImpersonateGroups []string `json:"impersonateGroups,omitempty"`
}

// managerPort is the port of the console in a pod.
const managerPort = 6490

var scope = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]+$`) // RFC 6749

// LoadConsole reads the console of a cluster's manager: the fields of console in config.yaml, with oidc.
func LoadConsole(file string) (Console, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Console{}, fmt.Errorf("reading the configuration of the console: %w", err)
	}
	var c Console
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return Console{}, fmt.Errorf("reading the configuration of the console %s: %w", file, err)
	}
	if err := c.complete(); err != nil {
		return Console{}, fmt.Errorf("reading the configuration of the console %s: %w", file, err)
	}
	return c, nil
}

// complete checks the console of a manager, and adds what was left out.
func (c *Console) complete() error {
	if c.OIDC == nil {
		return errors.New("oidc is missing: people sign in to the console of a cluster at a provider of OpenID Connect")
	}
	if c.Disabled {
		return errors.New("disabled: leave out --console instead")
	}
	c.Port = cmp.Or(c.Port, managerPort)
	if err := c.check(); err != nil {
		return err
	}
	if address, err := netip.ParseAddr(c.Address); err == nil && !address.IsLoopback() && c.URL == "" {
		return fmt.Errorf("address %s: it needs url, the address for browsers, such as https://gpu.example.org/muster", c.Address)
	}
	if err := c.OIDC.complete(); err != nil {
		return fmt.Errorf("oidc: %w", err)
	}
	return nil
}

func (o *OIDC) complete() error {
	issuer, err := url.Parse(o.Issuer)
	if err != nil || issuer.Scheme != "https" || issuer.Host == "" || issuer.User != nil || issuer.RawQuery != "" || issuer.Fragment != "" {
		return fmt.Errorf("issuer %q: give the address of the provider, with https, as it is in its tokens, such as https://sso.example.org/realms/lab", o.Issuer)
	}
	if o.ClientID == "" {
		return errors.New("clientID is empty: give Muster's name at the provider")
	}
	if o.ClientSecretFile != "" && !filepath.IsAbs(o.ClientSecretFile) {
		return fmt.Errorf("clientSecretFile: %q: give an absolute path", o.ClientSecretFile)
	}
	if o.Scopes == nil {
		o.Scopes = []string{"profile", "email"}
	}
	for _, s := range o.Scopes {
		if !scope.MatchString(s) || s == "openid" {
			return fmt.Errorf("scopes: %q: give words without spaces beside openid, such as offline_access", s)
		}
	}
	o.UsernameClaim, o.GroupsClaim = cmp.Or(o.UsernameClaim, "sub"), cmp.Or(o.GroupsClaim, "groups")
	o.UsernamePrefix, o.GroupsPrefix = cmp.Or(o.UsernamePrefix, "oidc:"), cmp.Or(o.GroupsPrefix, "oidc:")
	if slices.ContainsFunc([]string{o.UsernamePrefix, o.GroupsPrefix}, reserved) {
		return fmt.Errorf("usernamePrefix %q, groupsPrefix %q: names that begin with system: are those of Kubernetes itself", o.UsernamePrefix, o.GroupsPrefix)
	}
	if i := slices.IndexFunc(o.ImpersonateGroups, func(g string) bool { return g == "" || reserved(g) }); i >= 0 {
		return fmt.Errorf("impersonateGroups: %q: give groups with their prefix, such as oidc:vision; names that begin with system: are those of Kubernetes itself", o.ImpersonateGroups[i])
	}
	if len(o.ImpersonateGroups) > 0 && !o.Impersonate {
		return errors.New("impersonateGroups: set impersonate, too")
	}
	return nil
}

// reserved reports whether names with a prefix can be those of Kubernetes.
func reserved(prefix string) bool { return strings.HasPrefix(prefix, "system:") }
