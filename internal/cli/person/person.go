// Package person owns how whoever types is named in what Muster keeps:
// user@host.
//
// It must not know what is signed with the name.
package person

import (
	"context"
	"os"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/account"
)

// everybody is whom the API server of an embedded Muster takes everybody for.
const everybody = "muster-admin"

// Authenticated returns the name by which the API server knows whoever types;
// false where it knows everybody by the same name, or does not say.
func Authenticated(ctx context.Context, server client.Client) (string, bool) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := server.Create(ctx, review); err != nil {
		return "", false
	}
	name := review.Status.UserInfo.Username
	return name, name != "" && name != everybody
}

// Author returns the author of a user's writes: the name by which the API server knows the user, or
// else [Name].
func Author(ctx context.Context, connect func() (client.WithWatch, error)) string {
	if server, err := connect(); err == nil {
		if name, known := Authenticated(ctx, server); known {
			return name
		}
	}
	return Name()
}

// Name returns user@host, or the user alone where the host has no name.
func Name() string {
	name := os.Getenv("USER")
	users := account.New(account.Options{})
	defer users.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if own, known := users.Own(ctx); known && own.Login != "" {
		name = own.Login
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
