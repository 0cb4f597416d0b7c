package account

import (
	"context"
	"errors"
	"fmt"
)

// GIDs returns the numbers of the groups that a login of this user has, the primary one
// first and groups without a usable name included; none for a uid that the directory does
// not know. The error wraps [ErrAway], or is that of ctx: a process must not run with
// fewer groups since a server of the directory was away.
func (d *Directory) GIDs(ctx context.Context, uid uint32) ([]uint32, error) {
	kept, err := d.gids.get(ctx, number(uid), d.allGroups(uid))
	if err != nil {
		return nil, fmt.Errorf("looking up the groups of uid %d: %w", uid, err)
	}
	return kept.value, nil
}

// allGroups looks up the numbers of a user's groups.
func (d *Directory) allGroups(uid uint32) lookup[[]uint32] {
	return func(ctx context.Context) ([]uint32, bool, error) {
		user, known, err := d.ByUID(ctx, uid)
		if err != nil || !known {
			return nil, false, err
		}
		gids, err := d.initGroups(ctx, user)
		if err != nil {
			return nil, false, err
		}
		// With a service away, getent tells the groups of the others and succeeds. Then it
		// does not know a user of that service either. The account may be an older answer.
		_, still, err := d.askAccount(ctx, number(uid))
		if errors.Is(err, errNoGetent) {
			still, err = true, nil
		}
		if err != nil {
			return nil, false, err
		}
		if !still {
			return nil, false, fmt.Errorf("%w: it told the groups of uid %d, and does not know the user any more", ErrAway, uid)
		}
		return gids, true, nil
	}
}
