package cache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data"
)

// kept are which of some parts are there.
func (s *shop) kept(views map[string]*data.View) string {
	s.Helper()
	var names []string
	for _, name := range []string{"a", "b", "c", "d"} {
		if v := views[name]; v != nil {
			if e := s.entries[Key(v, "")]; e != nil && e.whole {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, " ")
}

func TestRoom(t *testing.T) {
	const mb = 1 << 20
	used := map[string]bool{}
	var unknown error
	o := Options{Limit: 3 * mb, InUse: func(context.Context) (map[string]bool, error) { return used, unknown }}
	s := newShop(t, o)
	views, file := map[string]*data.View{}, map[string]string{}
	for i, name := range []string{"a", "b", "c", "d"} {
		file[name] = noise(uint64(i), mb)
		views[name] = s.put(name, map[string]string{"f": file[name]})
	}
	get := func(name string) (release func()) {
		t.Helper()
		_, release = s.want(views[name], "", map[string]string{"f": file[name]})
		return release
	}
	for _, name := range []string{"a", "b", "c", "a"} {
		get(name)()
	}
	get("d")()
	if diff := cmp.Diff("a c d", s.kept(views)); diff != "" {
		t.Errorf("b was used longest ago: %s", diff)
	}
	s.open(o)
	get("b")()
	if diff := cmp.Diff("a b d", s.kept(views)); diff != "" {
		t.Errorf("after a restart c was: %s", diff)
	}
	// a is used longest ago, and held; d is in use by somebody else.
	release := get("a")
	get("b")()
	used[Key(views["d"], "")] = true
	get("c")()
	if diff := cmp.Diff("a c d", s.kept(views)); diff != "" {
		t.Errorf("what is in use stays: %s", diff)
	}
	// Nothing is removed while it is not known what is in use, nor in vain.
	unknown = errors.New("the server is away")
	if _, _, err := s.Ensure(t.Context(), views["b"], "", nil); !errors.Is(err, unknown) {
		t.Errorf("%v", err)
	}
	unknown, used[Key(views["c"], "")] = nil, true
	_, _, err := s.Ensure(t.Context(), views["b"], "", nil)
	full, ok := errors.AsType[*RoomError](err)
	if !ok || full.Never() || full.Held != 3*mb || !strings.Contains(err.Error(), "no room for 1.0 MB") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff("a c d", s.kept(views)); diff != "" {
		t.Error(diff)
	}
	release()
	get("b")()
	if diff := cmp.Diff("b c d", s.kept(views)); diff != "" {
		t.Errorf("a is not held any more: %s", diff)
	}
	if sum := onDisk(t, s.dir); sum > o.Limit+1000 {
		t.Errorf("%d bytes are on disk", sum)
	}
	large := s.put("large", map[string]string{"f": noise(8, 4*mb)})
	_, _, err = s.Ensure(t.Context(), large, "", nil)
	if full, ok := errors.AsType[*RoomError](err); !ok || !full.Never() || !strings.Contains(err.Error(), "4.2 MB do not fit") {
		t.Errorf("%v", err)
	}
	if s.kept(views) != "b c d" {
		t.Error("something was removed in vain")
	}
}

// What nobody needs yet takes the room that is free, and of what nobody uses that which
// was not used for a while, as it is told to.
func TestSpareRoom(t *testing.T) {
	const mb = 1 << 20
	s := newShop(t, Options{Limit: 2 * mb})
	views := map[string]*data.View{}
	for i, name := range []string{"a", "b", "c", "d"} {
		views[name] = s.put(name, map[string]string{"f": noise(uint64(i), mb)})
	}
	spare := func(name string, how Spare) error {
		_, release, err := s.EnsureSpare(t.Context(), "", views[name], "", how)
		if err == nil {
			release()
		}
		return err
	}
	full := func(name string, how Spare) {
		t.Helper()
		if _, is := errors.AsType[*RoomError](spare(name, how)); !is {
			t.Errorf("%s takes room that it is not to have", name)
		}
	}
	key := func(name string) string { return Scoped("", Key(views[name], "")) }
	must(t, spare("a", Spare{}))
	must(t, spare("b", Spare{}))
	must(t, spare("a", Spare{Leave: 1 << 62})) // it is there
	// 1. What was used a moment ago, and what is to be kept, stays.
	full("c", Spare{Idle: time.Hour})
	full("c", Spare{Keep: map[string]bool{key("a"): true, key("b"): true}})
	if got := s.kept(views); got != "a b" {
		t.Errorf("%s are there", got)
	}
	// 2. What is neither goes, the one that was used longest ago first.
	must(t, spare("c", Spare{Keep: map[string]bool{key("b"): true}}))
	if got := s.kept(views); got != "b c" {
		t.Errorf("%s are there", got)
	}
	must(t, spare("d", Spare{}))
	if got := s.kept(views); got != "c d" {
		t.Errorf("%s are there", got)
	}
	// 3. The disk is not filled, also where the cache may have more.
	s.open(Options{Limit: 9 * mb})
	disk, err := s.Disk()
	must(t, err)
	full("a", Spare{Leave: disk})
	must(t, spare("a", Spare{}))
	if got := s.kept(views); got != "a c d" {
		t.Errorf("%s are there", got)
	}
}
