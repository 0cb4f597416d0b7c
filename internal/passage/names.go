package passage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/people/session"
	"github.com/muster-dev/muster/internal/people/signin"
)

// Names says what the users and groups of tokens are called, where the API server does not say it.
type Names struct {
	// Issuer is the provider.
	Issuer string
	// User and Groups are claims. UserPrefix and GroupsPrefix precede their values, and are not empty.
	User, UserPrefix     string
	Groups, GroupsPrefix string
}

// system begins names that Kubernetes keeps for itself.
const system = "system:"

// of returns the caller whom the claims of a token name.
func (n Names) of(token signin.Token) (session.Caller, error) {
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return session.Caller{}, fmt.Errorf("reading the claims of a token: %w", err)
	}
	name, _ := claims[n.User].(string)
	if name == "" {
		return session.Caller{}, fmt.Errorf("the token of %s has no claim %q with a name: an administrator sets usernameClaim", n.Issuer, n.User)
	}
	if verified, ok := claims["email_verified"].(bool); n.User == "email" && ok && !verified {
		return session.Caller{}, errors.New("the provider has not verified your address: confirm it there, and sign in again")
	}
	who := session.Caller{User: n.UserPrefix + name}
	if strings.HasPrefix(who.User, system) {
		return session.Caller{}, fmt.Errorf("%.60s: names that begin with %s are those of Kubernetes itself", who.User, system)
	}
	for _, group := range texts(claims[n.Groups]) {
		if group = n.GroupsPrefix + group; !strings.HasPrefix(group, system) {
			who.Groups = append(who.Groups, group)
		}
	}
	slices.Sort(who.Groups)
	who.Groups = slices.Compact(who.Groups)
	return who, nil
}

// texts returns the texts of a claim: one, or a list.
func texts(claim any) []string {
	switch value := claim.(type) {
	case string:
		return []string{value}
	case []any:
		var all []string
		for _, one := range value {
			if text, ok := one.(string); ok && text != "" {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}
