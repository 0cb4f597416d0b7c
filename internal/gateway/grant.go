package gateway

import (
	"context"
	"errors"
	"strings"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/s3err"
)

// Verb is what a user wants with a dataset, in Kubernetes' words.
type Verb string

// The verbs. List is of the datasets of a namespace.
const (
	Get    Verb = "get"
	List   Verb = "list"
	Update Verb = "update"
)

// Grant is what a key opens: the datasets of a namespace, for a user.
type Grant struct {
	// Secret is what the key's requests are signed with.
	Secret string
	// Namespace is whose datasets are its buckets.
	Namespace string
	// User is whose key it is, Groups what the user is in.
	User   string
	Groups []string
}

// ErrNoKey is what a keyring says of a key that is not there.
var ErrNoKey = errors.New("there is no such access key")

// ErrBusy is what a keyring says when too many ask for keys that it does not know yet.
var ErrBusy = errors.New("too many ask for access keys that are not known yet: come again")

// Keyring knows the keys, and what their users may do. It is asked at every request.
type Keyring interface {
	// Grant is what a key opens; the error wraps [ErrNoKey] where there is none,
	// and [ErrBusy] where that is not known and too many wait to know.
	Grant(ctx context.Context, key string) (Grant, error)
	// May says whether the user of a grant may do that with a dataset of the grant's
	// namespace; the name is empty for [List].
	May(ctx context.Context, g Grant, verb Verb, dataset string) (bool, error)
}

// accounts shows the keyring to versitygw. All keys are administrators there, so that
// nothing is asked of lists and policies that datasets do not have: every method
// of the gateway asks the keyring itself.
type accounts struct{ *Gateway }

var _ auth.IAMService = accounts{}

// GetUserAccount implements [auth.IAMService].
func (a accounts) GetUserAccount(access string) (auth.Account, error) {
	grant, err := a.o.Keyring.Grant(a.life, access)
	switch {
	case errors.Is(err, ErrNoKey):
		return auth.Account{}, auth.ErrNoSuchUser
	case err != nil:
		return auth.Account{}, a.explain(err)
	}
	return auth.Account{Access: strings.Clone(access), Secret: grant.Secret, Role: auth.RoleAdmin}, nil
}

var errManaged = s3err.GetAPIError(s3err.ErrAdminMethodNotSupported)

// CreateAccount implements [auth.IAMService]: it is refused.
func (accounts) CreateAccount(auth.Account) error { return errManaged }

// UpdateUserAccount implements [auth.IAMService]: it is refused.
func (accounts) UpdateUserAccount(string, auth.MutableProps) error { return errManaged }

// DeleteUserAccount implements [auth.IAMService]: it is refused.
func (accounts) DeleteUserAccount(string) error { return errManaged }

// ListUserAccounts implements [auth.IAMService]: it is refused.
func (accounts) ListUserAccounts() ([]auth.Account, error) { return nil, errManaged }

// Shutdown implements [auth.IAMService].
func (accounts) Shutdown() error { return nil }

// asking is the key of a context that says who asks.
type asking struct{}

// call is the context of a request as it may be kept: the server uses its own again
// for the next one.
func (g *Gateway) call(ctx context.Context) context.Context {
	own := context.WithValue(g.life, asking{}, ctx.Value("account"))
	return context.WithValue(own, visiting{}, ctx.Value(visiting{}))
}

// caller is who asks: what their key opens. The request has its turn then.
func (g *Gateway) caller(ctx context.Context) (Grant, error) {
	account, ok := ctx.Value(asking{}).(auth.Account)
	if !ok || account.Access == "" {
		return Grant{}, s3err.GetAPIError(s3err.ErrAccessDenied)
	}
	grant, err := g.o.Keyring.Grant(ctx, account.Access)
	if errors.Is(err, ErrNoKey) {
		return Grant{}, s3err.GetInvalidAccessKeyIdErr(account.Access)
	}
	if err != nil {
		return Grant{}, g.explain(err)
	}
	return grant, g.enter(ctx, g.short, grant.Namespace)
}

// allow refuses what the caller may not do with a dataset.
func (g *Gateway) allow(ctx context.Context, verb Verb, dataset string) (Grant, error) {
	grant, err := g.caller(ctx)
	if err != nil {
		return Grant{}, err
	}
	ok, err := g.o.Keyring.May(ctx, grant, verb, dataset)
	switch {
	case err != nil:
		return Grant{}, g.explain(err)
	case !ok && dataset == "":
		return Grant{}, refusal("AccessDenied", 403, "%s may not %s datasets in namespace %s", grant.User, verb, grant.Namespace)
	case !ok:
		return Grant{}, refusal("AccessDenied", 403, "%s may not %s dataset %s in namespace %s", grant.User, verb, dataset, grant.Namespace)
	}
	return grant, nil
}
