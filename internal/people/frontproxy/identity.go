package frontproxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/people/peer"
)

// Directory tells about users of the machine; *account.Directory is one.
type Directory interface {
	ByUID(ctx context.Context, uid uint32) (account.Account, bool, error)
	Groups(ctx context.Context, uid uint32) ([]account.Group, error)
	GroupNames(ctx context.Context, gids []uint32) ([]account.Group, error)
}

// UnknownError is the error for a session whose user the directory does not know.
type UnknownError struct{ UID uint32 }

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("uid %[1]d is no user of this machine any more: `getent passwd %[1]d` has to print a line", e.UID)
}

// UserPrefix and GroupPrefix begin the names of users and groups in the API.
const (
	UserPrefix  = "unix:"
	GroupPrefix = "unix-group:"
)

// Identity is a user as the API server is told.
type Identity struct {
	// User is unix:<uid>.
	User string
	// Login is for display; empty: unknown.
	Login string
	// Groups are sorted, each unix-group:<name>.
	Groups []string
}

// Identify returns the identity of a caller. The directory tells the groups; where it
// does not know the user, or is away, the kernel does: those that the process had when
// it connected. The error is that of ctx.
//
// For a session the directory alone tells both: a user that it does not know is an
// [UnknownError], and one whose groups it does not tell now has none.
func Identify(ctx context.Context, d Directory, caller peer.Peer) (Identity, error) {
	who := Identity{User: UserPrefix + strconv.FormatUint(uint64(caller.UID), 10)}
	found, known, err := d.ByUID(ctx, caller.UID)
	if err == nil {
		who.Login = found.Login
	}
	var groups []account.Group
	if err == nil && known {
		groups, err = d.Groups(ctx, caller.UID)
	}
	switch {
	case caller.Session && !known && err != nil:
		return Identity{}, fmt.Errorf("finding the user of a session: %w", err)
	case caller.Session && !known:
		return Identity{}, &UnknownError{UID: caller.UID}
	case caller.Session && err != nil:
		groups = nil
	case caller.Session:
	case !known || err != nil:
		groups, err = d.GroupNames(ctx, caller.GIDs())
	}
	if err != nil && !errors.Is(err, account.ErrAway) {
		return Identity{}, fmt.Errorf("finding the groups of uid %d: %w", caller.UID, err)
	}
	for _, group := range groups {
		who.Groups = append(who.Groups, GroupPrefix+group.Name)
	}
	slices.Sort(who.Groups)
	who.Groups = slices.Compact(who.Groups)
	return who, nil
}

// set puts the identity into the headers of a request.
func (i Identity) set(header http.Header) {
	header.Set("X-Remote-User", i.User)
	for _, group := range i.Groups {
		header.Add("X-Remote-Group", group)
	}
	if i.Login != "" {
		header.Set("X-Remote-Extra-Login", i.Login)
	}
}
