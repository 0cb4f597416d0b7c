package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxGroups bounds the groups of a user. Linux allows 65,536.
	maxGroups = 4096
	// batch is how many keys one getent gets.
	batch = 256
)

// accountOf looks up the account of a uid.
func (d *Directory) accountOf(uid uint32) lookup[Account] {
	return func(ctx context.Context) (Account, bool, error) {
		found, known, err := d.askAccount(ctx, number(uid))
		if err == nil && found.Login != "" {
			var named Account
			var there bool
			// The key is a login, so the first entry with it counts, whatever its uid.
			if named, there, err = d.askAccount(ctx, found.Login); !there || named.UID != uid {
				found.Login = ""
			}
		}
		if err == nil {
			return found, known, nil
		}
		// Local users are known also while a server is away.
		if local, there := d.local(uid); there || errors.Is(err, errNoGetent) {
			return local, there, nil
		}
		return Account{}, false, err
	}
}

// askAccount asks getent for a key, a number or a login.
func (d *Directory) askAccount(ctx context.Context, key string) (Account, bool, error) {
	answers, err := d.ask(ctx, accountLine, "passwd", key)
	if err != nil {
		return Account{}, false, err
	}
	// getent prints fields as they are: one with a newline would add an entry.
	if len(answers) != 1 {
		return Account{}, false, nil
	}
	found, okay := parseAccount(answers[0])
	if !okay || (key != number(found.UID) && key != found.Login) {
		return Account{}, false, nil
	}
	return found, true, nil
}

// Find returns the account of a login or of a uid, as a person writes one.
func (d *Directory) Find(ctx context.Context, who string) (Account, error) {
	found, known, err := Account{}, false, error(nil)
	if uid, failed := strconv.ParseUint(who, 10, 32); failed == nil {
		found, known, err = d.ByUID(ctx, uint32(uid))
	} else if who != "" && !strings.ContainsAny(who, ":\n\x00") && !strings.HasPrefix(who, "-") {
		found, known, err = d.askAccount(ctx, who)
	}
	if err == nil && !known {
		err = fmt.Errorf("%q is no user of this machine: give a login or a uid for which `getent passwd` prints a line", who)
	}
	return found, err
}

// membership looks up the groups of a uid.
func (d *Directory) membership(uid uint32) lookup[[]Group] {
	return func(ctx context.Context) ([]Group, bool, error) {
		user, known, err := d.ByUID(ctx, uid)
		if err != nil || !known {
			return nil, false, err
		}
		gids, err := d.initGroups(ctx, user)
		if err != nil {
			return nil, false, err
		}
		named, err := d.GroupNames(ctx, gids)
		return named, true, err
	}
}

// initGroups returns the numbers of a user's groups, the primary one first.
func (d *Directory) initGroups(ctx context.Context, user Account) ([]uint32, error) {
	gids := []uint32{user.GID}
	if user.Login == "" {
		return gids, nil
	}
	answers, err := d.ask(ctx, 12*maxGroups, "initgroups", user.Login)
	if errors.Is(err, errNoGetent) {
		return append(gids, d.localMembership(user.Login)...), nil
	}
	if err != nil {
		return nil, err
	}
	if len(answers) != 1 {
		return gids, nil
	}
	// The login comes first. It may have spaces.
	rest, okay := strings.CutPrefix(answers[0], user.Login+" ")
	if !okay {
		return gids, nil
	}
	for field := range strings.FieldsSeq(rest) {
		if gid, okay := parseID(field); okay && len(gids) < maxGroups && !slices.Contains(gids, gid) {
			gids = append(gids, gid)
		}
	}
	return gids, nil
}

// groupsOf looks up groups by their numbers.
func (d *Directory) groupsOf(gids []uint32) lookup[[]Group] {
	return func(ctx context.Context) ([]Group, bool, error) {
		var all []Group
		for some := range slices.Chunk(gids[:min(len(gids), maxGroups)], batch) {
			named, err := d.askGroups(ctx, some)
			if errors.Is(err, errNoGetent) {
				named, err = d.localGroups(some), nil
			}
			if err != nil {
				return nil, false, err
			}
			all = append(all, named...)
		}
		return all, true, nil
	}
}

// askGroups asks getent for the names of groups, and then whether each name is that of
// the same group.
func (d *Directory) askGroups(ctx context.Context, gids []uint32) ([]Group, error) {
	byNumber, err := d.groupEntries(ctx, eachNumber(gids))
	if err != nil {
		return nil, err
	}
	names := map[uint32]string{}
	var keys []string
	for _, g := range byNumber {
		if g.Name != "" {
			names[g.GID], keys = g.Name, append(keys, g.Name)
		}
	}
	byName, err := d.groupEntries(ctx, keys)
	if err != nil {
		return nil, err
	}
	return agree(gids, names, byName), nil
}

// groupEntries asks getent for groups by numbers or names.
//
// getent prints names of members as they are, so a name with a newline adds a line that
// looks like a group. An answer counts only if it has exactly one line for each key, in
// the order of the keys. Else each half of the keys is asked for by itself.
func (d *Directory) groupEntries(ctx context.Context, keys []string) ([]Group, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	answers, err := d.ask(ctx, groupLine, "group", keys...)
	if err != nil {
		return nil, err
	}
	if groups, okay := inOrder(keys, answers); okay {
		return groups, nil
	}
	if len(keys) == 1 {
		return nil, nil
	}
	first, err := d.groupEntries(ctx, keys[:len(keys)/2])
	if err != nil {
		return nil, err
	}
	second, err := d.groupEntries(ctx, keys[len(keys)/2:])
	return append(first, second...), err
}

// inOrder reads an answer with one group for each key.
func inOrder(keys, answers []string) ([]Group, bool) {
	if len(answers) != len(keys) {
		return nil, false
	}
	var groups []Group
	for i, line := range answers {
		g, okay := parseGroup(line)
		if !okay || (keys[i] != number(g.GID) && keys[i] != g.Name) {
			return nil, false
		}
		groups = append(groups, g)
	}
	return groups, true
}

// agree returns the groups whose name leads to their own number first.
func agree(gids []uint32, names map[uint32]string, byName []Group) []Group {
	first := map[string]uint32{}
	for _, g := range byName {
		if _, there := first[g.Name]; !there {
			first[g.Name] = g.GID
		}
	}
	var groups []Group
	for _, gid := range gids {
		name := names[gid]
		if owner, there := first[name]; there && name != "" && owner == gid {
			groups = append(groups, Group{GID: gid, Name: name})
		}
	}
	return groups
}

func eachNumber(ids []uint32) []string {
	keys := make([]string, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, number(id))
	}
	return keys
}

func numbers(ids []uint32) string { return strings.Join(eachNumber(ids), " ") }
